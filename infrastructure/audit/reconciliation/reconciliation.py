"""Reconciles the commission: the cards, the accounts' events, the ledger, and a statement.

One pass over the events in the order of their positions. The rounds give what
is due by the cards, the accounts what was charged, marked and taken back; the
postings of the journal come beside them as far as the events have come.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, cast, get_args

from domain.account import (
    AccountOpened,
    CommissionCharged,
    CommissionMarked,
    DueCollected,
    SettlementReversed,
)
from domain.event import NEVER, DomainEvent, Entry, Recorded, Unreadable
from domain.round import BetPlaced, RoundEvent, RoundOpened
from domain.shoe import ShoeOpened
from domain.site import Site, SiteEvent
from domain.table import TableOpened
from infrastructure.audit.reconciliation.comparison import (
    Difference,
    Item,
    Pairing,
    differences,
)
from infrastructure.audit.reconciliation.ledger import LedgerAmount
from infrastructure.audit.reconciliation.recomputed import RecomputedRound
from infrastructure.audit.reconciliation.stated import Stated
from infrastructure.audit.reconciliation.statement import Statement

ROUNDS_IN_MEMORY = 10_000

ReadPostings = Callable[[int, int], Iterable[LedgerAmount]]
"""Gives the ledger's postings after a position, up to and with another."""

LoadStream = Callable[[str], Sequence[Entry]]
"""Gives every event of a stream, by position."""

_ROUND_EVENTS = get_args(RoundEvent)
_SITE_EVENTS = get_args(SiteEvent)


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What each source comes to by currency, in minor units, and where they differ."""

    currencies: dict[str, dict[str, int | None]]
    differences: tuple[Difference, ...]

    @property
    def ok(self) -> bool:
        """Whether every source says the same."""
        return not self.differences

    def to_json(self) -> dict[str, Any]:
        """The answer of `punto reconcile commission --json`."""
        return {
            "ok": self.ok,
            "currencies": self.currencies,
            "differences": [difference.to_json() for difference in self.differences],
        }


class Reconciliation:
    """Sees every event once, and every posting; with a `day` only that gaming day counts."""

    def __init__(
        self,
        load_stream: LoadStream,
        *,
        day: date | None = None,
        statement: Statement | None = None,
    ) -> None:
        self._load_stream = load_stream
        self._day = None if day is None else day.isoformat()
        self._stated = None if statement is None else Stated(statement, day=self._day)
        self._site = Site()
        self._rounds: OrderedDict[str, RecomputedRound] = OrderedDict()
        self._accounts: dict[str, str] = {}
        self._tables: dict[str, str] = {}
        self._events = Pairing()
        self._ledger = Pairing()
        self._due = Pairing()
        self._unreadable: list[Unreadable] = []
        self._booked_at, self._booked_day = NEVER, ""

    def see(self, recorded: Recorded) -> None:
        """Takes in the next event."""
        position, event = recorded
        if isinstance(event, _ROUND_EVENTS):
            self._see_round(position, cast(RoundEvent, event))
        elif isinstance(event, CommissionCharged):
            self._see_commission(position, event, event.commission_minor, due_minor=0)
        elif isinstance(event, CommissionMarked):
            minor = event.commission_minor
            self._see_commission(position, event, minor, due_minor=minor)
        elif isinstance(event, SettlementReversed):
            minor = -event.refunded_minor - event.unmarked_minor
            self._see_commission(position, event, minor, due_minor=-event.unmarked_minor)
        elif isinstance(event, DueCollected):
            self._see_collection(event)
        elif isinstance(event, AccountOpened):
            account_id = event.originator_id.removeprefix("account:")
            self._accounts[account_id] = event.currency
            self._know(("account",), (account_id,), event.currency)
        elif isinstance(event, TableOpened):
            table_id = event.originator_id.removeprefix("table:")
            self._tables[table_id] = event.currency
            self._know(("table",), (table_id,), event.currency)
        elif isinstance(event, ShoeOpened):
            shoe_id = event.originator_id.removeprefix("shoe:")
            self._know(("shoe",), (shoe_id,), self._tables.get(event.table_id))
        elif isinstance(event, _SITE_EVENTS):
            self._site = self._site.apply(cast(SiteEvent, event))
            self._booked_at = NEVER

    def unreadable(self, entry: Unreadable) -> None:
        """Takes in that the next event cannot be decoded."""
        self._unreadable.append(entry)

    def see_posting(self, posting: LedgerAmount) -> None:
        """Takes in the next posting of the journal."""
        if self._counts(posting.item):
            pairing = self._due if posting.is_due else self._ledger
            pairing.find(posting.item, posting.amount_minor)

    def finish(self) -> Reconciled:
        """What it all comes to."""
        found = differences(self._events, "events")
        found += differences(self._ledger, "ledger")
        found += differences(self._due, "commission_due", ("account",))
        if self._stated is not None:
            found += self._stated.differences()
        found += [_cannot_be_read(entry) for entry in self._unreadable]
        return Reconciled(self._totals(), tuple(found))

    def _see_round(self, position: int, event: RoundEvent) -> None:
        round_id = event.originator_id.removeprefix("round:")
        round_ = self._round(round_id, position, is_new=event.originator_version == 1)
        for change in round_.see(event):
            item = Item(
                round_.currency,
                round_.table_id,
                round_.shoe_id,
                change.account_id,
                self._booked_on(event),
                round_id,
                change.bet_id,
            )
            if self._counts(item):
                self._events.expect(item, change.commission_minor)
                self._ledger.expect(item, change.commission_minor)
                if self._stated is not None:
                    self._stated.expect(item, change.commission_minor)
        if isinstance(event, RoundOpened):
            self._know(("round",), (round_id,), event.currency)
        elif isinstance(event, BetPlaced):
            self._know(("bet",), (event.bet_id,), round_.currency)
            self._know(("round", "bet"), (round_id, event.bet_id), round_.currency)

    def _see_commission(
        self,
        position: int,
        event: CommissionCharged | CommissionMarked | SettlementReversed,
        amount_minor: int,
        *,
        due_minor: int,
    ) -> None:
        """An account's event on the commission of a bet."""
        account_id = event.originator_id.removeprefix("account:")
        round_ = self._round(event.round_id, position)
        item = Item(
            self._accounts.get(account_id),
            round_.table_id,
            round_.shoe_id,
            account_id,
            self._booked_on(event),
            event.round_id,
            event.bet_id,
        )
        if self._counts(item):
            self._events.find(item, amount_minor)
            self._due.expect(item._replace(table=None, shoe=None), due_minor)

    def _see_collection(self, event: DueCollected) -> None:
        account_id = event.originator_id.removeprefix("account:")
        currency = self._accounts.get(account_id)
        item = Item(currency, None, None, account_id, self._booked_on(event), None, None)
        if self._counts(item):
            self._due.expect(item, -event.commission_minor)

    def _round(self, round_id: str, position: int, *, is_new: bool = False) -> RecomputedRound:
        """A round as it stood before a position; one that was dropped is read again."""
        round_ = self._rounds.get(round_id)
        if round_ is None:
            round_ = self._rounds[round_id] = RecomputedRound()
            for entry in () if is_new else self._load_stream(f"round:{round_id}"):
                if isinstance(entry, Recorded) and entry.position < position:
                    round_.see(cast(RoundEvent, entry.event))
            if len(self._rounds) > ROUNDS_IN_MEMORY:
                self._rounds.popitem(last=False)
        return round_

    def _booked_on(self, event: DomainEvent) -> str:
        if event.at != self._booked_at:
            # The events of one settlement all have its time.
            self._booked_at = event.at
            self._booked_day = self._site.calendar.booked_on(event.at).isoformat()
        return self._booked_day

    def _counts(self, item: Item) -> bool:
        return self._day is None or item.day == self._day

    def _know(self, subject: tuple[str, ...], key: tuple[str, ...], currency: str | None) -> None:
        if self._stated is not None:
            self._stated.know(subject, key, currency)

    def _totals(self) -> dict[str, dict[str, int | None]]:
        stated = Counter[str]() if self._stated is None else self._stated.totals
        sums = {
            "recomputed_minor": _by_currency(self._events.expected),
            "events_minor": _by_currency(self._events.found),
            "ledger_minor": _by_currency(self._ledger.found),
        }
        currencies = set(stated) | set(self._tables.values())
        for each in sums.values():
            currencies |= set(each)
        return {
            currency: {
                **{name: totals[currency] for name, totals in sums.items()},
                "statement_minor": None if self._stated is None else stated[currency],
            }
            for currency in sorted(currencies)
        }


def reconcile(
    pages: Iterable[Iterable[Entry]],
    read_postings: ReadPostings,
    load_stream: LoadStream,
    *,
    day: date | None = None,
    statement: Statement | None = None,
) -> Reconciled:
    """Reconciles pages of events, in the order of positions, and the postings made of them."""
    reconciliation = Reconciliation(load_stream, day=day, statement=statement)
    position = 0
    for page in pages:
        after = position
        for entry in page:
            position = entry.position
            if isinstance(entry, Unreadable):
                reconciliation.unreadable(entry)
            else:
                reconciliation.see(entry)
        # Beside the events of this page, so that what agrees is forgotten.
        for posting in read_postings(after, position):
            reconciliation.see_posting(posting)
    return reconciliation.finish()


def _by_currency(totals: Counter[tuple[str, str | None, str | None]]) -> Counter[str]:
    sums: Counter[str] = Counter()
    for (dimension, currency, _), minor in totals.items():
        if dimension == "table":
            sums[currency or "?"] += minor
    return sums


def _cannot_be_read(entry: Unreadable) -> Difference:
    kind, _, name = entry.stream.partition(":")
    return Difference(
        source="events",
        by="stream",
        key=entry.stream,
        currency=None,
        problem="unreadable",
        expected_minor=0,
        found_minor=0,
        rounds=(name,) if kind == "round" else (),
    )
