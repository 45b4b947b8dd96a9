"""What an audit finds: the codes, one finding, and the report over all of them."""

from bisect import insort
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import Any, NamedTuple


class Code(StrEnum):
    """Every kind of finding, in the order in which a report lists them."""

    PLAYER_THIRD_CARD_MISSING = "player_third_card_missing"
    BANKER_THIRD_CARD_MISSING = "banker_third_card_missing"
    PLAYER_THIRD_CARD_UNEXPECTED = "player_third_card_unexpected"
    BANKER_THIRD_CARD_UNEXPECTED = "banker_third_card_unexpected"
    PLAYER_TOTAL_MISMATCH = "player_total_mismatch"
    BANKER_TOTAL_MISMATCH = "banker_total_mismatch"
    OUTCOME_MISMATCH = "outcome_mismatch"
    PAYOUT_MISMATCH = "payout_mismatch"
    COMMISSION_MISMATCH = "commission_mismatch"
    RULES_MISMATCH = "rules_mismatch"
    CORRECTION_MISMATCH = "correction_mismatch"
    BET_UNSETTLED = "bet_unsettled"
    BET_SETTLED_TWICE = "bet_settled_twice"
    ACCOUNT_MISMATCH = "account_mismatch"
    IN_PLAY_NOT_ZERO = "in_play_not_zero"
    SHOE_OVERDRAWN = "shoe_overdrawn"
    SHOE_CARD_EXCESS = "shoe_card_excess"
    SHOE_SEQUENCE_GAP = "shoe_sequence_gap"
    STREAM_GAP = "stream_gap"
    HISTORY_UNPROTECTED = "history_unprotected"


class Finding(NamedTuple):
    """One fault. With a `shoe_id` it stands with the shoe, whatever round it concerns."""

    code: Code
    detail: str
    round_id: str | None = None
    shoe_id: str | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """What an audit came to. Only codes that occurred are counted."""

    rounds: int
    rounds_with_findings: int
    findings: dict[Code, int]
    examples: tuple[Finding, ...]

    def to_json(self) -> dict[str, Any]:
        """The answer of `punto audit --json`."""
        return {
            "rounds": self.rounds,
            "rounds_with_findings": self.rounds_with_findings,
            "findings": {code.value: count for code, count in self.findings.items()},
            "examples": [_example(finding) for finding in self.examples],
        }


def _example(finding: Finding) -> dict[str, Any]:
    example: dict[str, Any] = {
        "round_id": finding.round_id,
        "code": finding.code.value,
        "detail": finding.detail,
    }
    if finding.shoe_id is not None:
        example["shoe_id"] = finding.shoe_id
    return example


class Tally:
    """Counts findings and keeps the first few of each code.

    Of a round, and of a shoe's cards, it remembers what was found, so that a
    later verdict can take the place of the first. What it holds grows with the
    faults, not with the ledger.

    Which findings come first does not depend on when they were added but on
    their `place`, a position of the ledger, and on what they are about. So the
    tallies of several processes make one, whoever judged what.
    """

    def __init__(self, *, examples_max: int) -> None:
        self._examples_max = examples_max
        self._counts: Counter[Code] = Counter()
        self._examples: dict[Code, list[_Placed]] = {}
        self._verdicts: dict[str, tuple[_Placed, ...]] = {}
        self._shoes: dict[str, tuple[_Placed, ...]] = {}

    def add(self, findings: Iterable[Finding], *, place: int = 0) -> None:
        """Adds findings that belong to no verdict."""
        for placed in _place(findings, place):
            code = placed.finding.code
            self._counts[code] += 1
            self._show(self._examples.setdefault(code, []), placed)

    def judge(self, round_id: str, findings: list[Finding], *, place: int = 0) -> None:
        """Sets a round's verdict; an earlier one of the same round no longer counts."""
        self._verdicts.pop(round_id, None)
        if findings:
            self._verdicts[round_id] = tuple(_place(findings, place))

    def judge_shoe(self, shoe_id: str, findings: list[Finding], *, place: int = 0) -> None:
        """Sets the verdict on a shoe's cards; an earlier one no longer counts."""
        self._shoes.pop(shoe_id, None)
        if findings:
            self._shoes[shoe_id] = tuple(_place(findings, place))

    def take_in(self, other: "Tally") -> None:
        """Adds what another tally holds; no round or shoe was judged in both."""
        self._counts += other._counts
        for code, examples in other._examples.items():
            for placed in examples:
                self._show(self._examples.setdefault(code, []), placed)
        self._verdicts.update(other._verdicts)
        self._shoes.update(other._shoes)

    def report(self, *, rounds: int) -> Report:
        """The report over everything so far."""
        counts = self._counts.copy()
        examples = {code: list(placed) for code, placed in self._examples.items()}
        for verdict in chain(self._verdicts.values(), self._shoes.values()):
            for placed in verdict:
                counts[placed.finding.code] += 1
                self._show(examples.setdefault(placed.finding.code, []), placed)
        return Report(
            rounds=rounds,
            rounds_with_findings=len(self._verdicts),
            findings={code: counts[code] for code in Code if counts[code]},
            examples=tuple(placed.finding for code in Code for placed in examples.get(code, ())),
        )

    def _show(self, examples: list["_Placed"], placed: "_Placed") -> None:
        if len(examples) < self._examples_max or placed < examples[-1]:
            insort(examples, placed)
            del examples[self._examples_max :]


class _Placed(NamedTuple):
    """A finding with all that its place among the examples depends on."""

    place: int
    about: tuple[str, str]
    number: int
    finding: Finding


def _place(findings: Iterable[Finding], place: int) -> Iterator[_Placed]:
    for number, finding in enumerate(findings):
        about = (finding.round_id or "", finding.shoe_id or "")
        yield _Placed(place, about, number, finding)
