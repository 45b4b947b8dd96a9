"""`punto serve` in a process of its own."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from tests.chaos.size import SECONDS_MAX
from tests.chaos.writers import start_python

LINES = {"Content-Type": "application/x-ndjson"}
"""The headers of commands by the line."""


class Service:
    """`punto serve` at one address, started again after each kill."""

    def __init__(self, url: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self._url = url
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> int:
        return self._port

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @contextmanager
    def running(self) -> Iterator[None]:
        self.start()
        try:
            yield
        finally:
            self.kill()

    def start(self) -> None:
        self._process = start_python(
            "infrastructure.cli.main",
            "serve",
            "--port",
            str(self._port),
            env={**os.environ, "PUNTO_DATABASE_URL": self._url},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def wait(self) -> None:
        """Waits until it answers."""
        until = time.monotonic() + SECONDS_MAX
        while time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return
        raise AssertionError("the service does not start")

    @property
    def memory_bytes(self) -> int:
        assert self._process is not None
        return psutil.Process(self._process.pid).memory_info().rss

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
