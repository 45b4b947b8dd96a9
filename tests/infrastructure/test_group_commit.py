"""Group commit: many callers, few transactions, each its own answers."""

import json
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from typing import Any

import psycopg
import pytest

from infrastructure.casino import Casino
from infrastructure.commands import group_commit, handlers
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


def test_each_caller_gets_its_own_answers(casino):
    together = GroupCommit(casino)
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


def test_those_that_wait_for_a_commit_share_the_next_ones(casino, database):
    together = GroupCommit(casino)
    together.execute([opening("a")], client=Client("cage"))
    with database.connect(autocommit=False) as other, ThreadPoolExecutor(CALLERS) as pool:
        other.execute("SELECT FROM ledger.head FOR UPDATE")

        def call(n: int) -> Future[Any]:
            return pool.submit(together.execute, [deposit("a", f"k{n}")], client=Client("cli"))

        # The first of them is to be stored, and waits for the lock of the head. The second
        # is decided meanwhile, and the others wait until both have come to an end.
        calls = [call(0)]
        while casino._on_its_way is None:
            time.sleep(0.01)
        calls.append(call(1))
        while not casino._deciding.locked():
            time.sleep(0.01)
        calls += [call(n) for n in range(2, CALLERS)]
        while len(together._waiting) < CALLERS - 2:
            time.sleep(0.01)
        other.rollback()
        answers = [each.result()[0] for each in calls]

    assert [answer["result"]["available_minor"] for answer in answers[:2]] == [1, 2]
    assert all(answer["ok"] for answer in answers)
    assert transactions(database) <= 6


def test_those_that_an_interrupted_leader_puts_back_do_not_push_the_next_one_out(
    casino, monkeypatch
):
    together = GroupCommit(casino)
    together.execute([opening("a")], client=Client("cage"))
    together.execute([deposit("a", "first")], client=Client("cage"))
    all_wait, is_interrupted = threading.Event(), threading.Event()
    leaders = []
    taking, executing = together._take_a_group, group_commit.execute_requests

    def slow_to_begin(leader):
        leaders.append(leader)
        (all_wait if len(leaders) == 1 else is_interrupted).wait()
        return taking(leader)

    def interrupted_at_the_end(*arguments, **options):
        answers = executing(*arguments, **options)
        if not is_interrupted.is_set():
            # It has handed the lead over, and those of its group have no answers yet.
            while len(leaders) < 2:
                time.sleep(0.01)
            raise KeyboardInterrupt
        return answers

    monkeypatch.setattr(together, "_take_a_group", slow_to_begin)
    monkeypatch.setattr(group_commit, "execute_requests", interrupted_at_the_end)

    def call(caller: int) -> Any:
        try:
            return together.execute([deposit("a", f"k{caller}")], client=Client("cli"))[0]["ok"]
        except KeyboardInterrupt:
            is_interrupted.set()
            return "interrupted"

    with ThreadPoolExecutor(5) as pool:
        calls = [pool.submit(call, 0)]
        while not leaders:
            time.sleep(0.01)
        for caller in range(1, 5):
            calls.append(pool.submit(call, caller))
            while len(together._waiting) < caller + 1:
                time.sleep(0.01)
        all_wait.set()
        outcomes = [each.result() for each in calls]

    assert outcomes == ["interrupted", True, True, True, True]
    (last,) = together.execute([deposit("a", "last")], client=Client("cli"))
    assert last["result"]["available_minor"] == 7


def test_callers_get_their_answers_although_little_is_kept_in_memory(casino, monkeypatch):
    monkeypatch.setattr("infrastructure.casino.AGGREGATES_IN_MEMORY", 3)
    together = GroupCommit(casino)
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


def test_what_was_decided_on_a_group_that_was_not_stored_is_decided_again(casino, database):
    together = GroupCommit(casino)
    together.execute([opening("a")], client=Client("cage"))
    together.execute([deposit("a", "first", 5)], client=Client("cage"))
    with database.connect(autocommit=False) as other, ThreadPoolExecutor(2) as pool:
        other.execute("SELECT FROM ledger.head FOR UPDATE")
        withdrawal = read(command="withdraw", key="w", account_id="a", amount_minor=7)
        calls = [pool.submit(together.execute, [deposit("a", "k", 10)], client=Client("cli"))]
        while casino._on_its_way is None:
            time.sleep(0.01)
        calls.append(pool.submit(together.execute, [withdrawal], client=Client("cli")))
        while not casino._deciding.locked():
            time.sleep(0.01)
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


def test_a_refused_command_of_one_caller_fails_no_other(casino):
    together = GroupCommit(casino)
    together.execute([opening("a")], client=Client("cage"))

    def call(caller: int) -> dict[str, Any]:
        account_id = "a" if caller % 2 else "nobody"
        return together.execute([deposit(account_id, f"k{caller}")], client=Client("cli"))[0]

    with ThreadPoolExecutor(CALLERS) as pool:
        answers = list(pool.map(call, range(CALLERS)))

    assert [answer["ok"] for answer in answers] == [False, True] * (CALLERS // 2)
    assert {answer["error"]["code"] for answer in answers[::2]} == {"unknown_account"}


def test_what_one_caller_breaks_fails_that_one_alone(casino, monkeypatch):
    together = GroupCommit(casino)
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


def test_a_caller_that_is_interrupted_leaves_the_others_their_turn(casino, monkeypatch):
    together = GroupCommit(casino)
    together.execute([opening("a")], client=Client("cage"))
    interrupted = threading.Event()

    def interrupting(book, command, stamp):
        if not interrupted.is_set():
            interrupted.set()
            raise KeyboardInterrupt
        return handlers.deposit(book, command, stamp)

    monkeypatch.setitem(handlers.HANDLERS, Deposit, interrupting)

    def call(caller: int) -> Any:
        try:
            command = deposit("a", f"k{caller}")
            return together.execute([command], client=Client("cli"))[0]["ok"]
        except KeyboardInterrupt:
            return "interrupted"

    with ThreadPoolExecutor(CALLERS) as pool:
        outcomes = list(pool.map(call, range(CALLERS)))

    assert sorted(map(str, outcomes)) == sorted(["interrupted", *["True"] * (CALLERS - 1)])
