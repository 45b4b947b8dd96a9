"""A thousand random sequences, every answer set against an independent model of the ledger.

`PUNTO_SEQUENCES` says how many. A failure prints its seed, and as NDJSON the
commands that lead to it.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from infrastructure.casino import Casino
from infrastructure.store.connection import Database
from tests.simulation import game
from tests.simulation.generator import START, Step
from tests.simulation.model import Ledger
from tests.simulation.playing import (
    COMMANDS_A_SEQUENCE,
    Played,
    ask,
    check_books,
    check_events,
    check_secrets,
    head,
    in_memory,
    judge,
    play,
    play_again,
    play_in_batches,
    sequence,
    story,
)

SEQUENCES = int(os.environ.get("PUNTO_SEQUENCES", "1000"))
SEQUENCES_A_TEST = 50
SEQUENCES_ON_POSTGRESQL = 25


@pytest.mark.parametrize("first_seed", range(0, SEQUENCES, SEQUENCES_A_TEST))
def test_every_answer_is_the_one_that_the_model_predicts(first_seed: int) -> None:
    for seed in range(first_seed, min(first_seed + SEQUENCES_A_TEST, SEQUENCES)):
        with _named(seed):
            casino, ledger = in_memory(), Ledger()
            played = play(casino, ledger, sequence(seed), COMMANDS_A_SEQUENCE)
            check_books(casino, ledger)
            check_events(casino, played)
            check_secrets(casino, ledger, played)

            play_again(casino, ledger, played)
            check_books(casino, ledger)

            together = in_memory()
            answers = play_in_batches([together], played, seed=seed)
            _must_be_the_same(played, answers)
            check_books(together, ledger)


def test_postgresql_and_memory_give_the_same_answers(database: Database) -> None:
    on_postgresql, one_by_one, together = _on_postgresql(database), in_memory(), in_memory()
    ledger = Ledger()
    start = START
    try:
        for seed in range(SEQUENCES_ON_POSTGRESQL):
            with _named(seed):
                generator = sequence(seed, prefix=f"{seed}-", start=start)
                before = head(on_postgresql)
                played = play(on_postgresql, ledger, generator, COMMANDS_A_SEQUENCE)
                check_books(on_postgresql, ledger)
                check_events(on_postgresql, played, after=before)
                _must_be_the_same(played, [ask(one_by_one, one.step).answer for one in played])
                _must_be_the_same(played, play_in_batches([together], played, seed=seed))
                play_again(on_postgresql, ledger, played)
                start = generator.now + timedelta(minutes=1)
        check_books(on_postgresql, ledger)
        check_books(one_by_one, ledger)
    finally:
        on_postgresql.close()


def test_two_applications_on_one_database_give_the_answers_of_one(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("infrastructure.casino.AGGREGATES_IN_MEMORY", 5)
    applications = [_on_postgresql(database), _on_postgresql(database)]
    one_by_one, ledger = in_memory(), Ledger()
    start = START
    try:
        for seed in range(SEQUENCES_ON_POSTGRESQL):
            with _named(seed):
                generator = sequence(seed, prefix=f"{seed}-", start=start)
                played = play(one_by_one, ledger, generator, COMMANDS_A_SEQUENCE)
                _must_be_the_same(played, play_in_batches(applications, played, seed=seed))
                start = generator.now + timedelta(minutes=1)
        for application in applications:
            check_books(application, ledger)
    finally:
        for application in applications:
            application.close()


@pytest.mark.parametrize("decks", [6, 8])
def test_a_shuffled_shoe_is_dealt_to_its_end_as_the_model_predicts(decks: int) -> None:
    casino, ledger = in_memory(), Ledger()
    opening = [
        {"command": "open_table", "table_id": "t", "currency": "USD", "rules": {"decks": decks}},
        {"command": "open_account", "account_id": "a", "currency": "USD"},
        {"command": "deposit", "account_id": "a", "amount_minor": 1_000_000},
        {"command": "open_shoe", "shoe_id": "s", "table_id": "t", "source": "shuffled"}
        | {"seed": "5a" * 32},
    ]
    rounds = [
        {"command": "play_round", "round_id": f"r{number}", "shoe_id": "s"}
        | {"bets": [_bet(kind) for kind in game.STANDARD_ODDS if kind != "player"]}
        for number in range(1, 10 * decks + 15)
    ]
    played: list[Played] = []
    for number, command in enumerate(
        [*opening, *rounds, {"command": "close_shoe", "shoe_id": "s"}]
    ):
        played.append(ask(casino, _step(number, command)))
        faults = judge(ledger, played[-1])
        assert not faults, story(played, faults)
    answers = [one.answer for one in played if one.answer is not None]
    assert [answer["ok"] for answer in answers[-3:]] == [False, False, True]
    assert answers[-2]["error"]["code"] == "shoe_exhausted"
    check_books(casino, ledger)
    check_events(casino, played)
    check_secrets(casino, ledger, played)


def _bet(kind: str) -> dict[str, object]:
    return {"bet_id": f"on-{kind}", "account_id": "a", "bet": kind, "stake_minor": 100}


def _step(number: int, command: dict[str, object]) -> Step:
    keyed = {**command, "key": f"k{number}"}
    return Step(json.dumps(keyed).encode(), keyed, "cli", START + timedelta(seconds=number))


def _on_postgresql(database: Database) -> Casino:
    return Casino(
        {
            "PERSISTENCE_MODULE": "infrastructure.store.factory",
            "PUNTO_CONNINFO": database.conninfo,
        }
    )


def _must_be_the_same(played: list[Played], answers: list[dict[str, object] | None]) -> None:
    for number, (one, answer) in enumerate(zip(played, answers, strict=True), 1):
        assert answer == one.answer, story(played[:number], [f"elsewhere it is {answer}"])


@contextmanager
def _named(seed: int) -> Iterator[None]:
    try:
        yield
    except AssertionError as error:
        error.add_note(f"The seed is {seed}.")
        raise
