"""What an audit finds: the codes, one finding, and the report over all of them."""

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
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
    """

    def __init__(self, *, examples_max: int) -> None:
        self._examples_max = examples_max
        self._counts: Counter[Code] = Counter()
        self._examples: dict[Code, list[Finding]] = {code: [] for code in Code}
        self._verdicts: dict[str, tuple[Finding, ...]] = {}
        self._shoes: dict[str, tuple[Finding, ...]] = {}

    def add(self, findings: Iterable[Finding]) -> None:
        """Adds findings that belong to no verdict."""
        for finding in findings:
            self._counts[finding.code] += 1
            examples = self._examples[finding.code]
            if len(examples) < self._examples_max:
                examples.append(finding)

    def judge(self, round_id: str, findings: list[Finding]) -> None:
        """Sets a round's verdict; an earlier one of the same round no longer counts."""
        self._replace(self._verdicts, round_id, findings)

    def judge_shoe(self, shoe_id: str, findings: list[Finding]) -> None:
        """Sets the verdict on a shoe's cards; an earlier one no longer counts."""
        self._replace(self._shoes, shoe_id, findings)

    def _replace(
        self, verdicts: dict[str, tuple[Finding, ...]], name: str, findings: list[Finding]
    ) -> None:
        for finding in verdicts.pop(name, ()):
            self._counts[finding.code] -= 1
            with suppress(ValueError):
                self._examples[finding.code].remove(finding)
        if findings:
            verdicts[name] = tuple(findings)
            self.add(findings)

    def report(self, *, rounds: int) -> Report:
        """The report over everything so far."""
        return Report(
            rounds=rounds,
            rounds_with_findings=len(self._verdicts),
            findings={code: self._counts[code] for code in Code if self._counts[code]},
            examples=tuple(example for code in Code for example in self._examples[code]),
        )
