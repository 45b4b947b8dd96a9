"""Compares the files of an export with the ledger, and names every record that differs.

Each side of a range of positions is a count and a sum of hashes, so memory does
not grow with the ledger, and it does not matter in which file a record stands.
Where they differ, the records of that range are read once more and compared.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
from psycopg import Connection

from infrastructure.exports.errors import ExportRefused
from infrastructure.exports.files import Format, read_batches, sha256_of
from infrastructure.exports.ledger import Progress, anchor, read_ledger, snapshot
from infrastructure.exports.log import Rewritten
from infrastructure.exports.manifest import Manifest, load
from infrastructure.exports.staging import is_halfway
from infrastructure.exports.tables import (
    ACCOUNTS,
    BY_NAME,
    ROUNDS,
    TABLES,
    Place,
    Table,
    batch_of,
    folder_of,
)
from infrastructure.feed.source import source
from infrastructure.store.errors import first_line

RANGE_SIZE = 10_000
DIFFERENCES_NAMED_MAX = 100
RANGES_NAMED_MAX = 20

_UNMOVED = ("account_id", "currency", "opened_at", "position")
"""What stays the same of an account, whatever is recorded after an export."""

_POSITION = {table.name: table.schema.names.index("position") for table in TABLES}
_KEY = {table.name: [table.schema.names.index(each) for each in table.key] for table in TABLES}
_AMOUNTS = {
    table.name: (
        table.schema.names.index("currency") if table.sums else 0,
        [(each, table.schema.names.index(each)) for each in table.sums],
    )
    for table in TABLES
}
# Where in a row its position, its key and its amounts stand.

Row = tuple[Any, ...]
Range = tuple[str, int]
"""A table's name and the number of a range of positions."""


@dataclass(slots=True)
class _Side:
    """One side of a range: how many records, their amounts, and the sum of their hashes."""

    count: int = 0
    digest: int = 0
    sums: Counter[tuple[str, str]] = field(default_factory=Counter)

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, _Side)
        return (self.count, self.digest) == (other.count, other.digest)

    def add(self, place: Place, row: Row, *, sign: int = 1) -> None:
        name, day = place
        self.count += sign
        digest = sha256(repr((day.toordinal(), row)).encode()).digest()
        self.digest = (self.digest + sign * int.from_bytes(digest)) % (1 << 256)
        currency_at, amounts = _AMOUNTS[name]
        for column, where in amounts:
            self.sums[row[currency_at], column] += sign * (row[where] or 0)

    def to_json(self) -> dict[str, Any]:
        return {"count": self.count, "hash": f"{self.digest:064x}"}


@dataclass(slots=True)
class _Records:
    """Rows of ranges that differ, by what tells them apart; each with its day and its file."""

    ledger: dict[Row, tuple[date, Row]] = field(default_factory=dict)
    files: dict[Row, list[tuple[date, Row, str]]] = field(default_factory=lambda: defaultdict(list))


def verify(
    connection: Connection[Any], folder: Path, *, progress: Progress | None = None
) -> dict[str, Any]:
    """What the files and the ledger come to, range by range, and where they differ.

    The ledger is looked at as it was when each day was exported; of the accounts,
    if it has gone on since, only what never changes. Raises ExportRefused where
    there is no export in the folder, or one of another ledger.
    """
    manifest = load(folder)
    if manifest is None:
        raise ExportRefused(f"{folder} holds no export: there is no manifest.json in it")
    if is_halfway(folder):
        raise ExportRefused(f"An export to {folder} was stopped: `punto export` finishes it")
    with snapshot(connection) as head:
        before = manifest.anchor
        is_another = manifest.source != source(connection)
        if is_another or (before is not None and anchor(connection, before.position) != before):
            raise ExportRefused(
                f"{folder} holds tables of another ledger, or of one restored since"
            )
        return _Comparison(connection, folder, manifest, head).run(progress)


class _Comparison:
    """The files on the one side, the ledger on the other."""

    def __init__(
        self, connection: Connection[Any], folder: Path, manifest: Manifest, head: int
    ) -> None:
        self._connection = connection
        self._folder = folder
        self._manifest = manifest
        self._head = head
        self._as_of = {each.day: each.as_of for each in manifest.files}
        self._until = max(self._as_of.values(), default=0)
        self._is_current = set(self._as_of.values()) <= {head}
        self._sides: dict[Range, tuple[_Side, _Side]] = defaultdict(lambda: (_Side(), _Side()))
        self._differences: list[dict[str, Any]] = []
        self._count = 0

    def run(self, progress: Progress | None) -> dict[str, Any]:
        for place, row, _ in self._in_files(report=True):
            self._side(place, row, 1).add(place, row)
        for place, row, sign in self._in_ledger(progress):
            self._side(place, row, 0).add(place, row, sign=sign)
        differing = [key for key, (one, other) in sorted(self._sides.items()) if one != other]
        self._name_records(set(differing[:RANGES_NAMED_MAX]))
        self._compare_hashes()
        return {
            "ok": not self._count,
            "source": self._manifest.source,
            "position": self._until,
            "behind": self._head - self._until,
            "ranges": [
                self._range_to_json(key, *sides) for key, sides in sorted(self._sides.items())
            ],
            "currencies": self._currencies(),
            "count_differences": self._count,
            "differences": self._differences,
        }

    def _side(self, place: Place, row: Row, which: int) -> _Side:
        return self._sides[_range_of(place, row)][which]

    def _in_files(self, *, report: bool = False) -> Iterator[tuple[Place, Row, str]]:
        """Every row of every file that a reader of the folders would find."""
        for table in TABLES:
            for path in sorted((self._folder / table.name).glob(f"**/*.{self._manifest.format}")):
                name = str(path.relative_to(self._folder))
                try:
                    day = date.fromisoformat(path.parent.name.removeprefix("day="))
                    if path.parent.name != folder_of(day):
                        raise ValueError("it is in no folder of a day")
                    for batch in read_batches(path, table, self._manifest.format):
                        for row in self._rows((table.name, day), batch):
                            yield (table.name, day), row, name
                except (ValueError, OSError, pa.ArrowException) as error:
                    if report:
                        self._differ("unreadable", table.name, path=name, why=first_line(error))

    def _in_ledger(self, progress: Progress | None = None) -> Iterator[tuple[Place, Row, int]]:
        """Every row that the files should have: 1 beside it, or -1 where it is taken back."""
        checkpoints = sorted(set(self._as_of.values()))
        for found in read_ledger(
            self._connection,
            after=0,
            until=self._until,
            checkpoints=checkpoints,
            progress=progress,
        ):
            if isinstance(found, Rewritten):
                if found.new_row[-1] <= self._as_of.get(found.new_day, 0):
                    # As a batch, so that it looks like one that was read.
                    batch = batch_of(ROUNDS, [found.row])
                    for row in self._rows((ROUNDS.name, found.day), batch):
                        yield (ROUNDS.name, found.day), row, -1
                continue
            place, batch = found
            as_of = self._as_of.get(place[1], 0)
            where = _POSITION[place[0]]
            for row in self._rows(place, batch):
                if row[where] <= as_of:
                    yield place, row, 1

    def _rows(self, place: Place, batch: Any) -> Iterator[Row]:
        columns = []
        for schema_field, column in zip(batch.schema, batch.columns, strict=True):
            is_kept = place[0] != ACCOUNTS.name or self._is_current or schema_field.name in _UNMOVED
            if not is_kept:
                columns.append([None] * len(batch))
            elif pa.types.is_timestamp(schema_field.type):
                columns.append(column.cast(pa.int64()).to_pylist())
            else:
                columns.append(column.to_pylist())
        return zip(*columns, strict=True)

    def _name_records(self, ranges: set[Range]) -> None:
        """Reads the ranges that differ once more, and says which records do."""
        if not ranges:
            return
        records: dict[str, _Records] = defaultdict(_Records)
        for place, row, path in self._in_files():
            if _range_of(place, row) in ranges:
                records[place[0]].files[_key(place, row)].append((place[1], row, path))
        for place, row, sign in self._in_ledger():
            if _range_of(place, row) in ranges:
                ledger = records[place[0]].ledger
                if sign > 0:
                    ledger[_key(place, row)] = (place[1], row)
                elif ledger.get(_key(place, row)) == (place[1], row):
                    del ledger[_key(place, row)]
        for name, found in sorted(records.items()):
            self._compare_records(name, found)

    def _compare_records(self, name: str, records: _Records) -> None:
        names = BY_NAME[name].schema.names
        for key in sorted(records.ledger.keys() | records.files.keys(), key=str):
            said = dict(zip(BY_NAME[name].key, key, strict=True))
            expected, found = records.ledger.get(key), records.files.get(key, [])
            if expected is None:
                for _, row, path in found:
                    where = {"position": row[names.index("position")], "path": path}
                    self._differ("not in the ledger", name, **said | where)
                continue
            day, row = expected
            said |= {"position": row[names.index("position")], "day": day.isoformat()}
            if not found:
                self._differ("missing", name, **said)
                continue
            for _, _, path in found[1:]:
                self._differ("doubled", name, **said, path=path)
            for its_day, its_row, path in found:
                if (its_day, its_row) != (day, row):
                    pairs = zip(names, row, its_row, strict=True)
                    unequal = [column for column, one, other in pairs if one != other]
                    unequal += ["day"] if its_day != day else []
                    self._differ("altered", name, **said, path=path, attributes=unequal)

    def _compare_hashes(self) -> None:
        """Whether the records stand in their order, and nothing else was done to the files."""
        is_named = self._count > 0
        doubled = {each.get("path") for each in self._differences if each["problem"] == "doubled"}
        for each in self._manifest.files:
            path = self._folder / each.path
            if not path.exists():
                continue
            if sha256_of(path) == each.sha256 or each.path in doubled:
                continue
            first = self._out_of_order(each.table, each.day, path)
            if first is not None:
                self._differ("reordered", each.table, path=each.path, position=first)
            elif not is_named:
                self._differ("not as exported", each.table, path=each.path)

    def _out_of_order(self, name: str, day: date, path: Path) -> int | None:
        """The position of the first row that stands before an earlier one."""
        table = BY_NAME[name]
        if not table.is_log or not _is_readable(path, table, self._manifest.format):
            return None
        last: Row = ()
        for batch in read_batches(path, table, self._manifest.format):
            for row in self._rows((name, day), batch):
                key = _key((name, day), row)
                if key < last:
                    return int(key[0])
                last = key
        return None

    def _differ(self, problem: str, table: str, **where: Any) -> None:
        self._count += 1
        if len(self._differences) < DIFFERENCES_NAMED_MAX:
            self._differences.append({"problem": problem, "table": table, **where})

    def _range_to_json(self, key: Range, ledger: _Side, files: _Side) -> dict[str, Any]:
        name, number = key
        return {
            "table": name,
            "from": number * RANGE_SIZE + 1,
            "to": min((number + 1) * RANGE_SIZE, max(self._until, number * RANGE_SIZE + 1)),
            "ok": ledger == files,
            "ledger": ledger.to_json(),
            "downstream": files.to_json(),
        }

    def _currencies(self) -> dict[str, dict[str, dict[str, int]]]:
        totals: dict[str, dict[str, dict[str, int]]] = {}
        for (name, _), sides in self._sides.items():
            for side, of_side in zip(("ledger", "downstream"), sides, strict=True):
                for (currency, column), amount_minor in of_side.sums.items():
                    sums = totals.setdefault(currency, {"ledger": {}, "downstream": {}})[side]
                    label = f"{name}.{column}"
                    sums[label] = sums.get(label, 0) + amount_minor
        return dict(sorted(totals.items()))


def _range_of(place: Place, row: Row) -> Range:
    return place[0], (row[_POSITION[place[0]]] - 1) // RANGE_SIZE


def _key(place: Place, row: Row) -> Row:
    return tuple(row[where] for where in _KEY[place[0]])


def _is_readable(path: Path, table: Table, format_: Format) -> bool:
    try:
        return all(batch is not None for batch in read_batches(path, table, format_))
    except (ValueError, OSError, pa.ArrowException):
        return False
