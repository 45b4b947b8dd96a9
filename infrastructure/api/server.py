"""Runs the application on a socket until it is told to stop, and stops it in peace."""

import errno
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from infrastructure.api.doors import BoundedProtocol
from infrastructure.api.live import Live
from infrastructure.store.errors import StoreError

CONNECTIONS_MAX = 2_000
BACKLOG = 1_024
STOP_SECONDS_MAX = 30
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Server(uvicorn.Server):
    """Stops on SIGINT and SIGTERM: what is being done is finished, and the streams are told.

    `ready` is called once requests are answered.
    """

    def __init__(self, application: FastAPI, *, ready: Callable[[], None]) -> None:
        config = uvicorn.Config(
            application,
            http=BoundedProtocol,
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=CONNECTIONS_MAX,
            backlog=BACKLOG,
            timeout_graceful_shutdown=STOP_SECONDS_MAX,
        )
        super().__init__(config)
        self._live: Live = application.state.live
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts to listen."""
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Tells the streams first, whose connections would never end by themselves."""
        self._live.tell_readers()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As the library's, which would raise the signal again though it was obeyed."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def bind(host: str, port: int, *, is_shared: bool = False) -> socket.socket:
    """A socket at an address; a shared one lets other processes have the same port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_shared:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listening.bind((host, port))
    except BaseException as error:
        listening.close()
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            raise StoreError(
                f"Port {port} of {host} is taken: choose another by --port, or start every"
                " process at it with --shared-port"
            ) from None
        raise
    return listening
