"""Writes the tables of an export: what is new since the last one, each day whole."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from psycopg import Connection
from psycopg.rows import tuple_row

from domain.event import Entry
from domain.site import SITE_ID
from infrastructure.exports import projected
from infrastructure.exports.days import Books, Days
from infrastructure.exports.errors import ExportRefused
from infrastructure.exports.files import Format
from infrastructure.exports.log import LogTables
from infrastructure.exports.manifest import VERSION, Anchor, FileEntry, Manifest, load, total
from infrastructure.exports.staging import Staging, days_of, locked
from infrastructure.exports.tables import BY_NAME, TABLES, Place, batch_of
from infrastructure.store.reader import LogReader
from projections import parking
from projections.tracking import tracked

Progress = Callable[[int, int], None]

_READ_FROM = ("balances", "journal")
_EVENT = """
SELECT originator_id, originator_version, topic, state
  FROM ledger.stored_events
 WHERE notification_id = %s
"""


class Report(NamedTuple):
    """What an export holds now, and how many of its files were written this time."""

    manifest: Manifest
    written: int

    def to_json(self) -> dict[str, Any]:
        """The report for programs."""
        files = self.manifest.files
        return {
            "format": self.manifest.format.value,
            "position": max((each.as_of for each in files), default=0),
            "days": sorted({each.day.isoformat() for each in files}),
            "written": self.written,
            "files": len(files),
            "tables": {
                name: {
                    "rows": sum(each.rows for each in files if each.table == name),
                    "sums": total([each.sums for each in files if each.table == name]),
                }
                for name in BY_NAME
            },
        }


def export(
    connection: Connection[Any],
    folder: Path,
    *,
    format_: Format = Format.PARQUET,
    days: Days = Days(),  # noqa: B008 - a constant
    anew: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Brings the tables in a folder up to the position of the read models.

    Raises ExportRefused where the folder holds another ledger's tables, or
    tables in another format, or somebody else writes to it; OSError where it
    cannot be written to. The connection is free of a transaction.
    """
    if folder.exists() and not folder.is_dir():
        raise ExportRefused(f"{folder} is not a folder")
    with locked(folder), snapshot(connection) as until:
        manifest = load(folder) or Manifest(VERSION, format_, 0, None, 0, [])
        if manifest.format is not format_:
            raise ExportRefused(
                f"{folder} holds {manifest.format.value}: export {format_.value} to another folder"
            )
        _must_be_of_this_ledger(connection, manifest, folder)
        run = _Run(connection, Staging(folder, format_), manifest, days, until)
        # What was parked then, and is folded by now, has no new position.
        return run.do(anew=anew or manifest.parked > 0, progress=progress)


class _Run:
    """One run: what there was before it, and what it adds."""

    def __init__(
        self,
        connection: Connection[Any],
        staging: Staging,
        manifest: Manifest,
        days: Days,
        until: int,
    ) -> None:
        self._connection = connection
        self._staging = staging
        self._manifest = manifest
        self._days = days
        self._until = until
        self._as_of = {each.day: each.as_of for each in manifest.files}
        self._everywhere = manifest.position
        self._old = manifest.by_place()

    def do(self, *, anew: bool, progress: Progress | None) -> Report:
        kept = self._old
        if anew:
            self._as_of, self._everywhere, self._old = {}, 0, {}
            if not self._days.is_all:
                self._as_of = {e.day: e.as_of for e in kept.values() if e.day not in self._days}
        after = self._after()
        books = self._read_log(after, progress)
        for day, batch in projected.postings(self._connection, after=after, until=self._until):
            self._add("postings", day, batch)
        for day, batch in projected.accounts(self._connection, books, until=self._until):
            if day in self._days:
                self._staging.add(("accounts", day), batch)
        changed = self._staging.finish(self._old, as_of=self._until)
        changed = {
            place: each
            for place, each in changed.items()
            if place not in kept or kept[place].sha256 != each.sha256 or anew
        }
        changed |= self._fill(kept, changed)
        return self._publish(kept, changed)

    def _after(self) -> int:
        """The position from which on there may be something new."""
        named = self._days.named()
        if named:
            return min(self._as_of.get(day, self._everywhere) for day in named)
        known = [as_of for day, as_of in self._as_of.items() if day in self._days]
        return min([self._everywhere, *known])

    def _read_log(self, after: int, progress: Progress | None) -> Books:
        reader = LogReader(self._connection)
        books = Books()
        for recorded in reader.stream(SITE_ID):
            if recorded.position <= after:
                books.take(recorded.position, recorded.event)  # type: ignore[arg-type]
        log = LogTables(books, lambda round_id: reader.stream(f"round:{round_id}"))
        for page in up_to(reader.pages(after), self._until):
            for day, batch in log.take(page):
                self._add("events", day, batch)
            self._take(log)
            if progress is not None:
                progress(page[-1].position - after, self._until - after)
        log.take_open_rounds()
        self._take(log)
        return books

    def _take(self, log: LogTables) -> None:
        for rewritten in log.rewritten:
            if self._is_new(rewritten.new_day, rewritten.new_row[-1]):
                self._staging.rewrite(rewritten)
        log.rewritten.clear()
        for (name, day), rows in log.rows.items():
            if rows:
                self._add(name, day, batch_of(BY_NAME[name], rows))
        log.rows.clear()

    def _add(self, name: str, day: date, batch: Any) -> None:
        if day not in self._days:
            return
        as_of = self._as_of.get(day, self._everywhere)
        if as_of:
            positions = batch.column("position").to_pylist()
            batch = batch.filter([position > as_of for position in positions])
        if len(batch):
            self._staging.add((name, day), batch)

    def _is_new(self, day: date, position: int) -> bool:
        return day in self._days and position > self._as_of.get(day, self._everywhere)

    def _fill(
        self, kept: dict[Place, FileEntry], changed: dict[Place, FileEntry]
    ) -> dict[Place, FileEntry]:
        """Files without rows, so that a day has one of each table and no table is without any."""
        days = days_of(kept) | days_of(changed)
        if not days:
            days = {self._days.first if not self._days.is_all else datetime.now(UTC).date()}
        places = {(table.name, day) for table in TABLES for day in days}
        return {
            place: self._staging.add_empty(place)
            for place in sorted(places - kept.keys() - changed.keys())
        }

    def _publish(self, kept: dict[Place, FileEntry], changed: dict[Place, FileEntry]) -> Report:
        files = [
            msgspec.structs.replace(each, as_of=self._until) if each.day in self._days else each
            for _, each in sorted((kept | changed).items())
        ]
        manifest = Manifest(
            VERSION,
            self._manifest.format,
            self._until if self._days.is_all else self._everywhere,
            anchor(self._connection, self._until),
            parking.count_events(self._connection),
            files,
        )
        self._staging.publish(changed, manifest)
        return Report(manifest, len(changed))


def up_to(pages: Iterator[list[Entry]], until: int) -> Iterator[list[Entry]]:
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


def _must_be_of_this_ledger(connection: Connection[Any], manifest: Manifest, folder: Path) -> None:
    before = manifest.anchor
    if before is not None and anchor(connection, before.position) != before:
        raise ExportRefused(
            f"{folder} holds tables of another ledger, or of one that was restored since:"
            " export to another folder"
        )
