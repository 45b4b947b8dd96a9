"""Whatever happens to the store, a command is answered once and stored once."""

import gc
import json
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from infrastructure.casino import Attempt, Casino
from infrastructure.commands import execution
from infrastructure.commands.contract import read_command
from infrastructure.commands.execution import Batch, Client, Request, execute, execute_in_batches
from infrastructure.store.connection import Database
from tests.infrastructure.proxy import Proxy

CLIENT = Client("cli")
OPEN = {"command": "open_account", "key": "open", "account_id": "a", "currency": "USD"}
DEPOSIT = {"command": "deposit", "key": "in", "account_id": "a", "amount_minor": 100}
_OTHERS = """
  FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""


@pytest.fixture
def proxy(database: Database, tmp_path: Path) -> Iterator[Proxy]:
    with Proxy(tmp_path, database.conninfo) as proxy:
        yield proxy


@pytest.fixture
def casino(proxy: Proxy) -> Iterator[Casino]:
    with at(proxy.conninfo) as casino:
        yield casino


def at(conninfo: str) -> Casino:
    return Casino(
        {"PERSISTENCE_MODULE": "infrastructure.store.factory", "PUNTO_CONNINFO": conninfo}
    )


def send(casino: Casino, *commands: dict[str, Any]) -> list[dict[str, Any]]:
    read = [read_command(json.dumps(command).encode()) for command in commands]
    return execute(casino, read, client=CLIENT)


def stored(database: Database) -> list[tuple[str, int]]:
    with database.connect() as connection:
        return connection.execute(
            "SELECT originator_id, originator_version FROM ledger.stored_events"
            " ORDER BY notification_id"
        ).fetchall()


def test_a_reply_that_is_lost_at_the_commit_is_a_replayed_answer(casino, proxy, database):
    send(casino, OPEN)
    proxy.cut_at_next_commit = True
    (answer,) = send(casino, DEPOSIT)

    assert proxy.cut_at_next_commit is False
    assert (answer["ok"], answer["replayed"]) == (True, True)
    assert answer["result"]["available_minor"] == 100
    assert stored(database) == [("account:a", 1), ("account:a", 2)]


def test_a_reply_that_is_lost_at_the_commit_of_many_commands_is_replayed_answers(
    casino, proxy, database
):
    send(casino, OPEN)
    deposits = [{**DEPOSIT, "key": f"in-{number}"} for number in range(20)]
    proxy.cut_at_next_commit = True
    answers = send(casino, *deposits)

    assert proxy.cut_at_next_commit is False
    assert {(answer["ok"], answer["replayed"]) for answer in answers} == {(True, True)}
    assert answers[-1]["result"]["available_minor"] == 2000
    assert stored(database) == [("account:a", version) for version in range(1, 22)]


def test_a_command_waits_for_a_store_that_comes_back(casino, proxy, database):
    send(casino, OPEN)
    proxy.down()
    back = threading.Timer(0.6, proxy.up)
    back.start()
    (answer,) = send(casino, DEPOSIT)
    back.join()

    assert (answer["ok"], answer["replayed"]) == (True, False)
    assert stored(database) == [("account:a", 1), ("account:a", 2)]


def test_a_store_that_stays_away_is_said_to_be_and_nothing_is_remembered(
    casino, proxy, database, monkeypatch
):
    monkeypatch.setattr(execution, "_PATIENCE_SECONDS", (0.01,))
    pool = casino.recorder.datastore.pool
    send(casino, OPEN)
    proxy.down()
    pool.timeout = 0.2
    (refused,) = send(casino, DEPOSIT)
    proxy.up()
    pool.timeout = 30
    (answer,) = send(casino, DEPOSIT)

    assert refused["error"]["code"] == "store_unavailable"
    assert (answer["ok"], answer["replayed"]) == (True, False)


def test_a_backend_that_is_ended_in_the_middle_loses_and_repeats_nothing(casino, database):
    send(casino, OPEN)
    done = threading.Event()

    def end_backends() -> None:
        with psycopg.connect(database.conninfo, autocommit=True) as connection:
            while not done.is_set():
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE pid <> pg_backend_pid() AND usename = current_user"
                    "   AND datname = current_database()"
                )
                time.sleep(0.05)

    ending = threading.Thread(target=end_backends)
    ending.start()
    answers = [send(casino, {**DEPOSIT, "key": f"in{n}"})[0] for n in range(40)]
    done.set()
    ending.join()

    assert [answer for answer in answers if not answer["ok"]] == []
    assert stored(database) == [("account:a", version) for version in range(1, 42)]
    assert send(casino, {**DEPOSIT, "key": "last"})[0]["result"]["available_minor"] == 4_100


def test_fifty_duplicates_at_once_are_one_new_command_and_the_rest_replayed(database):
    with at(database.conninfo) as first, at(database.conninfo) as second:
        send(first, OPEN)
        with ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(lambda n: send((first, second)[n % 2], DEPOSIT)[0], range(50)))

    assert sorted(answer["replayed"] for answer in answers) == [False] + [True] * 49
    assert len({json.dumps({**answer, "replayed": None}) for answer in answers}) == 1
    assert stored(database) == [("account:a", 1), ("account:a", 2)]


def test_twenty_writers_on_one_account_never_see_a_conflict(database):
    with at(database.conninfo) as first, at(database.conninfo) as second:
        send(first, OPEN)

        def write(writer: int) -> list[dict[str, Any]]:
            casino = (first, second)[writer % 2]
            return [send(casino, {**DEPOSIT, "key": f"{writer}.{n}"})[0] for n in range(5)]

        with ThreadPoolExecutor(20) as pool:
            answers = [answer for each in pool.map(write, range(20)) for answer in each]
        (last,) = send(second, {**DEPOSIT, "key": "last"})

    assert all(answer["ok"] for answer in answers)
    assert stored(database) == [("account:a", version) for version in range(1, 103)]
    assert last["result"]["available_minor"] == 10_100


def test_what_another_process_did_is_seen_by_the_next_command(database):
    with at(database.conninfo) as first, at(database.conninfo) as second:
        send(first, OPEN, DEPOSIT)
        send(second, {**DEPOSIT, "command": "withdraw", "key": "out"})
        (refused,) = send(first, {**DEPOSIT, "command": "withdraw", "key": "again"})

    assert refused["error"]["code"] == "insufficient_funds"


def test_events_that_were_stored_past_the_lock_are_taken_up_by_a_new_try(casino, superuser_url):
    """Nothing may write past the lock, but if it does, no answer may rest on an older state."""
    send(casino, OPEN, DEPOSIT)
    state = b'{"at":"2026-01-01T00:00:00Z","actor":"x","key":"x","amount_minor":7}'
    with psycopg.connect(superuser_url, autocommit=True) as superuser:
        superuser.execute(
            "INSERT INTO ledger.stored_events (originator_id, originator_version, topic, state,"
            " notification_id) VALUES ('account:a', 3, 'account.funds_deposited', %b, 3)",
            [state],
        )
    (answer,) = send(casino, {**DEPOSIT, "key": "more"})

    assert answer["result"]["available_minor"] == 207


def test_single_commands_of_two_processes_in_turns_are_decided_on_the_latest_state(
    database, settle_round_commands
):
    with at(database.conninfo) as one, at(database.conninfo) as other:
        answers = []
        for number, command in enumerate(settle_round_commands):
            answers += send((one, other)[number % 2], command)
        again = send(one, settle_round_commands[-1])

    assert [answer["ok"] for answer in answers] == [True] * len(settle_round_commands)
    assert again[0] == {**answers[-1], "replayed": True}
    versions: dict[str, int] = {}
    for stream, version in stored(database):
        assert version == versions.get(stream, 0) + 1
        versions[stream] = version


def test_a_key_that_another_process_used_is_replayed_or_refused_by_its_content(database):
    with at(database.conninfo) as one, at(database.conninfo) as other:
        send(one, OPEN)
        send(other, {**DEPOSIT, "key": "first"})
        send(one, {**DEPOSIT, "key": "second"})
        (refused,) = send(other, {**DEPOSIT, "key": "second", "amount_minor": 5})
        (replayed,) = send(other, {**DEPOSIT, "key": "second"})

    assert refused["error"]["code"] == "key_reused"
    assert (replayed["replayed"], replayed["result"]["available_minor"]) == (True, 200)


def test_a_refusal_is_remembered_although_it_was_first_found_without_the_lock(database):
    withdrawal = {"command": "withdraw", "key": "out", "account_id": "a", "amount_minor": 500}
    with at(database.conninfo) as casino:
        send(casino, OPEN)
        (refused,) = send(casino, withdrawal)
        send(casino, {**DEPOSIT, "amount_minor": 1000})
        (again,) = send(casino, withdrawal)

    assert (refused["error"]["code"], refused["replayed"]) == ("insufficient_funds", False)
    assert (again["error"]["code"], again["replayed"]) == ("insufficient_funds", True)


def test_a_finished_round_that_is_no_longer_in_memory_is_known_to_be_there(
    database, settle_round_commands
):
    with at(database.conninfo) as casino:
        for command in settle_round_commands:
            send(casino, command)
        (opened,) = send(
            casino,
            {"command": "open_round", "key": "again", "round_id": "R", "shoe_id": "S"},
        )
        (cancelled,) = send(
            casino,
            {"command": "cancel_bet", "key": "late", "round_id": "R", "bet_id": "none"},
        )

    assert opened["error"]["code"] == "already_exists"
    assert cancelled["error"]["code"] == "round_settled"


@pytest.fixture
def settle_round_commands() -> list[dict[str, Any]]:
    commands: list[dict[str, Any]] = [
        {"command": "open_table", "table_id": "T", "currency": "USD"},
        {"command": "open_shoe", "shoe_id": "S", "table_id": "T", "source": "physical"},
        {"command": "open_account", "account_id": "a", "currency": "USD"},
        {"command": "deposit", "account_id": "a", "amount_minor": 1000},
        {"command": "open_round", "round_id": "R", "shoe_id": "S"},
        {
            "command": "place_bet", "round_id": "R", "bet_id": "B", "account_id": "a",
            "bet": "banker", "stake_minor": 100,
        },
        {"command": "close_betting", "round_id": "R"},
        {"command": "deal", "round_id": "R", "cards": ["2S", "4H"]},
        {"command": "deal", "round_id": "R", "cards": ["4D", "4C"]},
        {"command": "settle_round", "round_id": "R"},
    ]  # fmt: skip
    return [{**command, "key": f"k{number}"} for number, command in enumerate(commands)]


def test_an_application_keeps_two_connections_at_most_however_many_it_lost(casino, superuser_url):
    """Those of many applications are to fit into one server, above all when it was away."""
    send(casino, OPEN)
    with psycopg.connect(superuser_url, autocommit=True) as superuser:
        for number in range(10):
            superuser.execute(f"SELECT pg_terminate_backend(pid, 10000) {_OTHERS}")
            assert send(casino, {**DEPOSIT, "key": f"in{number}"})[0]["ok"]
        (count,) = superuser.execute(f"SELECT count(*) {_OTHERS}").fetchone()

    assert count <= 2


def batch(casino: Casino, *commands: dict[str, Any]) -> Batch:
    read = [read_command(json.dumps(command).encode()) for command in commands]
    return Batch(casino, [Request(CLIENT, command) for command in read])


def answers_of_both(one: Batch, other: Batch) -> list[dict[str, Any]]:
    """Decides another batch while one is being stored; the answers of both."""
    other.decide(after=one)
    answers = one.answers()
    other.send_off()
    return answers + other.answers()


def test_a_batch_is_decided_on_what_the_one_before_is_to_come_to(database):
    with at(database.conninfo) as casino:
        send(casino, OPEN)
        one = batch(casino, DEPOSIT)
        one.decide()
        one.send_off()
        other = batch(casino, {**DEPOSIT, "command": "withdraw", "key": "out"})
        turns = []
        monitored(casino, turns)
        answers = answers_of_both(one, other)

    assert [answer["result"]["available_minor"] for answer in answers] == [100, 0]
    assert stored(database) == [("account:a", 1), ("account:a", 2), ("account:a", 3)]
    assert turns == []


def monitored(casino: Casino, turns: list[str]) -> None:
    """Notes each turn that the application takes."""
    take = casino.turn

    def turn() -> Any:
        turns.append("turn")
        return take()

    casino.turn = turn


def test_a_batch_is_decided_again_where_the_one_before_came_to_something_else(database):
    """Another process freezes the account, and the head is where it was thought to come to."""
    withdrawal = {**DEPOSIT, "command": "withdraw", "amount_minor": 10}
    with at(database.conninfo) as casino, at(database.conninfo) as elsewhere:
        send(casino, OPEN, DEPOSIT)
        one = batch(casino, {**withdrawal, "key": "one"})
        one.decide()
        send(elsewhere, {"command": "freeze_account", "key": "f", "account_id": "a", "reason": "x"})
        one.send_off()
        other = batch(casino, {**withdrawal, "key": "other"})
        answers = answers_of_both(one, other)

    assert [answer["error"]["code"] for answer in answers] == ["account_frozen"] * 2
    assert stored(database) == [("account:a", 1), ("account:a", 2), ("account:a", 3)]


def test_batches_of_a_file_are_answered_in_order_and_a_refusal_holds_up_no_other(database):
    commands = [
        [OPEN, DEPOSIT],
        [{**DEPOSIT, "key": "2"}, {**DEPOSIT, "key": "3", "account_id": "nobody"}],
        [{**DEPOSIT, "key": "4"}],
        [DEPOSIT, {**DEPOSIT, "key": "5"}],
    ]
    read = [[read_command(json.dumps(each).encode()) for each in some] for some in commands]
    with at(database.conninfo) as casino:
        answers = [some for _, some in execute_in_batches(casino, read, client=CLIENT)]

    told = [
        [answer["result"]["available_minor"] if answer["ok"] else None for answer in some]
        for some in answers
    ]
    assert told[1:] == [[200, None], [300], [100, 400]]
    assert [answer["replayed"] for answer in answers[-1]] == [True, False]


def test_a_batch_that_is_being_stored_is_answered_although_the_next_cannot_be_had(database):
    def batches() -> Iterator[list[Any]]:
        yield [read_command(json.dumps(OPEN).encode())]
        yield [read_command(json.dumps(DEPOSIT).encode())]
        raise OSError("the file is gone")

    with at(database.conninfo) as casino:
        send(casino, {**OPEN, "key": "other", "account_id": "b"})
        executed = execute_in_batches(casino, batches(), client=CLIENT)
        answers = next(executed)[1] + next(executed)[1]
        with pytest.raises(OSError, match="gone"):
            next(executed)

    assert [(answer["key"], answer["ok"]) for answer in answers] == [("open", True), ("in", True)]


@pytest.mark.tampers
def test_what_is_in_memory_is_trusted_no_more_once_the_store_could_not_be_reached(
    casino, proxy, superuser_url
):
    """The server that takes over lacks the latest event, and has another in its place."""
    send(casino, OPEN, {**OPEN, "key": "b", "account_id": "b"})
    send(casino, DEPOSIT)
    withdrawal = batch(casino, {**DEPOSIT, "command": "withdraw", "key": "out"})
    withdrawal.decide()
    proxy.down()
    casino.recorder.datastore.pool.check()
    withdrawal.send_off()
    with psycopg.connect(superuser_url, autocommit=True) as superuser:
        superuser.execute(
            """
            ALTER TABLE ledger.stored_events DISABLE TRIGGER refuse_delete;
            ALTER TABLE ledger.answers DISABLE TRIGGER refuse_delete;
            DELETE FROM ledger.answers WHERE position = 3;
            DELETE FROM ledger.stored_events WHERE notification_id = 3;
            INSERT INTO ledger.stored_events
                   (originator_id, originator_version, topic, state, notification_id)
            VALUES ('account:b', 2, 'account.funds_deposited',
                    '{"at":"2026-01-01T00:00:00Z","actor":"x","key":"x","amount_minor":1}', 3);
            """
        )
    proxy.up()
    (answer,) = withdrawal.answers()

    assert answer["error"]["code"] == "insufficient_funds"


def test_what_is_minded_about_a_batch_keeps_the_next_one_from_being_stored(database):
    commands = [OPEN, DEPOSIT, {**DEPOSIT, "key": "next"}]
    read = [[read_command(json.dumps(each).encode())] for each in commands]
    with at(database.conninfo) as casino:
        taken = execute_in_batches(casino, read, client=CLIENT)
        next(taken)
        next(taken)
        taken.close()
        assert stored(database) == [("account:a", 1), ("account:a", 2)]
        (answer,) = send(casino, {**DEPOSIT, "key": "next"})

    assert (answer["replayed"], answer["result"]["available_minor"]) == (False, 200)


@pytest.fixture
def failing_commit(superuser_url: str) -> Callable[[], None]:
    """Lets the server fail at the next commit that stores events, after it has said what it did."""

    def prepare() -> None:
        with psycopg.connect(superuser_url, autocommit=True) as superuser:
            superuser.execute(
                """
                CREATE SEQUENCE public.commits;
                GRANT ALL ON SEQUENCE public.commits TO PUBLIC;
                CREATE FUNCTION public.fail_once() RETURNS trigger LANGUAGE plpgsql AS $fail$
                BEGIN
                    IF nextval('public.commits') = 1 THEN
                        RAISE EXCEPTION 'the commit fails' USING ERRCODE = 'query_canceled';
                    END IF;
                    RETURN NULL;
                END $fail$;
                CREATE CONSTRAINT TRIGGER fails AFTER INSERT ON ledger.stored_events
                    DEFERRABLE INITIALLY DEFERRED
                    FOR EACH ROW EXECUTE FUNCTION public.fail_once();
                """
            )

    return prepare


@pytest.mark.tampers
def test_a_command_whose_commit_fails_is_not_said_to_be_stored(casino, database, failing_commit):
    send(casino, OPEN)
    failing_commit()
    (answer,) = send(casino, DEPOSIT)

    assert (answer["ok"], answer["replayed"]) == (True, False)
    assert stored(database) == [("account:a", 1), ("account:a", 2)]


@pytest.mark.tampers
def test_a_batch_is_decided_again_where_the_commit_of_the_one_before_fails(
    casino, database, failing_commit
):
    send(casino, OPEN)
    failing_commit()
    one = batch(casino, DEPOSIT)
    one.decide()
    one.send_off()
    other = batch(casino, {**DEPOSIT, "command": "withdraw", "key": "out"})
    answers = answers_of_both(one, other)

    assert [answer["result"]["available_minor"] for answer in answers] == [100, 0]
    assert stored(database) == [("account:a", 1), ("account:a", 2), ("account:a", 3)]


def test_what_was_decided_one_after_another_is_not_held_in_memory(casino, monkeypatch):
    attempts: list[weakref.ref[Attempt]] = []
    arrive = Attempt.arrive

    def noted(attempt: Attempt) -> None:
        attempts.append(weakref.ref(attempt))
        arrive(attempt)

    monkeypatch.setattr(Attempt, "arrive", noted)
    send(casino, OPEN)
    read = [[read_command(json.dumps({**DEPOSIT, "key": str(n)}).encode())] for n in range(10)]
    for _ in execute_in_batches(casino, read, client=CLIENT):
        gc.collect()
        assert len([each for each in attempts if each() is not None]) <= 2
    assert len(attempts) == 10


def test_what_cannot_be_laid_out_is_told_by_the_answers(casino, database, monkeypatch):
    def broken(*_: Any) -> None:
        raise ValueError("cannot be laid out")

    send(casino, OPEN)
    monkeypatch.setattr("infrastructure.store.mapper.EventMapper.to_columns", broken)
    with pytest.raises(ValueError, match="laid out"):
        send(casino, DEPOSIT)
    monkeypatch.undo()
    (answer,) = send(casino, DEPOSIT)

    assert (answer["replayed"], answer["result"]["available_minor"]) == (False, 100)
    assert stored(database) == [("account:a", 1), ("account:a", 2)]


def test_a_reply_that_is_lost_between_two_batches_repeats_and_loses_nothing(
    casino, proxy, database
):
    send(casino, OPEN)
    one = batch(casino, DEPOSIT)
    one.decide()
    proxy.cut_at_next_commit = True
    one.send_off()
    other = batch(casino, {**DEPOSIT, "key": "other"})
    answers = answers_of_both(one, other)

    assert [answer["replayed"] for answer in answers] == [True, False]
    assert [answer["result"]["available_minor"] for answer in answers] == [100, 200]
    assert stored(database) == [("account:a", 1), ("account:a", 2), ("account:a", 3)]
