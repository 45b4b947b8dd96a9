"""What an export writes before anyone sees it, and the moment in which it becomes visible.

Everything goes to `.partial` first. What is to be renamed where stands in a plan
that is on the disk before the first rename: a run that is killed between two
renames is finished by the next one, and one that is killed before leaves nothing.
"""

import fcntl
import os
import shutil
from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from infrastructure.exports.errors import ExportRefused
from infrastructure.exports.files import Format, TableFile, read_batches, sha256_of
from infrastructure.exports.log import Rewritten
from infrastructure.exports.manifest import (
    NAME,
    FileEntry,
    Manifest,
    entry_of,
    sync_folder,
    to_json,
    write_durably,
)
from infrastructure.exports.tables import BY_NAME, TABLES, Place

PARTIAL = ".partial"
ROWS_PER_GROUP = 65_536
ROWS_IN_MEMORY = 262_144
FILES_OPEN = 48


class Plan(msgspec.Struct, frozen=True):
    """The renames of an export, from names in `.partial` to paths in the folder."""

    renames: dict[str, str]
    manifest: str


class Staging:
    """Takes record batches by table and day, and makes files of them within bounded memory.

    A file that would have to stay open among too many is ended, and what comes
    after it is another one; at the end they become one.
    """

    def __init__(self, folder: Path, format_: Format) -> None:
        self.folder = folder
        self._format = format_
        self._partial = folder / PARTIAL
        self._partial.mkdir()
        self._waiting: dict[Place, list[Any]] = defaultdict(list)
        self._rows: dict[Place, int] = defaultdict(int)
        self._open: OrderedDict[Place, TableFile] = OrderedDict()
        self._done: dict[Place, list[TableFile]] = defaultdict(list)
        self._latest: dict[str, int] = {}
        self._thinned: set[Place] = set()
        self._files = 0

    def add(self, place: Place, batch: Any) -> None:
        """Takes rows in."""
        self._waiting[place].append(batch)
        self._rows[place] += len(batch)
        if self._rows[place] >= ROWS_PER_GROUP:
            self._flush(place)
        elif sum(self._rows.values()) >= ROWS_IN_MEMORY:
            self._flush(max(self._rows, key=self._rows.__getitem__))

    def rewrite(self, rewritten: Rewritten) -> None:
        """Takes note that a round's row is to be left out, for a newer one is there."""
        round_id, position = rewritten.new_row[0], rewritten.new_row[-1]
        self._latest[round_id] = max(position, self._latest.get(round_id, 0))
        self._thinned |= {("rounds", rewritten.day), ("rounds", rewritten.new_day)}

    def finish(self, old: dict[Place, FileEntry], *, as_of: int) -> dict[Place, FileEntry]:
        """Makes one file of each table and day that changes; the entries of those."""
        for place in list(self._waiting):
            self._flush(place)
        while self._open:
            self._end_one()
        changed = {}
        for place in self.places() | {each for each in self._thinned if each in old}:
            table = BY_NAME[place[0]]
            before = old.get(place) if table.is_log or place[0] == "rounds" else None
            changed[place] = entry_of(
                self._one_file(place, before), place, self._format, as_of=as_of
            )
        return changed

    def places(self) -> set[Place]:
        """The tables and days that anything was added to."""
        return set(self._done) | {place for place, waiting in self._waiting.items() if waiting}

    def add_empty(self, place: Place) -> FileEntry:
        """A file without rows, for a day on which nothing came to a table."""
        with self._new_file(place) as file:
            pass
        self._done[place] = [file]
        return entry_of(file, place, self._format, as_of=0)

    def publish(self, changed: dict[Place, FileEntry], manifest: Manifest) -> None:
        """Makes it visible: from here on it is all there, or will be with the next run."""
        # The rounds first, so that at no moment a bet is without its own.
        in_order = sorted(changed, key=lambda place: (place[0] != "rounds", place))
        renames = {self._done[place][0].path.name: changed[place].path for place in in_order}
        plan = Plan(renames, to_json(manifest).decode())
        for path in renames.values():
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        for table in TABLES:
            (self.folder / table.name).mkdir(exist_ok=True)
        write_durably(self._partial / "plan.json", msgspec.json.encode(plan))
        carry_out(self.folder)

    def _flush(self, place: Place) -> None:
        batches, self._waiting[place] = self._waiting[place], []
        self._rows.pop(place, None)
        if batches:
            self._writer(place).write(batches)

    def _writer(self, place: Place) -> TableFile:
        file = self._open.get(place)
        if file is None:
            if len(self._open) == FILES_OPEN:
                self._end_one()
            file = self._open[place] = self._new_file(place)
        self._open.move_to_end(place)
        return file

    def _end_one(self) -> None:
        place, file = self._open.popitem(last=False)
        file.close()
        self._done[place].append(file)

    def _new_file(self, place: Place) -> TableFile:
        self._files += 1
        path = self._partial / f"{place[0]}-{self._files}"
        return TableFile(path, BY_NAME[place[0]], self._format)

    def _one_file(self, place: Place, before: FileEntry | None) -> TableFile:
        parts = self._done[place]
        if before is None and len(parts) == 1 and place not in self._thinned:
            return parts[0]
        paths = [file.path for file in parts]
        if before is not None:
            path = self.folder / before.path
            if not path.exists() or sha256_of(path) != before.sha256:
                raise ExportRefused(
                    f"{path} is not as it was exported: `punto feed verify` says what differs,"
                    " and `punto export --anew` writes everything again"
                )
            paths.insert(0, path)
        with self._new_file(place) as whole:
            for path in paths:
                for batches in _in_groups(read_batches(path, BY_NAME[place[0]], self._format)):
                    whole.write(map(self._thin, batches) if place in self._thinned else batches)
        for file in parts:
            file.path.unlink()
        self._done[place] = [whole]
        return whole

    def _thin(self, batch: Any) -> Any:
        """Leaves out the rows of rounds that have a newer one."""
        found = pc.index_in(batch["round_id"], pa.array(self._latest, pa.string()))
        latest = pc.take(pa.array(self._latest.values(), pa.int64()), found)
        is_latest = pc.fill_null(pc.equal(batch["position"], latest), fill_value=False)
        return batch.filter(pc.or_(pc.is_null(found), is_latest))


def _in_groups(batches: Iterator[Any]) -> Iterator[list[Any]]:
    group: list[Any] = []
    for batch in batches:
        group.append(batch)
        if sum(map(len, group)) >= ROWS_PER_GROUP:
            yield group
            group = []
    if group:
        yield group


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """The folder, to be written to by nobody else; what a killed run left is dealt with."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ExportRefused(f"Another export writes to {folder}: wait for its end") from None
        carry_out(folder)
        _clear(folder)
        try:
            yield
        finally:
            _clear(folder)
    finally:
        os.close(descriptor)


def is_halfway(folder: Path) -> bool:
    """Whether a run was stopped while it made its files visible."""
    return (folder / PARTIAL / "plan.json").exists()


def carry_out(folder: Path) -> None:
    """Does the renames that are planned; those that are done already stay done."""
    partial = folder / PARTIAL
    try:
        plan = msgspec.json.decode((partial / "plan.json").read_bytes(), type=Plan)
    except FileNotFoundError:
        return
    for name, path in plan.renames.items():
        if (partial / name).exists():
            (partial / name).replace(folder / path)
            sync_folder((folder / path).parent)
    write_durably(folder / NAME, plan.manifest.encode())
    (partial / "plan.json").unlink()


def _clear(folder: Path) -> None:
    if not is_halfway(folder):
        shutil.rmtree(folder / PARTIAL, ignore_errors=True)
