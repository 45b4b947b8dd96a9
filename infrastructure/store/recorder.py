"""The event table of the ledger: one writer at a time, rows sent as columns.

The library's recorder locks the whole table, which ANALYZE and VACUUM then wait
for, and sends composite arrays as escaped text in pipeline mode, which hangs on
large saves. This one locks the one row of `ledger.head`, which only the role
that writes may do, and sends binary arrays.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import orjson
from eventsourcing.persistence import IntegrityError, InterfaceError, OperationalError, StoredEvent
from eventsourcing.postgres import PostgresApplicationRecorder
from psycopg import Connection
from psycopg.rows import DictRow, tuple_row

from infrastructure.store.session import REFUSALS_ARE_KEPT, Beside, ClientKey, Remembered, Session

CHANGES_WORTH_NAMING = 10_000

_LOCK_HEAD = "SELECT FROM ledger.head FOR UPDATE"
_HEAD = "SELECT coalesce(max(notification_id), 0) FROM ledger.stored_events"
_RECALL = f"""
  WITH wanted AS MATERIALIZED (
    SELECT * FROM unnest(%(clients)b::text[], %(keys)b::text[]) AS w (client, key)
  )
SELECT client, key, fields, answer, NULL::bigint AS position
  FROM ledger.refusals
  JOIN wanted USING (client, key)
 WHERE recorded_at > now() - INTERVAL '{REFUSALS_ARE_KEPT}'
UNION ALL
SELECT client, key, fields, answer, position
  FROM ledger.answers
  JOIN wanted USING (client, key)
 ORDER BY position NULLS FIRST
"""  # noqa: S608 - the interval is a constant
_LOAD = """
SELECT originator_id, originator_version, topic, state
  FROM ledger.stored_events
 WHERE originator_id = ANY(%s)
 ORDER BY originator_id, originator_version
"""
_CHANGED = """
SELECT originator_id
  FROM ledger.stored_events
 WHERE notification_id > %s
 LIMIT %s
"""
_SEED = "SELECT seed FROM ledger.seeds WHERE shoe_id = %s"
_APPEND = """
  WITH event AS (
    INSERT INTO ledger.stored_events
           (originator_id, originator_version, topic, state, notification_id)
    SELECT e.originator_id, e.originator_version, e.topic, e.state, %b::bigint + e.place
      FROM unnest(%b::text[], %b::bigint[], %b::text[], %b::bytea[])
           WITH ORDINALITY AS e (originator_id, originator_version, topic, state, place)
    RETURNING notification_id
  ), answer AS (
    INSERT INTO ledger.answers (client, key, fields, answer, position)
    SELECT client, key, fields::jsonb, answer::json, position
      FROM unnest(%b::text[], %b::text[], %b::text[], %b::text[], %b::bigint[])
           AS a (client, key, fields, answer, position)
  )
SELECT count(*), pg_notify('stored_events', '')
  FROM event
"""
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
        session: Session | None = None,
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
        session.append(stored_events, beside or Beside())
        return list(range(first, first + len(stored_events)))

    @contextmanager
    def writing(self) -> Iterator["PostgresSession"]:
        try:
            with self.datastore.get_connection() as connection, connection.transaction():
                connection.execute(_LOCK_HEAD, prepare=True)
                yield PostgresSession(connection)
        except (InterfaceError, OperationalError):
            # What ended this connection has ended those that were idle too, and
            # the next try is to meet none of them.
            self.datastore.pool.check()
            raise


class PostgresSession:
    """A turn at the head on PostgreSQL: a transaction that holds the lock of `ledger.head`."""

    def __init__(self, connection: Connection[DictRow]) -> None:
        self._cursor = connection.cursor(row_factory=tuple_row)
        row = self._cursor.execute(_HEAD, prepare=True).fetchone()
        assert row is not None
        self._head: int = row[0]

    @property
    def head(self) -> int:
        return self._head

    def recall(self, keys: Sequence[ClientKey]) -> dict[ClientKey, Remembered]:
        parameters = {
            "clients": [client for client, _ in keys],
            "keys": [key for _, key in keys],
        }
        # An answer comes after an old refusal of the same key, and holds.
        rows = self._cursor.execute(_RECALL, parameters, prepare=True)
        return {
            (client, key): Remembered(client, key, fields, answer, position)
            for client, key, fields, answer, position in rows
        }

    def load(self, stream_ids: Collection[str]) -> Sequence[StoredEvent]:
        rows = self._cursor.execute(_LOAD, (list(stream_ids),), prepare=True, binary=True)
        return [StoredEvent(*row) for row in rows]

    def changed_since(self, position: int) -> set[str] | None:
        rows = self._cursor.execute(_CHANGED, (position, CHANGES_WORTH_NAMING)).fetchall()
        return None if len(rows) == CHANGES_WORTH_NAMING else {row[0] for row in rows}

    def seed(self, shoe_id: str) -> bytes:
        row = self._cursor.execute(_SEED, (shoe_id,), prepare=True, binary=True).fetchone()
        assert row is not None, f"the seed of open shoe {shoe_id} is not there"
        return bytes(row[0])

    def append(self, stored_events: Sequence[StoredEvent], beside: Beside) -> None:
        accepted = [each for each in beside.remembered if each.position is not None]
        if stored_events or accepted:
            self._append(stored_events, accepted)
        refused = [each for each in beside.remembered if each.position is None]
        if refused:
            self._cursor.execute(_REMEMBER_REFUSALS, _columns(refused), prepare=True)
        kept = {shoe_id: seed for shoe_id, seed in beside.seeds.items() if seed is not None}
        if kept:
            self._cursor.execute(_KEEP_SEEDS, (list(kept), list(kept.values())))
        forgotten = [shoe_id for shoe_id, seed in beside.seeds.items() if seed is None]
        if forgotten:
            self._cursor.execute(_FORGET_SEEDS, (forgotten,))

    def _append(self, stored_events: Sequence[StoredEvent], accepted: Sequence[Remembered]) -> None:
        """Stores events and answers, and tells those who listen, in one statement."""
        columns = (
            [event.originator_id for event in stored_events],
            [event.originator_version for event in stored_events],
            [event.topic for event in stored_events],
            [event.state for event in stored_events],
            *_columns(accepted),
            [each.position for each in accepted],
        )
        row = self._cursor.execute(_APPEND, (self._head, *columns), prepare=True).fetchone()
        assert row is not None
        if row[0] != len(stored_events):
            raise IntegrityError("the database did not store every event")
        self._head += len(stored_events)


def _columns(remembered: Sequence[Remembered]) -> tuple[list[str], list[str], list[str], list[str]]:
    return (
        [each.client for each in remembered],
        [each.key for each in remembered],
        [orjson.dumps(each.fields).decode() for each in remembered],
        [orjson.dumps(each.answer).decode() for each in remembered],
    )
