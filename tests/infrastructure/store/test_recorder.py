"""The recorder: positions follow commits without gaps, and nobody passes the lock."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from eventsourcing.persistence import DatabaseError, IntegrityError, StoredEvent
from eventsourcing.tests.persistence import ApplicationRecorderTestCase

from infrastructure.store.connection import Database
from infrastructure.store.factory import EVENTS_TABLE, LedgerDatastore
from infrastructure.store.memory import MemoryRecorder
from infrastructure.store.recorder import LedgerRecorder
from infrastructure.store.session import (
    AttemptSession,
    Beside,
    Columns,
    NotUpToDate,
    Remembered,
    columns_of,
)

WRITERS, SAVES, EVENTS_A_SAVE = 4, 60, 5


@pytest.fixture
def recorder(database: Database) -> Iterator[LedgerRecorder]:
    with LedgerDatastore(database.conninfo) as datastore:
        yield LedgerRecorder(datastore, events_table_name=EVENTS_TABLE)


def events(stream: str, *versions: int) -> list[StoredEvent]:
    return [StoredEvent(stream, version, "topic", b'{"at":"now"}') for version in versions]


def columns(stream: str, *versions: int) -> Columns:
    return columns_of(events(stream, *versions))


def store(attempt: AttemptSession, new: Columns, beside: Beside | None = None) -> None:
    attempt.bring(new, beside or Beside())
    attempt.send_off()
    attempt.arrive()


def rows(database: Database) -> list[tuple[Any, ...]]:
    with database.connect() as connection:
        return connection.execute(
            "SELECT notification_id, originator_id, originator_version"
            "  FROM ledger.stored_events ORDER BY notification_id"
        ).fetchall()


class LibraryCase(ApplicationRecorderTestCase[Any]):
    """The library's own test of what a recorder owes it."""

    __test__ = False
    recorder: Any

    def create_recorder(self) -> Any:
        return self.recorder

    def new_originator_id(self) -> str:
        return f"round:{uuid4()}"


@pytest.mark.tampers
def test_it_keeps_the_librarys_contract(recorder: LedgerRecorder) -> None:
    case = LibraryCase("test_insert_select")
    case.recorder = recorder
    case.debug()


def test_the_one_in_memory_keeps_it_too() -> None:
    case = LibraryCase("test_insert_select")
    case.recorder = MemoryRecorder()
    case.debug()


def test_positions_have_no_gap_even_where_a_save_failed(
    recorder: LedgerRecorder, database: Database
) -> None:
    assert list(recorder.insert_events(events("a", 1, 2)) or ()) == [1, 2]
    with pytest.raises(IntegrityError):
        recorder.insert_events([*events("b", 1), *events("a", 2)])
    assert list(recorder.insert_events(events("b", 1)) or ()) == [3]

    assert rows(database) == [(1, "a", 1), (2, "a", 2), (3, "b", 1)]


def test_one_save_may_be_larger_than_a_pipeline_holds(
    recorder: LedgerRecorder, database: Database
) -> None:
    recorder.insert_events(events("a", *range(1, 20_001)))

    assert len(rows(database)) == 20_000


def test_a_reader_who_follows_the_log_sees_every_event_of_many_writers(
    recorder: LedgerRecorder, database: Database
) -> None:
    done = threading.Event()
    seen: list[int] = []

    def follow() -> None:
        with database.connect() as connection:
            while True:
                was_done = done.is_set()
                new = connection.execute(
                    "SELECT notification_id FROM ledger.stored_events"
                    " WHERE notification_id > %s ORDER BY notification_id",
                    [seen[-1] if seen else 0],
                ).fetchall()
                seen.extend(row[0] for row in new)
                if was_done and not new:
                    return

    def write(writer: int) -> None:
        with LedgerDatastore(database.conninfo) as datastore:
            own = LedgerRecorder(datastore, events_table_name=EVENTS_TABLE)
            for save in range(SAVES):
                first = save * EVENTS_A_SAVE + 1
                own.insert_events(events(f"w{writer}", *range(first, first + EVENTS_A_SAVE)))

    reader = threading.Thread(target=follow)
    reader.start()
    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(write, range(WRITERS)))
    done.set()
    reader.join()

    assert seen == list(range(1, WRITERS * SAVES * EVENTS_A_SAVE + 1))


def test_maintenance_and_readers_do_not_hold_a_writer_up(
    recorder: LedgerRecorder, database: Database, superuser_url: str
) -> None:
    with (
        psycopg.connect(superuser_url) as maintenance,
        database.connect(autocommit=False) as reader,
    ):
        maintenance.execute("ANALYZE ledger.stored_events")
        reader.execute("SELECT count(*) FROM ledger.stored_events")

        recorder.insert_events(events("a", 1))

    assert rows(database) == [(1, "a", 1)]


def test_a_reader_cannot_take_the_lock_of_the_head(
    database: Database,
    make_role: Callable[..., str],
    server: Any,
    database_name: str,
    superuser_url: str,
) -> None:
    role = make_role()
    with psycopg.connect(superuser_url, autocommit=True) as superuser:
        superuser.execute(f"GRANT puntobanco_reader TO {role}".encode())
    with (
        psycopg.connect(server.url(user=role, database=database_name)) as reader,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        reader.execute("SELECT FROM ledger.head FOR UPDATE")


def test_what_stands_beside_the_events_is_stored_with_them_or_not_at_all(
    recorder: LedgerRecorder, database: Database
) -> None:
    answer = Remembered("cli", "k", {"command": "0"}, {"b": 1, "a": 2}, 1)
    refusal = Remembered("cli", "r", {"command": "1"}, {"code": "unknown_round"}, None)
    seed = os.urandom(32)
    beside = Beside([answer, refusal], seeds={"S": seed})
    recorder.insert_events(events("a", 1), beside=beside)

    lost = Remembered("cli", "lost", {}, {}, 2)
    with pytest.raises(IntegrityError):
        recorder.insert_events(events("a", 1), beside=Beside([lost], seeds={"T": seed}))

    with recorder.writing() as session:
        wanted = [("cli", "k"), ("cli", "r"), ("cli", "lost"), ("somebody else", "k")]
        found, _ = session.recall(wanted, ())
        assert found == {("cli", "k"): answer, ("cli", "r"): refusal}
        assert list(found["cli", "k"].answer) == ["b", "a"]
        assert session.seed("S") == seed
        session.append(columns("a"), Beside([], seeds={"S": None}))
    with database.connect() as connection:
        assert connection.execute("SELECT shoe_id FROM ledger.seeds").fetchall() == []


def test_a_refusal_is_forgotten_after_thirty_days_and_an_answer_never(
    recorder: LedgerRecorder, superuser_url: str
) -> None:
    answer = Remembered("cli", "k", {}, {}, 1)
    refusal = Remembered("cli", "r", {}, {"code": "unknown_round"}, None)
    recorder.insert_events(events("a", 1), beside=Beside([answer, refusal]))
    with psycopg.connect(superuser_url, autocommit=True) as superuser:
        superuser.execute("ALTER TABLE ledger.answers DISABLE TRIGGER ALL")
        for table in ("answers", "refusals"):
            superuser.execute(
                f"UPDATE ledger.{table} SET recorded_at = now() - INTERVAL '31 days'".encode()
            )

    with recorder.writing() as session:
        assert session.recall([("cli", "k"), ("cli", "r")], ()) == ({("cli", "k"): answer}, [])


def test_an_answer_holds_over_an_older_refusal_of_its_key(recorder: LedgerRecorder) -> None:
    refusal = Remembered("cli", "k", {}, {"code": "unknown_round"}, None)
    answer = Remembered("cli", "k", {}, {}, 1)
    recorder.insert_events(events("a", 1), beside=Beside([answer]))
    recorder.insert_events([], beside=Beside([refusal]))

    with recorder.writing() as session:
        assert session.recall([("cli", "k")], ()) == ({("cli", "k"): answer}, [])


def test_nothing_is_stored_for_a_key_that_was_refused_lately(recorder: LedgerRecorder) -> None:
    refusal = Remembered("cli", "k", {}, {"code": "unknown_round"}, None)
    recorder.insert_events([], beside=Beside([refusal]))
    answer = Remembered("cli", "k", {}, {}, 1)

    attempt = recorder.attempting(0, new_streams=())
    with pytest.raises(NotUpToDate):
        store(attempt, columns("a", 1), Beside([answer]))
    with recorder.writing() as session:
        assert session.head == 0


def test_an_attempt_stores_events_and_answers_at_the_head_that_it_knows(
    recorder: LedgerRecorder,
) -> None:
    answer = Remembered("cli", "k", {"f": "h"}, {"a": 1}, 2)
    attempt = recorder.attempting(0, new_streams=())
    store(attempt, columns("a", 1, 2), Beside([answer]))

    with recorder.writing() as session:
        assert session.head == 2
        found, stored = session.recall([("cli", "k")], ("a",))
    assert found == {("cli", "k"): answer}
    assert [event.originator_version for event in stored] == [1, 2]


@pytest.mark.parametrize("head", [0, 2])
def test_an_attempt_at_another_head_stores_nothing(recorder: LedgerRecorder, head: int) -> None:
    recorder.insert_events(events("b", 1))

    attempt = recorder.attempting(head, new_streams=())
    with pytest.raises(NotUpToDate):
        store(attempt, columns("a", 1))
    with recorder.writing() as session:
        assert session.head == 1


def test_an_attempt_with_a_version_or_a_key_that_is_there_stores_nothing(
    recorder: LedgerRecorder,
) -> None:
    answer = Remembered("cli", "k", {}, {}, 1)
    recorder.insert_events(events("a", 1), beside=Beside([answer]))

    for stream, beside in (("a", Beside()), ("b", Beside([answer]))):
        attempt = recorder.attempting(1, new_streams=())
        with pytest.raises(NotUpToDate):
            store(attempt, columns(stream, 1), beside)
    with recorder.writing() as session:
        assert session.head == 1


def test_an_attempt_presumes_that_streams_are_new_only_where_it_begins_them(
    recorder: LedgerRecorder,
) -> None:
    attempt = recorder.attempting(0, new_streams=["round:R"])
    assert attempt.load(["round:R"]) == ()
    with pytest.raises(NotUpToDate):
        attempt.load(["account:A"])
    with pytest.raises(NotUpToDate):
        attempt.seed("S")
    with pytest.raises(NotUpToDate):
        store(attempt, columns("account:A", 1))
    with recorder.writing() as session:
        assert session.head == 0


def test_an_attempt_is_stored_while_nobody_waits_for_it(
    recorder: LedgerRecorder, database: Database
) -> None:
    attempt = recorder.attempting(0, new_streams=())
    attempt.bring(columns("a", 1, 2), Beside())
    attempt.send_off()
    assert attempt.head == 2

    while not rows(database):
        time.sleep(0.01)
    assert rows(database) == [(1, "a", 1), (2, "a", 2)]
    attempt.arrive()


def test_an_attempt_whose_answer_was_given_once_says_that_it_has_to_ask(
    recorder: LedgerRecorder,
) -> None:
    attempt = recorder.attempting(0, new_streams=())
    store(attempt, columns("a", 1))
    with pytest.raises(NotUpToDate):
        attempt.arrive()


def test_an_attempt_that_nobody_waits_for_takes_no_connection_from_the_next(
    recorder: LedgerRecorder,
) -> None:
    for number in range(5):
        with recorder.writing() as session:
            head = session.head
        attempt = recorder.attempting(head, new_streams=())
        attempt.bring(columns(f"a{number}", 1), Beside())
        attempt.send_off()
        del attempt
    recorder.insert_events(events("b", 1))


@pytest.mark.tampers
def test_events_that_the_database_swallows_are_not_said_to_be_stored(
    recorder: LedgerRecorder, superuser_url: str
) -> None:
    with psycopg.connect(superuser_url, autocommit=True) as superuser:
        superuser.execute(
            "CREATE RULE swallow AS ON INSERT TO ledger.stored_events DO INSTEAD NOTHING"
        )
    with pytest.raises(DatabaseError):
        recorder.insert_events(events("a", 1))


def test_a_session_names_the_streams_that_others_have_added_to(recorder: LedgerRecorder) -> None:
    recorder.insert_events([*events("a", 1), *events("b", 1)])
    recorder.insert_events([*events("c", 1), *events("b", 2)])

    with recorder.writing() as session:
        assert session.head == 4
        assert session.changed_since(2) == {"b", "c"}
        assert session.changed_since(4) == set()
        assert [(each.originator_id, each.originator_version) for each in session.load("ab")] == [
            ("a", 1),
            ("b", 1),
            ("b", 2),
        ]
