"""Disks of a server that are full for a while."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import psutil
import pytest

MEGABYTE = 1_000_000
MEGABYTES_FREE = 150
"""More than the log of a server keeps for itself."""


class Disk(Protocol):
    def fill(self) -> None:
        """Leaves no room to what writes on it."""

    def make_room(self) -> None:
        """Takes the filling away."""


class SmallDisk:
    """A file system of its own, in memory, for one directory of a server that is stopped."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._balloon = directory / "balloon"

    def fill(self) -> None:
        with self._balloon.open("ab") as balloon:
            while bytes_free := _bytes_free(self._directory):
                # What the server takes meanwhile is missing here.
                with suppress(OSError):
                    os.posix_fallocate(balloon.fileno(), balloon.seek(0, os.SEEK_END), bytes_free)

    def make_room(self) -> None:
        self._balloon.unlink()


@contextmanager
def small_disk(directory: Path) -> Iterator[SmallDisk]:
    """Moves a directory to a small disk. Skips the test where nothing can be mounted."""
    owner = directory.stat()
    aside = directory.with_name(f"{directory.name}.aside")
    megabytes = _bytes_in(directory) // MEGABYTE + MEGABYTES_FREE
    options = f"size={megabytes * MEGABYTE},mode=0700,uid={owner.st_uid},gid={owner.st_gid}"
    directory.rename(aside)
    directory.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(directory)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"a small disk needs the right to mount one: {mounted.stderr.strip()}")
    try:
        subprocess.run(["cp", "-Rp", f"{aside}/.", str(directory)], check=True)
        yield SmallDisk(directory)
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


class LimitedFiles:
    """The processes of a server, whose files may not grow for a while.

    To the server a file that may not grow is much the same as a full disk, and
    no right to mount anything is needed.
    """

    def __init__(self, home: Path) -> None:
        self._home = home

    def fill(self) -> None:
        self._limit("0")

    def make_room(self) -> None:
        self._limit("unlimited")

    def _limit(self, bytes_max: str) -> None:
        try:
            lines = (self._home / "postgres/postmaster.pid").read_text().splitlines()
            server = psutil.Process(int(lines[0]))
            processes = [server, *server.children()]
        except (FileNotFoundError, psutil.NoSuchProcess):
            return  # It gave up.
        # As the account of the server, for in a container root may not do this to others. What
        # the server forks has its limits, and what is there already is told one by one.
        owner = (self._home / "postgres").stat()
        account: dict[str, Any] = {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []}
        for process in processes:
            subprocess.run(
                ["prlimit", f"--pid={process.pid}", f"--fsize={bytes_max}:"],
                stderr=subprocess.DEVNULL,
                check=False,
                **(account if os.geteuid() == 0 else {}),
            )


def _bytes_free(directory: Path) -> int:
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize


def _bytes_in(directory: Path) -> int:
    return sum(each.stat().st_size for each in directory.rglob("*") if each.is_file())
