"""Group commit: many callers, few transactions, each its own answers."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any

import psycopg
import pytest

from infrastructure.casino import Casino
from infrastructure.commands import handlers
from infrastructure.commands.contract import Deposit, read_command
from infrastructure.commands.execution import Client, execute
from infrastructure.commands.group_commit import GroupCommit
from infrastructure.store.connection import Database

CALLERS, COMMANDS_EACH = 16, 20


@pytest.fixture
def casino(database: Database):
    with Casino(
        {"PERSISTENCE_MODULE": "infrastructure.store.factory", "PUNTO_CONNINFO": database.conninfo}
    ) as casino:
        yield casino


@pytest.fixture
def together(casino: Casino):
    together = GroupCommit(casino)
    together.start()
    yield together
    together.stop()


def read(**command: Any):
    return read_command(json.dumps(command).encode())


def opening(account_id: str):
    return read(command="open_account", key=account_id, account_id=account_id, currency="USD")


def deposit(account_id: str, key: str, amount_minor: int = 1):
    return read(command="deposit", key=key, account_id=account_id, amount_minor=amount_minor)


def transactions(database: Database) -> int:
    with psycopg.connect(database.conninfo) as connection:
        (count,) = connection.execute(
            "SELECT count(DISTINCT xmin::text) FROM ledger.stored_events"
        ).fetchone()
    return count


def test_each_caller_gets_its_own_answers(together):
    together.execute([opening(f"a{n}") for n in range(CALLERS)], client=Client("cage"))

    def call(caller: int) -> list[dict[str, Any]]:
        client = Client(f"client{caller}")
        return [
            together.execute([deposit(f"a{caller}", f"k{n}")], client=client)[0]
            for n in range(COMMANDS_EACH)
        ]

    with ThreadPoolExecutor(CALLERS) as pool:
        answers = list(pool.map(call, range(CALLERS)))

    for caller, own in enumerate(answers):
        assert [answer["key"] for answer in own] == [f"k{n}" for n in range(COMMANDS_EACH)]
        assert own[-1]["result"]["account_id"] == f"a{caller}"
        assert own[-1]["result"]["available_minor"] == COMMANDS_EACH
    positions = sorted(answer["position"] for own in answers for answer in own)
    assert positions == list(range(CALLERS + 1, CALLERS + 1 + CALLERS * COMMANDS_EACH))


def test_those_that_wait_for_a_commit_share_the_next_ones(together, database):
    together.execute([opening("a")], client=Client("cage"))
    with database.connect(autocommit=False) as other, ThreadPoolExecutor(CALLERS) as pool:
        other.execute("SELECT FROM ledger.head FOR UPDATE")
        # The first of them is to be stored, and waits for the lock of the head. The others
        # wait until it has come to an end.
        calls = [pool.submit(together.execute, [deposit("a", "k0")], client=Client("cli"))]
        wait_for_the_lock(database)
        calls += [
            pool.submit(together.execute, [deposit("a", f"k{n}")], client=Client("cli"))
            for n in range(1, CALLERS)
        ]
        while len(together._waiting) < CALLERS // 2:
            time.sleep(0.01)
        other.rollback()
        answers = [each.result()[0] for each in calls]

    assert answers[0]["result"]["available_minor"] == 1
    assert all(answer["ok"] for answer in answers)
    assert transactions(database) <= 8


def wait_for_the_lock(database: Database) -> None:
    """Waits until a writer waits for the lock of the head."""
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    with database.connect() as connection:
        while connection.execute(waiting).fetchone() == (0,):
            time.sleep(0.01)


def test_callers_that_come_while_it_stops_are_answered_or_turned_away(together):
    together.execute([opening("a")], client=Client("cage"))
    started = threading.Barrier(CALLERS + 1)

    def call(caller: int) -> Any:
        started.wait()
        try:
            return together.execute([deposit("a", f"k{caller}")], client=Client("cli"))[0]["ok"]
        except AssertionError:
            return "turned away"

    with ThreadPoolExecutor(CALLERS) as pool:
        calls = [pool.submit(call, caller) for caller in range(CALLERS)]
        started.wait()
        together.stop()
        outcomes = {each.result() for each in calls}

    assert outcomes <= {True, "turned away"}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_nobody_waits_for_ever_where_the_thread_ends_by_a_bug(casino):
    together = GroupCommit(casino, count_group=lambda _: 1 / 0)
    together.start()
    with pytest.raises(RuntimeError, match="has ended"):
        together.execute([opening("a")], client=Client("cage"))
    with pytest.raises(AssertionError):
        together.execute([opening("a")], client=Client("cage"))


def test_callers_get_their_answers_although_little_is_kept_in_memory(together, monkeypatch):
    monkeypatch.setattr("infrastructure.casino.AGGREGATES_IN_MEMORY", 3)
    together.execute([opening(f"a{n}") for n in range(CALLERS)], client=Client("cage"))

    def call(caller: int) -> list[int]:
        return [
            together.execute([deposit(f"a{(caller + n) % CALLERS}", f"{caller}.{n}")],
                             client=Client("cli"))[0]["position"]
            for n in range(COMMANDS_EACH)
        ]  # fmt: skip

    with ThreadPoolExecutor(CALLERS) as pool:
        positions = sorted(chain.from_iterable(pool.map(call, range(CALLERS))))

    assert positions == list(range(CALLERS + 1, CALLERS + 1 + CALLERS * COMMANDS_EACH))


def test_what_was_decided_on_a_group_that_was_not_stored_is_decided_again(
    together, database, monkeypatch
):
    monkeypatch.setattr("infrastructure.commands.group_commit.PATIENCE_SECONDS", 5)
    together.execute([opening("a")], client=Client("cage"))
    together.execute([deposit("a", "first", 5)], client=Client("cage"))
    with database.connect(autocommit=False) as other, ThreadPoolExecutor(2) as pool:
        other.execute("SELECT FROM ledger.head FOR UPDATE")
        withdrawal = read(command="withdraw", key="w", account_id="a", amount_minor=7)
        calls = [pool.submit(together.execute, [deposit("a", "k", 10)], client=Client("cli"))]
        wait_for_the_lock(database)
        calls.append(pool.submit(together.execute, [withdrawal], client=Client("cli")))
        # It is decided on the deposit, and waits for that to be stored.
        while together._waiting:
            time.sleep(0.01)
        time.sleep(0.1)
        # Another process adds to the ledger before either of them comes to be stored.
        add_elsewhere(other, database, account_id="a", amount_minor=3)
        answers = [each.result()[0] for each in calls]

    assert all(answer["ok"] for answer in answers)
    assert sorted(answer["result"]["transaction"] for answer in answers) == [4, 5]
    (last,) = together.execute([deposit("a", "last")], client=Client("cli"))
    assert last["result"]["available_minor"] == 5 + 3 + 10 - 7 + 1


def add_elsewhere(connection, database, *, account_id: str, amount_minor: int) -> None:
    """Adds a deposit by the connection that holds the lock of the head, and commits it."""
    stream = f"account:{account_id}"
    (head,) = connection.execute("SELECT max(notification_id) FROM ledger.stored_events").fetchone()
    (version, state) = connection.execute(
        "SELECT originator_version, state FROM ledger.stored_events"
        " WHERE originator_id = %s ORDER BY originator_version DESC LIMIT 1",
        [stream],
    ).fetchone()
    facts = json.loads(bytes(state)) | {"amount_minor": amount_minor, "key": "elsewhere"}
    connection.execute(
        "INSERT INTO ledger.stored_events"
        " (originator_id, originator_version, topic, state, notification_id)"
        " VALUES (%s, %s, 'account.funds_deposited', %s, %s)",
        [stream, version + 1, json.dumps(facts, separators=(",", ":")).encode(), head + 1],
    )
    connection.commit()


def test_a_refused_command_of_one_caller_fails_no_other(together):
    together.execute([opening("a")], client=Client("cage"))

    def call(caller: int) -> dict[str, Any]:
        account_id = "a" if caller % 2 else "nobody"
        return together.execute([deposit(account_id, f"k{caller}")], client=Client("cli"))[0]

    with ThreadPoolExecutor(CALLERS) as pool:
        answers = list(pool.map(call, range(CALLERS)))

    assert [answer["ok"] for answer in answers] == [False, True] * (CALLERS // 2)
    assert {answer["error"]["code"] for answer in answers[::2]} == {"unknown_account"}


def test_what_cannot_be_laid_out_fails_its_caller_alone(together):
    together.execute([opening("a")], client=Client("cage"))
    with pytest.raises(UnicodeEncodeError):
        together.execute([deposit("a", "k")], client=Client("cli\ud800"))
    (answer,) = together.execute([deposit("a", "l")], client=Client("cli"))
    assert answer["result"]["available_minor"] == 1


def test_what_one_caller_breaks_fails_that_one_alone(together, casino, monkeypatch):
    together.execute([opening("a")], client=Client("cage"))
    started = threading.Barrier(CALLERS)

    def breaking(book, command, stamp):
        if command.amount_minor == 13:
            raise AssertionError("a bug")
        return handlers.deposit(book, command, stamp)

    monkeypatch.setitem(handlers.HANDLERS, Deposit, breaking)

    def call(caller: int) -> Any:
        started.wait()
        try:
            amount_minor = 13 if caller == 5 else 1
            command = deposit("a", f"k{caller}", amount_minor)
            return together.execute([command], client=Client("cli"))[0]["ok"]
        except AssertionError as bug:
            return str(bug)

    with ThreadPoolExecutor(CALLERS) as pool:
        outcomes = list(pool.map(call, range(CALLERS)))

    assert outcomes == ["a bug" if caller == 5 else True for caller in range(CALLERS)]
    (last,) = execute(casino, [deposit("a", "last")], client=Client("cli"))
    assert last["result"]["available_minor"] == CALLERS
