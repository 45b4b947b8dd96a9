"""Reads the log in the order of its positions, a page at a time."""

from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, cast

from eventsourcing.persistence import JSONTranscoder, MapperDeserialisationError, Notification
from psycopg import Connection
from psycopg.rows import tuple_row

from domain.event import Entry, Recorded, Unreadable
from domain.round import RoundEvent
from infrastructure.store.mapper import EventMapper, line_of, read_lines

PAGE_SIZE = 5_000

# A line for each event: its state, with what stands in columns behind the opening brace.
_LINES = """
SELECT count(*), min(notification_id), max(notification_id),
       string_agg(
           overlay(
               state PLACING convert_to(
                   '"topic":' || to_json(topic)
                   || ',"originator_id":' || to_json(originator_id)
                   || ',"originator_version":' || originator_version || ',', 'UTF8'
               ) FROM 2 FOR 0
           ),
           E'\n'::bytea
       )
  FROM (
    SELECT notification_id, originator_id, originator_version, topic, state
      FROM ledger.stored_events
     WHERE notification_id > %s AND notification_id <= %s
     ORDER BY notification_id
     LIMIT %s
  ) AS event
"""
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
# No index leads from a round to the accounts that name it, so the server looks at all
# events; but it looks for all the rounds at once. A name is no longer than 64 letters.
_NAMING_ROUNDS = """
SELECT notification_id, originator_id, originator_version, topic, state
  FROM ledger.stored_events
 WHERE originator_id = ANY(%(streams)b::text[])
    OR position('"round_id":"'::bytea IN state) > 0
   AND split_part(
           encode(
               substring(state FROM position('"round_id":"'::bytea IN state) + 12 FOR 65),
               'escape'
           ), '"', 1
       ) = ANY(%(rounds)b::text[])
 ORDER BY notification_id
"""
_HEAD = "SELECT coalesce(max(notification_id), 0) FROM ledger.stored_events"

LAST = 2**63 - 1
"""No position is later."""

StoredRow = tuple[int, str, int, str, bytes]
"""A stored event: its position, its stream, its version there, its topic and its state."""

_Lines = tuple[int, int | None, int | None, bytes | None]


class LogReader:
    """Reads stored events on a connection of its own."""

    def __init__(self, connection: Connection[Any]) -> None:
        self._cursor = connection.cursor(row_factory=tuple_row)
        self._mapper = EventMapper(JSONTranscoder())

    def head(self) -> int:
        """The position of the latest event; 0 where there is none."""
        row = self._cursor.execute(_HEAD).fetchone()
        assert row is not None
        return int(row[0])

    def page(self, after: int, limit: int = PAGE_SIZE) -> list[Entry]:
        """The next events after a position, broken ones in their place."""
        return self._read_page(self._lines(after, limit), after)

    def pages(self, after: int = 0, *, until: int = LAST) -> Iterator[list[Entry]]:
        """All events after a position and up to another, broken ones in their place.

        The next page is on its way while one is being worked on.
        """
        with ThreadPoolExecutor(1, "read-ahead") as ahead:
            lines = ahead.submit(self._lines, after, PAGE_SIZE, until)
            while True:
                count, _, last, _ = lines.result()
                if not count or last is None:
                    return
                following: Future[_Lines] = ahead.submit(self._lines, last, PAGE_SIZE, until)
                yield self._read_page(lines.result(), after)
                after, lines = last, following

    def naming_rounds(self, round_ids: Collection[str]) -> list[Entry]:
        """The streams of rounds, and every other event that names one of them, by position."""
        parameters = {
            "streams": [f"round:{round_id}" for round_id in round_ids],
            "rounds": list(round_ids),
        }
        return self.read(self._cursor.execute(_NAMING_ROUNDS, parameters, binary=True).fetchall())

    def read(self, rows: Sequence[StoredRow]) -> list[Entry]:
        """The events of stored rows, broken ones in their place."""
        events = read_lines(b"\n".join(map(line_of, rows)), len(rows)) if rows else []
        if events is None:
            return [self._read(_notification(row)) for row in rows]
        return [Recorded(row[0], event) for row, event in zip(rows, events, strict=True)]

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

    def _lines(self, after: int, limit: int, until: int = LAST) -> _Lines:
        # A cursor of its own: a page is read ahead while others ask for something else.
        cursor = self._cursor.connection.cursor(row_factory=tuple_row)
        row = cursor.execute(_LINES, (after, until, limit), prepare=True, binary=True).fetchone()
        assert row is not None
        return cast(_Lines, row)

    def _read_page(self, page: _Lines, after: int) -> list[Entry]:
        count, first, last, lines = page
        if not count or first is None or last is None or lines is None:
            return []
        events = read_lines(lines, count) if last - first + 1 == count else None
        if events is not None:
            return list(map(Recorded, range(first, last + 1), events))
        rows = self._cursor.execute(_PAGE, (after, count), prepare=True, binary=True).fetchall()
        return [self._read(_notification(row)) for row in rows]

    def _stream_rows(self, stream_id: str) -> list[Notification]:
        rows = self._cursor.execute(_STREAM, (stream_id,), binary=True).fetchall()
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
