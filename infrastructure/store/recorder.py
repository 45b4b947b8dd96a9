"""The event table of the ledger: one writer at a time, rows sent as columns.

The library's recorder locks the whole table, which ANALYZE and VACUUM then wait
for, and sends composite arrays as escaped text in pipeline mode, which hangs on
large saves. This one locks the one row of `ledger.head`, which only the role
that writes may do, and sends binary arrays.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, LiteralString

from eventsourcing.persistence import IntegrityError, InterfaceError, OperationalError, StoredEvent
from eventsourcing.postgres import PostgresApplicationRecorder
from psycopg import Cursor
from psycopg.rows import tuple_row

from infrastructure.store.appending import columns, is_appended, lay_out_append, send_append
from infrastructure.store.attempt import PostgresAttempt
from infrastructure.store.columns import Blobs, Texts
from infrastructure.store.session import (
    REFUSALS_ARE_KEPT,
    Beside,
    ClientKey,
    Columns,
    Found,
    KeptState,
    Remembered,
    TurnSession,
    columns_of,
)
from infrastructure.store.states import STATE_LOGIC

CHANGES_WORTH_NAMING = 10_000

_OF_STREAM = 3

# Three statements in one trip. Each has a snapshot of its own, so the head is
# read as it stands once the lock is held.
_BEGIN = """
BEGIN;
SELECT FROM ledger.head FOR UPDATE;
SELECT coalesce(max(notification_id), 0) FROM ledger.stored_events
"""
# A stream's events, those up to its kept state left out.
_STREAMS = """
unnest(%(streams)b::text[]) AS wanted (stream)
  LEFT JOIN ledger.states AS kept ON kept.stream = wanted.stream AND kept.logic = %(logic)b::integer
 CROSS JOIN LATERAL (
    SELECT kept.stream, kept.version, NULL::text, kept.state
     WHERE kept.stream IS NOT NULL
    UNION ALL
    SELECT originator_id, originator_version, topic, state
      FROM ledger.stored_events
     WHERE originator_id = wanted.stream AND originator_version > coalesce(kept.version, 0)
 ) AS found (name, number, label, state)
"""
# An answer comes after an old refusal of the same key, and holds.
_RECALL = f"""
  WITH wanted AS MATERIALIZED (
    SELECT * FROM unnest(%(clients)b::text[], %(keys)b::text[]) AS w (client, key)
  )
SELECT 1 AS part, client AS name, NULL::bigint AS number, key AS label, NULL::bytea AS state,
       fields, answer
  FROM ledger.refusals
  JOIN wanted USING (client, key)
 WHERE recorded_at > now() - INTERVAL '{REFUSALS_ARE_KEPT}'
UNION ALL
SELECT 2, client, position, key, NULL, fields, answer
  FROM ledger.answers
  JOIN wanted USING (client, key)
UNION ALL
SELECT 3, found.*, NULL, NULL
  FROM {_STREAMS}
 ORDER BY part, number
"""  # noqa: S608 - the interval is a constant
_LOAD = f"SELECT found.* FROM {_STREAMS} ORDER BY number"  # noqa: S608 - constant
_CHANGED = """
SELECT originator_id
  FROM ledger.stored_events
 WHERE notification_id > %s
 LIMIT %s
"""
_SEED = "SELECT seed FROM ledger.seeds WHERE shoe_id = %s"
_REMEMBER_REFUSALS = """
INSERT INTO ledger.refusals (client, key, fields, answer)
SELECT client, key, fields::jsonb, answer::json
  FROM unnest(%b::text[], %b::text[], %b::text[], %b::text[])
       AS a (client, key, fields, answer)
    ON CONFLICT (client, key) DO UPDATE
   SET fields = EXCLUDED.fields, answer = EXCLUDED.answer, recorded_at = clock_timestamp()
"""
_KEEP_SEEDS = (
    "INSERT INTO ledger.seeds (shoe_id, seed) SELECT * FROM unnest(%s::text[], %s::bytea[])"
)
_FORGET_SEEDS = "DELETE FROM ledger.seeds WHERE shoe_id = ANY(%s)"


class LedgerRecorder(PostgresApplicationRecorder):
    """Appends under the lock of the ledger's head."""

    def insert_events(
        self,
        stored_events: Sequence[StoredEvent],
        *,
        session: TurnSession | None = None,
        beside: Beside | None = None,
        **_: Any,
    ) -> Sequence[int] | None:
        """Appends events in the session that is given, or in one of their own.

        Raises the library's IntegrityError where a stream has the version already.
        """
        if session is None:
            with self.writing() as own:
                return self.insert_events(stored_events, session=own, beside=beside)
        first = session.head + 1
        session.append(columns_of(stored_events), beside or Beside())
        return list(range(first, first + len(stored_events)))

    @contextmanager
    def writing(self) -> Iterator["PostgresSession"]:
        try:
            with self.datastore.get_connection() as connection:
                try:
                    yield PostgresSession(connection.cursor(row_factory=tuple_row))
                    connection.commit()
                except BaseException:
                    # The server rolls back. Where psycopg does, it drops what is prepared.
                    connection.close()
                    raise
        except (InterfaceError, OperationalError):
            # What ended this connection has ended those that were idle too, and
            # the next try is to meet none of them.
            self.datastore.pool.check()
            raise

    def attempting(self, head: int, *, new_streams: Collection[str]) -> PostgresAttempt:
        return PostgresAttempt(self.datastore, head, new_streams)


class PostgresSession:
    """A turn at the head on PostgreSQL: a transaction that holds the lock of `ledger.head`."""

    def __init__(self, cursor: Cursor[tuple[Any, ...]]) -> None:
        self._cursor = cursor
        cursor.execute(_BEGIN)
        while cursor.nextset():
            pass
        row = cursor.fetchone()
        assert row is not None
        self._head: int = row[0]

    @property
    def head(self) -> int:
        return self._head

    def recall(
        self, keys: Sequence[ClientKey], stream_ids: Collection[str]
    ) -> tuple[dict[ClientKey, Remembered], Sequence[Found]]:
        parameters = {
            "clients": Texts([client for client, _ in keys]),
            "keys": Texts([key for _, key in keys]),
            "streams": Texts(stream_ids),
            "logic": STATE_LOGIC,
        }
        remembered: dict[ClientKey, Remembered] = {}
        found = []
        rows = self._execute(_RECALL, parameters)
        for part, name, number, label, state, fields, answer in rows:
            if part == _OF_STREAM:
                found.append(_found(name, number, label, state))
            else:
                remembered[name, label] = Remembered(name, label, fields, answer, number)
        return remembered, found

    def load(self, stream_ids: Collection[str]) -> Sequence[Found]:
        parameters = {"streams": Texts(stream_ids), "logic": STATE_LOGIC}
        return [_found(*row) for row in self._execute(_LOAD, parameters)]

    def changed_since(self, position: int) -> set[str] | None:
        rows = self._execute(_CHANGED, (position, CHANGES_WORTH_NAMING)).fetchall()
        return None if len(rows) == CHANGES_WORTH_NAMING else {row[0] for row in rows}

    def seed(self, shoe_id: str) -> bytes:
        row = self._execute(_SEED, (shoe_id,)).fetchone()
        assert row is not None, f"the seed of open shoe {shoe_id} is not there"
        return bytes(row[0])

    def append(self, events: Columns, beside: Beside) -> None:
        accepted = [each for each in beside.remembered if each.position is not None]
        if events or accepted:
            connection = self._cursor.connection
            values = lay_out_append(self._head, events, accepted, beside.states)
            send_append(connection, values)
            if not is_appended(connection):
                raise IntegrityError("the database did not store every event")
            self._head += len(events)
        refused = [each for each in beside.remembered if each.position is None]
        if refused:
            self._execute(_REMEMBER_REFUSALS, columns(refused))
        kept = {shoe_id: seed for shoe_id, seed in beside.seeds.items() if seed is not None}
        if kept:
            self._execute(_KEEP_SEEDS, (Texts(kept), Blobs(kept.values())))
        forgotten = [shoe_id for shoe_id, seed in beside.seeds.items() if seed is None]
        if forgotten:
            self._execute(_FORGET_SEEDS, (Texts(forgotten),))

    def _execute(self, query: LiteralString, parameters: Any) -> Cursor[tuple[Any, ...]]:
        return self._cursor.execute(query, parameters, prepare=True, binary=True)


def _found(stream_id: str, version: int, topic: str | None, state: bytes) -> Found:
    if topic is None:
        return KeptState(stream_id, version, state)
    return StoredEvent(stream_id, version, topic, state)
