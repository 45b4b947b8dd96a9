"""Reads the log in the order of its positions, a page at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from eventsourcing.persistence import MapperDeserialisationError, Notification
from psycopg import Connection
from psycopg.rows import tuple_row

from domain.event import Recorded
from infrastructure.store.mapper import PydanticMapper

PAGE_SIZE = 5_000

_PAGE = """
SELECT notification_id, originator_id, originator_version, topic, state
  FROM ledger.stored_events
 WHERE notification_id > %s
 ORDER BY notification_id
 LIMIT %s
"""
_STREAM = """
SELECT notification_id, originator_id, originator_version, topic, state
  FROM ledger.stored_events
 WHERE originator_id = %s
 ORDER BY originator_version
"""
_HEAD = "SELECT coalesce(max(notification_id), 0) FROM ledger.stored_events"


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A stored event that no model reads, and why."""

    position: int
    stream_id: str
    version: int
    why: str


class LogReader:
    """Reads stored events on a connection of its own."""

    def __init__(self, connection: Connection[Any], mapper: PydanticMapper) -> None:
        self._cursor = connection.cursor(row_factory=tuple_row)
        self._mapper = mapper

    def head(self) -> int:
        """The position of the latest event; 0 where there is none."""
        row = self._cursor.execute(_HEAD).fetchone()
        assert row is not None
        return int(row[0])

    def page(self, after: int, limit: int = PAGE_SIZE) -> Sequence[Recorded]:
        """The next events after a position; raises MapperDeserialisationError on a broken one."""
        return [
            Recorded(row.id, self._mapper.to_domain_event(row)) for row in self._rows(after, limit)
        ]

    def pages(self, after: int = 0) -> Iterator[list[Recorded | Unreadable]]:
        """All events after a position, broken ones in their place."""
        while rows := self._rows(after, PAGE_SIZE):
            yield [self._read(row) for row in rows]
            after = rows[-1].id

    def stream(self, stream_id: str) -> list[Recorded]:
        """All events of one stream."""
        rows = self._cursor.execute(_STREAM, (stream_id,), binary=True).fetchall()
        return [
            Recorded(row.id, self._mapper.to_domain_event(row))
            for row in (_notification(row) for row in rows)
        ]

    def _rows(self, after: int, limit: int) -> list[Notification]:
        rows = self._cursor.execute(_PAGE, (after, limit), prepare=True, binary=True).fetchall()
        return [_notification(row) for row in rows]

    def _read(self, row: Notification) -> Recorded | Unreadable:
        try:
            return Recorded(row.id, self._mapper.to_domain_event(row))
        except MapperDeserialisationError as error:
            return Unreadable(row.id, str(row.originator_id), row.originator_version, str(error))


def _notification(row: tuple[int, str, int, str, bytes]) -> Notification:
    position, stream_id, version, topic, state = row
    return Notification(
        id=position,
        originator_id=stream_id,
        originator_version=version,
        topic=topic,
        state=state,
    )
