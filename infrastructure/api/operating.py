"""What those who run the service ask it: whether it lives, whether it is ready, its figures."""

from http import HTTPStatus

import msgspec
from anyio.to_thread import run_sync
from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from infrastructure.api.callers import Permission, who_is_calling
from infrastructure.api.condition import CHECKS
from infrastructure.api.doors import LIVES_PATH, READY_PATH, is_from_here

METRICS_PATH = "/metrics"
OPEN_TO_ALL = frozenset({LIVES_PATH, READY_PATH})
"""They say nothing about the ledger, and whoever watches the service has no key."""

_NEVER_KEPT = {"Cache-Control": "no-store"}


def operating_router() -> APIRouter:
    """The routes of those who run the service."""
    router = APIRouter()
    for path, endpoint in ((LIVES_PATH, lives), (READY_PATH, is_ready)):
        router.add_api_route(path, endpoint, methods=["GET"], include_in_schema=False)
    router.add_route(METRICS_PATH, show_metrics, methods=["GET"])
    return router


async def lives(_: Request) -> Response:
    """Says that the process lives; it asks nobody."""
    return _json({"alive": True}, HTTPStatus.OK)


async def is_ready(request: Request) -> Response:
    """Says whether requests can be answered, and else which check is not passed, and why."""
    faults = (await request.app.state.inspector.look()).faults
    return _json(
        {"ready": not faults, "checks": {check: faults.get(check, "ok") for check in CHECKS}},
        HTTPStatus.SERVICE_UNAVAILABLE if faults else HTTPStatus.OK,
    )


_permission = Permission("metrics")


async def show_metrics(request: Request) -> Response:
    """The figures in the text format of Prometheus; a key is needed from elsewhere alone."""
    if not is_from_here(request) or "authorization" in request.headers:
        await _permission(await who_is_calling(request))
    state = request.app.state
    condition = await state.inspector.look()
    text = await run_sync(
        lambda: state.service.metrics.exposition(condition, readers=state.live.readers)
    )
    return Response(text, headers={**_NEVER_KEPT, "Content-Type": CONTENT_TYPE_LATEST})


show_metrics.permission = _permission  # type: ignore[attr-defined]
show_metrics.path = METRICS_PATH  # type: ignore[attr-defined]


def _json(document: object, status: HTTPStatus) -> Response:
    return Response(
        msgspec.json.encode(document),
        status_code=status,
        headers=_NEVER_KEPT,
        media_type="application/json",
    )
