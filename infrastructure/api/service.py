"""The ledger as the service has it open: for writes, for questions, and followed live."""

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from eventsourcing.persistence import PersistenceError
from psycopg import Connection
from psycopg_pool import ConnectionPool, PoolTimeout

from infrastructure.api.callers import Callers
from infrastructure.api.metrics import Metrics
from infrastructure.api.problems import Problem
from infrastructure.casino import Casino
from infrastructure.commands.answers import Answer
from infrastructure.commands.contract import Command
from infrastructure.commands.execution import Client
from infrastructure.commands.group_commit import GroupCommit
from infrastructure.store.connection import Database
from infrastructure.store.errors import StoreError
from infrastructure.store.reader import LogReader
from projections import runner
from projections.projection import ProjectionError

READERS_MAX = 10
PATIENCE_SECONDS = 5.0
CATCH_UP_SECONDS_MAX = 2.0
"""How long a question waits for the read models to come up to the head."""
POLL_SECONDS = 0.5
GATHERING_SECONDS = 0.1
"""So long events gather where nobody asks: to fold many costs little more than one."""
AWAY = (psycopg.OperationalError, psycopg.InterfaceError, PoolTimeout, StoreError)
"""What it looks like when the store is away."""
_BEING_BUILT = (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn)
"""What it looks like where a read model is of an older version and is still rebuilt."""

log = logging.getLogger("punto.serve")


class Service:
    """One opened ledger. Writes go through `execute`, questions through `asking`."""

    def __init__(
        self, database: Database, casino: Casino, *, is_open_without_keys: bool = True
    ) -> None:
        self.database = database
        self.metrics = Metrics()
        self._commits = GroupCommit(casino, count_group=self.metrics.count_group)
        self._pool: ConnectionPool[Connection[Any]] = ConnectionPool(
            database.conninfo,
            min_size=1,
            max_size=READERS_MAX,
            timeout=PATIENCE_SECONDS,
            kwargs={"autocommit": True},
            check=ConnectionPool.check_connection,
            open=False,
        )
        self.callers = Callers(self.reading, is_open_without_keys=is_open_without_keys)
        self.follower = Follower(database)

    def start(self) -> None:
        """Opens the connections, and follows the log from now on."""
        with self.database.connect() as connection:
            runner.ensure(connection)
        self._pool.open()
        self.follower.start()

    def stop(self) -> None:
        """Ends what `start` began."""
        self.follower.stop()
        self._pool.close()

    def execute(self, commands: Sequence[Command], *, client: Client) -> list[Answer]:
        """Runs a client's commands, in transactions that it shares with others."""
        answers = self._commits.execute(commands, client=client)
        self.metrics.count_commands(commands, answers)
        return answers

    @contextmanager
    def reading(self) -> Iterator[Connection[Any]]:
        """A connection to ask on. A store that is away is a Problem that is worth retrying."""
        try:
            with self._pool.connection() as connection:
                yield connection
        except (*AWAY, *_BEING_BUILT) as error:
            log.warning("the store is away: %s", first_line(error))
            raise Problem("store_unavailable", "the store is away, try again") from None

    @contextmanager
    def asking(self) -> Iterator[Connection[Any]]:
        """As `reading`, with the read models brought up to what is stored now."""
        with self.reading() as connection:
            self.follower.wait_for(LogReader(connection).head())
            yield connection


class Follower:
    """Keeps the read models up to date in a thread of its own, whatever happens to the store."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._has_moved = threading.Condition()
        self._position = 0
        self._is_stopping = threading.Event()
        self._is_asked = threading.Event()
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_stopping.set()
        self._is_asked.set()
        self._thread.join()

    @property
    def position(self) -> int:
        """The position that all read models have come to."""
        return self._position

    def wait_for(self, position: int) -> None:
        """Waits until the read models have come to a position, though not for long."""
        until = time.monotonic() + CATCH_UP_SECONDS_MAX
        if self._position >= position:
            return
        self._is_asked.set()
        with self._has_moved:
            while self._position < position and (left := until - time.monotonic()) > 0:
                self._has_moved.wait(left)

    def _run(self) -> None:
        while not self._is_stopping.is_set():
            try:
                self._follow()
            except (*AWAY, psycopg.Error, PersistenceError, ProjectionError) as error:
                log.warning("the read models stand still: %s", first_line(error))
                self._is_stopping.wait(1.0)

    def _follow(self) -> None:
        with self._database.connect() as connection:
            page = LogReader(connection).page
            for _ in runner.follow(connection, page, poll_seconds=POLL_SECONDS):
                reached = min(position for _, position in runner.positions(connection))
                with self._has_moved:
                    self._position = reached
                    self._has_moved.notify_all()
                if self._is_stopping.is_set():
                    return
                self._is_asked.wait(GATHERING_SECONDS)
                self._is_asked.clear()


def first_line(error: BaseException) -> str:
    """What went wrong, in a line for the log."""
    return (str(error).splitlines() or [type(error).__name__])[0]
