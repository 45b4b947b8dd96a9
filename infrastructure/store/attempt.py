"""A turn that takes no lock before it is stored, and is then checked."""

from collections.abc import Collection, Sequence

from eventsourcing.persistence import InterfaceError, OperationalError
from eventsourcing.postgres import PostgresDatastore
from psycopg.errors import UniqueViolation
from psycopg.rows import tuple_row

from infrastructure.store.appending import APPEND, append_parameters
from infrastructure.store.session import (
    Beside,
    ClientKey,
    Found,
    NotUpToDate,
    Remembered,
    Row,
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
        self._rows: list[Row] = []
        self._new_streams = set(new_streams)

    @property
    def head(self) -> int:
        return self._head + len(self._rows)

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

    def changed_since(self, position: int) -> set[str] | None:  # noqa: ARG002
        raise NotUpToDate

    def seed(self, shoe_id: str) -> bytes:  # noqa: ARG002
        raise NotUpToDate

    def send(self, rows: Sequence[Row]) -> None:
        self._rows += rows

    def append(self, rows: Sequence[Row], beside: Beside) -> None:
        self.send(rows)
        is_accepted = all(each.position is not None for each in beside.remembered)
        begun = {stream_id for stream_id, version, _, _ in self._rows if version == 1}
        if beside.seeds or not is_accepted or not self._new_streams <= begun:
            raise NotUpToDate
        parameters = append_parameters(self._head, self._rows, beside.remembered, beside.states)
        if self._execute(parameters) != (True,):
            raise NotUpToDate

    def _execute(self, parameters: Sequence[object]) -> tuple[object, ...] | None:
        try:
            with self._datastore.get_connection() as connection:
                cursor = connection.cursor(row_factory=tuple_row)
                try:
                    cursor.execute(APPEND, parameters, prepare=True, binary=True)
                except UniqueViolation:
                    raise NotUpToDate from None
                return cursor.fetchone()
        except (InterfaceError, OperationalError):
            # As for any lost connection: those that were idle are lost too.
            self._datastore.pool.check()
            raise
