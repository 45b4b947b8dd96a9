"""A process that stands still while it holds the lock of the head."""

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from infrastructure.casino import Casino
from infrastructure.commands.contract import read_command
from infrastructure.commands.execution import Client, execute
from infrastructure.store.factory import IDLE_IN_TRANSACTION_SECONDS_MAX
from tests.chaos.books import check_read_models
from tests.chaos.writers import start_python
from tests.conftest import assert_money_in_equals_money_out

OTHERS = 4
LINE = {"command": "deposit", "key": "held", "account_id": "a", "amount_minor": 1_000}


@pytest.fixture
def casino(url: str) -> Iterator[Casino]:
    env = {"PERSISTENCE_MODULE": "infrastructure.store.factory", "PUNTO_CONNINFO": url}
    with Casino(env) as casino:
        send(casino, {"command": "open_account", "key": "o", "account_id": "a", "currency": "USD"})
        yield casino


def send(casino: Casino, line: dict[str, Any]) -> dict[str, Any]:
    (answer,) = execute(casino, [read_command(json.dumps(line).encode())], client=Client("cli"))
    return answer


class Holder:
    """The process that holds the lock, and stands still."""

    def __init__(self, url: str, *, seconds: int = IDLE_IN_TRANSACTION_SECONDS_MAX) -> None:
        self.process = start_python(
            "tests.chaos.holder",
            url,
            json.dumps(LINE),
            str(seconds),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"holding\n"
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> dict[str, Any]:
        self.process.send_signal(signal.SIGCONT)
        out, _ = self.process.communicate(b"\n", timeout=30)
        return json.loads(out)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def hold(casino: Casino, url: str) -> Iterator[Callable[..., Holder]]:
    """Starts holders, none of which outlives the test."""
    started: list[Holder] = []

    def start(**options: int) -> Holder:
        started.append(Holder(url, **options))
        return started[-1]

    yield start
    for holder in started:
        holder.process.kill()
        holder.process.wait()


@pytest.fixture
def others(casino: Casino, url: str) -> Iterator[Any]:
    """Sends a command from each of some writers at once; what will be answered."""
    pool = ThreadPoolExecutor(OTHERS)

    def start() -> list[Future[dict[str, Any]]]:
        lines = [{**LINE, "key": f"k{n}", "amount_minor": 1} for n in range(OTHERS)]
        return [pool.submit(send, casino, line) for line in lines]

    yield start
    pool.shutdown()


def check_ledger(url: str, *, available_minor: int) -> None:
    check_read_models(url)
    with psycopg.connect(url) as connection:
        assert_money_in_equals_money_out(connection)
        balances = connection.execute("SELECT available_minor FROM projection.balances").fetchall()
        keys = connection.execute("SELECT key FROM ledger.answers").fetchall()
        (events,) = connection.execute("SELECT count(*) FROM ledger.stored_events").fetchone() or ()
    assert balances == [(available_minor,)]
    assert len(set(keys)) == len(keys) == events


def must_wait(waiting: list[Future[dict[str, Any]]]) -> None:
    time.sleep(0.5)
    assert not any(each.done() for each in waiting)


def test_others_wait_for_one_that_stands_still_and_go_on_after_it(
    url: str, hold: Callable[..., Holder], others: Any
) -> None:
    holder = hold()
    waiting = others()
    must_wait(waiting)
    held = holder.go_on()

    assert (held["ok"], held["replayed"], held["position"]) == (True, False, 2)
    assert all(each.result(30)["ok"] for each in waiting)
    check_ledger(url, available_minor=1_000 + OTHERS)


def test_others_go_on_where_one_that_stands_still_is_killed(
    url: str, hold: Callable[..., Holder], others: Any
) -> None:
    holder = hold()
    waiting = others()
    must_wait(waiting)
    holder.kill()

    assert all(each.result(30)["ok"] for each in waiting)
    check_ledger(url, available_minor=OTHERS)


def test_one_that_stands_still_for_too_long_loses_the_lock_and_does_its_command_later(
    url: str, hold: Callable[..., Holder], others: Any
) -> None:
    holder = hold(seconds=2)
    waiting = others()
    must_wait(waiting)

    assert all(each.result(30)["ok"] for each in waiting)
    held = holder.go_on()
    assert (held["ok"], held["replayed"], held["position"]) == (True, False, 2 + OTHERS)
    check_ledger(url, available_minor=1_000 + OTHERS)
