"""A real PostgreSQL for the tests: one server for all workers, a fresh ledger for each test."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from infrastructure.settings import Settings
from infrastructure.store.connection import Database, open_database
from infrastructure.store.embedded import EmbeddedServer
from infrastructure.store.schema import LEDGER_ROLE, upgrade

TEMPLATE = "template_ledger"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begins with the longest test, so that no worker is left alone with it at the end."""
    items.sort(key=lambda item: item.path.name != "test_readme.py")


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests do not depend on, and never touch, the database of whoever runs them."""
    for name in list(os.environ):
        if name.startswith(("PUNTO_", "PG")) or name.endswith("POSTGRES_ENABLE_DB_FUNCTIONS"):
            monkeypatch.delenv(name)


@pytest.fixture
def unmeasured() -> Iterator[None]:
    """Runs a test without measuring its coverage, which takes three times as long.

    The `no_cover` of pytest-cov has no effect in the workers of pytest-xdist, where a
    second measurement goes on.
    """
    tracer = sys.gettrace()
    sys.settrace(None)
    yield
    sys.settrace(tracer)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """The embedded server of the test run, with a migrated database to copy."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        # Each worker has its directory inside that of the run.
        shared = shared.parent
    with EmbeddedServer(shared / "embedded") as server:
        _ensure_template(server)
        yield server


def _ensure_template(server: EmbeddedServer) -> None:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        # Another worker may be at it; the lock ends with the connection.
        connection.execute("SELECT pg_advisory_lock(1)")
        found = connection.execute("SELECT FROM pg_database WHERE datname = %s", [TEMPLATE])
        if found.fetchone() is None:
            # Every test has a database of its own, and none outlives the machine. A server
            # that is killed loses nothing by this; those of the chaos tests sync all the same.
            connection.execute("ALTER SYSTEM SET fsync TO off")
            connection.execute("SELECT pg_reload_conf()")
            connection.execute(f"CREATE DATABASE {TEMPLATE}")
            url = server.url(database=TEMPLATE)
            with psycopg.connect(url, autocommit=True) as template:
                upgrade(template)


@pytest.fixture
def make_database(server: EmbeddedServer) -> Iterator[Callable[..., str]]:
    """Makes empty databases (or copies of a template), gives their names, drops them at the end."""
    made: list[str] = []
    with psycopg.connect(server.url(), autocommit=True) as connection:

        def make(*, template: str = "template1") -> str:
            name = f"test_{uuid4().hex}"
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
            made.append(name)
            return name

        yield make
        for name in made:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@pytest.fixture
def database_name(make_database: Callable[..., str]) -> str:
    """The name of a fresh database with an empty ledger."""
    return make_database(template=TEMPLATE)


@pytest.fixture
def database(
    server: EmbeddedServer, database_name: str, request: pytest.FixtureRequest
) -> Iterator[Database]:
    """A fresh database with an empty ledger, as the application works in it.

    After the test, money in equals money out, unless the test is marked
    `tampers` for writing behind the ledger's back.
    """
    url = server.url(user=LEDGER_ROLE, database=database_name)
    with open_database(Settings.model_validate({"database_url": url})) as database:
        yield database
        if "tampers" not in request.keywords:
            with database.connect() as connection:
                assert_money_in_equals_money_out(connection)


_HOUSE = """
WITH event AS (
    SELECT originator_id AS stream, originator_version AS version, topic,
           convert_from(state, 'UTF8')::jsonb AS state
      FROM ledger.stored_events
), currency AS (
    SELECT stream, state ->> 'currency' AS currency
      FROM event
     WHERE topic IN ('account.opened', 'round.opened')
), account AS (
    SELECT currency,
           sum(CASE topic WHEN 'account.funds_deposited' THEN amount
                          WHEN 'account.funds_withdrawn' THEN -amount ELSE 0 END) AS from_outside,
           sum(CASE topic WHEN 'account.funds_deposited' THEN amount
                          WHEN 'account.funds_withdrawn' THEN -amount
                          WHEN 'account.stake_placed' THEN owed - stake
                          WHEN 'account.stake_returned' THEN stake
                          WHEN 'account.win_paid' THEN stake + win
                          WHEN 'account.commission_charged' THEN -commission
                          WHEN 'account.due_collected' THEN -commission - owed
                          WHEN 'account.settlement_reversed' THEN refunded + owed - win
                              - CASE result WHEN 'lost' THEN 0 ELSE stake END
                          ELSE 0 END) AS available,
           sum(CASE topic WHEN 'account.stake_placed' THEN stake
                          WHEN 'account.settlement_reversed' THEN stake
                          WHEN 'account.stake_lost' THEN -stake
                          WHEN 'account.stake_returned' THEN -stake
                          WHEN 'account.win_paid' THEN -stake
                          ELSE 0 END) AS in_play,
           sum(CASE topic WHEN 'account.commission_marked' THEN commission
                          WHEN 'account.due_collected' THEN -commission
                          WHEN 'account.settlement_reversed' THEN -unmarked
                          ELSE 0 END) AS due,
           sum(CASE topic WHEN 'account.due_collected' THEN -owed ELSE owed END) AS owed
      FROM (
        SELECT stream, topic,
               coalesce((state ->> 'amount_minor')::numeric, 0) AS amount,
               coalesce((state ->> 'stake_minor')::numeric, 0) AS stake,
               coalesce((state ->> 'win_minor')::numeric, 0) AS win,
               coalesce((state ->> 'commission_minor')::numeric, 0) AS commission,
               coalesce((state ->> 'owed_minor')::numeric, 0) AS owed,
               coalesce((state ->> 'refunded_minor')::numeric, 0) AS refunded,
               coalesce((state ->> 'unmarked_minor')::numeric, 0) AS unmarked,
               state ->> 'result' AS result
          FROM event
         WHERE stream LIKE 'account:%'
      ) AS movement
      JOIN currency USING (stream)
     GROUP BY currency
), settled AS (
    -- What a bet came to last: a correction settles it anew.
    SELECT DISTINCT ON (stream, state ->> 'bet_id') stream, state
      FROM event
     WHERE topic = 'round.bet_settled'
     ORDER BY stream, state ->> 'bet_id', version DESC
), house AS (
    SELECT currency,
           sum(CASE state ->> 'result' WHEN 'lost' THEN (state ->> 'stake_minor')::numeric
                                       ELSE 0 END)
           - sum((state ->> 'win_minor')::numeric)
           + sum((state ->> 'commission_minor')::numeric) AS won
      FROM settled
      JOIN currency USING (stream)
     GROUP BY currency
)
SELECT currency, from_outside, available + in_play + coalesce(won, 0) - due - owed AS held
  FROM account
  LEFT JOIN house USING (currency)
"""


def assert_money_in_equals_money_out(connection: psycopg.Connection) -> None:
    """Deposits less withdrawals are what accounts hold and have in play and the house has won.

    What the accounts hold comes from their events, what the house has won,
    commission included, from those of the rounds.
    """
    for currency, from_outside, held in connection.execute(_HOUSE):
        assert from_outside == held, f"money in is not money out in {currency}"


@pytest.fixture
def superuser_url(server: EmbeddedServer, database_name: str) -> str:
    """The same database as its superuser, for tests that tamper with it."""
    return server.url(database=database_name)


@pytest.fixture
def make_role(server: EmbeddedServer) -> Iterator[Callable[..., str]]:
    """Makes login roles with the given options, gives their names, drops them at the end."""
    made: list[str] = []
    with psycopg.connect(server.url(), autocommit=True) as connection:

        def make(options: str = "") -> str:
            name = f"role_{uuid4().hex}"
            connection.execute(f"CREATE ROLE {name} LOGIN {options}".encode())
            made.append(name)
            return name

        yield make
        for name in made:
            connection.execute(f"DROP ROLE {name}".encode())


@pytest.fixture(scope="session")
def resting_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose server is stopped; a test may start it, and leaves it stopped again."""
    home = tmp_path_factory.mktemp("resting") / "home"
    with EmbeddedServer(home):
        pass
    return home


@pytest.fixture
def initialised_home(resting_home: Path, tmp_path: Path) -> Iterator[Path]:
    """A home of its own for a test that would spoil it for others."""
    home = tmp_path / "home"
    # Setting one up takes much longer; unlike shutil, this keeps the owner.
    subprocess.run(["cp", "-Rp", str(resting_home), str(home)], check=True)
    yield home
    # pytest keeps its directories for days, and a server's data is large.
    shutil.rmtree(home, ignore_errors=True)
