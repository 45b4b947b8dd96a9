"""A long stream is read from the state that was kept of it, and comes to the same."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from domain.account import Account
from infrastructure.casino import Casino
from infrastructure.commands.contract import read_command
from infrastructure.commands.execution import Client, execute
from infrastructure.store import states
from infrastructure.store.connection import Database
from infrastructure.store.reader import LogReader
from infrastructure.store.session import KeptState, StoredEvent
from infrastructure.store.states import EVENTS_A_STATE, restore

CLIENT = Client("cli")


@pytest.fixture
def casino(database: Database) -> Iterator[Casino]:
    with on(database) as casino:
        yield casino


def on(database: Database) -> Casino:
    return Casino(
        {
            "PERSISTENCE_MODULE": "infrastructure.store.factory",
            "PUNTO_CONNINFO": database.conninfo,
        }
    )


def send(casino: Casino, *commands: dict[str, Any]) -> list[dict[str, Any]]:
    read = [read_command(json.dumps(command).encode()) for command in commands]
    answers = execute(casino, read, client=CLIENT)
    assert all(answer["ok"] for answer in answers), answers
    return answers


def opened(account_id: str) -> dict[str, Any]:
    return {
        "command": "open_account", "key": f"open-{account_id}", "account_id": account_id,
        "currency": "USD",
    }  # fmt: skip


def deposit(account_id: str, number: int) -> dict[str, Any]:
    return {
        "command": "deposit", "key": f"{account_id}-{number}", "account_id": account_id,
        "amount_minor": number,
    }  # fmt: skip


def found(casino: Casino, stream_id: str) -> list[StoredEvent | KeptState]:
    with casino.recorder.writing() as session:  # type: ignore[attr-defined]
        return list(session.load([stream_id]))


@pytest.mark.parametrize("at_once", [1, 40])
def test_a_stream_is_read_from_its_latest_kept_state(
    casino: Casino, database: Database, at_once: int
) -> None:
    deposits = [deposit("a", number) for number in range(1, 2 * EVENTS_A_STATE + 30)]
    send(casino, opened("a"), opened("b"))
    for first in range(0, len(deposits), at_once):
        send(casino, *deposits[first : first + at_once])

    kept, *events = found(casino, "account:a")
    assert isinstance(kept, KeptState)
    assert kept.version >= 2 * EVENTS_A_STATE
    assert [each.originator_version for each in events if isinstance(each, StoredEvent)] == list(
        range(kept.version + 1, len(deposits) + 2)
    )
    with on(database) as cold:
        (answer,) = send(cold, deposit("a", 1_000_000))
    assert answer["result"]["available_minor"] == 1_000_000 + sum(range(1, len(deposits) + 1))


def test_a_kept_state_is_what_the_events_up_to_it_come_to(
    casino: Casino, database: Database
) -> None:
    send(casino, opened("a"), *[deposit("a", number) for number in range(1, EVENTS_A_STATE + 9)])
    kept = found(casino, "account:a")[0]
    assert isinstance(kept, KeptState)

    account = Account("account:a")
    with database.connect() as connection:
        for recorded in LogReader(connection).stream("account:a")[: kept.version]:
            account = account.apply(recorded.event)  # type: ignore[arg-type]
    assert restore(kept) == account


def test_a_state_kept_by_another_logic_is_not_used(
    casino: Casino, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(casino, opened("a"), *[deposit("a", number) for number in range(1, EVENTS_A_STATE + 9)])
    for module in ("recorder", "appending"):
        monkeypatch.setattr(f"infrastructure.store.{module}.STATE_LOGIC", states.STATE_LOGIC + 1)

    events = found(casino, "account:a")
    assert [each.originator_version for each in events if isinstance(each, StoredEvent)] == list(
        range(1, EVENTS_A_STATE + 10)
    )
    with on(database) as upgraded:
        send(upgraded, *[deposit("a", number) for number in range(1_000, 1_000 + EVENTS_A_STATE)])
        kept = found(upgraded, "account:a")[0]
    assert isinstance(kept, KeptState)
    assert kept.version > EVENTS_A_STATE


def test_an_account_with_stakes_in_play_is_kept_whole() -> None:
    account = Account(
        "account:a",
        version=300,
        currency="USD",
        available_minor=10**18,
        stakes={("R1", "B1"): 5, ("R1", "B2"): 7},
        marks={("R0", "B1"): 3},
        is_frozen=True,
    )
    assert restore(states.keep(account)) == account
