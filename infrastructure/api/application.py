"""The application that `punto serve` runs: the routes of the API, and the pages beside them."""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import Response

from domain.errors import Refused
from infrastructure.api.asking import asking_router
from infrastructure.api.callers import must_be_known
from infrastructure.api.condition import Inspector
from infrastructure.api.description import describe
from infrastructure.api.doors import LOOPBACK_NAMES, Doors
from infrastructure.api.feed import feed_router
from infrastructure.api.lines import lines_router
from infrastructure.api.live import Live
from infrastructure.api.observing import Observing
from infrastructure.api.operating import operating_router
from infrastructure.api.problems import Problem, Tell, problem_of, problem_response
from infrastructure.api.reports import reports_router
from infrastructure.api.service import Service
from infrastructure.api.shortcut import Shortcut
from infrastructure.api.writes import writes_router


def make_application(
    service: Service,
    *,
    routers: Sequence[APIRouter] = (),
    hosts: Collection[str] = LOOPBACK_NAMES,
    tell: Tell = problem_response,
) -> FastAPI:
    """The application over one opened ledger, which it starts and stops; `routers` are mounted.

    A route finds the ledger in `request.app.state.service`, the log as it grows
    in `request.app.state.live`, and who calls by the dependency `who_is_calling`.
    It answers under the names `hosts` alone, and `tell` says what goes wrong.
    """
    live = Live(service)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await run_in_threadpool(service.start)
        await live.start()
        try:
            yield
        finally:
            await live.stop()
            await run_in_threadpool(service.stop)

    application = FastAPI(
        title="puntobanco",
        version="1",
        lifespan=lifespan,
        openapi_url="/v1/openapi.json",
        docs_url=None,  # they load their scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    application.state.service = service
    application.openapi = lambda: describe(application)  # type: ignore[method-assign]
    application.state.live = live
    application.state.inspector = Inspector(service.database)
    writes = writes_router()
    application.add_middleware(Shortcut, routes=writes.routes, tell=tell)
    application.add_middleware(Doors, hosts=hosts, tell=tell)
    application.add_middleware(Observing, metrics=service.metrics, tell=tell)
    for router in (asking_router(), reports_router(), feed_router()):
        application.include_router(router, dependencies=[Depends(must_be_known)])
    for router in (writes, lines_router(), operating_router(), *routers):
        application.include_router(router)
    _tell_problems(application, tell)
    return application


def _tell_problems(application: FastAPI, tell: Tell) -> None:
    @application.exception_handler(Problem)
    async def problem(request: Request, error: Problem) -> Response:
        return tell(request, error)

    @application.exception_handler(Refused)
    async def refused(request: Request, error: Refused) -> Response:
        return tell(request, problem_of(error))

    @application.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        fault = error.errors()[0]
        field = str(fault["loc"][-1])
        return tell(request, Problem("invalid_question", f"{field}: {fault['msg']}", field=field))

    @application.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        code = {404: "not_found", 405: "method_not_allowed"}.get(
            error.status_code, "invalid_question"
        )
        response = tell(request, Problem(code, str(error.detail)))
        response.headers.update(error.headers or {})
        return response
