"""The read models followed in a thread: a process for each test takes longer than the test."""

import threading
from typing import Any

import psycopg
from psycopg import Connection

from infrastructure.api.following import Follower, _follow
from infrastructure.store.errors import StoreError


class FollowerInAThread(Follower):
    """Follows as the other does, in the thread that would listen to its process."""

    def start(self, connection: Connection[Any]) -> None:
        self._asked = threading.Event()
        self._has_begun.set()
        super().start(connection)

    def _ask(self) -> None:
        self._asked.set()

    def _run(self) -> None:
        while not self._is_stopping.is_set():
            try:
                _follow(self._database, self._asked, self._tell)
            except ConnectionError:
                return
            except (psycopg.Error, StoreError):
                self._is_stopping.wait(0.2)

    def _tell(self, reached: int) -> None:
        if self._is_stopping.is_set():
            raise ConnectionError("nobody listens any more")
        self._hear("reached", reached)
