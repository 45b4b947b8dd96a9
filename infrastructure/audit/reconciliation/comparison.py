"""Sets what is said of commission against what was recomputed, to the minor unit.

Amounts that agree are forgotten as soon as they do, so that memory is bounded
by the differences and by the number of tables, shoes, accounts and days.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

DIMENSIONS = ("table", "shoe", "account", "day")
"""What totals are compared by."""


class Item(NamedTuple):
    """What an amount of commission belongs to; None where nothing says so."""

    currency: str | None
    table: str | None
    shoe: str | None
    account: str | None
    day: str
    round: str | None
    bet: str | None


@dataclass(slots=True)
class _Amounts:
    """What two sources say of one item, in minor units."""

    expected_minor: int = 0
    found_minor: int = 0


class Pairing:
    """Two sources of the same amounts, which may come in any order."""

    def __init__(self) -> None:
        self._open: dict[Item, _Amounts] = {}
        self.expected: Counter[tuple[str, str | None, str | None]] = Counter()
        self.found: Counter[tuple[str, str | None, str | None]] = Counter()

    def expect(self, item: Item, amount_minor: int) -> None:
        """Takes in an amount of the source that is trusted."""
        self._count(self.expected, item, amount_minor)
        amounts = self._open.setdefault(item, _Amounts())
        amounts.expected_minor += amount_minor
        self._forget(item, amounts)

    def find(self, item: Item, amount_minor: int) -> None:
        """Takes in an amount of the source that is checked."""
        self._count(self.found, item, amount_minor)
        amounts = self._open.setdefault(item, _Amounts())
        amounts.found_minor += amount_minor
        self._forget(item, amounts)

    def differences(self, by: str) -> Iterable[tuple[str | None, str | None, list[Item]]]:
        """The currencies and keys under which something is left, each with the items."""
        items: dict[tuple[str | None, str | None], list[Item]] = defaultdict(list)
        for item in self._open:
            items[item.currency, getattr(item, by)].append(item)
        for currency, key in sorted(items, key=_in_order):
            yield currency, key, sorted(items[currency, key], key=_in_order)

    def bet(self, item: Item) -> dict[str, Any]:
        """What is left of an item, for a report."""
        amounts = self._open[item]
        return {
            "round_id": item.round,
            "bet_id": item.bet,
            "expected_minor": amounts.expected_minor,
            "found_minor": amounts.found_minor,
        }

    def _count(
        self,
        totals: Counter[tuple[str, str | None, str | None]],
        item: Item,
        amount_minor: int,
    ) -> None:
        for dimension in DIMENSIONS:
            totals[dimension, item.currency, getattr(item, dimension)] += amount_minor

    def _forget(self, item: Item, amounts: _Amounts) -> None:
        if amounts.expected_minor == amounts.found_minor:
            del self._open[item]


@dataclass(frozen=True, slots=True)
class Difference:
    """A total in which a source is not what was expected, and the rounds and bets behind it.

    `by` names the kind of the key; `expected_minor` was recomputed from the
    cards, or from the accounts' events where the source is the ledger's
    `commission_due`.
    """

    source: str
    by: str
    key: str | None
    currency: str | None
    problem: str
    expected_minor: int
    found_minor: int
    rounds: tuple[str, ...]
    bets: tuple[Mapping[str, Any], ...] = ()
    lines: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The difference as `punto reconcile` reports it."""
        document = {
            "source": self.source,
            "by": self.by,
            "key": self.key,
            "currency": self.currency,
            "problem": self.problem,
            "expected_minor": self.expected_minor,
            "found_minor": self.found_minor,
            "difference_minor": self.found_minor - self.expected_minor,
            "rounds": list(self.rounds),
            "bets": [dict(bet) for bet in self.bets],
        }
        return {**document, "lines": list(self.lines)} if self.lines else document


def differences(
    pairing: Pairing, source: str, dimensions: Iterable[str] = DIMENSIONS
) -> list[Difference]:
    """Every total in which the two sources of a pairing differ, or the bets beneath it do."""
    return [
        Difference(
            source=source,
            by=by,
            key=key,
            currency=currency,
            problem="amount",
            expected_minor=pairing.expected[by, currency, key],
            found_minor=pairing.found[by, currency, key],
            rounds=rounds_of(items),
            bets=tuple(pairing.bet(item) for item in items if item.bet is not None),
        )
        for by in dimensions
        for currency, key, items in pairing.differences(by)
    ]


def rounds_of(items: Iterable[Item]) -> tuple[str, ...]:
    """The rounds of some items, each once, in order."""
    return tuple(sorted({item.round for item in items if item.round is not None}))


def _in_order(parts: Iterable[str | None]) -> list[str]:
    return ["" if part is None else part for part in parts]
