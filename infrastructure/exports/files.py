"""The files of a table and a day: written to a temporary name, in Parquet or CSV."""

import hashlib
import os
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from infrastructure.exports.tables import Table

READ_ROWS = 32_768
_REPEATED = {
    "stream", "event", "actor", "round_id", "account_id", "table_id", "shoe_id", "currency",
    "state", "outcome", "bet", "result", "kind", "account", "player_cards", "banker_cards",
}  # fmt: skip


class Format(StrEnum):
    """How the tables are written."""

    PARQUET = "parquet"
    CSV = "csv"


class TableFile:
    """A file that is being written, and what is in it so far: rows, positions and sums."""

    def __init__(self, path: Path, table: Table, format_: Format) -> None:
        self.path = path
        self.rows = 0
        self.first_position: int | None = None
        self.last_position: int | None = None
        self.sums: dict[str, dict[str, int]] = {}
        self._table = table
        # A file of Python's says in its errors which file it is.
        self._file = path.open("wb")
        self._writer: Any = (
            pq.ParquetWriter(
                self._file,
                table.schema,
                compression="zstd",
                use_dictionary=[each for each in table.schema.names if each in _REPEATED],
            )
            if format_ is Format.PARQUET
            else pacsv.CSVWriter(self._file, table.schema)
        )

    def write(self, batches: Iterable[Any]) -> None:
        """Adds record batches, in Parquet as one row group."""
        rows = pa.Table.from_batches(batches, self._table.schema)
        if not len(rows):
            return
        self._writer.write_table(rows)
        self.rows += len(rows)
        bounds = pa.compute.min_max(rows["position"])
        first, last = bounds["min"].as_py(), bounds["max"].as_py()
        self.first_position = min(first, self.first_position or first)
        self.last_position = max(last, self.last_position or last)
        add_sums(self.sums, self._table, rows)

    def close(self) -> None:
        """Ends the file; what was written is on the disk then."""
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def abandon(self) -> None:
        """Lets go of a file that nobody will read."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()


def add_sums(sums: dict[str, dict[str, int]], table: Table, rows: Any) -> None:
    """Adds what rows come to, by currency and column."""
    if not table.sums:
        return
    for currency in rows["currency"].unique().to_pylist():
        of_currency = rows.filter(pa.compute.equal(rows["currency"], currency))
        totals = sums.setdefault(currency, dict.fromkeys(table.sums, 0))
        for name in table.sums:
            totals[name] += sum_of(of_currency[name])


def sum_of(column: Any) -> int:
    """The exact sum of a column, which need not fit into 64 bits."""
    high = pa.compute.sum(pa.compute.shift_right(column, 32)).as_py() or 0
    low = pa.compute.sum(pa.compute.bit_wise_and(column, 0xFFFFFFFF)).as_py() or 0
    return (int(high) << 32) + int(low)


def read_batches(path: Path, table: Table, format_: Format) -> Iterator[Any]:
    """A file's record batches; raises ValueError or OSError for one that is none of ours."""
    if format_ is Format.PARQUET:
        with pq.ParquetFile(path) as file:
            if not file.schema_arrow.equals(table.schema):
                raise ValueError("its columns are not those of the table")
            yield from file.iter_batches(READ_ROWS)
        return
    types = {field.name: field.type for field in table.schema}
    with path.open("rb") as file, _csv_reader(file, types) as reader:
        for batch in reader:
            yield batch.select(table.schema.names).cast(table.schema)


def _csv_reader(file: Any, types: dict[str, Any]) -> Any:
    return pacsv.open_csv(
        file,
        read_options=pacsv.ReadOptions(use_threads=False, block_size=1 << 22),
        convert_options=pacsv.ConvertOptions(
            column_types=types,
            include_columns=list(types),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
        ),
    )


def sha256_of(path: Path) -> str:
    """The hash of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
