"""Many applications, each with connections of its own, that do the same or meet on one account."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from random import Random
from threading import Barrier
from typing import Any

import psycopg
import pytest

from infrastructure.casino import Casino
from infrastructure.commands.contract import read_command
from infrastructure.commands.execution import Client, execute
from tests.chaos.books import check_read_models
from tests.chaos.load import Answer, Command
from tests.chaos.size import COMMANDS_AT_ONCE
from tests.conftest import assert_money_in_equals_money_out

DUPLICATES = 50
WRITERS = 20
OPEN = {"command": "open_account", "key": "open", "account_id": "a", "currency": "USD"}
_VERSIONS = "SELECT originator_version FROM ledger.stored_events ORDER BY notification_id"
_BALANCE = "SELECT available_minor FROM projection.balances WHERE account_id = 'a'"


@pytest.fixture
def applications(url: str) -> Iterator[Callable[[int], list[Casino]]]:
    """Starts so many applications on one ledger."""
    env = {"PERSISTENCE_MODULE": "infrastructure.store.factory", "PUNTO_CONNINFO": url}
    with ExitStack() as started:
        yield lambda count: [started.enter_context(Casino(env)) for _ in range(count)]


def deposit(key: str, amount_minor: int) -> Command:
    return {"command": "deposit", "key": key, "account_id": "a", "amount_minor": amount_minor}


def send(casino: Casino, command: Command) -> Answer:
    read = read_command(json.dumps(command).encode())
    (answer,) = execute(casino, [read], client=Client("cli"))
    return answer


def versions(url: str) -> list[int]:
    with psycopg.connect(url) as connection:
        return [version for (version,) in connection.execute(_VERSIONS)]


def test_fifty_duplicates_at_once_are_done_by_one_of_them(
    url: str, applications: Callable[[int], list[Casino]]
) -> None:
    casinos = applications(DUPLICATES)
    send(casinos[0], OPEN)
    together = Barrier(DUPLICATES)

    def duplicate(casino: Casino) -> Answer:
        together.wait()
        return send(casino, deposit("in", 7))

    with ThreadPoolExecutor(DUPLICATES) as pool:
        answers = list(pool.map(duplicate, casinos))

    assert sorted(answer["replayed"] for answer in answers) == [False] + [True] * (DUPLICATES - 1)
    (answer,) = {json.dumps({**answer, "replayed": None}) for answer in answers}
    assert json.loads(answer)["result"]["available_minor"] == 7
    assert versions(url) == [1, 2]


def test_twenty_writers_on_one_account_see_no_conflict_and_come_to_the_sum(
    url: str, applications: Callable[[int], list[Casino]], random: Random
) -> None:
    casinos = applications(WRITERS)
    send(casinos[0], OPEN)
    together = Barrier(WRITERS)
    amounts = [[random.randrange(1, 99) for _ in range(COMMANDS_AT_ONCE)] for _ in casinos]

    def write(number: int) -> list[Answer]:
        together.wait()
        return [
            send(casinos[number], deposit(f"{number}.{n}", amount_minor))
            for n, amount_minor in enumerate(amounts[number])
        ]

    with ThreadPoolExecutor(WRITERS) as pool:
        answers: list[dict[str, Any]] = [
            answer for each in pool.map(write, range(WRITERS)) for answer in each
        ]

    assert [answer for answer in answers if not answer["ok"] or answer["replayed"]] == []
    assert versions(url) == list(range(1, len(answers) + 2))
    total_minor = sum(map(sum, amounts))
    (last,) = applications(1)
    # An application that starts knows nothing but the events.
    assert send(last, deposit("last", 1))["result"]["available_minor"] == total_minor + 1
    check_read_models(url)
    with psycopg.connect(url) as connection:
        assert connection.execute(_BALANCE).fetchall() == [(total_minor + 1,)]
        assert_money_in_equals_money_out(connection)
