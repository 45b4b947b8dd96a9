"""Opening the database: as which role we work, what is refused, and that no password is shown."""

import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import psycopg
import pytest
from eventsourcing.persistence import InfrastructureFactory

from infrastructure.settings import Settings
from infrastructure.store.connection import Database, mask, open_database, upgrade_database
from infrastructure.store.embedded import EmbeddedServer
from infrastructure.store.errors import (
    HistoryUnprotected,
    SchemaOutdated,
    SchemaUnknown,
    SetupNotAllowed,
    StoreError,
    StoreUnavailable,
)
from infrastructure.store.factory import LedgerDatastore
from infrastructure.store.schema import MIGRATIONS, SCHEMA_VERSION


def settings(url: str) -> Settings:
    return Settings.model_validate({"database_url": url})


def who(database: Database) -> object:
    with database.connect() as connection:
        return connection.execute("SELECT session_user, current_user").fetchone()


@pytest.fixture
def fresh_url(server: EmbeddedServer, make_database: Callable[..., str]) -> str:
    """A database without a ledger, as superuser."""
    return server.url(database=make_database())


def test_the_embedded_database_is_set_up_and_worked_in_as_the_ledger_role(
    initialised_home: Path,
) -> None:
    with open_database(Settings.model_validate({"home": initialised_home})) as database:
        assert who(database) == ("puntobanco_ledger", "puntobanco_ledger")
        assert (database.role, database.can_write) == ("ledger", True)
        database.check_writable()
    assert not (initialised_home / "postgres/postmaster.pid").exists()


def test_a_fresh_database_is_set_up_by_a_superuser_who_then_works_as_the_ledger_role(
    fresh_url: str,
) -> None:
    with open_database(settings(fresh_url)) as database:
        assert database.url == fresh_url
        assert who(database) == ("postgres", "puntobanco_ledger")
        assert (database.role, database.can_write) == ("ledger", True)
        database.check_writable()


def test_the_search_path_holds_the_ledger_and_its_read_models(fresh_url: str) -> None:
    with open_database(settings(fresh_url)) as database, database.connect() as connection:
        row = connection.execute("SHOW search_path").fetchone()
        assert row == ('"$user", public, ledger, projection',)
        assert connection.execute("SELECT count(*) FROM events").fetchone() == (0,)


def test_nothing_is_set_up_unless_asked(fresh_url: str) -> None:
    with pytest.raises(SetupNotAllowed, match="`punto db upgrade` makes it"):
        open_database(settings(fresh_url), setup=False)


def test_upgrading_sets_a_fresh_database_up(fresh_url: str) -> None:
    assert upgrade_database(settings(fresh_url)) == list(MIGRATIONS)
    assert upgrade_database(settings(fresh_url)) == []
    with open_database(settings(fresh_url), setup=False) as database:
        database.check_writable()


def test_a_plain_role_may_not_set_up(
    server: EmbeddedServer, make_database: Callable[..., str], make_role: Callable[..., str]
) -> None:
    url = server.url(user=make_role(), database=make_database())
    with pytest.raises(SetupNotAllowed):
        open_database(settings(url))


def test_a_plain_role_may_not_read_a_ledger(
    server: EmbeddedServer, database_name: str, make_role: Callable[..., str]
) -> None:
    role = make_role()
    with pytest.raises(StoreError, match=f"The role {role} may not read.*puntobanco_reader"):
        open_database(settings(server.url(user=role, database=database_name)))


def test_a_member_of_the_ledger_role_works_as_it_with_its_own_options(
    server: EmbeddedServer, database_name: str, make_role: Callable[..., str]
) -> None:
    role = make_role("IN ROLE puntobanco_ledger")
    url = server.url(user=role, database=database_name) + "&options=-c%20work_mem%3D7MB"
    with open_database(settings(url)) as database:
        assert who(database) == (role, "puntobanco_ledger")
        assert database.can_write
        with database.connect() as connection:
            assert connection.execute("SHOW work_mem").fetchone() == ("7MB",)
            assert connection.execute("SHOW application_name").fetchone() == ("punto",)


def test_a_reader_works_as_itself_and_cannot_write(
    server: EmbeddedServer, database_name: str, make_role: Callable[..., str]
) -> None:
    role = make_role("IN ROLE puntobanco_reader")
    with open_database(settings(server.url(user=role, database=database_name))) as database:
        assert who(database) == (role, role)
        assert (database.role, database.can_write) == ("reader", False)
        with pytest.raises(StoreError, match="may only be read"):
            database.check_writable()


def test_a_session_that_only_reads_cannot_write_nor_set_up(
    superuser_url: str, fresh_url: str
) -> None:
    # As on a standby.
    read_only = "&options=-c%20default_transaction_read_only%3Don"
    with open_database(settings(superuser_url + read_only)) as database:
        assert not database.can_write
    with pytest.raises(SetupNotAllowed, match="read-only"):
        open_database(settings(fresh_url + read_only))


def test_an_unprotected_history_is_not_written_to(database: Database, superuser_url: str) -> None:
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        connection.execute("ALTER TABLE ledger.stored_events DISABLE TRIGGER ALL")
    with pytest.raises(HistoryUnprotected, match=r"refuse_update of .* is disabled"):
        database.check_writable()


def test_an_older_schema_is_not_upgraded_in_passing(
    superuser_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("infrastructure.store.connection.SCHEMA_VERSION", SCHEMA_VERSION + 1)
    with pytest.raises(SchemaOutdated, match="run `punto db upgrade`"):
        open_database(settings(superuser_url))


def test_a_newer_schema_is_refused(superuser_url: str) -> None:
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        connection.execute("INSERT INTO ledger.schema_version VALUES (%s)", [SCHEMA_VERSION + 1])
    with pytest.raises(SchemaUnknown):
        open_database(settings(superuser_url))


@pytest.fixture
def user_with_password(server: EmbeddedServer, make_role: Callable[..., str]) -> Iterator[str]:
    """A role that the server asks for its password, `right`."""
    role = make_role("PASSWORD 'right' IN ROLE puntobanco_ledger")
    access = server.home / "postgres/pg_hba.conf"
    before = access.read_text()
    access.write_text(f"local all {role} scram-sha-256\n{before}")
    reload_configuration(server)
    yield role
    access.write_text(before)
    reload_configuration(server)


def reload_configuration(server: EmbeddedServer) -> None:
    """Returns when new connections are let in by what the files say now."""

    def loaded_at() -> datetime:
        with psycopg.connect(server.url()) as connection:
            (at,) = connection.execute("SELECT pg_conf_load_time()").fetchone()
            return at

    with psycopg.connect(server.url(), autocommit=True) as connection:
        before = loaded_at()
        connection.execute("SELECT pg_reload_conf()")
    while loaded_at() == before:
        time.sleep(0.01)


def test_a_wrong_password_is_not_shown(
    server: EmbeddedServer, database_name: str, user_with_password: str
) -> None:
    url = server.url(user=f"{user_with_password}:wr0ng", database=database_name)
    with pytest.raises(StoreUnavailable, match="password authentication failed") as failed:
        open_database(settings(url))
    assert "wr0ng" not in str(failed.value)
    assert "\n" not in str(failed.value)


def test_a_right_password_is_let_in_and_not_shown(
    server: EmbeddedServer, database_name: str, user_with_password: str
) -> None:
    url = server.url(user=f"{user_with_password}:right", database=database_name)
    with open_database(settings(url)) as database:
        assert ":***@" in database.masked_url
        assert "right" not in f"{database!r} {database.masked_url}"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("postgresql://u:s3cret@127.0.0.1:1/x", "Connection refused"),
        ("postgresql://u:s3cret@127.0.0.1:1,127.0.0.1:2/x", "Connection refused"),
        ("host=127.0.0.1 port=1 password=s3cret", "Connection refused"),
        ("postgresql://u:s3cret@localhost/x?sslmode=sometimes", "sslmode"),
        ("postgresql://u:s3cret@localhost:port/x", "port"),
        ("mysql://u:s3cret@localhost/x", "is not a database URL"),
        ("s3cret", "is not a database URL"),
        ("postgresql://u:s3cret@localhost/x?colour=red", "is not a database URL"),
    ],
)
def test_an_address_that_leads_nowhere_is_one_line_without_the_password(
    url: str, reason: str
) -> None:
    with pytest.raises(StoreUnavailable, match=reason) as failed:
        open_database(settings(url))
    assert "\n" not in str(failed.value)
    assert "s3cret" not in str(failed.value)


def test_a_database_that_is_not_there_is_named(server: EmbeddedServer) -> None:
    with pytest.raises(StoreUnavailable, match='database "nowhere" does not exist'):
        open_database(settings(server.url(database="nowhere")))


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("postgresql://u:p@h/d", "postgresql://u:***@h/d"),
        ("postgres://u:p@ss:w/rd@h:5432/d", "postgres://u:***@h:5432/d"),
        ("postgresql://u@h/d?password=p&sslmode=require", None),
        ("postgresql://u@h/d?sslmode=require&sslpassword=p", None),
        ("postgresql://h/d", "postgresql://h/d"),
        ("postgresql://h:5432/d", "postgresql://h:5432/d"),
        ("host=h user=u password='p q' dbname=d", "user=u password=*** dbname=d host=h"),
        ("host=h password = p", "password=*** host=h"),
        ("just a p", "(not a database URL)"),
    ],
)
def test_passwords_are_masked_wherever_they_stand(url: str, masked: str | None) -> None:
    expected = masked or url.replace("password=p", "password=***")
    assert mask(url) == expected


def test_the_datastore_connects_by_the_whole_string(database: Database) -> None:
    with LedgerDatastore(database.conninfo) as datastore, datastore.get_connection() as connection:
        row = connection.execute("""
            SELECT current_user AS role,
                current_setting('application_name') AS application,
                current_setting('idle_in_transaction_session_timeout') AS idle
        """).fetchone()
        assert row == {"role": "puntobanco_ledger", "application": "punto", "idle": "30s"}
        assert connection.autocommit
        assert (datastore.schema, datastore.originator_id_type) == ("ledger", "text")


@pytest.mark.parametrize(
    "topic", ["infrastructure.store.factory", "infrastructure.store.factory:Factory"]
)
def test_the_library_finds_our_factory(database: Database, topic: str) -> None:
    environment = {
        "PERSISTENCE_MODULE": topic,
        "PUNTO_CONNINFO": database.conninfo,
        "CREATE_TABLE": "yes",
    }
    factory: InfrastructureFactory = InfrastructureFactory.construct(environment)
    assert not factory.env_create_table()  # type: ignore[attr-defined]
    with factory.datastore.get_connection() as connection:  # type: ignore[attr-defined]
        assert connection.execute("SELECT 1 AS one").fetchone() == {"one": 1}
    factory.close()


def test_a_factory_without_an_address_says_what_it_lacks() -> None:
    with pytest.raises(OSError, match="PUNTO_CONNINFO"):
        InfrastructureFactory.construct({"PERSISTENCE_MODULE": "infrastructure.store.factory"})
