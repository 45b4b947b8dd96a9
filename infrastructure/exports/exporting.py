"""Writes the tables of an export: what is new since the last one, each day whole."""

import gc
from collections.abc import Iterator, Set
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow.compute as pc
from psycopg import Connection

from infrastructure.exports.days import Days
from infrastructure.exports.errors import ExportRefused
from infrastructure.exports.files import Format
from infrastructure.exports.ledger import Found, Progress, anchor, read_ledger, snapshot
from infrastructure.exports.log import Rewritten
from infrastructure.exports.manifest import VERSION, FileEntry, Manifest, load, total
from infrastructure.exports.staging import Staging, locked
from infrastructure.exports.tables import BY_NAME, TABLES, Place
from infrastructure.feed.source import source
from projections import parking


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
    with _said_where(folder), locked(folder), snapshot(connection) as until:
        manifest = load(folder) or Manifest(VERSION, source(connection), format_, 0, None, 0, [])
        if manifest.format is not format_:
            raise ExportRefused(
                f"{folder} holds {manifest.format.value}: export {format_.value} to another folder"
            )
        _must_be_of_this_ledger(connection, manifest, folder)
        run = _Run(connection, Staging(folder, format_), manifest, days, until)
        with _without_collector():
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
        self._after = 0
        self._old = manifest.by_place()

    def do(self, *, anew: bool, progress: Progress | None) -> Report:
        kept = self._old
        if anew:
            self._as_of, self._everywhere, self._old = {}, 0, {}
            if not self._days.is_all:
                self._as_of = {e.day: e.as_of for e in kept.values() if e.day not in self._days}
        self._after = self._where_to_start()
        for found in read_ledger(
            self._connection, after=self._after, until=self._until, progress=progress
        ):
            self._take(found)
        changed = self._staging.finish(self._old, as_of=self._until)
        changed = {
            place: each
            for place, each in changed.items()
            if place not in kept or kept[place].sha256 != each.sha256 or anew
        }
        stale = {place for place in kept if place[1] in self._days} if anew else set()
        changed |= self._fill(kept.keys() - stale, changed.keys())
        return self._publish(kept, changed)

    def _where_to_start(self) -> int:
        """The position from which on there may be something new."""
        named = self._days.named()
        if named:
            return min(self._as_of.get(day, self._everywhere) for day in named)
        known = [as_of for day, as_of in self._as_of.items() if day in self._days]
        return min([self._everywhere, *known])

    def _take(self, found: Found) -> None:
        if isinstance(found, Rewritten):
            if self._is_new(found.new_day, found.new_row[-1]):
                self._staging.rewrite(found)
            return
        (name, day), batch = found
        if name == "accounts":
            if day in self._days:
                self._staging.add((name, day), batch)
        else:
            self._add(name, day, batch)

    def _add(self, name: str, day: date, batch: Any) -> None:
        if day not in self._days:
            return
        as_of = self._as_of.get(day, self._everywhere)
        if as_of > self._after:
            batch = batch.filter(pc.greater(batch["position"], as_of))
        if len(batch):
            self._staging.add((name, day), batch)

    def _is_new(self, day: date, position: int) -> bool:
        return day in self._days and position > self._as_of.get(day, self._everywhere)

    def _fill(self, kept: Set[Place], changed: Set[Place]) -> dict[Place, FileEntry]:
        """Files without rows, so that a day has one of each table and no table is without any."""
        days = {day for _, day in kept | changed}
        if not days:
            days = {datetime.now(UTC).date() if self._days.is_all else self._days.first}
        places = {(table.name, day) for table in TABLES for day in days}
        return {place: self._staging.add_empty(place) for place in sorted(places - kept - changed)}

    def _publish(self, kept: dict[Place, FileEntry], changed: dict[Place, FileEntry]) -> Report:
        files = [
            msgspec.structs.replace(each, as_of=self._until) if each.day in self._days else each
            for _, each in sorted((kept | changed).items())
        ]
        manifest = Manifest(
            VERSION,
            self._manifest.source,
            self._manifest.format,
            self._until if self._days.is_all else self._everywhere,
            anchor(self._connection, self._until),
            parking.count_events(self._connection),
            files,
        )
        self._staging.publish(changed, manifest)
        return Report(manifest, len(changed))


@contextmanager
def _said_where(folder: Path) -> Iterator[None]:
    """Names the folder where an error does not say what could not be written."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            raise OSError(error.errno, error.strerror, str(folder)) from None
        raise


@contextmanager
def _without_collector() -> Iterator[None]:
    """Spares the search for cycles among millions of rows, in which there are none."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _must_be_of_this_ledger(connection: Connection[Any], manifest: Manifest, folder: Path) -> None:
    before = manifest.anchor
    is_another = manifest.source != source(connection)
    if is_another or (before is not None and anchor(connection, before.position) != before):
        raise ExportRefused(
            f"{folder} holds tables of another ledger, or of one that was restored since:"
            " export to another folder"
        )
