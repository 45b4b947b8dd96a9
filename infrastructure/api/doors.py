"""What a request must be before anybody looks at it: meant for us, and not too large.

A web page of another site can make a browser on this machine send requests to
loopback. It cannot choose the Host, hide its Origin, or send JSON unasked,
which `must_be` sees to where there is something to be written.
"""

import asyncio
import ipaddress
from collections.abc import Collection, MutableMapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from infrastructure.api.problems import Problem, Tell
from infrastructure.commands.contract import LINE_BYTES_MAX

HEADER_BYTES_MAX = 32 * 1024
HEADER_SECONDS_MAX = 30.0
BODY_BYTES_MAX = LINE_BYTES_MAX
BODY_SECONDS_MAX = 30.0
UNREAD_SECONDS_MAX = 5.0
"""For so long the rest of a request may go on coming that has its answer already."""
SEND_SECONDS_MAX = 60.0
"""For so long a reader may take nothing before its connection is closed."""

COMMANDS_PATH = "/v1/commands"
LIVES_PATH = "/healthz"
READY_PATH = "/readyz"
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_from_here(request: Request) -> bool:
    """Whether a request comes from this machine, and not through a proxy on it."""
    names = ("forwarded", "x-forwarded-for", "x-real-ip", "via")
    return (
        request.client is not None
        and is_loopback(request.client.host)
        and _without_port(request.headers.get("host", "")) in LOOPBACK_NAMES
        and not any(name in request.headers for name in names)
    )


class Doors:
    """Lets requests in; `hosts` are the names under which the service is reached."""

    def __init__(self, app: ASGIApp, hosts: Collection[str], tell: Tell) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)
        self._tell = tell

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        send = _closely(send, is_of_api=is_of_api(scope))
        problem = self._fault(scope)
        if problem is not None:
            await self._tell(Request(scope), problem)(scope, receive, send)
            return
        if scope["path"] != COMMANDS_PATH:
            receive = _bounded(receive)
        await self._app(scope, receive, send)

    def _fault(self, scope: Scope) -> Problem | None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if scope["path"] in (LIVES_PATH, READY_PATH):
            # Whoever watches the service calls it by the address of its machine.
            return None
        if len(hosts) != 1 or _without_port(hosts[0]) not in self._hosts:
            return Problem("host_not_allowed", "this service is not reached under that name")
        origin = headers.get("origin")
        if origin is not None and origin.lower() != f"{scope['scheme']}://{hosts[0].lower()}":
            return Problem("origin_not_allowed", "a page of another site asks, which is refused")
        length = headers.get("content-length", "0")
        if scope["path"] != COMMANDS_PATH and length.isdigit() and int(length) > BODY_BYTES_MAX:
            return _too_large()
        return None


class BoundedProtocol(HttpToolsProtocol):
    """The server's protocol, which by itself waits for requests that have no end.

    Only the commands by the line may come for as long as their sender likes,
    once they are let in. Nor does it wait for readers that take nothing any more.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._late: asyncio.TimerHandle | None = None
        self._stuck: asyncio.TimerHandle | None = None
        self._is_heading = False
        self._wait_for_headers()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._wait_for_headers()

    def on_header(self, name: bytes, value: bytes) -> None:
        # Of headers that come in one go, only here is it seen how long they are.
        self._named_bytes += len(name) + len(value)
        if self._named_bytes > HEADER_BYTES_MAX:
            raise ValueError("the headers are too long")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._is_heading = False
        super().on_headers_complete()
        is_endless = self.scope["path"] == COMMANDS_PATH
        self._close_after(None if is_endless else BODY_SECONDS_MAX)

    def on_message_complete(self) -> None:
        self._close_after(None)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        is_last = not self.pipeline
        super().on_response_complete()
        if is_last and self.cycle.more_body:
            self._close_after(UNREAD_SECONDS_MAX)

    def data_received(self, data: bytes) -> None:
        if self._is_heading:
            self._received_bytes += len(data)
        super().data_received(data)
        if self._is_heading and self._received_bytes > HEADER_BYTES_MAX:
            self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        # What waits to be sent would keep a connection open that is only closed.
        self._stuck = self.loop.call_later(SEND_SECONDS_MAX, self.transport.abort)

    def resume_writing(self) -> None:
        self._end_stuck()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._close_after(None)
        self._end_stuck()
        super().connection_lost(exc)

    def _end_stuck(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
        self._stuck = None

    def _wait_for_headers(self) -> None:
        if not self._is_heading:
            self._is_heading = True
            self._received_bytes = self._named_bytes = 0
            self._close_after(HEADER_SECONDS_MAX)

    def _close_after(self, seconds: float | None) -> None:
        """Closes the connection in so many seconds, unless something else is said before."""
        if self._late is not None:
            self._late.cancel()
        self._late = None
        if seconds is not None:
            self._late = self.loop.call_later(seconds, self.transport.close)


def must_be(request: Request, *media_types: str) -> None:
    """Refuses a body of another content type."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in media_types:
        raise Problem("unsupported_media_type", f"the content type must be {media_types[0]}")


def _without_port(host: str) -> str:
    host = host.lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def is_of_api(scope: MutableMapping[str, Any]) -> bool:
    """Whether a request is meant for the API, and not for a page."""
    path: str = scope["path"]
    return path.startswith("/v1/")


def _too_large() -> Problem:
    return Problem("too_large", f"a body has at most {BODY_BYTES_MAX} bytes")


def _bounded(receive: Receive) -> Receive:
    received = 0

    async def bounded() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > BODY_BYTES_MAX:
            raise _too_large()
        return message

    return bounded


def _closely(send: Send, *, is_of_api: bool) -> Send:
    async def close(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["X-Content-Type-Options"] = "nosniff"
            if is_of_api:
                headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return close
