"""What is told of every request: an id, the trace that it belongs to, a line in the log, figures.

The line is written when the answer has ended, which for a stream may be long after it began.
A bug is told here too: to the log with its traceback, and to the client without.
"""

import logging
import re
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from infrastructure.api.metrics import Metrics
from infrastructure.api.problems import Problem, Tell

REQUEST_ID = "X-Request-Id"
CLIENT_HAS_GONE = 499
"""What stands for the status where a client did not wait for one."""
UNMATCHED = "unmatched"
"""What stands for the route where a request has none."""

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")
_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED = 1

log = logging.getLogger("punto.request")


@dataclass(slots=True, kw_only=True)
class Observed:
    """A request as it is told; whoever answers it adds what only they know.

    `owner` is that of the key it came with. `key` and `command` are those of a
    write, `commands` is how many came by the line, and `position` is where the
    last of them stands.
    """

    request_id: str
    traceparent: str | None
    owner: str | None = None
    key: str | None = None
    command: str | None = None
    commands: int | None = None
    position: int | None = None


def observed(request: Request) -> Observed:
    """What is to be told of a request."""
    found: Observed = request.scope["observed"]
    return found


class Observing:
    """Stands before everything else that a request meets."""

    def __init__(self, app: ASGIApp, metrics: Metrics, tell: Tell) -> None:
        self._app = app
        self._metrics = metrics
        self._tell = tell

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        headers = Headers(scope=scope)
        seen = scope["observed"] = Observed(
            request_id=request_id(headers.getlist(REQUEST_ID)),
            traceparent=traceparent(headers.getlist("traceparent")),
        )
        status: int | None = None
        bug: Exception | None = None

        async def telling(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[REQUEST_ID] = seen.request_id
            await send(message)

        try:
            await self._app(scope, receive, telling)
        except ClientDisconnect:
            pass
        except Exception as error:
            bug = error
            if status is None:
                problem = Problem("internal_error", "a bug in punto; its log says more")
                await self._tell(Request(scope), problem)(scope, receive, telling)
        finally:
            seconds = time.perf_counter() - began
            self._log(scope, seen, CLIENT_HAS_GONE if status is None else status, seconds, bug)

    def _log(
        self, scope: Scope, seen: Observed, status: int, seconds: float, bug: Exception | None
    ) -> None:
        route = _route_of(scope)
        self._metrics.count_request(
            route=route, method=scope["method"], status=status, seconds=seconds
        )
        told: dict[str, Any] = {
            "request_id": seen.request_id,
            "method": scope["method"],
            "route": route,
            "status": status,
            "ms": round(seconds * 1000, 3),
            "owner": seen.owner,
            "key": seen.key,
            "command": seen.command,
            "commands": seen.commands,
            "position": seen.position,
            "trace_id": None if seen.traceparent is None else seen.traceparent.split("-")[1],
        }
        fields = {name: value for name, value in told.items() if value is not None}
        level = logging.ERROR if bug else logging.WARNING if status >= 500 else logging.INFO
        log.log(level, "request", exc_info=bug, extra={"fields": fields})


def _route_of(scope: Scope) -> str:
    """The template of the path; the framework does not tell that of a route that is not its own."""
    templates = (getattr(scope.get(name), "path", None) for name in ("route", "endpoint"))
    return next((each for each in templates if each is not None), UNMATCHED)


def request_id(given: Sequence[str]) -> str:
    """The id that a request came with, where it is one and well-formed; else a new one."""
    if len(given) == 1 and _REQUEST_ID.fullmatch(given[0]):
        return given[0]
    return secrets.token_hex(16)


def traceparent(given: Sequence[str]) -> str | None:
    """The W3C trace that a request belongs to, as version 00 writes it.

    None where there is none, or where it is malformed, which the specification
    says is as good as none. Of a later version only what version 00 knows is kept.
    """
    found = _TRACEPARENT.fullmatch(given[0]) if len(given) == 1 else None
    if found is None:
        return None
    version, trace_id, parent_id, flags, more = found.groups()
    if version == "ff" or not int(trace_id, 16) or not int(parent_id, 16):
        return None
    if version != "00":
        return f"00-{trace_id}-{parent_id}-{int(flags, 16) & _SAMPLED:02x}"
    return None if more else given[0]
