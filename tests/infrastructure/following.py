"""The read models followed in a thread: a process for each test takes longer than the test."""

import threading
import time
from typing import Any

import psycopg
from psycopg import Connection

from infrastructure.api.following import CATCH_UP_SECONDS_MAX, GATHERING_SECONDS
from infrastructure.store.connection import Database
from infrastructure.store.errors import StoreError
from infrastructure.store.reader import LogReader
from projections import runner


class FollowerInAThread:
    """What the service has of its follower, without what makes that one safe and fast."""

    def __init__(self, database: Database) -> None:
        self.position = 0
        self._database = database
        self._has_moved = threading.Condition()
        self._is_asked = threading.Event()
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self, connection: Connection[Any]) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_stopping.set()
        self._is_asked.set()
        self._thread.join()

    def wait_for(self, position: int) -> None:
        until = time.monotonic() + CATCH_UP_SECONDS_MAX
        self._is_asked.set()
        with self._has_moved:
            while self.position < position and (left := until - time.monotonic()) > 0:
                self._has_moved.wait(left)

    def _run(self) -> None:
        while not self._is_stopping.is_set():
            try:
                self._follow()
            except (psycopg.Error, StoreError):
                self._is_stopping.wait(0.2)

    def _follow(self) -> None:
        with self._database.connect() as connection:
            page = LogReader(connection).page
            for _ in runner.follow(connection, page, poll_seconds=0.5):
                reached = min(position for _, position in runner.positions(connection))
                with self._has_moved:
                    self.position = reached
                    self._has_moved.notify_all()
                self._is_asked.wait(GATHERING_SECONDS)
                self._is_asked.clear()
                if self._is_stopping.is_set():
                    return
