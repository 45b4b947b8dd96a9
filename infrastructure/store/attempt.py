"""A turn that takes no lock before it is stored, and is then checked."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import compress
from typing import Any

from eventsourcing.persistence import InterfaceError, OperationalError
from eventsourcing.postgres import PostgresDatastore
from psycopg import Connection
from psycopg.errors import UniqueViolation

from infrastructure.store.appending import Values, is_appended, lay_out_append, send_append
from infrastructure.store.session import (
    Beside,
    ClientKey,
    Columns,
    Found,
    NotUpToDate,
    Remembered,
)


class PostgresAttempt:
    """A turn at the head that rests on what is known, and is checked where it is stored.

    The one statement of it is a transaction of its own.
    """

    def __init__(
        self, datastore: PostgresDatastore, head: int, new_streams: Collection[str]
    ) -> None:
        self._datastore = datastore
        self._head = head
        self._new_streams = set(new_streams)
        self._values: Values | None = None
        self._connection: Connection[Any] | None = None
        self._taken = ExitStack()

    @property
    def head(self) -> int:
        return self._head

    def recall(
        self,
        keys: Sequence[ClientKey],  # noqa: ARG002 - a key that was seen is found by the append
        stream_ids: Collection[str],
    ) -> tuple[dict[ClientKey, Remembered], Sequence[Found]]:
        return {}, self.load(stream_ids)

    def load(self, stream_ids: Collection[str]) -> Sequence[Found]:
        if not self._new_streams.issuperset(stream_ids):
            raise NotUpToDate
        return ()

    def seed(self, shoe_id: str) -> bytes:  # noqa: ARG002
        raise NotUpToDate

    def bring(self, events: Columns, beside: Beside) -> None:
        is_accepted = all(each.position is not None for each in beside.remembered)
        begun = set(compress(events.streams, [version == 1 for version in events.versions]))
        if beside.seeds or not is_accepted or not self._new_streams <= begun:
            raise NotUpToDate
        self._values = lay_out_append(self._head, events, beside.remembered, beside.states)
        self._head += len(events)

    def send_off(self) -> None:
        values, self._values = self._values, None
        if values is None:
            raise NotUpToDate
        with self._that_no_lost_connection_is_left(), ExitStack() as taken:
            connection = taken.enter_context(self._datastore.get_connection())
            send_append(connection, values)
            self._taken = taken.pop_all()
        self._connection = connection

    def arrive(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            raise NotUpToDate
        with self._that_no_lost_connection_is_left(), self._taken:
            try:
                is_stored = is_appended(connection)
            except UniqueViolation:
                raise NotUpToDate from None
        if not is_stored:
            raise NotUpToDate

    @contextmanager
    def _that_no_lost_connection_is_left(self) -> Iterator[None]:
        try:
            yield
        except (InterfaceError, OperationalError):
            # As for any lost connection: those that were idle are lost too.
            self._datastore.pool.check()
            raise
