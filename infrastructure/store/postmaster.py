"""One PostgreSQL server process on one data directory: made, started, waited for, stopped.

The caller holds a lock, so that only one process at a time works here.

The data directory may lie where the account of the server cannot walk to (`/root/x`, or the
temporary directories of a test run by root). The server is therefore started inside it and told to
look at `/proc/self/cwd`: the kernel follows that link straight to the directory, whatever the
permissions above it, and no directory that somebody else made has to be opened to strangers. All
that PostgreSQL does later, it does relative to its working directory, which is this one.
"""

import hashlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil

from infrastructure.store.binaries import MAJOR_VERSION, programs, server_account
from infrastructure.store.errors import StoreUnavailable

SOCKET_NAME = ".s.PGSQL.5432"
# 104 bytes on macOS, 108 on Linux, the closing zero included.
SOCKET_PATH_BYTES_MAX = 103
LOG_BYTES_MAX = 1_000_000
STOP_SECONDS_MAX = 60.0
# A killed server takes a moment to die, and its backends hold its memory until they notice.
LEFTOVERS_SECONDS_PATIENT = 1.0
LEFTOVERS_SECONDS_MAX = 30.0
LEFTOVERS = ("pre-existing shared memory block", "FATAL:  lock file")
# Greater than any process id that a kernel gives out.
PID_OF_NOBODY = 2**31 - 1

OPTIONS = {
    "listen_addresses": "",
    "port": "5432",
    # In the data directory, which only its owner (and root) can enter: that is what lets local
    # connections be trusted. A relative name, because a long path does not fit into a socket's.
    "unix_socket_directories": ".",
    "cluster_name": "puntobanco",
    "fsync": "on",
    "log_checkpoints": "off",
    "max_connections": "200",
}


class Postmaster:
    """The server of one data directory."""

    def __init__(self, data: Path, *, log: Path, progress: Callable[[str], None]) -> None:
        self.data = data
        self.log = log
        self.socket_directory = _socket_directory(data)
        self._progress = progress
        self._process: psutil.Process | None = None

    def url(self, database: str, *, user: str) -> str:
        """The URL of a role on the Unix socket; whoever can reach the socket is trusted."""
        directory = quote(str(self.socket_directory), safe="")
        return f"postgresql://{user}@/{database}?host={directory}&port=5432"

    def ensure_ready(self) -> None:
        """Initialise the data directory if need be, start the server, wait until it answers."""
        account = server_account(self.data)
        binaries = programs(account)
        if not self.data.exists():
            self._initialise(binaries, account)
        self._check_data(account)
        if (
            self.log.exists()
            and self.log.stat().st_size > LOG_BYTES_MAX
            and not self._is_listening()
        ):
            self.log.unlink()

        launched: psutil.Process | None = None
        log_offset: int | None = None
        began = time.monotonic()
        told_seconds = 1
        pause_seconds = 0.005
        while not self._is_ready():
            # As long as the process lives it is at work: recovery after a crash takes its time.
            if not self._is_listening() and not _is_alive(launched):
                if log_offset is not None:
                    self._give_up_unless_leftovers(log_offset, began)
                log_offset = self.log.stat().st_size if self.log.exists() else 0
                launched = self._launch(binaries, account)
            time.sleep(pause_seconds)
            pause_seconds = min(pause_seconds * 1.5, 0.25)
            if (seconds := int(time.monotonic() - began)) > told_seconds:
                told_seconds = seconds
                self._progress(f"PostgreSQL is starting or recovering ({seconds} s)")
        self._process = psutil.Process(self._read_pid_file()[0])

    def stop(self) -> None:
        """Stop the server: sessions are ended, everything is written. Nothing if none runs."""
        if not self._is_listening():
            return
        server = psutil.Process(self._read_pid_file()[0])
        server.send_signal(signal.SIGINT)
        began = time.monotonic()
        while _is_alive(server) and time.monotonic() - began < STOP_SECONDS_MAX:
            time.sleep(0.005)
        # One that needs longer goes on stopping by itself, and the next start waits for it.
        if self.socket_directory != self.data:
            self.socket_directory.unlink(missing_ok=True)

    def abandon(self) -> None:
        """Stop a server whose data directory was deleted, at once and without writing."""
        with suppress(psutil.NoSuchProcess):
            if self._process is not None:
                self._process.send_signal(signal.SIGQUIT)

    def _initialise(self, binaries: Path, account: pwd.struct_passwd | None) -> None:
        """Make the data directory under another name first, so that a half-made one never counts.

        A killed process leaves its `initdb` running for a moment: the name is new each time, so
        that it disturbs nobody."""
        self._progress("Setting up PostgreSQL")
        for unfinished in self.data.parent.glob(f".{self.data.name}-*"):
            shutil.rmtree(unfinished, ignore_errors=True)
        fresh = Path(tempfile.mkdtemp(dir=self.data.parent, prefix=f".{self.data.name}-"))
        if account is not None:
            os.chown(fresh, account.pw_uid, account.pw_gid)
        command = [str(binaries / "initdb"), "-D", _directory_as_seen_by(account, fresh)]
        command += ["-U", "postgres", "-E", "UTF8", "--no-locale", "--auth=trust"]
        command += ["--set=timezone=UTC", "--set=log_timezone=UTC"]
        done = subprocess.run(  # noqa: S603
            command,
            cwd=fresh,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            **_as(account),
        )
        if done.returncode != 0:
            shutil.rmtree(fresh, ignore_errors=True)
            raise StoreUnavailable(f"PostgreSQL could not be set up: {_last_error(done.stderr)}")
        fresh.rename(self.data)

    def _check_data(self, account: pwd.struct_passwd | None) -> None:
        owner = self.data.stat().st_uid
        if account is None and owner != os.geteuid():
            raise StoreUnavailable(
                f"{self.data} belongs to another user (uid {owner}):"
                " work as that user or set PUNTO_HOME"
            )
        if account is not None and owner != account.pw_uid:
            for path in (self.data, *self.data.rglob("*")):
                os.lchown(path, account.pw_uid, account.pw_gid)
        made_by = (self.data / "PG_VERSION").read_text(errors="replace").strip()
        if made_by != str(MAJOR_VERSION):
            raise StoreUnavailable(
                f"{self.data} was made by PostgreSQL {made_by}, and this is {MAJOR_VERSION}:"
                " dump and restore it, or set PUNTO_HOME"
            )

    def _launch(self, binaries: Path, account: pwd.struct_passwd | None) -> psutil.Process | None:
        """Start the server in a session of its own, where Ctrl-C in our terminal misses it."""
        self._disown_reused_pid()
        server = [str(binaries / "postgres"), "-D", _directory_as_seen_by(account, self.data)]
        for name, value in OPTIONS.items():
            server += ["-c", f"{name}={value}"]
        # The shell leaves at once, so that the server is the child of no process of ours.
        with self.log.open("ab") as log:
            shell = subprocess.run(  # noqa: S603
                ["/bin/sh", "-c", '"$@" </dev/null >&2 & echo $!', "sh", *server],
                cwd=self.data,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                check=True,
                text=True,
                start_new_session=True,
                **_as(account),
            )
        try:
            return psutil.Process(int(shell.stdout))
        except psutil.NoSuchProcess:
            return None

    def _give_up_unless_leftovers(self, log_offset: int, began: float) -> None:
        with self.log.open(encoding="utf-8", errors="replace") as log:
            log.seek(log_offset)
            said = log.read()
        waited_seconds = time.monotonic() - began
        if waited_seconds > LEFTOVERS_SECONDS_MAX or not any(text in said for text in LEFTOVERS):
            raise StoreUnavailable(f"PostgreSQL did not start: {_last_error(said)} ({self.log})")
        if waited_seconds > LEFTOVERS_SECONDS_PATIENT:
            self._end_leftovers()

    def _disown_reused_pid(self) -> None:
        """Blank the id of a dead server in its lock files, for it may be somebody else's by now.

        PostgreSQL would take that process for itself and refuse to start. The rest of the files
        stays: by it, a server finds the memory that backends of the dead one may still use."""
        for name in ("postmaster.pid", f"{SOCKET_NAME}.lock"):
            path = self.data / name
            try:
                first, *rest = path.read_text().splitlines()
                if not self._is_our_server(int(first)):
                    path.write_text("\n".join([str(PID_OF_NOBODY), *rest, ""]))
            except (FileNotFoundError, ValueError):
                continue  # None there, or a half-written one, of which PostgreSQL says so itself.

    def _is_our_server(self, pid: int) -> bool:
        try:
            return self._works_here(psutil.Process(pid))
        except psutil.AccessDenied:
            # It calls itself postgres and does not show where it works.
            return True
        except psutil.NoSuchProcess:
            return False

    def _works_here(self, process: psutil.Process) -> bool:
        if process.status() == psutil.STATUS_ZOMBIE or process.name() != "postgres":
            return False
        try:
            return Path(process.cwd()).samefile(self.data)
        except FileNotFoundError:
            return False

    def _end_leftovers(self) -> None:
        """End the backends of a killed server, which may go on with a long query for minutes."""
        for process in psutil.process_iter():
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if self._works_here(process):
                    process.send_signal(signal.SIGQUIT)

    def _is_listening(self) -> bool:
        # The kernel refuses a connection to the socket of a dead process, whoever has its id now.
        with socket.socket(socket.AF_UNIX) as client:
            try:
                client.connect(str(self.socket_directory / SOCKET_NAME))
            except (ConnectionRefusedError, FileNotFoundError):
                return False
        return True

    def _is_ready(self) -> bool:
        # Not by logging in: each attempt that comes too early is an error in the server's log.
        try:
            return self._is_listening() and self._read_pid_file()[1] == "ready"
        except (FileNotFoundError, ValueError, IndexError):
            return False

    def _read_pid_file(self) -> tuple[int, str]:
        lines = (self.data / "postmaster.pid").read_text().splitlines()
        return int(lines[0]), lines[7].strip() if len(lines) > 7 else ""


def _socket_directory(data: Path) -> Path:
    """Where a client finds the socket: the data directory, or a short link to it."""
    if len(os.fsencode(data / SOCKET_NAME)) <= SOCKET_PATH_BYTES_MAX:
        return data
    # Not the configured directory for temporary files, which may be long itself.
    links = Path(f"/tmp/puntobanco-{os.geteuid()}")  # noqa: S108
    links.mkdir(mode=0o700, exist_ok=True)
    found = links.lstat()
    if links.is_symlink() or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        # Anybody may put things there, and the ledger must not be read through a stranger's link.
        raise StoreUnavailable(f"{links} is not ours alone: remove it or set a shorter PUNTO_HOME")
    link = links / hashlib.sha256(os.fsencode(data)).hexdigest()[:16]
    if not link.is_symlink():
        # Another process may make the same link at the same moment.
        try:
            link.symlink_to(data)
        except FileExistsError:
            assert link.is_symlink(), link
    return link


def _directory_as_seen_by(account: pwd.struct_passwd | None, directory: Path) -> str:
    return str(directory) if account is None else "/proc/self/cwd"


def _as(account: pwd.struct_passwd | None) -> dict[str, Any]:
    """How a child is started: as the account, and without the settings of some other server."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
    if account is None:
        return {"env": environment}
    # The directory is entered before the rights are given up.
    return {
        "env": environment,
        "user": account.pw_uid,
        "group": account.pw_gid,
        "extra_groups": [],
    }


def _is_alive(process: psutil.Process | None) -> bool:
    try:
        return process is not None and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _last_error(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    telling = [line for line in lines if "FATAL:" in line or "PANIC:" in line or "error:" in line]
    return (telling or lines or ["it said nothing"])[-1]
