"""The ledger as the service has it open: for writes, for questions, and followed live."""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import psycopg
from psycopg import Connection
from psycopg_pool import ConnectionPool, PoolTimeout

from infrastructure.api.callers import Callers
from infrastructure.api.following import Follower
from infrastructure.api.metrics import Metrics
from infrastructure.api.problems import Problem
from infrastructure.casino import Casino
from infrastructure.commands.answers import Answer
from infrastructure.commands.contract import Command
from infrastructure.commands.execution import Client
from infrastructure.commands.group_commit import GroupCommit
from infrastructure.store.connection import Database
from infrastructure.store.errors import StoreError, first_line
from infrastructure.store.reader import LogReader
from projections import runner

READERS_MAX = 10
WRITERS_MAX = 64
"""So many requests wait in a thread for their turn; the others wait without one."""
PATIENCE_SECONDS = 5.0
AWAY = (psycopg.OperationalError, psycopg.InterfaceError, PoolTimeout, StoreError)
"""What it looks like when the store is away."""
_BEING_BUILT = (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn)
"""What it looks like where a read model is of an older version and is still rebuilt."""

log = logging.getLogger("punto.serve")


class Service:
    """One opened ledger. Writes go through `execute` or `give`, questions through `asking`."""

    def __init__(
        self, database: Database, casino: Casino, *, is_open_without_keys: bool = True
    ) -> None:
        self.database = database
        self.metrics = Metrics()
        self._commits = GroupCommit(casino, count_group=self.metrics.count_group)
        self._writers = ThreadPoolExecutor(WRITERS_MAX, "writer")
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
            self.follower.start(connection)
        self._pool.open()
        self._commits.start()

    def stop(self) -> None:
        """Ends what `start` began."""
        self._writers.shutdown()
        self._commits.stop()
        self.follower.stop()
        self._pool.close()

    def execute(self, commands: Sequence[Command], *, client: Client) -> list[Answer]:
        """Runs a client's commands, in transactions that it shares with others."""
        answers = self._commits.execute(commands, client=client)
        self.metrics.count_commands(commands, answers)
        return answers

    async def give(self, command: Command, *, client: Client) -> Answer:
        """Runs a command in a thread that waits for it."""
        loop = asyncio.get_running_loop()
        execute = partial(self.execute, [command], client=client)
        [answer] = await loop.run_in_executor(self._writers, execute)
        return answer

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
            head = LogReader(connection).head()
            if self.follower.position >= head:
                yield connection
                return
        # Whoever waits for them takes no connection from those who need not.
        self.follower.wait_for(head)
        with self.reading() as connection:
            yield connection
