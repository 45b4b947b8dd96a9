"""A wire to the database that can be cut, as networks are."""

import contextlib
import socket
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from psycopg.conninfo import conninfo_to_dict, make_conninfo

SOCKET = ".s.PGSQL.5432"


class Proxy:
    """Forwards connections to PostgreSQL's socket.

    `cut_at_next_commit` forwards what commits next, a COMMIT or events outside
    of a transaction block, waits until the server has answered it, and cuts the
    wire before the answer is through.
    """

    def __init__(self, folder: Path, conninfo: str) -> None:
        parts = conninfo_to_dict(conninfo)
        self._server = str(Path(str(parts["host"])) / SOCKET)
        self.conninfo = make_conninfo(conninfo, host=str(folder))
        self.cut_at_next_commit = False
        self._path = folder / SOCKET
        self._open: set[socket.socket] = set()
        self._unanswered: set[socket.socket] = set()
        self._listener: socket.socket | None = None

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.down()

    def up(self) -> None:
        """Takes connections."""
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self._path))
        self._listener.listen()
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def down(self) -> None:
        """Cuts all connections and takes none."""
        if self._listener is not None:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
            self._path.unlink()
        for each in list(self._open):
            self._cut(each)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._server)
            self._open |= {client, server}
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=self._pump, args=(source, target), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        is_in_block = False
        try:
            while data := source.recv(1 << 16):
                commits = b"COMMIT" in data or (not is_in_block and b'"at":' in data)
                is_in_block = (is_in_block or b"BEGIN" in data) and not commits
                if target in self._unanswered:
                    return
                if self.cut_at_next_commit and commits:
                    self.cut_at_next_commit = False
                    self._unanswered.add(source)
                target.sendall(data)
        except OSError:
            return
        finally:
            self._cut(source)
            self._cut(target)

    def _cut(self, end: socket.socket) -> None:
        self._open.discard(end)
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
