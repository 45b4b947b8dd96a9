"""Compares what is downstream with the ledger: item by item, and by sums and hashes of ranges."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import msgspec

from infrastructure.feed.envelope import Sent
from infrastructure.feed.log import FeedLog
from infrastructure.feed.sink import Kept

RANGE_SIZE = 100_000
DIFFERENCES_NAMED_MAX = 100

Sums = dict[str, dict[str, int]]
Progress = Callable[[int], None]


class _Item(msgspec.Struct):
    """What is read of an item, on either side."""

    id: str
    source: str
    type: str
    subject: str
    contenthash: str
    data: msgspec.Raw = msgspec.Raw(b"{}")


_ITEM = msgspec.json.Decoder(_Item)


@dataclass(slots=True)
class _Side:
    """One side of a range: how many items, and a hash of their bytes in their order."""

    count: int = 0
    digest: Any = field(default_factory=sha256)

    def add(self, line: bytes) -> None:
        self.count += 1
        self.digest.update(line + b"\n")

    def to_json(self) -> dict[str, Any]:
        return {"count": self.count, "hash": self.digest.hexdigest()}


@dataclass(slots=True)
class _Range:
    """The ledger's positions from `first` to `last` as both sides have them."""

    first: int
    last: int = 0
    ledger: _Side = field(default_factory=_Side)
    downstream: _Side = field(default_factory=_Side)

    def to_json(self) -> dict[str, Any]:
        ledger, downstream = self.ledger.to_json(), self.downstream.to_json()
        return {
            "from": self.first,
            "to": self.last,
            "ok": ledger == downstream,
            "ledger": ledger,
            "downstream": downstream,
        }


class _Totals:
    """Sums per currency of the amounts in the accounts' events, by topic and field."""

    def __init__(self) -> None:
        self._sums: dict[str, Counter[str]] = {}
        self._currencies: dict[str, str] = {}

    def add(self, item: _Item) -> None:
        if not item.type.startswith("account."):
            return
        data = msgspec.json.decode(item.data)
        if item.type == "account.opened":
            self._currencies[item.subject] = str(data.get("currency"))
        # An account whose opening is not there has no currency either.
        sums = self._sums.setdefault(self._currencies.get(item.subject, "unknown"), Counter())
        for name, value in data.items():
            if name.endswith("_minor") and isinstance(value, int):
                sums[f"{item.type}.{name}"] += value

    def to_json(self) -> Sums:
        return {
            currency: dict(sorted(sums.items()))
            for currency, sums in sorted(self._sums.items())
            if sums
        }


class Comparison:
    """Takes what is downstream in its order, and reads the ledger beside it."""

    def __init__(self, log: FeedLog) -> None:
        self.differences: list[dict[str, Any]] = []
        self.count_differences = 0
        self._log = log
        self._ledger = _all(log)
        self._head = log.head()
        self._next = 1
        self._at_hand: Sent | None = None
        self._gaps: list[tuple[int, int]] = []
        self._ranges: dict[int, _Range] = {}
        self._totals = _Totals(), _Totals()

    def compare(self, kept: Iterable[Kept], progress: Progress) -> None:
        """Goes through all that is downstream."""
        for each in kept:
            self._take(each)
            progress(each.place)
        for first, last in self._gaps:
            self._differ("missing", **{"from": first, "to": last})

    def to_json(self) -> dict[str, Any]:
        """What was compared, and every difference: the ledger's positions up to the last held."""
        ledger, downstream = (totals.to_json() for totals in self._totals)
        return {
            "ok": self.count_differences == 0,
            "source": self._log.source,
            "position": self._next - 1,
            "behind": self._head - (self._next - 1),
            "ranges": [each.to_json() for each in self._ranges.values()],
            "currencies": {
                currency: {
                    "ledger": ledger.get(currency, {}),
                    "downstream": downstream.get(currency, {}),
                }
                for currency in sorted({*ledger, *downstream})
            },
            "count_differences": self.count_differences,
            "differences": self.differences,
        }

    def _take(self, kept: Kept) -> None:
        try:
            item = _ITEM.decode(kept.line)
            position = int(item.id)
        except (msgspec.MsgspecError, ValueError):
            self._differ("unreadable", place=kept.place)
            return
        if item.source != self._log.source:
            self._differ("foreign", position=position, place=kept.place, source=item.source)
            return
        expected = self._peek()
        if expected is not None and expected.position != position and _is(item, expected):
            # Its own number was altered, and it says what it is by its content.
            position = expected.position
        if position < self._next:
            self._differ(
                "reordered" if self._fill_gap(position) else "doubled",
                position=position,
                place=kept.place,
            )
            expected = next(iter(self._log.page(position - 1, 1)), None)
        elif position > self._head:
            self._differ("not in the ledger", position=position, place=kept.place)
            return
        else:
            if position > self._next:
                self._gaps.append((self._next, position - 1))
            expected = self._advance(position)
        self._range(position).downstream.add(kept.line)
        self._totals[1].add(item)
        if expected is not None and kept.line != expected.line:
            self._differ(
                "altered",
                position=position,
                place=kept.place,
                attributes=_unequal(kept.line, expected.line),
            )

    def _peek(self) -> Sent | None:
        """The ledger's next event."""
        if self._at_hand is None:
            self._at_hand = next(self._ledger, None)
            if self._at_hand is not None:
                self._head = max(self._head, self._at_hand.position)
        return self._at_hand

    def _advance(self, position: int) -> Sent:
        """Takes the ledger's events up to a position, which it has."""
        while True:
            sent = self._peek()
            assert sent is not None
            self._at_hand = None
            self._next = sent.position + 1
            side = self._range(sent.position)
            side.last = sent.position
            side.ledger.add(sent.line)
            self._totals[0].add(_ITEM.decode(sent.line))
            if sent.position == position:
                return sent

    def _range(self, position: int) -> _Range:
        number = (position - 1) // RANGE_SIZE
        if number not in self._ranges:
            self._ranges[number] = _Range(number * RANGE_SIZE + 1)
        return self._ranges[number]

    def _fill_gap(self, position: int) -> bool:
        """Whether a position was missing so far; it no longer is."""
        for place, (first, last) in enumerate(self._gaps):
            if first <= position <= last:
                rest = [(first, position - 1), (position + 1, last)]
                self._gaps[place : place + 1] = [gap for gap in rest if gap[0] <= gap[1]]
                return True
        return False

    def _differ(self, problem: str, **where: Any) -> None:
        self.count_differences += 1
        if len(self.differences) < DIFFERENCES_NAMED_MAX:
            self.differences.append({"problem": problem, **where})


def _all(log: FeedLog) -> Iterator[Sent]:
    after = 0
    while page := log.page(after):
        yield from page
        after = page[-1].position


def _is(item: _Item, sent: Sent) -> bool:
    return item.contenthash == sent.hash


def _unequal(line: bytes, expected: bytes) -> list[str]:
    """The attributes in which two items differ; those of the data by their own names."""
    one, other = _flat(line), _flat(expected)
    names = sorted(name for name in {*one, *other} if one.get(name) != other.get(name))
    return names or ["written differently"]


def _flat(line: bytes) -> dict[str, Any]:
    document = msgspec.json.decode(line)
    data = document.pop("data", None)
    if not isinstance(data, dict):
        return {**document, "data": data}
    return {**document, **{f"data.{name}": value for name, value in data.items()}}
