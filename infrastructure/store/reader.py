"""Reads the log in the order of its positions, a page at a time."""

import gc
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import repeat
from typing import Any, cast

from eventsourcing.persistence import JSONTranscoder, MapperDeserialisationError, Notification
from psycopg import Connection, OperationalError, RawCursor
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, Format
from psycopg.pq.abc import PGresult
from psycopg.rows import tuple_row

from domain.event import Entry, Recorded, Unreadable
from domain.round import RoundEvent
from infrastructure.store.mapper import EventMapper, line_of, read_lines

PAGE_SIZE = 5_000
PIECE_SIZE = 500
SWITCH_SECONDS = 0.0001

# A line for each event: its state, with what stands in columns behind the opening brace.
# They come in pieces: a server that makes a page in one go asks the system for fresh memory
# each time, and spends a third of its time on that. A piece is sound where no position is
# missing, no column holds what JSON would have to escape, and every state begins an object.
# No program of ours writes anything else.
_PIECES = rb"""
SELECT piece.*
  FROM generate_series($1::bigint, $1::bigint + $2::bigint - 1, $3::bigint) AS start
 CROSS JOIN LATERAL (
    SELECT count(*),
           max(notification_id) = start + count(*)
           AND strpos(string_agg(originator_id || topic, ''), '\') = 0
           AND strpos(string_agg(originator_id || topic, ''), '"') = 0
           AND bool_and(state >= '{'::bytea AND state < '|'::bytea),
           string_agg(
               convert_to(
                   '{"topic":"' || topic
                   || '","originator_id":"' || originator_id
                   || '","originator_version":' || originator_version || ',', 'UTF8'
               ) || substring(state FROM 2),
               E'\n'::bytea
           )
      FROM (
        SELECT notification_id, originator_id, originator_version, topic, state
          FROM ledger.stored_events
         WHERE notification_id > start
         ORDER BY notification_id
         LIMIT $3
      ) AS event
    HAVING count(*) > 0
 ) AS piece
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
_HEAD_RECORDED_AT = """
SELECT recorded_at
  FROM ledger.stored_events
 ORDER BY notification_id DESC
 LIMIT 1
"""
_HEAD = "SELECT coalesce(max(notification_id), 0) FROM ledger.stored_events"

LAST = 2**63 - 1
"""No position is later."""

StoredRow = tuple[int, str, int, str, bytes]
"""A stored event: its position, its stream, its version there, its topic and its state."""

_Piece = tuple[int, bool, bytes]
"""Of how many events it has the lines, whether it is sound, and the lines."""


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

    def head_recorded_at(self) -> datetime | None:
        """When the latest event was recorded, by the database's clock, in UTC."""
        row = self._cursor.execute(_HEAD_RECORDED_AT).fetchone()
        return None if row is None else row[0].astimezone(UTC)

    def page(self, after: int, limit: int = PAGE_SIZE) -> list[Entry]:
        """The next events after a position, broken ones in their place."""
        return self._read_page(self._pieces(after, limit), after, limit)

    def pages(self, after: int = 0, *, until: int = LAST) -> Iterator[list[Entry]]:
        """All events after a position and up to another, broken ones in their place.

        The next page is on its way while one is being worked on.
        """
        with self.reading_ahead() as page:
            while after < until and (entries := page(after, PAGE_SIZE)):
                after = entries[-1].position
                if after > until:
                    entries = [entry for entry in entries if entry.position <= until]
                yield entries

    @contextmanager
    def reading_ahead(self) -> Iterator[Callable[[int, int], list[Entry]]]:
        """As `page`, for pages that follow each other: the next one is on its way meanwhile.

        The connection may be used for nothing that rests on its transactions.
        """
        with _free_for_threads(), ThreadPoolExecutor(1, "read-ahead") as ahead:
            upcoming: dict[tuple[int, int], Future[list[_Piece]]] = {}

            def page(after: int, limit: int) -> list[Entry]:
                expected = upcoming.pop((after, limit), None)
                upcoming.clear()
                pieces = self._pieces(after, limit) if expected is None else expected.result()
                if sum(count for count, _, _ in pieces) >= limit:
                    following = (after + limit, limit)
                    upcoming[following] = ahead.submit(self._pieces_ahead, *following)
                return self._read_page(pieces, after, limit)

            yield page

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

    def _pieces(self, after: int, limit: int) -> list[_Piece]:
        cursor = RawCursor(self._cursor.connection, row_factory=tuple_row)
        parameters = (after, limit, min(PIECE_SIZE, limit))
        return cast(list[_Piece], cursor.execute(_PIECES, parameters, binary=True).fetchall())

    def _pieces_ahead(self, after: int, limit: int) -> list[_Piece]:
        """As `_pieces`, in one call of libpq, which takes no turn from other threads till it ends.

        Nobody can interrupt it, so it is not for the main thread.
        """
        connection = self._cursor.connection
        values = [b"%d" % number for number in (after, limit, min(PIECE_SIZE, limit))]
        with connection.lock:
            result = connection.pgconn.exec_params(_PIECES, values, result_format=Format.BINARY)
        if result.status == ExecStatus.TUPLES_OK:
            return [_piece(result, row) for row in range(result.ntuples)]
        if connection.broken:
            raise OperationalError(result.get_error_message())
        raise error_from_result(result)

    def _read_page(self, pieces: list[_Piece], after: int, limit: int) -> list[Entry]:
        entries: list[Entry] = []
        for count, is_sound, lines in pieces:
            events = read_lines(lines, count) if is_sound else None
            if events is None:
                parameters = (after, limit)
                rows = self._cursor.execute(_PAGE, parameters, prepare=True, binary=True).fetchall()
                return [self._read(_notification(row)) for row in rows]
            # Made of plain tuples: by its fields, each would take twice as long.
            numbered = enumerate(events, after + len(entries) + 1)
            entries += map(tuple.__new__, repeat(Recorded), numbered)
        return entries[:limit]

    def _stream_rows(self, stream_id: str) -> list[Notification]:
        rows = self._cursor.execute(_STREAM, (stream_id,), binary=True).fetchall()
        return [_notification(row) for row in rows]

    def _read(self, row: Notification) -> Entry:
        try:
            return Recorded(row.id, self._mapper.to_domain_event(row))
        except MapperDeserialisationError as error:
            return Unreadable(row.id, str(row.originator_id), row.originator_version, str(error))


@contextmanager
def _free_for_threads() -> Iterator[None]:
    """Lets a thread that asks for a page have its turns soon, and collects little meanwhile.

    With the usual 5 ms between the turns of two threads, it would ask when the page
    before is done with. And pages come and go without a cycle: the collector would
    look through each of them several times.
    """
    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(min(interval, SWITCH_SECONDS))
    gc.set_threshold(max(thresholds[0], 4 * PAGE_SIZE), *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        sys.setswitchinterval(interval)


def _piece(result: PGresult, row: int) -> _Piece:
    count, is_sound, lines = (result.get_value(row, column) for column in range(3))
    assert count is not None
    assert lines is not None
    return int.from_bytes(count), is_sound == b"\1", lines


def _notification(row: tuple[int, str, int, str, bytes]) -> Notification:
    position, stream_id, version, topic, state = row
    return Notification(
        id=position,
        originator_id=stream_id,
        originator_version=version,
        topic=topic,
        state=state,
    )
