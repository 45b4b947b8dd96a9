"""Follows what accounts have, have in play, have due and owe.

None of it falls below zero, and the states that the store keeps of accounts are
what their events come to.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, get_args

from domain.account import (
    Account,
    AccountClosed,
    AccountEvent,
    AccountFrozen,
    AccountOpened,
    AccountReopened,
    AccountUnfrozen,
    CommissionCharged,
    CommissionMarked,
    DueCollected,
    FundsDeposited,
    FundsWithdrawn,
    SettlementReversed,
    StakeLost,
    StakePlaced,
    StakeReturned,
    WinPaid,
)
from domain.event import NEVER, Unreadable
from infrastructure.audit.findings import Code, Finding, Tally
from infrastructure.audit.record import describe_gap, describe_unreadable
from infrastructure.store.session import KeptState
from infrastructure.store.states import keep

ACCOUNT_EVENTS = get_args(AccountEvent)
_Bet = tuple[str, str]


class Wallet:
    """One account, in minor units. It is changed in place, for it is folded event by event."""

    __slots__ = (
        "at",
        "available",
        "currency",
        "is_broken",
        "is_closed",
        "is_frozen",
        "kept_version",
        "marks",
        "owed",
        "stakes",
        "version",
    )

    def __init__(self, *, kept_version: int) -> None:
        self.version = 0
        self.at: datetime = NEVER
        self.currency = ""
        self.available = 0
        self.stakes: dict[_Bet, int] = {}
        self.marks: dict[_Bet, int] = {}
        self.owed = 0
        self.is_frozen = False
        self.is_closed = False
        self.is_broken = False
        self.kept_version = kept_version

    @property
    def uncollected(self) -> int:
        """How much of the commission due the available balance covers."""
        return max(min(sum(self.marks.values()), self.available), 0)

    def as_account(self, stream: str) -> Account:
        """The account as the commands see it."""
        return Account(
            id=stream,
            version=self.version,
            at=self.at,
            currency=self.currency,
            available_minor=self.available,
            stakes=self.stakes,
            marks=self.marks,
            owed_minor=self.owed,
            is_frozen=self.is_frozen,
            is_closed=self.is_closed,
        )


class Wallets:
    """All accounts whose events are seen, each in the order of its events."""

    def __init__(self, tally: Tally, *, kept: Mapping[str, KeptState] | None = None) -> None:
        self._tally = tally
        self._kept = dict(kept or {})
        self._wallets: dict[str, Wallet] = {}

    def see(self, position: int, event: AccountEvent) -> None:
        """Takes in the next event of an account; a finding where it takes what is not there."""
        stream = event.originator_id
        wallet = self._wallets.get(stream)
        if wallet is None:
            wallet = self._open(stream)
        version = event.originator_version
        if version != wallet.version + 1:
            self._add_gap(position, stream, version, wallet)
        wallet.version = version
        wallet.at = event.at
        faults = _CHANGES[type(event)](wallet, event)
        if faults:
            self._tally.add(
                [
                    Finding(Code.ACCOUNT_MISMATCH, f"{stream} {fault} with version {version}")
                    for fault in faults
                ],
                place=position,
            )
        if version == wallet.kept_version:
            self._compare(position, stream, wallet)

    def see_unreadable(self, event: Unreadable) -> None:
        """Takes in that an event of an account cannot be decoded."""
        wallet = self._wallets.get(event.stream) or self._open(event.stream)
        if event.version != wallet.version + 1:
            self._add_gap(event.position, event.stream, event.version, wallet)
        wallet.version = event.version
        wallet.is_broken = True
        finding = Finding(Code.STREAM_GAP, describe_unreadable(event))
        self._tally.add([finding], place=event.position)

    def check_collected(self, position: int, shoe_id: str, names: Iterable[str]) -> None:
        """With a shoe, the commission that its rounds marked is collected from each account."""
        for name in names:
            wallet = self._wallets.get(f"account:{name}")
            left_minor = 0 if wallet is None else wallet.uncollected
            if left_minor:
                detail = f"account:{name} kept {left_minor} of commission due when the shoe closed"
                finding = Finding(Code.ACCOUNT_MISMATCH, detail, shoe_id=shoe_id)
                self._tally.add([finding], place=position)

    def leave(self, stream: str) -> None:
        """Forgets an account of which all events have been seen."""
        wallet = self._wallets.pop(stream, None)
        kept = self._kept.pop(stream, None)
        last = 0 if wallet is None else wallet.version
        if kept is not None and kept.version > last:
            detail = f"{stream} was kept as of version {kept.version}, its last one is {last}"
            self._tally.add([Finding(Code.ACCOUNT_MISMATCH, detail)])

    def finish(self) -> None:
        """Leaves all accounts, and those of which only a state was kept."""
        for stream in [*self._wallets, *self._kept]:
            self.leave(stream)

    def _open(self, stream: str) -> Wallet:
        kept = self._kept.get(stream)
        wallet = Wallet(kept_version=0 if kept is None else kept.version)
        self._wallets[stream] = wallet
        return wallet

    def _add_gap(self, position: int, stream: str, version: int, wallet: Wallet) -> None:
        wallet.is_broken = True
        detail = describe_gap(stream, version, after=wallet.version)
        self._tally.add([Finding(Code.STREAM_GAP, detail)], place=position)

    def _compare(self, position: int, stream: str, wallet: Wallet) -> None:
        # Of a stream that is broken nobody can say what it came to.
        if wallet.is_broken or keep(wallet.as_account(stream)).state == self._kept[stream].state:
            return
        detail = f"{stream} was kept as of version {wallet.version} with another state than it had"
        self._tally.add([Finding(Code.ACCOUNT_MISMATCH, detail)], place=position)


_Faults = list[str] | None


def _opened(wallet: Wallet, event: AccountOpened) -> None:
    wallet.currency = event.currency


def _deposited(wallet: Wallet, event: FundsDeposited) -> None:
    wallet.available += event.amount_minor


def _withdrawn(wallet: Wallet, event: FundsWithdrawn) -> _Faults:
    return _take(wallet, event.amount_minor)


def _stake_placed(wallet: Wallet, event: StakePlaced) -> _Faults:
    wallet.stakes[event.round_id, event.bet_id] = event.stake_minor
    owed = event.owed_minor
    if not owed:
        wallet.available -= event.stake_minor
        return [f"falls to {wallet.available}"] if wallet.available < 0 else None
    wallet.owed += owed
    return _take(wallet, event.stake_minor - owed, advanced_minor=owed)


def _stake_lost(wallet: Wallet, event: StakeLost) -> None:
    wallet.stakes.pop((event.round_id, event.bet_id), None)


def _stake_returned(wallet: Wallet, event: StakeReturned) -> None:
    wallet.stakes.pop((event.round_id, event.bet_id), None)
    wallet.available += event.stake_minor


def _win_paid(wallet: Wallet, event: WinPaid) -> None:
    wallet.stakes.pop((event.round_id, event.bet_id), None)
    wallet.available += event.stake_minor + event.win_minor


def _charged(wallet: Wallet, event: CommissionCharged) -> _Faults:
    return _take(wallet, event.commission_minor)


def _marked(wallet: Wallet, event: CommissionMarked) -> None:
    wallet.marks[event.round_id, event.bet_id] = event.commission_minor


def _collected(wallet: Wallet, event: DueCollected) -> _Faults:
    """Takes what was collected from the oldest marks first."""
    faults: list[str] = []
    marks = wallet.marks
    left = event.commission_minor
    for bet, due in list(marks.items()):
        paid = min(due, left)
        left -= paid
        marks[bet] -= paid
        if not marks[bet]:
            del marks[bet]
    if left:
        faults.append(f"paid {left} that was not due")
    wallet.owed -= event.owed_minor
    if wallet.owed < 0:
        faults.append(f"paid {-wallet.owed} that was not owed")
        wallet.owed = 0
    paid_minor = event.commission_minor + event.owed_minor
    if event.commission_minor and marks and wallet.available > paid_minor:
        faults.append("left commission due that the balance covers")
    return faults + (_take(wallet, paid_minor) or [])


def _reversed(wallet: Wallet, event: SettlementReversed) -> _Faults:
    bet = (event.round_id, event.bet_id)
    due = wallet.marks.pop(bet, 0)
    faults: list[str] = []
    if due != event.unmarked_minor:
        faults.append(f"had {due} due of bet {event.bet_id} and unmarked {event.unmarked_minor}")
    wallet.stakes[bet] = event.stake_minor
    wallet.owed += event.owed_minor
    taken = event.taken_minor - event.refunded_minor - event.owed_minor
    return faults + (_take(wallet, taken, advanced_minor=event.owed_minor) or [])


def _frozen(wallet: Wallet, _: AccountFrozen) -> None:
    wallet.is_frozen = True


def _unfrozen(wallet: Wallet, _: AccountUnfrozen) -> None:
    wallet.is_frozen = False


def _closed(wallet: Wallet, _: AccountClosed) -> _Faults:
    """An account ends with nothing in it."""
    wallet.is_closed = True
    left = (wallet.available, sum(wallet.marks.values()), wallet.owed)
    return ["was closed and had {} available, {} due and {} owed".format(*left)] * any(left)


def _reopened(wallet: Wallet, _: AccountReopened) -> None:
    wallet.is_closed, wallet.is_frozen = False, True


def _take(wallet: Wallet, amount_minor: int, *, advanced_minor: int = 0) -> _Faults:
    faults = []
    wallet.available -= amount_minor
    if amount_minor > 0 and wallet.available < 0:
        faults.append(f"falls to {wallet.available}")
    if advanced_minor and wallet.available > 0:
        faults.append(f"owes {advanced_minor} more with {wallet.available} available")
    return faults


_CHANGES: dict[type, Callable[[Wallet, Any], _Faults]] = {
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
assert _CHANGES.keys() == set(ACCOUNT_EVENTS)
