"""Random sequences in the books: whatever was done, every account comes to what its events say."""

from datetime import timedelta
from typing import Any

from psycopg import Connection

from domain.account import Account
from domain.event import Recorded
from domain.round import Round
from infrastructure.casino import Casino
from infrastructure.store.connection import Database
from projections.balances import accounts
from projections.postings import balance_as_of, trial_balance
from projections.runner import catch_up, check, parked
from tests.simulation.generator import START
from tests.simulation.model import Ledger
from tests.simulation.playing import (
    COMMANDS_A_SEQUENCE,
    in_memory,
    notifications,
    play,
    sequence,
)

States = dict[str, Account | Round]

SEQUENCES = 40


def test_balances_journal_and_events_agree_after_any_sequence(database: Database) -> None:
    casino, ledger = in_memory(), Ledger()
    start = START
    for seed in range(SEQUENCES):
        generator = sequence(seed, prefix=f"{seed}-", start=start)
        play(casino, ledger, generator, 3 * COMMANDS_A_SEQUENCE)
        start = generator.now + timedelta(minutes=1)
    events = _events(casino)
    topics = {each.event.TOPIC for each in events}
    assert topics >= {"account.settlement_reversed", "account.due_collected", "round.voided"}

    def source(after: int, limit: int) -> list[Recorded]:
        return events[after : after + limit]

    with database.connect() as connection:
        catch_up(connection, source, events_per_page=777)
        assert parked(connection) == []
        states = _states(events)
        _check_trial_balance(connection, states)
        _check_accounts(connection, states, len(events))
        assert check(connection, source) == []


def _check_trial_balance(connection: Connection[Any], states: States) -> None:
    """It is zero in each currency, and no stake of a finished round is left in play."""
    lines = trial_balance(connection)
    assert all(line.balance_minor == line.kept_minor for line in lines)
    for currency in {line.currency for line in lines}:
        assert sum(line.balance_minor for line in lines if line.currency == currency) == 0
    held = {line.account: line.balance_minor for line in lines if line.account != "cage"}
    finished = [
        state for state in states.values() if isinstance(state, Round) and state.is_finished
    ]
    assert finished
    assert not any(held.get(f"in_play:{round_.name}", 0) for round_ in finished)


def _check_accounts(connection: Connection[Any], states: States, head: int) -> None:
    """The row of an account, its postings and a fold of its events are the same."""
    listed = accounts(connection)
    assert {f"account:{line.account_id}" for line in listed} == {
        name for name, state in states.items() if isinstance(state, Account)
    }
    for line in listed:
        account = states[f"account:{line.account_id}"]
        posted = balance_as_of(connection, line.account_id, head)
        for name in ("available_minor", "in_play_minor", "commission_due_minor", "owed_minor"):
            assert getattr(line, name) == getattr(account, name) == getattr(posted, name)


def _events(casino: Casino) -> list[Recorded]:
    stored = notifications(casino)
    return [
        Recorded(position, casino.mapper.to_domain_event(each))
        for position, each in enumerate(stored, 1)
    ]


def _states(events: list[Recorded]) -> States:
    states: States = {}
    kinds = {"account": Account, "round": Round}
    for _, event in events:
        kind, _, _ = event.originator_id.partition(":")
        if kind in kinds:
            state = states.get(event.originator_id) or kinds[kind](event.originator_id)
            states[event.originator_id] = state.apply(event)  # type: ignore[arg-type]
    return states
