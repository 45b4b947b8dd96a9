"""The manifest: which files an export holds, as of which position, and what they come to."""

import os
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import msgspec

from infrastructure.exports.errors import ExportRefused
from infrastructure.exports.files import Format, TableFile, sha256_of
from infrastructure.exports.tables import BY_NAME, Place, relative_path

NAME = "manifest.json"
VERSION = 1

Sums = dict[str, dict[str, int]]
"""Amounts by currency and column, in minor units."""


class FileEntry(msgspec.Struct, frozen=True):
    """A file: `as_of` is the position up to which the ledger is in it."""

    table: str
    day: date
    path: str
    as_of: int
    rows: int
    first_position: int | None
    last_position: int | None
    sums: Sums
    sha256: str

    @property
    def place(self) -> Place:
        """The table and the day."""
        return self.table, self.day


class Anchor(msgspec.Struct, frozen=True):
    """The latest event of an export: the ledger that it goes on from has the same one."""

    position: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True):
    """What an export holds; `position` is the one up to which every day is complete.

    It is 0 where only some days were asked for, each of which then has a
    position of its own. `source` is the store as the feed names it. `parked`
    counts the events that the read models left out.
    """

    version: int
    source: str
    format: Format
    position: int
    anchor: Anchor | None
    parked: int
    files: list[FileEntry]

    def as_of(self, day: date) -> int:
        """The position up to which a day is complete."""
        return next((each.as_of for each in self.files if each.day == day), self.position)

    def by_place(self) -> dict[Place, FileEntry]:
        """The files by table and day."""
        return {each.place: each for each in self.files}


def load(folder: Path) -> Manifest | None:
    """The manifest of a folder; None where there is none."""
    path = folder / NAME
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        manifest = msgspec.json.decode(content, type=Manifest)
    except msgspec.MsgspecError as error:
        raise ExportRefused(f"{path} is no manifest of an export: {error}") from None
    if manifest.version != VERSION:
        raise ExportRefused(f"{path} is of another version of punto: export to another folder")
    if any(each.table not in BY_NAME for each in manifest.files):
        raise ExportRefused(f"{path} names a table that no export has")
    return manifest


def to_json(manifest: Manifest) -> bytes:
    """The manifest as it is stored, with totals of each table for whoever reads it."""
    tables = {}
    for name, table in BY_NAME.items():
        files = [each for each in manifest.files if each.table == name]
        tables[name] = {
            "rows": sum(each.rows for each in files),
            "sums": total([each.sums for each in files]),
            "columns": {field.name: str(field.type) for field in table.schema},
        }
    document = msgspec.to_builtins(manifest) | {"tables": tables}
    return msgspec.json.format(msgspec.json.encode(document)) + b"\n"


def total(each_of: Sequence[Sums]) -> Sums:
    """Sums of sums, by currency and column."""
    totals: Sums = {}
    for sums in each_of:
        for currency, columns in sums.items():
            into = totals.setdefault(currency, dict.fromkeys(columns, 0))
            for name, amount_minor in columns.items():
                into[name] = into.get(name, 0) + amount_minor
    return dict(sorted(totals.items()))


def entry_of(file: TableFile, place: Place, format_: Format, *, as_of: int) -> FileEntry:
    """The entry of a file that was just written."""
    return FileEntry(
        table=place[0],
        day=place[1],
        path=relative_path(place, format_),
        as_of=as_of,
        rows=file.rows,
        first_position=file.first_position,
        last_position=file.last_position,
        sums=dict(sorted(file.sums.items())),
        sha256=sha256_of(file.path),
    )


def write_durably(path: Path, content: bytes) -> None:
    """Writes a file under a temporary name and renames it, so that it is whole or not there."""
    temporary = path.with_name(f".{path.name}.partial")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Makes renames in a folder last."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
