"""What a correction does to the accounts: it undoes a settlement and makes it anew.

Only bets whose account, kind, stake or settlement changes are touched.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from domain.account import Account, AccountEvent, CommissionMarked
from domain.bets import RETURNED, Settlement
from domain.event import Stamp
from domain.round import Bet, BetChange, Round


@dataclass(frozen=True, slots=True)
class Resettlement:
    """What the accounts record before the round is corrected, and after it.

    `marked` are the accounts that commission was marked for.
    """

    reversed: tuple[AccountEvent, ...]
    settled: tuple[AccountEvent, ...]
    marked: frozenset[str]


def resettle(
    before: Round,
    after: Round,
    accounts: Mapping[str, Account],
    *,
    correction_id: str,
    shoe_is_closed: bool,
    stamp: Stamp,
) -> Resettlement:
    """Reverses what changes between a round and its correction, and settles that anew.

    What became owed by it is paid at once from what it brings. Commission that
    it marks is collected too where the shoe, whose close collects it, is closed.
    """
    books = _Books(before, accounts, stamp)
    for account_id in accounts:
        books.reopen(account_id, correction_id)
    for change in before.changes(after):
        if change.was is not None:
            books.reverse(change.was, correction_id)
    reversals, books.events = tuple(books.events), []
    moved = [change for change in before.changes(after) if not change.keeps_its_stake]
    for change in moved:
        books.give_back(change)
    # A stake is given back before one is placed, so that it can cover that one.
    for change in moved:
        books.stake(change)
    for change in before.changes(after):
        if change.becomes is not None:
            books.resolve(change.becomes, change.becomes.settlement)
    marked = frozenset(books.marked)
    for account_id, account in accounts.items():
        is_due = shoe_is_closed and account_id in marked
        books.collect(account_id, owed_before_minor=account.owed_minor, is_due=is_due)
    return Resettlement(reversals, tuple(books.events), marked)


class _Books:
    """The accounts as they stand while a correction goes through them."""

    def __init__(self, round_: Round, accounts: Mapping[str, Account], stamp: Stamp) -> None:
        self.events: list[AccountEvent] = []
        self.marked: set[str] = set()
        self._round = round_
        self._accounts = dict(accounts)
        self._stamp = stamp

    def reopen(self, account_id: str, correction_id: str) -> None:
        account = self._accounts[account_id]
        self._record(account_id, account.reopen(correction_id, stamp=self._stamp))

    def reverse(self, bet: Bet, correction_id: str) -> None:
        undone = self._accounts[bet.account_id].reverse_settlement(
            bet.settlement,
            stake_minor=bet.stake_minor,
            round_id=self._round.name,
            bet_id=bet.id,
            correction_id=correction_id,
            stamp=self._stamp,
        )
        self._record(bet.account_id, (undone,))

    def give_back(self, change: BetChange) -> None:
        if change.was is not None:
            self.resolve(change.was, RETURNED)

    def stake(self, change: BetChange) -> None:
        bet = change.becomes
        if bet is not None:
            placed = self._accounts[bet.account_id].place_corrected_stake(
                bet.stake_minor, round_id=self._round.name, bet_id=bet.id, stamp=self._stamp
            )
            self._record(bet.account_id, (placed,))

    def resolve(self, bet: Bet, settlement: Settlement) -> None:
        resolved = self._accounts[bet.account_id].resolve_stake(
            settlement,
            round_id=self._round.name,
            bet_id=bet.id,
            collection=self._round.rules.commission.collection,
            stamp=self._stamp,
        )
        self._record(bet.account_id, resolved)
        if any(isinstance(event, CommissionMarked) for event in resolved):
            self.marked.add(bet.account_id)

    def collect(self, account_id: str, *, owed_before_minor: int, is_due: bool) -> None:
        account = self._accounts[account_id]
        collected = account.collect(
            commission_minor=account.commission_due_minor if is_due else 0,
            owed_minor=account.owed_minor - owed_before_minor,
            stamp=self._stamp,
        )
        self._record(account_id, collected)

    def _record(self, account_id: str, events: Sequence[AccountEvent]) -> None:
        for event in events:
            self._accounts[account_id] = self._accounts[account_id].apply(event)
            self.events.append(event)
