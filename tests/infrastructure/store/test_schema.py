"""The schema: who may do what, and that the history cannot be changed unseen."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from infrastructure.store.connection import Database
from infrastructure.store.embedded import EmbeddedServer
from infrastructure.store.errors import SchemaUnknown, SetupNotAllowed
from infrastructure.store.schema import (
    GUARDED_TABLES,
    MIGRATIONS,
    SCHEMA_VERSION,
    current_version,
    guard_faults,
    upgrade,
)

EVENT = """
    INSERT INTO ledger.stored_events
        (originator_id, originator_version, topic, state, notification_id)
    VALUES ('account:1', 1, 'account.opened', %s, 1)
"""
STATE = (
    b'{"at": "2026-01-02T03:04:05.000006+00:00", "actor": "cage", "key": "k1", "currency": "USD"}'
)
ANSWER = """
    INSERT INTO ledger.answers (client, key, fields, answer, position)
    VALUES ('pit', 'k1', '{}', '{"b":1, "a":  2}', 1)
"""
CHANGES = [
    f"{operation} ledger.{table}{rest}"
    for table, column in (
        ("stored_events", "recorded_at"),
        ("answers", "recorded_at"),
        ("traces", "traceparent"),
    )
    for operation, rest in (
        ("UPDATE", f" SET {column} = DEFAULT"),
        ("DELETE FROM", ""),
        ("TRUNCATE", ""),
    )
]


@pytest.fixture
def superuser(superuser_url: str, database: Database) -> Iterator[psycopg.Connection]:
    """A superuser in a database with one event and one answer."""
    with database.connect() as connection:
        connection.execute(EVENT, [STATE])
        connection.execute(ANSWER)
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def reader(
    server: EmbeddedServer, database_name: str, make_role: Callable[..., str]
) -> Iterator[psycopg.Connection]:
    role = make_role("IN ROLE puntobanco_reader")
    url = server.url(user=role, database=database_name)
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


def test_the_ledger_role_may_not_change_the_history(database: Database) -> None:
    with database.connect() as connection:
        for change in CHANGES:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(change.encode())


@pytest.mark.parametrize(
    "who",
    ["SET ROLE puntobanco_owner", "SET ROLE postgres", "SET session_replication_role = replica"],
)
def test_the_history_is_guarded_from_its_owner_a_superuser_and_one_who_replicates(
    superuser: psycopg.Connection, who: str
) -> None:
    superuser.execute(who.encode())
    for change in CHANGES:
        with pytest.raises(psycopg.errors.RestrictViolation, match="recorded stays as it is"):
            superuser.execute(change.encode())


def test_the_ledger_role_records_and_reads_back(database: Database) -> None:
    with database.connect() as connection:
        connection.execute(EVENT, [STATE])
        connection.execute(ANSWER)
        row = connection.execute("SELECT answer::text FROM ledger.answers").fetchone()
        assert row == ('{"b":1, "a":  2}',)


def test_the_ledger_role_locks_the_head_and_cannot_lose_it(database: Database) -> None:
    with database.connect() as connection:
        rows = connection.execute("SELECT * FROM ledger.head FOR UPDATE").fetchall()
        assert rows == [(True,)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("DELETE FROM ledger.head")


def test_the_ledger_role_forgets_refusals_and_seeds(database: Database) -> None:
    with database.connect() as connection:
        connection.execute(
            "INSERT INTO ledger.refusals (client, key, fields, answer)"
            " VALUES ('pit', 'k1', '{}', '{}')"
        )
        connection.execute("UPDATE ledger.refusals SET recorded_at = now()")
        assert connection.execute("DELETE FROM ledger.refusals").rowcount == 1
        connection.execute("INSERT INTO ledger.seeds VALUES ('shoe:1', 'seed')")
        assert connection.execute("DELETE FROM ledger.seeds").rowcount == 1


def test_the_ledger_role_makes_the_read_models(database: Database) -> None:
    with database.connect() as connection:
        for schema in ("projection", "projection_rebuild"):
            connection.execute(f"CREATE TABLE {schema}.balances (account text)".encode())
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("CREATE TABLE ledger.balances (account text)")


def test_a_reader_reads_no_secrets_and_changes_nothing(reader: psycopg.Connection) -> None:
    for statement in (
        "SELECT * FROM ledger.seeds",
        "SELECT * FROM ledger.answers",
        "SELECT * FROM ledger.refusals",
        "SELECT * FROM ledger.head",
        "SELECT * FROM ledger.stored_events FOR SHARE",
        "INSERT INTO ledger.seeds VALUES ('shoe:1', 'seed')",
        "DELETE FROM ledger.stored_events",
        "CREATE TABLE projection.mine (id text)",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            reader.execute(statement.encode())


def test_a_reader_reads_events_and_read_models_also_after_a_swap(
    database: Database, reader: psycopg.Connection
) -> None:
    with database.connect() as connection:
        connection.execute(EVENT, [STATE])
        connection.execute("CREATE TABLE projection_rebuild.balances AS SELECT 'one' AS account")
        connection.execute("ALTER TABLE projection_rebuild.balances SET SCHEMA projection")
        connection.execute("CREATE TABLE projection.rounds AS SELECT 'two' AS round")
    assert reader.execute("SELECT count(*) FROM ledger.stored_events").fetchone() == (1,)
    assert reader.execute("SELECT version FROM ledger.schema_version").fetchall()
    assert reader.execute("SELECT * FROM projection.balances").fetchall() == [("one",)]
    assert reader.execute("SELECT * FROM projection.rounds").fetchall() == [("two",)]


def test_the_view_shows_what_the_state_holds(
    superuser: psycopg.Connection, reader: psycopg.Connection
) -> None:
    rows = reader.execute("""
        SELECT position, stream, version, topic, at AT TIME ZONE 'UTC', actor, key,
            state ->> 'currency', recorded_at > '2026-01-01'
        FROM ledger.events
    """).fetchall()
    (position, stream, version, topic, at, *rest) = rows[0]
    assert (position, stream, version, topic) == (1, "account:1", 1, "account.opened")
    assert at.isoformat() == "2026-01-02T03:04:05.000006"
    assert rest == ["cage", "k1", "USD", True]


def test_streams_sort_by_their_bytes(superuser: psycopg.Connection) -> None:
    row = superuser.execute("""
        SELECT collation_name FROM information_schema.columns
        WHERE table_name = 'stored_events' AND column_name = 'originator_id'
    """).fetchone()
    assert row == ("C",)


def test_everything_in_the_ledger_belongs_to_its_owner(superuser: psycopg.Connection) -> None:
    rows = superuser.execute("""
        SELECT DISTINCT pg_get_userbyid(relowner) FROM pg_class
        WHERE relnamespace = 'ledger'::regnamespace
    """).fetchall()
    assert rows == [("puntobanco_owner",)]


def test_upgrading_is_done_once(server: EmbeddedServer, make_database: Callable[..., str]) -> None:
    url = server.url(database=make_database())
    with psycopg.connect(url, autocommit=True) as connection:
        assert current_version(connection) is None
        assert upgrade(connection) == list(MIGRATIONS)
        assert current_version(connection) == SCHEMA_VERSION
        assert upgrade(connection) == []


def test_two_upgraders_at_once_apply_each_migration_once(
    server: EmbeddedServer, make_database: Callable[..., str]
) -> None:
    url = server.url(database=make_database())
    applied: list[list[int]] = []
    start = threading.Barrier(2)

    def run() -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            start.wait()
            applied.append(upgrade(connection))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(number for each in applied for number in each) == list(MIGRATIONS)


def test_a_schema_from_the_future_is_not_upgraded(superuser: psycopg.Connection) -> None:
    superuser.execute("INSERT INTO ledger.schema_version VALUES (%s)", [SCHEMA_VERSION + 1])
    with pytest.raises(SchemaUnknown, match="use a newer puntobanco"):
        upgrade(superuser)


def test_a_migration_that_fails_leaves_nothing(
    server: EmbeddedServer, make_database: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = MIGRATIONS[1] + "SELECT 1 / 0;"
    monkeypatch.setattr("infrastructure.store.schema.MIGRATIONS", {1: broken})
    with psycopg.connect(server.url(database=make_database()), autocommit=True) as connection:
        with pytest.raises(psycopg.errors.DivisionByZero):
            upgrade(connection)
        assert current_version(connection) is None


def test_a_role_without_rights_is_told_who_may_set_up(
    server: EmbeddedServer, make_database: Callable[..., str], make_role: Callable[..., str]
) -> None:
    url = server.url(user=make_role(), database=make_database())
    with (
        psycopg.connect(url, autocommit=True) as connection,
        pytest.raises(SetupNotAllowed, match="`punto db upgrade`") as refused,
    ):
        upgrade(connection)
    assert "\n" not in str(refused.value)


def test_a_role_that_makes_roles_and_schemas_sets_up_and_does_not_stay_owner(
    initialised_home: Path,
) -> None:
    with EmbeddedServer(initialised_home) as server:
        with psycopg.connect(server.url(), autocommit=True) as superuser:
            superuser.execute("CREATE ROLE deployer LOGIN CREATEROLE")
            superuser.execute("CREATE DATABASE made OWNER deployer")
        url = server.url(user="deployer", database="made")
        with psycopg.connect(url, autocommit=True) as connection:
            assert upgrade(connection) == list(MIGRATIONS)
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("SET ROLE puntobanco_owner")
            connection.execute("SET ROLE puntobanco_ledger")
            assert guard_faults(connection) == []


def test_an_untouched_guard_has_no_faults_for_anybody_who_works_here(
    database: Database, reader: psycopg.Connection
) -> None:
    with database.connect() as connection:
        assert guard_faults(connection) == []
    assert guard_faults(reader) == []


@pytest.mark.parametrize(
    ("tampering", "fault"),
    [
        (
            "DROP TRIGGER refuse_delete ON ledger.stored_events",
            "the trigger refuse_delete of ledger.stored_events is missing",
        ),
        (
            "ALTER TABLE ledger.answers DISABLE TRIGGER refuse_update",
            "the trigger refuse_update of ledger.answers is disabled",
        ),
        (
            "ALTER TABLE ledger.stored_events ENABLE TRIGGER refuse_truncate",
            "the trigger refuse_truncate of ledger.stored_events is not ENABLE ALWAYS",
        ),
        (
            "ALTER TABLE ledger.stored_events ENABLE REPLICA TRIGGER refuse_truncate",
            "the trigger refuse_truncate of ledger.stored_events is not ENABLE ALWAYS",
        ),
        (
            """
            CREATE OR REPLACE TRIGGER refuse_update BEFORE UPDATE OF topic ON ledger.stored_events
                FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_change();
            ALTER TABLE ledger.stored_events ENABLE ALWAYS TRIGGER refuse_update
            """,
            "the trigger refuse_update of ledger.stored_events has been replaced by another",
        ),
        (
            """
            CREATE OR REPLACE TRIGGER refuse_delete BEFORE DELETE ON ledger.stored_events
                FOR EACH ROW EXECUTE FUNCTION ledger.refuse_change();
            ALTER TABLE ledger.stored_events ENABLE ALWAYS TRIGGER refuse_delete
            """,
            "the trigger refuse_delete of ledger.stored_events has been replaced by another",
        ),
        (
            "DROP INDEX ledger.stored_events_notification_id_idx",
            "ledger.stored_events has no unique index of notification_id",
        ),
        (
            """
            DROP INDEX ledger.stored_events_notification_id_idx;
            CREATE INDEX stored_events_notification_id_idx
                ON ledger.stored_events (notification_id)
            """,
            "ledger.stored_events has no unique index of notification_id",
        ),
        (
            "ALTER TABLE ledger.answers DROP CONSTRAINT answers_pkey",
            "ledger.answers has no unique index of client, key",
        ),
        ("DROP TABLE ledger.answers", "the table ledger.answers is missing"),
        (
            "ALTER TABLE ledger.answers OWNER TO puntobanco_ledger",
            "puntobanco_ledger, who works on ledger.answers, owns it (as puntobanco_ledger)",
        ),
    ],
)
def test_a_fault_of_the_guard_is_found_by_those_who_work_here(
    superuser: psycopg.Connection, database: Database, tampering: str, fault: str
) -> None:
    superuser.execute(tampering.encode())
    with database.connect() as connection:
        assert guard_faults(connection) == [fault]


def test_a_function_that_lets_changes_through_is_found(
    superuser: psycopg.Connection, reader: psycopg.Connection
) -> None:
    superuser.execute("""
        CREATE OR REPLACE FUNCTION ledger.refuse_change() RETURNS trigger
        LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'
    """)
    faults = guard_faults(reader)
    assert len(faults) == 3 * len(GUARDED_TABLES)
    assert all(fault.endswith("calls a function that was changed") for fault in faults)


def test_working_as_a_superuser_is_a_fault(superuser: psycopg.Connection) -> None:
    assert guard_faults(superuser) == [
        "postgres, who works on it, is a superuser and could switch it off"
    ]


@pytest.mark.parametrize(
    ("tampering", "fault"),
    [
        (
            "CREATE RULE swallow AS ON INSERT TO ledger.stored_events DO INSTEAD NOTHING",
            "a rule swallow",
        ),
        (
            "CREATE TABLE public.kid () INHERITS (ledger.stored_events)",
            "an inheriting table kid",
        ),
        ("ALTER TABLE ledger.answers ENABLE ROW LEVEL SECURITY", "row security"),
        ("ALTER TABLE ledger.stored_events FORCE ROW LEVEL SECURITY", "row security"),
        (
            """
            CREATE FUNCTION public.twist() RETURNS trigger LANGUAGE plpgsql
                AS 'BEGIN RETURN NEW; END';
            CREATE TRIGGER twist BEFORE INSERT ON ledger.stored_events
                FOR EACH ROW EXECUTE FUNCTION public.twist()
            """,
            "a foreign trigger twist",
        ),
    ],
)
def test_what_could_twist_the_history_beside_the_guard_is_a_fault(
    database, superuser_url, tampering, fault
):
    with psycopg.connect(superuser_url, autocommit=True) as superuser:
        superuser.execute(tampering)
    with database.connect() as connection:
        (found,) = guard_faults(connection)
    assert fault in found


def test_a_role_that_may_read_all_data_reads_no_seed(
    database, superuser_url, make_role, server, database_name
):
    role = make_role()
    with psycopg.connect(superuser_url, autocommit=True) as superuser:
        superuser.execute(f"GRANT pg_read_all_data TO {role}")
    with database.connect() as connection:
        connection.execute("INSERT INTO ledger.seeds VALUES ('S', '\\x00')")
        assert connection.execute("SELECT count(*) FROM ledger.seeds").fetchone() == (1,)
    with psycopg.connect(server.url(user=role, database=database_name)) as reader:
        assert reader.execute("SELECT count(*) FROM ledger.seeds").fetchone() == (0,)
