"""The read models, kept up to date by a process of its own, whatever happens to the store.

Threads of one process take turns, so that folding in a thread would hold up the commands.
"""

import atexit
import logging
import os
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection as Pipe
from multiprocessing.context import SpawnProcess
from typing import Any

import psycopg
from eventsourcing.persistence import PersistenceError
from psycopg import Connection

from infrastructure.spawning import spawn
from infrastructure.store.connection import Database
from infrastructure.store.errors import StoreError, first_line
from infrastructure.store.reader import LogReader
from projections import runner, tracking
from projections.projection import ProjectionError

BEGIN_SECONDS_MAX = 10.0
"""How long the first questions wait for the process to have begun at all."""
CATCH_UP_SECONDS_MAX = 2.0
"""How long a question waits for the read models to come up to the head."""
POLL_SECONDS = 0.5
GATHERING_SECONDS = 0.1
"""So long events gather where nobody asks: to fold many costs little more than one."""
AGAIN_SECONDS = 1.0
AGAIN_SECONDS_MAX = 30.0
"""The pause before a process that has ended is started again, at first and at most."""

log = logging.getLogger("punto.serve")


class Follower:
    """Has the read models followed, and knows how far they have come."""

    def __init__(self, database: Database) -> None:
        # The embedded server is used by this process, which outlives the one that follows.
        self._database = replace(database, server=None)
        self._has_moved = threading.Condition()
        self._has_begun = threading.Event()
        self._is_stopping = threading.Event()
        self._position = 0
        self._is_asked = False
        self._process: SpawnProcess | None = None
        self._pipe: Pipe | None = None
        self._pause_seconds = AGAIN_SECONDS
        self._said: set[str] = set()
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)

    def start(self, connection: Connection[Any]) -> None:
        """Has the log followed from now on; the connection says how far that has come already."""
        self._position = _reached(connection)
        atexit.register(self.stop)
        self._thread.start()

    def stop(self) -> None:
        """Ends that at once: a page that is not finished is as if it was never begun."""
        atexit.unregister(self.stop)
        with self._has_moved:
            self._is_stopping.set()
            if self._process is not None:
                self._process.kill()
        self._thread.join()

    @property
    def position(self) -> int:
        """The position that all read models have come to."""
        return self._position

    def wait_for(self, position: int) -> None:
        """Waits until the read models have come to a position, though not for long."""
        if self._position >= position:
            return
        self._has_begun.wait(BEGIN_SECONDS_MAX)
        until = time.monotonic() + CATCH_UP_SECONDS_MAX
        with self._has_moved:
            while self._position < position and (left := until - time.monotonic()) > 0:
                self._ask()
                self._has_moved.wait(left)

    def _ask(self) -> None:
        """Lets the process gather no longer. It is told once, until it has come further."""
        if self._pipe is not None and not self._is_asked:
            self._is_asked = True
            with suppress(OSError):  # Where it has ended, that is seen elsewhere.
                self._pipe.send(None)

    def _run(self) -> None:
        while self._start_process():
            self._listen()
            self._has_begun.set()
            if not self._is_stopping.wait(self._pause_seconds):
                self._pause_seconds = min(2 * self._pause_seconds, AGAIN_SECONDS_MAX)

    def _start_process(self) -> bool:
        """Starts a process, and gives whether that is still wanted."""
        with self._has_moved:
            if self._is_stopping.is_set():
                return False
            self._is_asked = False
            try:
                self._process, self._pipe = spawn(_work, self._database)
            except OSError as error:
                self._say(f"no process can be started for them: {error.strerror}")
            return True

    def _listen(self) -> None:
        """Hears what the process tells, until it has ended."""
        process, pipe = self._process, self._pipe
        if process is None or pipe is None:
            return
        with suppress(EOFError, OSError):
            while True:
                self._hear(*pipe.recv())
        with self._has_moved:
            self._pipe = self._process = None
            process.kill()
        process.join()
        pipe.close()
        if process.exitcode and not self._is_stopping.is_set():
            self._say(f"the process that folds them has ended ({process.exitcode})")

    def _hear(self, kind: str, content: Any) -> None:
        self._has_begun.set()
        if kind == "reached":
            with self._has_moved:
                self._position = content
                self._is_asked = False
                self._has_moved.notify_all()
            self._say_that_they_go_on()
        elif kind == "away":
            self._say(content)
        elif kind == "broken":
            self._say(content.splitlines()[-1], traceback=content)

    def _say(self, why: str, **fields: str) -> None:
        """Says why the read models stand still: of each reason once, until they go on."""
        if why not in self._said:
            self._said.add(why)
            level = logging.ERROR if fields else logging.WARNING
            log.log(level, "the read models stand still: %s", why, extra={"fields": fields})

    def _say_that_they_go_on(self) -> None:
        self._pause_seconds = AGAIN_SECONDS
        if self._said:
            self._said.clear()
            log.info("the read models go on")


def _work(pipe: Pipe, database: Database) -> None:
    """What the process does: it folds what comes, and tells how far it is, or why it is not."""
    # What the driver warns of in passing, an exception says as well where it matters.
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)
    is_asked = threading.Event()
    threading.Thread(target=_hear_questions, args=(pipe, is_asked), daemon=True).start()
    try:
        pipe.send(("begun", None))
        while True:
            try:
                _follow(database, is_asked, lambda reached: pipe.send(("reached", reached)))
            except (psycopg.Error, StoreError, PersistenceError, ProjectionError) as error:
                pipe.send(("away", first_line(error)))
                time.sleep(AGAIN_SECONDS)
    except ConnectionError:
        os._exit(1)
    except Exception:
        pipe.send(("broken", traceback.format_exc()))


def _hear_questions(pipe: Pipe, is_asked: threading.Event) -> None:
    with suppress(EOFError, OSError):
        while True:
            pipe.recv()
            is_asked.set()
    # Whoever asked has gone. The store may be away, and be waited for.
    os._exit(1)


def _follow(database: Database, is_asked: threading.Event, tell: Callable[[int], None]) -> None:
    with database.connect() as connection:
        page = LogReader(connection).page
        for _ in runner.follow(connection, page, poll_seconds=POLL_SECONDS):
            tell(_reached(connection))
            is_asked.wait(GATHERING_SECONDS)
            is_asked.clear()


def _reached(connection: Connection[Any]) -> int:
    """The position that all read models have come to; one of another version is built anew."""
    versions = {projection.name: projection.version for projection in runner.ALL}
    return min(
        row.position if row.version == versions[row.name] else 0
        for row in tracking.tracked(connection)
        if row.name in versions
    )
