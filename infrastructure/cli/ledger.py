"""The ledger as a command of `punto` has it open: for asking, or for writing too."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import Connection

from infrastructure.casino import Casino
from infrastructure.cli.output import Progress
from infrastructure.settings import load_settings
from infrastructure.store.connection import Database, open_database
from infrastructure.store.errors import StoreUnavailable, first_line
from infrastructure.store.reader import LogReader
from projections import parking, runner
from projections.projection import ProjectionError

AWAY = (psycopg.OperationalError, psycopg.InternalError, StoreUnavailable)
"""What is raised by a store that has gone away, or that can do no work for now."""

_HAS_STREAM = "SELECT FROM ledger.stored_events WHERE originator_id = %s LIMIT 1"


class NotFoundError(Exception):
    """The question names something that the ledger does not hold. The message is one line."""


class OpenLedger:
    """A database with a ledger in it, one connection to ask on, and a reader of the log."""

    def __init__(self, database: Database, connection: "Connection[tuple[object, ...]]") -> None:
        self.database = database
        self.connection = connection
        self.reader = LogReader(connection)

    def reconnect(self) -> None:
        """Asks on a new connection, where the old one is of no more use.

        Raises StoreUnavailable where there is none to be had.
        """
        self.connection.close()
        self.connection = self.database.connect()
        self.reader = LogReader(self.connection)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Questions that are asked in here are answered as of one moment."""
        with self.connection.transaction():
            self.connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            yield

    def must_have(
        self, *, table: str | None = None, shoe: str | None = None, round_id: str | None = None
    ) -> None:
        """Refuses a question about something that is not there; an empty answer would mislead."""
        for kind, name in (("table", table), ("shoe", shoe), ("round", round_id)):
            if name is not None and not self.has_stream(f"{kind}:{name}"):
                raise NotFoundError(f"There is no {kind} {name}: `punto {kind}s` lists them")

    def has_stream(self, stream: str) -> bool:
        """Whether a stream has any event, readable or not."""
        found = self.connection.execute(_HAS_STREAM, [stream]).fetchone()
        return found is not None

    def catch_up(self) -> None:
        """Brings the projections up to the head, so that no answer is stale.

        A role that may only read is told how far they are instead, and everyone
        which events the answers leave out.
        """
        self.bring_up_to_date()
        self.say_what_is_parked()

    def say_what_is_parked(self) -> None:
        """Says that answers are not whole, where they are not."""
        if count := parking.count_events(self.connection):
            events = "1 event is" if count == 1 else f"{count} events are"
            say(
                f"{events} parked, and the projections hold nothing of them: `punto parked` says"
                " which, `punto audit` what is wrong"
            )

    def bring_up_to_date(self) -> None:
        """Brings the projections up to the head and says nothing of what is parked."""
        if not self.database.can_write:
            positions = [position for _, position in runner.positions(self.connection)]
            if not positions:
                raise NotFoundError(
                    "This role may only read, and the ledger's projections are not built yet: "
                    "ask once as a role that may write"
                )
            say(
                f"This role may only read: answers are as of position {min(positions)}"
                f" of {self.reader.head()}"
            )
            return
        head = self.reader.head()
        with Progress("Bringing the projections up to date") as progress:
            runner.catch_up(
                self.connection,
                self.reader.page,
                until=head,
                progress=lambda position: progress(position, head),
            )


@contextmanager
def asking(*, caught_up: bool = True) -> Iterator[OpenLedger]:
    """The ledger to ask questions of."""
    with open_database(load_settings(), progress=say) as database:
        ledger = OpenLedger(database, database.connect())
        try:
            if caught_up:
                ledger.catch_up()
            yield ledger
        finally:
            ledger.connection.close()


@contextmanager
def writing() -> Iterator[Casino]:
    """The application, to run commands on. Refuses where the guard of the history is missing.

    At the end the projections catch up, for the sake of those who may only read.
    """
    with open_database(load_settings(), progress=say) as database:
        database.check_writable()
        with casino_on(database) as casino:
            yield casino
        try:
            with database.connect() as connection:
                OpenLedger(database, connection).catch_up()
        except (ProjectionError, *AWAY) as error:
            # What was to be stored is stored; the next question says more.
            say(f"punto: {first_line(error)}")


@contextmanager
def casino_on(database: Database) -> Iterator[Casino]:
    """The application on a database that is open."""
    casino = Casino(
        {
            "PERSISTENCE_MODULE": "infrastructure.store.factory",
            "PUNTO_CONNINFO": database.conninfo,
        }
    )
    try:
        yield casino
    finally:
        casino.close()


def say(message: str) -> None:
    """Tells people what takes so long."""
    print(message, file=sys.stderr)
