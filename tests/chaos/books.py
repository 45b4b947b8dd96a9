"""Whether a ledger is whole, while it is written to and when all is done."""

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.rows import dict_row

from infrastructure.store.reader import LogReader
from projections import runner
from tests.chaos.load import Undisturbed, same
from tests.chaos.writers import Writer, punto
from tests.conftest import assert_money_in_equals_money_out

_KEYS = """
SELECT convert_from(state, 'UTF8')::jsonb ->> 'key', count(*)
  FROM ledger.stored_events
 GROUP BY 1
"""
_STORED = """
SELECT originator_id, originator_version, topic, state
  FROM ledger.stored_events
"""
_POSITIONS = """
SELECT count(*), coalesce(min(notification_id), 1), coalesce(max(notification_id), 0)
  FROM ledger.stored_events
"""
_READ_MODELS = """
SELECT tablename
  FROM pg_tables
 WHERE schemaname = 'projection' AND tablename <> 'tracking'
"""


def check_whole(url: str, undisturbed: Undisturbed) -> None:
    """Every command is stored with all its events and its answer, or not at all."""
    with psycopg.connect(url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        events_of = dict(connection.execute(_KEYS).fetchall())
        answered = connection.execute("SELECT key FROM ledger.answers").fetchall()
        count, first, last = connection.execute(_POSITIONS).fetchone() or ()
    assert (first, last) == (1, count)
    assert sorted(key for (key,) in answered) == sorted(events_of)
    assert events_of == {key: undisturbed.events_of[key] for key in events_of}


def check_finished(
    url: str, undisturbed: Undisturbed, writers: Sequence[Writer] = (), **environment: str
) -> None:
    """All is stored as if nothing had happened, and everything that is said of it agrees."""
    check_whole(url, undisturbed)
    for writer in writers:
        for answer in writer.acknowledged():
            # Where in the log it stands is for the writers to race for.
            expected = undisturbed.answers[answer["key"]]
            assert same(answer, expected, but=("replayed", "position"))
    with psycopg.connect(url) as connection:
        rows = connection.execute(_STORED, binary=True).fetchall()
        assert sorted((row[0], row[1], row[2], bytes(row[3])) for row in rows) == undisturbed.stored
        assert_money_in_equals_money_out(connection)
        positions = dict(connection.execute("SELECT key, position FROM ledger.answers").fetchall())
    for writer in writers:
        for answer in writer.acknowledged():
            assert answer.get("position") == positions.get(answer["key"])
    check_read_models(url)
    audited = punto("audit", **(environment or {"PUNTO_DATABASE_URL": url}))
    assert audited.returncode == 0, audited


def check_read_models(url: str) -> None:
    """The read models are what a fresh fold of the log makes of it."""
    with psycopg.connect(url, autocommit=True) as connection:
        source = LogReader(connection).page
        runner.catch_up(connection, source)
        live = _read_models(connection)
        runner.rebuild(connection, source)
        assert _read_models(connection) == live


def _read_models(connection: psycopg.Connection) -> dict[str, list[dict[str, Any]]]:
    names = [name for (name,) in connection.execute(_READ_MODELS).fetchall()]
    assert names
    with connection.cursor(row_factory=dict_row) as cursor:
        return {
            name: sorted(cursor.execute(f"SELECT * FROM projection.{name}".encode()), key=repr)
            for name in names
        }
