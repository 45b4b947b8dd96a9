"""
A real PostgreSQL for the tests: one embedded server for all workers, a fresh ledger for each test.
"""

import os
import shutil
import subprocess
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


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests do not depend on, and never touch, the database of whoever runs them."""
    for name in list(os.environ):
        if name.startswith(("PUNTO_", "PG")) or name.endswith("POSTGRES_ENABLE_DB_FUNCTIONS"):
            monkeypatch.delenv(name)


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
def database(server: EmbeddedServer, database_name: str) -> Iterator[Database]:
    """A fresh database with an empty ledger, as the application works in it."""
    url = server.url(user=LEDGER_ROLE, database=database_name)
    with open_database(Settings.model_validate({"database_url": url})) as database:
        yield database


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
