"""The embedded PostgreSQL: one server for a home directory, shared by every process that uses it.

Who uses it is known to the kernel: each user holds a shared lock on a file, which ends with the
process however it ends. There is no list of process ids to go stale after a `kill -9`. Whoever
leaves and can have the lock alone was the last, and stops the server.
"""

import atexit
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg
from psycopg.pq import PGconn, Ping

from infrastructure.store.errors import StoreUnavailable
from infrastructure.store.postmaster import Postmaster

DATABASE = "puntobanco"
LOGIN_ATTEMPTS = 5


class EmbeddedServer:
    """The server of a home directory, as this process uses it."""

    def __init__(self, home: Path, *, progress: Callable[[str], None] | None = None) -> None:
        self.home = home.absolute()
        self._progress = progress or (lambda _: None)
        self._postmaster: Postmaster | None = None
        self._lock_of_user: int | None = None
        self._process_id = os.getpid()

    def start(self) -> str:
        """Start the server, or join those who use it; the URL of its superuser."""
        assert self._lock_of_user is None, "started twice"
        try:
            # Directories that we make are ours alone.
            self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._one_at_a_time():
                self._lock_of_user = self._open("users")
                fcntl.flock(self._lock_of_user, fcntl.LOCK_SH)
                self._process_id = os.getpid()
                try:
                    self._postmaster = Postmaster(
                        self.home / "postgres",
                        log=self.home / "postgres.log",
                        progress=self._progress,
                    )
                    self._ensure_ready(self._postmaster)
                except BaseException:
                    self._leave()
                    raise
        except OSError as error:
            raise StoreUnavailable(
                f"{error.filename or self.home} cannot be used for the embedded PostgreSQL"
                f" ({error.strerror}): set PUNTO_HOME to a directory of your own"
            ) from None
        except psycopg.Error as error:
            reason = str(error).partition("\n")[0]
            raise StoreUnavailable(f"The embedded PostgreSQL does not work: {reason}") from None
        atexit.register(self.stop)
        return self.url()

    def stop(self) -> None:
        """Leave the server; the last one to leave stops it."""
        # A forked child shares the lock of its parent, which is the one to leave.
        if self._lock_of_user is None or self._process_id != os.getpid():
            return
        atexit.unregister(self.stop)
        try:
            with self._one_at_a_time():
                self._leave()
        except FileNotFoundError:
            self._stop_without_home()

    def url(self, *, user: str = "postgres", database: str = DATABASE) -> str:
        """The URL of a role; whoever can reach the socket is trusted to be that role."""
        assert self._postmaster is not None, "not started"
        return self._postmaster.url(database, user=user)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _ensure_ready(self, postmaster: Postmaster) -> None:
        attempts_left = LOGIN_ATTEMPTS
        was_recovering = False
        while True:
            postmaster.ensure_ready()
            try:
                self._ensure_database()
                return
            except psycopg.OperationalError:
                # One that lets nobody in yet recovers from a crash, however long that takes.
                is_recovering = PGconn.ping(self.url().encode()) == Ping.REJECT
                if is_recovering and not was_recovering:
                    self._progress("PostgreSQL is recovering from a crash")
                was_recovering = is_recovering
                # One that is being killed may still listen for a moment.
                attempts_left -= not is_recovering
                if attempts_left == 0:
                    raise
                time.sleep(0.2)

    def _ensure_database(self) -> None:
        with psycopg.connect(self.url(database="postgres"), autocommit=True) as connection:
            found = connection.execute("SELECT FROM pg_database WHERE datname = %s", [DATABASE])
            if found.fetchone() is None:
                connection.execute(f"CREATE DATABASE {DATABASE}")

    def _leave(self) -> None:
        assert self._lock_of_user is not None
        os.close(self._lock_of_user)
        self._lock_of_user = None
        alone = self._open("users")
        try:
            fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        else:
            if self._postmaster is not None:
                self._postmaster.stop()
        finally:
            os.close(alone)

    def _stop_without_home(self) -> None:
        """The home was deleted under the server, which would notice within a minute."""
        assert self._lock_of_user is not None
        os.close(self._lock_of_user)
        self._lock_of_user = None
        if self._postmaster is not None:
            self._postmaster.abandon()

    @contextmanager
    def _one_at_a_time(self) -> Iterator[None]:
        """Hold the lock under which the server is started and stopped."""
        lock = self._open("lock")
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._progress("Waiting for another process to start or stop PostgreSQL")
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _open(self, name: str) -> int:
        return os.open(self.home / name, os.O_RDWR | os.O_CREAT, 0o600)
