"""A player's account: the wallet, the stakes in play, and what is due.

All amounts are whole minor units of the account's one currency. The account's
version is its sequential transaction number.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, ClassVar, get_args

from msgspec import Struct
from msgspec.structs import replace

from domain.bets import Result, Settlement
from domain.errors import Refused
from domain.event import (
    MAXIMUM_WIN_MINOR,
    NEVER,
    Amount,
    DomainEvent,
    PositiveAmount,
    Stamp,
)
from domain.money import Collection

# By themselves: Python 3.11 finds a member of an enumeration by a function, each time.
_WON, _LOST = Result.WON, Result.LOST
_PER_ROUND = Collection.PER_ROUND

MAXIMUM_BALANCE_MINOR = 10**18
"""No deposit takes a balance above this."""

MAXIMUM_PAYABLE_MINOR = 9 * 10**18
"""Neither a balance nor what is due comes above this, whatever the bets win.

It fits into 64 bits, with room for the minima of commissions.
"""


class AccountOpened(DomainEvent):
    """An account opened in one currency."""

    TOPIC: ClassVar[str] = "account.opened"
    currency: str


class FundsDeposited(DomainEvent):
    """Money came in through the cage."""

    TOPIC: ClassVar[str] = "account.funds_deposited"
    amount_minor: PositiveAmount


class FundsWithdrawn(DomainEvent):
    """Money went out through the cage."""

    TOPIC: ClassVar[str] = "account.funds_withdrawn"
    amount_minor: PositiveAmount


class StakePlaced(DomainEvent):
    """The stake of an accepted bet left the available balance and is in play.

    `owed_minor` is what the balance did not cover of a stake that a correction
    placed: it is owed from now on.
    """

    TOPIC: ClassVar[str] = "account.stake_placed"
    round_id: str
    bet_id: str
    stake_minor: PositiveAmount
    owed_minor: PositiveAmount | None = None


class StakeLost(DomainEvent):
    """A stake in play went to the house."""

    TOPIC: ClassVar[str] = "account.stake_lost"
    round_id: str
    bet_id: str
    stake_minor: PositiveAmount


class StakeReturned(DomainEvent):
    """A stake in play came back: a push, a void round or a cancelled bet."""

    TOPIC: ClassVar[str] = "account.stake_returned"
    round_id: str
    bet_id: str
    stake_minor: PositiveAmount


class WinPaid(DomainEvent):
    """A stake in play came back and its win was paid on top, in full."""

    TOPIC: ClassVar[str] = "account.win_paid"
    round_id: str
    bet_id: str
    stake_minor: PositiveAmount
    win_minor: Amount


class CommissionCharged(DomainEvent):
    """Commission on a win was taken from the available balance."""

    TOPIC: ClassVar[str] = "account.commission_charged"
    round_id: str
    bet_id: str
    commission_minor: PositiveAmount


class CommissionMarked(DomainEvent):
    """Commission on a win was recorded as due from the player."""

    TOPIC: ClassVar[str] = "account.commission_marked"
    round_id: str
    bet_id: str
    commission_minor: PositiveAmount


class DueCollected(DomainEvent):
    """Commission that was due and shortfalls that were owed were paid from the balance."""

    TOPIC: ClassVar[str] = "account.due_collected"
    commission_minor: Amount
    owed_minor: Amount


class SettlementReversed(DomainEvent):
    """What the settlement of a bet did was undone by a correction: its stake is in play again.

    The win, and the stake unless it was lost, leave the available balance; what
    that does not cover is owed from now on. Of the commission, `refunded_minor`
    had left the balance and comes back; `unmarked_minor` was still due.
    """

    TOPIC: ClassVar[str] = "account.settlement_reversed"
    correction_id: str
    round_id: str
    bet_id: str
    result: Result
    stake_minor: PositiveAmount
    win_minor: Amount
    refunded_minor: Amount
    unmarked_minor: Amount
    owed_minor: Amount

    @property
    def taken_minor(self) -> int:
        """What the settlement had paid out: the win, and the stake where it came back."""
        return self.win_minor + (0 if self.result is _LOST else self.stake_minor)


class AccountReopened(DomainEvent):
    """A closed account took a correction: it is open again, and frozen."""

    TOPIC: ClassVar[str] = "account.reopened"
    correction_id: str


class AccountFrozen(DomainEvent):
    """Bets and withdrawals are stopped; settlements and refunds go on."""

    TOPIC: ClassVar[str] = "account.frozen"
    reason: str


class AccountUnfrozen(DomainEvent):
    """Bets and withdrawals are free again."""

    TOPIC: ClassVar[str] = "account.unfrozen"
    reason: str


class AccountClosed(DomainEvent):
    """The account ended with nothing in it."""

    TOPIC: ClassVar[str] = "account.closed"
    reason: str


AccountEvent = (
    AccountOpened
    | FundsDeposited
    | FundsWithdrawn
    | StakePlaced
    | StakeLost
    | StakeReturned
    | WinPaid
    | CommissionCharged
    | CommissionMarked
    | DueCollected
    | SettlementReversed
    | AccountFrozen
    | AccountUnfrozen
    | AccountClosed
    | AccountReopened
)


class Account(Struct, frozen=True, gc=False):
    """What a player has, has in play, and owes.

    `marks` is the commission due by the round and the bet that it was marked
    for, in that order; what is collected pays the oldest first.
    """

    id: str
    version: int = 0
    at: datetime = NEVER
    currency: str = ""
    available_minor: int = 0
    stakes: Mapping[tuple[str, str], int] = {}
    marks: Mapping[tuple[str, str], int] = {}
    owed_minor: int = 0
    is_frozen: bool = False
    is_closed: bool = False

    @property
    def name(self) -> str:
        """The id that the client chose."""
        return self.id.removeprefix("account:")

    @property
    def in_play_minor(self) -> int:
        """Stakes that left the available balance and are not resolved."""
        return sum(self.stakes.values())

    @property
    def commission_due_minor(self) -> int:
        """Commission that was marked and is not collected."""
        return sum(self.marks.values())

    @property
    def balance_minor(self) -> int:
        """What is available and what is in play."""
        return self.available_minor + self.in_play_minor

    def open(self, currency: str, *, stamp: Stamp) -> AccountOpened:
        """Opens the account; refuses one that is there, closed or not."""
        if self.version:
            raise Refused("already_exists", f"account {self.name} is there", field="account_id")
        return AccountOpened(*stamp.on(self.id, 1), currency=currency)

    def deposit(self, amount_minor: int, *, stamp: Stamp) -> FundsDeposited:
        """Takes money in; a frozen account may still receive."""
        self._must_be_open()
        if self.balance_minor + amount_minor > MAXIMUM_BALANCE_MINOR:
            raise Refused(
                "limit_above",
                f"the balance would exceed {MAXIMUM_BALANCE_MINOR} minor units",
                field="amount_minor",
            )
        return FundsDeposited(*self._next(stamp), amount_minor=amount_minor)

    def withdraw(self, amount_minor: int, *, stamp: Stamp) -> FundsWithdrawn:
        """Pays money out; neither what is due nor what is owed can be withdrawn."""
        self._must_be_open()
        self._must_not_be_frozen()
        self._must_cover(amount_minor, "amount_minor")
        outstanding = self.commission_due_minor + self.owed_minor
        if self.available_minor - amount_minor < outstanding:
            raise Refused(
                "commission_outstanding",
                f"{outstanding} of the {self.available_minor} available are due or owed",
                field="amount_minor",
            )
        return FundsWithdrawn(*self._next(stamp), amount_minor=amount_minor)

    def place_stake(
        self, stake_minor: int, *, round_id: str, bet_id: str, stamp: Stamp
    ) -> StakePlaced:
        """Puts a stake in play; the available balance never goes below zero."""
        self._must_be_open()
        self._must_not_be_frozen()
        self._must_cover(stake_minor, "stake_minor")
        self._must_stay_payable()
        assert (round_id, bet_id) not in self.stakes, "the round refuses a bet that is there"
        return StakePlaced(
            *self._next(stamp), round_id=round_id, bet_id=bet_id, stake_minor=stake_minor
        )

    def resolve_stake(
        self,
        settlement: Settlement,
        *,
        round_id: str,
        bet_id: str,
        collection: Collection,
        stamp: Stamp,
    ) -> tuple[AccountEvent, ...]:
        """Resolves a stake in play: lost, returned, or returned with its win and less commission.

        Commission that the balance does not cover, or that is collected later,
        is marked as due. The win and the commission are never netted.
        """
        stake_minor = self.stakes[round_id, bet_id]
        if settlement.result is _LOST:
            return (StakeLost(*self._next(stamp), round_id, bet_id, stake_minor),)
        if settlement.result is not _WON:
            return (StakeReturned(*self._next(stamp), round_id, bet_id, stake_minor),)

        paid = WinPaid(*self._next(stamp), round_id, bet_id, stake_minor, settlement.win_minor)
        events: list[AccountEvent] = [paid]
        covered = self.available_minor + paid.stake_minor + paid.win_minor
        charged = 0
        if collection is _PER_ROUND:
            charged = min(settlement.commission_minor, covered)
        marked = settlement.commission_minor - charged
        if charged:
            events.append(CommissionCharged(*self._next(stamp, 1), round_id, bet_id, charged))
        if marked:
            ahead = len(events)
            events.append(CommissionMarked(*self._next(stamp, ahead), round_id, bet_id, marked))
        return tuple(events)

    def collect_due(self, *, stamp: Stamp) -> tuple[DueCollected, ...]:
        """Collects commission due and then what is owed, as far as the balance reaches.

        The rest stays; where nothing can be collected, nothing is recorded.
        """
        self._must_be_open()
        return self.collect(
            commission_minor=self.commission_due_minor, owed_minor=self.owed_minor, stamp=stamp
        )

    def collect(
        self, *, commission_minor: int, owed_minor: int, stamp: Stamp
    ) -> tuple[DueCollected, ...]:
        """Collects at most so much of what is due and of what is owed."""
        commission = min(commission_minor, self.commission_due_minor, self.available_minor)
        owed = min(owed_minor, self.owed_minor, self.available_minor - commission)
        if not commission + owed:
            return ()
        return (DueCollected(*self._next(stamp), commission_minor=commission, owed_minor=owed),)

    def reverse_settlement(
        self,
        settlement: Settlement,
        *,
        stake_minor: int,
        round_id: str,
        bet_id: str,
        correction_id: str,
        stamp: Stamp,
    ) -> SettlementReversed:
        """Undoes what settling a bet did; what the balance does not cover becomes owed.

        A freeze is no obstacle, and a closed account must have been reopened.
        """
        assert not self.is_closed
        assert (round_id, bet_id) not in self.stakes, "a settled stake is not in play"
        self._must_stay_payable()
        unmarked = self.marks.get((round_id, bet_id), 0)
        refunded = settlement.commission_minor - unmarked
        assert refunded >= 0, "no more is due of a bet than its commission"
        taken = settlement.win_minor + (0 if settlement.result is _LOST else stake_minor)
        return SettlementReversed(
            *self._next(stamp),
            correction_id=correction_id,
            round_id=round_id,
            bet_id=bet_id,
            result=settlement.result,
            stake_minor=stake_minor,
            win_minor=settlement.win_minor,
            refunded_minor=refunded,
            unmarked_minor=unmarked,
            owed_minor=max(taken - refunded - self.available_minor, 0),
        )

    def place_corrected_stake(
        self, stake_minor: int, *, round_id: str, bet_id: str, stamp: Stamp
    ) -> StakePlaced:
        """Puts in play the stake that a bet should have had; what is not there becomes owed."""
        assert not self.is_closed
        assert (round_id, bet_id) not in self.stakes
        self._must_stay_payable()
        return StakePlaced(
            *self._next(stamp),
            round_id=round_id,
            bet_id=bet_id,
            stake_minor=stake_minor,
            owed_minor=max(stake_minor - self.available_minor, 0) or None,
        )

    def reopen(self, correction_id: str, *, stamp: Stamp) -> tuple[AccountReopened, ...]:
        """Opens a closed account for a correction, and freezes it."""
        if not self.is_closed:
            return ()
        return (AccountReopened(*self._next(stamp), correction_id=correction_id),)

    def freeze(self, reason: str, *, stamp: Stamp) -> AccountFrozen:
        """Stops bets and withdrawals."""
        self._must_be_open()
        self._must_not_be_frozen()
        return AccountFrozen(*self._next(stamp), reason=reason)

    def unfreeze(self, reason: str, *, stamp: Stamp) -> AccountUnfrozen:
        """Allows bets and withdrawals again; of an account that is not frozen it records that."""
        self._must_be_open()
        return AccountUnfrozen(*self._next(stamp), reason=reason)

    def close(self, reason: str, *, stamp: Stamp) -> tuple[AccountEvent, ...]:
        """Collects what is due and owed and ends the account, which must then hold nothing."""
        collected = self.collect_due(stamp=stamp)
        after = self
        for event in collected:
            after = after.apply(event)
        if after.balance_minor:
            raise Refused(
                "balance_not_zero",
                f"{after.available_minor} are available and {after.in_play_minor} in play",
            )
        outstanding = after.commission_due_minor + after.owed_minor
        if outstanding:
            raise Refused("commission_outstanding", f"{outstanding} are due or owed")
        return (*collected, AccountClosed(*after._next(stamp), reason=reason))

    def must_be_known(self) -> None:
        """Refuses an account that was never opened."""
        if not self.version:
            raise Refused("unknown_account", f"there is no account {self.name}", field="account_id")

    def must_hold(self, currency: str) -> None:
        """Refuses an account that was never opened, or holds another currency than the table's."""
        self.must_be_known()
        if self.currency != currency:
            raise Refused(
                "currency_mismatch",
                f"account {self.name} holds {self.currency}, the table plays {currency}",
                field="account_id",
            )

    def _must_be_open(self) -> None:
        if not self.version or self.is_closed:
            self.must_be_known()
            raise Refused("account_closed", f"account {self.name} is closed", field="account_id")

    def _must_not_be_frozen(self) -> None:
        if self.is_frozen:
            raise Refused("account_frozen", f"account {self.name} is frozen", field="account_id")

    def _must_cover(self, amount_minor: int, name: str) -> None:
        if amount_minor > self.available_minor:
            raise Refused(
                "insufficient_funds",
                f"{self.available_minor} are available, {amount_minor} are asked for",
                field=name,
            )

    def _must_stay_payable(self) -> None:
        held_or_due = max(self.balance_minor, self.commission_due_minor + self.owed_minor)
        most_after_wins = held_or_due + MAXIMUM_WIN_MINOR * (len(self.stakes) + 1)
        if most_after_wins > MAXIMUM_PAYABLE_MINOR:
            raise Refused("limit_above", "the wins of so many bets could not be paid")

    def _next(self, stamp: Stamp, ahead: int = 0) -> tuple[str, int, datetime, str, str]:
        return self.id, self.version + 1 + ahead, stamp.at, stamp.actor, stamp.key

    def apply(self, event: AccountEvent) -> "Account":
        """The account after the next event of its stream."""
        now = replace(self, version=event.originator_version, at=event.at)
        return _CHANGES[type(event)](now, event)


def _opened(now: Account, event: AccountOpened) -> Account:
    return replace(now, currency=event.currency)


def _deposited(now: Account, event: FundsDeposited) -> Account:
    return replace(now, available_minor=now.available_minor + event.amount_minor)


def _withdrawn(now: Account, event: FundsWithdrawn) -> Account:
    return replace(now, available_minor=now.available_minor - event.amount_minor)


def _stake_placed(now: Account, event: StakePlaced) -> Account:
    owed = event.owed_minor or 0
    return replace(
        now,
        available_minor=now.available_minor + owed - event.stake_minor,
        stakes={**now.stakes, (event.round_id, event.bet_id): event.stake_minor},
        owed_minor=now.owed_minor + owed,
    )


def _stake_lost(now: Account, event: StakeLost) -> Account:
    return replace(now, stakes=_without(now.stakes, event))


def _stake_returned(now: Account, event: StakeReturned) -> Account:
    return replace(
        now,
        available_minor=now.available_minor + event.stake_minor,
        stakes=_without(now.stakes, event),
    )


def _win_paid(now: Account, event: WinPaid) -> Account:
    return replace(
        now,
        available_minor=now.available_minor + event.stake_minor + event.win_minor,
        stakes=_without(now.stakes, event),
    )


def _charged(now: Account, event: CommissionCharged) -> Account:
    return replace(now, available_minor=now.available_minor - event.commission_minor)


def _marked(now: Account, event: CommissionMarked) -> Account:
    marked = {(event.round_id, event.bet_id): event.commission_minor}
    return replace(now, marks={**now.marks, **marked})


def _collected(now: Account, event: DueCollected) -> Account:
    return replace(
        now,
        available_minor=now.available_minor - event.commission_minor - event.owed_minor,
        marks=_less(now.marks, event.commission_minor),
        owed_minor=now.owed_minor - event.owed_minor,
    )


def _reversed(now: Account, event: SettlementReversed) -> Account:
    bet = (event.round_id, event.bet_id)
    received = event.refunded_minor + event.owed_minor
    return replace(
        now,
        available_minor=now.available_minor + received - event.taken_minor,
        stakes={**now.stakes, bet: event.stake_minor},
        marks={other: due for other, due in now.marks.items() if other != bet},
        owed_minor=now.owed_minor + event.owed_minor,
    )


def _frozen(now: Account, _: AccountFrozen) -> Account:
    return replace(now, is_frozen=True)


def _unfrozen(now: Account, _: AccountUnfrozen) -> Account:
    return replace(now, is_frozen=False)


def _closed(now: Account, _: AccountClosed) -> Account:
    return replace(now, is_closed=True)


def _reopened(now: Account, _: AccountReopened) -> Account:
    return replace(now, is_closed=False, is_frozen=True)


# A table, for each case of a match that is not met costs as much as most of these changes.
_CHANGES: dict[type, Callable[[Account, Any], Account]] = {
    AccountOpened: _opened,
    FundsDeposited: _deposited,
    FundsWithdrawn: _withdrawn,
    StakePlaced: _stake_placed,
    StakeLost: _stake_lost,
    StakeReturned: _stake_returned,
    WinPaid: _win_paid,
    CommissionCharged: _charged,
    CommissionMarked: _marked,
    DueCollected: _collected,
    SettlementReversed: _reversed,
    AccountFrozen: _frozen,
    AccountUnfrozen: _unfrozen,
    AccountClosed: _closed,
    AccountReopened: _reopened,
}
assert _CHANGES.keys() == set(get_args(AccountEvent))


def _without(
    stakes: Mapping[tuple[str, str], int], event: StakeLost | StakeReturned | WinPaid
) -> dict[tuple[str, str], int]:
    left = dict(stakes)
    left.pop((event.round_id, event.bet_id), None)
    return left


def _less(
    marks: Mapping[tuple[str, str], int], collected_minor: int
) -> Mapping[tuple[str, str], int]:
    """What stays due after so much was collected, the oldest first."""
    left: dict[tuple[str, str], int] = {}
    for bet, due_minor in marks.items():
        paid = min(due_minor, collected_minor)
        collected_minor -= paid
        if due_minor > paid:
            left[bet] = due_minor - paid
    return left
