"""The tables that come from read models: the postings, and the accounts.

The rows go from COPY into Arrow without becoming Python objects; only the day in
which an account was opened is worked out for each.
"""

import io
from collections.abc import Iterator
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
from psycopg import Connection

from infrastructure.exports.days import Books
from infrastructure.exports.tables import ACCOUNTS, POSTINGS, Table

BLOCK_BYTES = 4 << 20

# Times go as microseconds, for their text depends on the settings of the session.
_POSTINGS = """
COPY (
    SELECT position, line, account, currency, amount_minor::bigint AS amount_minor,
           topic AS event, account_id, number, round_id, bet_id, table_id, shoe_id,
           (extract(epoch FROM at) * 1000000)::bigint AS at, own_day, day
      FROM projection.journal
     WHERE position > {after} AND position <= {until}
     ORDER BY position, line
) TO STDOUT WITH (FORMAT csv)
"""
_ACCOUNTS = """
COPY (
    SELECT account_id, currency, available_minor::bigint AS available_minor,
           in_play_minor::bigint AS in_play_minor,
           commission_due_minor::bigint AS commission_due_minor,
           owed_minor::bigint AS owed_minor, is_frozen, is_closed,
           (extract(epoch FROM opened_at) * 1000000)::bigint AS opened_at,
           version, opened_position AS position
      FROM projection.balances
     WHERE opened_position <= {until}
     ORDER BY opened_position
) TO STDOUT WITH (FORMAT csv)
"""
_TIMES = ("at", "opened_at")


def postings(connection: Connection[Any], *, after: int, until: int) -> Iterator[tuple[date, Any]]:
    """The postings of a range of positions, in order, as record batches by day."""
    names = [*POSTINGS.schema.names, "day"]
    for batch in _copied(connection, _POSTINGS.format(after=after, until=until), POSTINGS, names):
        days = batch.column("day")
        rows = batch.select(POSTINGS.schema.names)
        for day in pc.unique(days).to_pylist():
            of_day = rows.filter(pc.equal(days, pa.scalar(day, pa.date32())))
            yield day, of_day.cast(POSTINGS.schema)


def accounts(
    connection: Connection[Any], books: Books, *, until: int
) -> Iterator[tuple[date, Any]]:
    """The accounts as they stand now, as record batches by the day in which they were opened."""
    names = ACCOUNTS.schema.names
    for batch in _copied(connection, _ACCOUNTS.format(until=until), ACCOUNTS, names):
        rows = batch.cast(ACCOUNTS.schema)
        opened = zip(rows["opened_at"].to_pylist(), rows["position"].to_pylist(), strict=True)
        days = pa.array(
            [books.booked_on(at, position=position) for at, position in opened], pa.date32()
        )
        for day in pc.unique(days).to_pylist():
            yield day, rows.filter(pc.equal(days, pa.scalar(day, pa.date32())))


def _copied(
    connection: Connection[Any], statement: str, table: Table, names: list[str]
) -> Iterator[Any]:
    types = {field.name: field.type for field in table.schema}
    types |= {name: pa.int64() for name in _TIMES if name in types}
    types |= {name: pa.bool_() for name, type_ in types.items() if pa.types.is_boolean(type_)}
    with connection.cursor().copy(statement.encode()) as copy:
        source = CopySource(iter(copy))
        if source.is_empty:
            return
        reader = pacsv.open_csv(
            source,
            read_options=pacsv.ReadOptions(
                use_threads=False, block_size=BLOCK_BYTES, column_names=names
            ),
            convert_options=pacsv.ConvertOptions(
                column_types=types | {"day": pa.date32()},
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                null_values=[""],
                true_values=["t"],
                false_values=["f"],
            ),
        )
        yield from reader


class CopySource(io.RawIOBase):
    """What COPY sends, as a file to read from."""

    def __init__(self, chunks: Iterator[Any]) -> None:
        self._chunks = chunks
        self._rest = bytes(next(chunks, b""))
        self.is_empty = not self._rest

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        parts, length = [self._rest], len(self._rest)
        if size < 0 or length < size:
            for chunk in self._chunks:
                parts.append(chunk)
                length += len(chunk)
                if 0 <= size <= length:
                    break
        whole = b"".join(parts)
        cut = length if size < 0 else size
        self._rest = whole[cut:]
        return whole[:cut]
