"""Reads the log in the order of its positions, a page at a time."""

from collections.abc import Iterator
from typing import Any, cast

from eventsourcing.persistence import JSONTranscoder, MapperDeserialisationError, Notification
from psycopg import Connection
from psycopg.rows import tuple_row

from domain.event import Entry, Recorded, Unreadable
from domain.round import RoundEvent, RoundOpened
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
_NAMING_ROUND = """
SELECT notification_id, originator_id, originator_version, topic, state
  FROM ledger.stored_events
 WHERE originator_id = %(stream_id)s
    OR originator_id = ANY(%(beside)s)
    OR position(convert_to(%(named)s, 'UTF8') IN state) > 0
 ORDER BY notification_id
"""
_HEAD = "SELECT coalesce(max(notification_id), 0) FROM ledger.stored_events"


class LogReader:
    """Reads stored events on a connection of its own."""

    def __init__(self, connection: Connection[Any]) -> None:
        self._cursor = connection.cursor(row_factory=tuple_row)
        self._mapper = PydanticMapper(JSONTranscoder())

    def head(self) -> int:
        """The position of the latest event; 0 where there is none."""
        row = self._cursor.execute(_HEAD).fetchone()
        assert row is not None
        return int(row[0])

    def page(self, after: int, limit: int = PAGE_SIZE) -> list[Entry]:
        """The next events after a position, broken ones in their place."""
        return [self._read(row) for row in self._rows(after, limit)]

    def pages(self, after: int = 0) -> Iterator[list[Entry]]:
        """All events after a position, broken ones in their place."""
        while page := self.page(after):
            yield page
            after = page[-1].position

    def naming_round(self, round_id: str) -> list[Entry]:
        """A round's stream, its shoe's and table's, and every other event that names it."""
        stream_id = f"round:{round_id}"
        beside = [
            name
            for each in map(self._read, self._stream_rows(stream_id))
            if isinstance(each, Recorded) and isinstance(each.event, RoundOpened)
            for name in (f"shoe:{each.event.shoe_id}", f"table:{each.event.table_id}")
        ]
        parameters = {
            "stream_id": stream_id,
            "beside": beside,
            "named": f'"round_id":"{round_id}"',
        }
        rows = self._cursor.execute(_NAMING_ROUND, parameters, binary=True).fetchall()
        return [self._read(_notification(row)) for row in rows]

    def entries(self, stream_id: str) -> list[Entry]:
        """All events of one stream, broken ones in their place."""
        return [self._read(row) for row in self._stream_rows(stream_id)]

    def round(self, round_id: str) -> list[RoundEvent]:
        """A round's events."""
        return cast(list[RoundEvent], [each.event for each in self.stream(f"round:{round_id}")])

    def stream(self, stream_id: str) -> list[Recorded]:
        """All events of one stream."""
        return [
            Recorded(row.id, self._mapper.to_domain_event(row))
            for row in self._stream_rows(stream_id)
        ]

    def _stream_rows(self, stream_id: str) -> list[Notification]:
        rows = self._cursor.execute(_STREAM, (stream_id,), binary=True).fetchall()
        return [_notification(row) for row in rows]

    def _rows(self, after: int, limit: int) -> list[Notification]:
        rows = self._cursor.execute(_PAGE, (after, limit), prepare=True, binary=True).fetchall()
        return [_notification(row) for row in rows]

    def _read(self, row: Notification) -> Entry:
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
