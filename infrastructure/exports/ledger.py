"""The ledger as an export reads it: at one moment, every table as record batches by day."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from psycopg import Connection
from psycopg.rows import tuple_row

from domain.event import Entry
from domain.site import SITE_ID
from infrastructure.exports import projected
from infrastructure.exports.days import Books
from infrastructure.exports.errors import ExportRefused
from infrastructure.exports.log import LogTables, Rewritten
from infrastructure.exports.manifest import Anchor
from infrastructure.exports.tables import BY_NAME, Place, batch_of
from infrastructure.store.reader import LogReader
from projections.tracking import tracked

Progress = Callable[[int, int], None]
"""Is told how many events of how many are read."""

Found = tuple[Place, Any] | Rewritten
"""Rows of a table and a day, or a row that another one takes the place of."""

_READ_FROM = ("balances", "journal")
_EVENT = """
SELECT originator_id, originator_version, topic, state
  FROM ledger.stored_events
 WHERE notification_id = %s
"""


def read_ledger(
    connection: Connection[Any],
    *,
    after: int,
    until: int,
    checkpoints: Sequence[int] = (),
    progress: Progress | None = None,
) -> Iterator[Found]:
    """Everything that a range of positions brings to the tables.

    Rounds that have not ended come as they stand at the end, and at the
    checkpoints, where earlier exports ended. The accounts are those of now.
    """
    reader = LogReader(connection)
    books = Books()
    for recorded in reader.stream(SITE_ID):
        if recorded.position <= after:
            books.take(recorded.position, recorded.event)  # type: ignore[arg-type]
    log = LogTables(books, lambda round_id: reader.stream(f"round:{round_id}"))
    ends = {*checkpoints, until}
    for page in cut(_up_to(reader.pages(after), until), ends):
        for day, batch in log.take(page):
            yield ("events", day), batch
        position = page[-1].position
        if position in ends:
            log.take_open_rounds()
        yield from _collected(log)
        if progress is not None:
            progress(position - after, until - after)
    for day, batch in projected.postings(connection, after=after, until=until):
        yield ("postings", day), batch
    for day, batch in projected.accounts(connection, books, until=until):
        yield ("accounts", day), batch


def _collected(log: LogTables) -> Iterator[Found]:
    yield from log.rewritten
    log.rewritten.clear()
    for place, rows in log.rows.items():
        if rows:
            yield place, batch_of(BY_NAME[place[0]], rows)
    log.rows.clear()


def cut(pages: Iterable[list[Entry]], ends: set[int]) -> Iterator[list[Entry]]:
    """The pages, so that each of these positions is the last of one."""
    for page in pages:
        start = 0
        for end in sorted(end for end in ends if page[0].position <= end < page[-1].position):
            size = sum(entry.position <= end for entry in page[start:])
            yield page[start : start + size]
            start += size
        yield page[start:]


def _up_to(pages: Iterator[list[Entry]], until: int) -> Iterator[list[Entry]]:
    """The pages up to a position."""
    for page in pages:
        if page[-1].position < until:
            yield page
            continue
        last = [entry for entry in page if entry.position <= until]
        if last:
            yield last
        return


@contextmanager
def snapshot(connection: Connection[Any]) -> Iterator[int]:
    """Everything as it is now, whatever is recorded meanwhile; gives the read models' position."""
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        positions = {each.name: each.position for each in tracked(connection)}
        until = {positions[name] for name in _READ_FROM}
        if len(until) > 1:
            raise ExportRefused("The read models are being rebuilt: once more when that is done")
        (position,) = until
        yield position


def anchor(connection: Connection[Any], position: int) -> Anchor | None:
    """The event at a position, by the hash of what is stored; None where there is none."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(_EVENT, [position], binary=True).fetchone()
    if row is None:
        return None
    return Anchor(position, hashlib.sha256(msgspec.json.encode(row)).hexdigest())
