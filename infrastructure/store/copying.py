"""Rows on their way into the event table while the turn that they belong to goes on."""

from collections.abc import Sequence
from struct import Struct
from typing import Any

from eventsourcing.persistence import IntegrityError
from psycopg import Cursor

from infrastructure.store.session import Row

# The binary format of COPY, numbers in network order, each value after its length in bytes.
_COPY_HEADER = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
_COPY_TRAILER = b"\xff\xff"
_COLUMNS_AND_LENGTH = Struct("!hi").pack
_NUMBER_AND_LENGTH = Struct("!iqi").pack
_LENGTH = Struct("!i").pack
_NUMBER = Struct("!iq").pack

_COPY = """
COPY ledger.stored_events (originator_id, originator_version, topic, state, notification_id)
FROM STDIN WITH (FORMAT binary)
"""


class OpenCopy:
    """A binary COPY into the event table that takes rows as they come."""

    def __init__(self, cursor: Cursor[tuple[Any, ...]]) -> None:
        self._cursor = cursor
        self._rows = 0
        self._context = cursor.copy(_COPY)
        self._copy = self._context.__enter__()
        self._copy.write(_COPY_HEADER)

    def write(self, rows: Sequence[Row], *, after: int) -> None:
        # Laid out here: adapting value by value would take as long as deciding does.
        parts: list[bytes] = []
        for position, (stream_id, version, topic, state) in enumerate(rows, after + 1):
            name, label = stream_id.encode(), topic.encode()
            parts += (
                _COLUMNS_AND_LENGTH(5, len(name)),
                name,
                _NUMBER_AND_LENGTH(8, version, len(label)),
                label,
                _LENGTH(len(state)),
                state,
                _NUMBER(8, position),
            )
        self._copy.write(b"".join(parts))
        self._rows += len(rows)

    def give_up(self, error: BaseException) -> None:
        self._context.__exit__(type(error), error, error.__traceback__)

    def end(self) -> None:
        """Raises IntegrityError where the database stored other than what was written."""
        self._copy.write(_COPY_TRAILER)
        self._context.__exit__(None, None, None)
        if self._cursor.rowcount != self._rows:
            raise IntegrityError("the database did not store every event")
