"""A real NATS server with JetStream, which a test may kill and start again."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.error import URLError
from urllib.request import urlopen

BINARY = Path(sys.executable).with_name("nats-server")


class NatsServer:
    """One server; with `peers`, one of a cluster."""

    def __init__(
        self, folder: Path, *, sync: str = "always", password: str = "", limit: str = ""
    ) -> None:
        self.port, self.monitor_port, self.cluster_port = free_ports(3)
        self.peers: Sequence[NatsServer] = ()
        self._folder = folder
        self._sync, self._password, self._limit = sync, password, limit
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    @property
    def monitor(self) -> str:
        return f"http://127.0.0.1:{self.monitor_port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def start(self, *, wait: bool = True) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        config = self._folder / "nats.conf"
        config.write_text(self._config())
        with (self._folder / "nats.log").open("ab") as log:
            self._process = subprocess.Popen(
                [BINARY, "-c", config], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        if wait:
            self.wait()

    def wait(self) -> None:
        """Waits until JetStream answers."""
        until = time.monotonic() + 60
        while not self.is_healthy:
            assert time.monotonic() < until, (self._folder / "nats.log").read_text()[-2000:]
            time.sleep(0.02)

    @property
    def is_healthy(self) -> bool:
        try:
            return bool(self.ask("healthz")["status"] == "ok")
        except (OSError, URLError):
            return False

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def ask(self, what: str) -> Any:
        with urlopen(f"{self.monitor}/{what}", timeout=5) as answer:
            return json.loads(answer.read())

    def leads(self, stream: str) -> bool:
        """Whether it is the leader of a stream."""
        try:
            found = self.ask("jsz?streams=true")
        except (OSError, URLError):
            return False
        return any(
            each["name"] == stream and each.get("cluster", {}).get("leader") == self._name
            for account in found.get("account_details", ())
            for each in account.get("stream_detail", ())
        )

    @property
    def _name(self) -> str:
        return f"n{self.port}"

    def _config(self) -> str:
        lines = [
            f"server_name: {self._name}",
            f"listen: 127.0.0.1:{self.port}",
            f"http: 127.0.0.1:{self.monitor_port}",
            f"jetstream {{ store_dir: '{self._folder / 'store'}', sync_interval: {self._sync}",
            f"  {self._limit} }}",
        ]
        if self._password:
            lines.append(f"authorization {{ user: feed, password: '{self._password}' }}")
        if self.peers:
            routes = [f"nats://127.0.0.1:{peer.cluster_port}" for peer in self.peers]
            lines.append(
                f"cluster {{ name: test, listen: 127.0.0.1:{self.cluster_port},"
                f" routes: {json.dumps(routes)} }}"
            )
        return "\n".join(lines)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens at just now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
