"""Whatever commands a ledger has seen, corrections included, its audit has nothing to find.

Only an irregular deal is found, which is what it is recorded for.
"""

from collections.abc import Collection

import pytest

from domain.event import Recorded
from infrastructure.audit.audit import Auditor, Scope
from infrastructure.audit.findings import Code
from infrastructure.audit.replay import replay
from tests.infrastructure.audit.parts import in_one_go, in_parts
from tests.simulation.model import Ledger
from tests.simulation.playing import (
    check_books,
    check_events,
    in_memory,
    notifications,
    play,
    sequence,
)

COMMANDS_A_SEQUENCE = 150
_IRREGULAR = {Code.PLAYER_THIRD_CARD_UNEXPECTED, Code.BANKER_THIRD_CARD_UNEXPECTED}


@pytest.mark.parametrize("seed", range(9_000, 9_030))
def test_nothing_is_found_in_a_long_sequence_of_commands(seed: int) -> None:
    casino, ledger = in_memory(), Ledger()
    played = play(casino, ledger, sequence(seed), COMMANDS_A_SEQUENCE)
    check_books(casino, ledger)
    check_events(casino, played)
    stored = [
        Recorded(each.id, casino.mapper.to_domain_event(each)) for each in notifications(casino)
    ]

    assert _found(stored) <= _IRREGULAR
    _is_the_same_in_parts(stored)
    for shoe_id in ledger.shoes:
        assert _found(stored, Scope(shoe=shoe_id)) <= _IRREGULAR
    for round_id in ledger.rounds:
        assert _found(stored, Scope(round=round_id)) <= _IRREGULAR
        replayed = replay(_stream(stored, f"round:{round_id}"))
        assert replayed is not None
        assert {finding["code"] for finding in replayed["findings"]} <= _IRREGULAR


def _is_the_same_in_parts(stored: list[Recorded]) -> None:
    loaders = (
        lambda round_ids: _naming(stored, round_ids),
        lambda stream: [each for each in stored if each.event.originator_id == stream],
    )
    whole = in_one_go(stored, loaders)
    for parts in (2, 3, 5):
        cuts = [len(stored) * part // parts for part in range(1, parts)]
        assert in_parts(stored, loaders, cuts) == whole


def _found(stored: list[Recorded], scope: Scope | None = None) -> set[Code]:
    auditor = Auditor(
        lambda round_ids: _naming(stored, round_ids),
        lambda stream: [each for each in stored if each.event.originator_id == stream],
        scope=scope,
    )
    for each in stored:
        auditor.see(each)
    return set(auditor.finish().findings)


def _naming(stored: list[Recorded], round_ids: Collection[str]) -> list[Recorded]:
    streams = {f"round:{round_id}" for round_id in round_ids}
    return [
        each
        for each in stored
        if each.event.originator_id in streams or getattr(each.event, "round_id", "") in round_ids
    ]


def _stream(stored: list[Recorded], stream: str) -> list:
    return [each.event for each in stored if each.event.originator_id == stream]
