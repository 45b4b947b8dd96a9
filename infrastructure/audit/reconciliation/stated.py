"""Sets a statement from outside against what was recomputed."""

from collections import Counter, defaultdict

from infrastructure.audit.reconciliation.comparison import Difference, Item, rounds_of
from infrastructure.audit.reconciliation.statement import Row, Statement

Key = tuple[str | None, ...]


class Stated:
    """A statement, and what was recomputed of the things that it is about.

    With a `day` only that day's commission was recomputed.
    """

    def __init__(self, statement: Statement, *, day: str | None) -> None:
        self._statement = statement
        self._day = day
        self._known: dict[Key, set[str]] = defaultdict(set)
        self._currencies: set[str] = set()
        self._expected: Counter[tuple[Key, str | None]] = Counter()
        self._behind: dict[tuple[Key, str | None], set[Item]] = defaultdict(set)

    @property
    def totals(self) -> Counter[str]:
        """What the statement comes to, by currency, in minor units."""
        totals: Counter[str] = Counter()
        for row in self._statement.rows:
            totals[row.currency] += row.commission_minor
        return totals

    def know(self, subject: tuple[str, ...], key: Key, currency: str | None) -> None:
        """Takes in that the ledger has something of this id, in this currency."""
        if currency is not None:
            self._currencies.add(currency)
            if subject == self._statement.subject:
                self._known[key].add(currency)

    def expect(self, item: Item, amount_minor: int) -> None:
        """Takes in an amount that was recomputed."""
        place = tuple(getattr(item, part) for part in self._statement.subject), item.currency
        self._expected[place] += amount_minor
        self._behind[place].add(item)

    def differences(self) -> list[Difference]:
        """Every key that is wrong, doubled, missing or not known, each with its rounds."""
        rows: dict[tuple[Key, str | None], list[Row]] = defaultdict(list)
        for row in self._statement.rows:
            rows[row.key, row.currency].append(row)
        found = [
            difference
            for place, some in rows.items()
            if (difference := self._difference(place, some)) is not None
        ]
        missing = [place for place in self._expected if place not in rows]
        return found + [
            self._report(place, "missing", []) for place in missing if self._expected[place]
        ]

    def _difference(self, place: tuple[Key, str | None], rows: list[Row]) -> Difference | None:
        problem = self._problem(*place)
        if problem is None and len(rows) > 1:
            problem = "duplicate"
        if problem is None and rows[0].commission_minor != self._expected[place]:
            problem = "amount"
        return None if problem is None else self._report(place, problem, rows)

    def _problem(self, key: Key, currency: str | None) -> str | None:
        if self._statement.subject == ("day",):
            if currency not in self._currencies:
                return "currency"
            return "other_day" if self._day is not None and key != (self._day,) else None
        if key not in self._known:
            return "unknown"
        return None if currency in self._known[key] else "currency"

    def _report(self, place: tuple[Key, str | None], problem: str, rows: list[Row]) -> Difference:
        key, currency = place
        behind = sorted(self._behind[place], key=lambda item: (item.round or "", item.bet or ""))
        rounds = rounds_of(behind)
        if not rounds and self._statement.subject[0] == "round" and key[0] is not None:
            # One that nobody knows, or in which nothing was due.
            rounds = (key[0],)
        return Difference(
            source="statement",
            by=" ".join(self._statement.subject),
            key=" ".join(part or "" for part in key),
            currency=currency,
            problem=problem,
            expected_minor=self._expected[place],
            found_minor=sum(row.commission_minor for row in rows),
            rounds=rounds,
            bets=tuple({"round_id": item.round, "bet_id": item.bet} for item in behind),
            lines=tuple(row.line for row in rows),
        )
