"""Follows what accounts have, what they have due and what they owe: none falls below zero."""

from collections import Counter
from typing import assert_never

from domain.account import (
    AccountClosed,
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
from infrastructure.audit.findings import Code, Finding
from infrastructure.audit.record import StakeMovement

Movement = FundsDeposited | FundsWithdrawn | DueCollected | StakeMovement
"""What changes a balance, what is due or what is owed."""


class Wallets:
    """The available balance, the commission due and the debt of every account, in minor units."""

    def __init__(self) -> None:
        self._available: Counter[str] = Counter()
        self._owed: Counter[str] = Counter()
        self._marks: dict[str, dict[tuple[str, str], int]] = {}

    def see(self, event: Movement) -> list[Finding]:
        """Takes in what moves money; a finding where it takes what is not there."""
        stream = event.originator_id
        faults: list[str] = []
        if isinstance(event, CommissionMarked):
            marks = self._marks.setdefault(stream, {})
            marks[event.round_id, event.bet_id] = event.commission_minor
        elif isinstance(event, SettlementReversed):
            faults += self._reverse(event)
        elif isinstance(event, DueCollected):
            faults += self._collect(event)
        advanced = 0
        if isinstance(event, StakePlaced | SettlementReversed):
            advanced = event.owed_minor or 0
        self._owed[stream] += advanced
        change_minor = _change(event)
        self._available[stream] += change_minor
        available = self._available[stream]
        if change_minor < 0 and available < 0:
            faults.append(f"falls to {available}")
        if advanced and available > 0:
            faults.append(f"owes {advanced} more with {available} available")
        return [
            Finding(
                Code.ACCOUNT_MISMATCH, f"{stream} {fault} with version {event.originator_version}"
            )
            for fault in faults
        ]

    def uncollected(self, stream: str) -> int:
        """How much of an account's commission due its available balance covers."""
        due = sum(self._marks.get(stream, {}).values())
        return max(min(due, self._available[stream]), 0)

    def close(self, event: AccountClosed) -> list[Finding]:
        """An account ends with nothing in it; a finding where something is left."""
        stream = event.originator_id
        due = sum(self._marks.get(stream, {}).values())
        left = (self._available[stream], due, self._owed[stream])
        if not any(left):
            return []
        detail = "{} was closed with {} available, {} due and {} owed".format(stream, *left)
        return [Finding(Code.ACCOUNT_MISMATCH, detail)]

    def _reverse(self, event: SettlementReversed) -> list[str]:
        marks = self._marks.get(event.originator_id, {})
        due = marks.pop((event.round_id, event.bet_id), 0)
        if due == event.unmarked_minor:
            return []
        return [f"had {due} due of bet {event.bet_id} and unmarked {event.unmarked_minor}"]

    def _collect(self, event: DueCollected) -> list[str]:
        """Takes what was collected from the oldest marks first."""
        stream = event.originator_id
        faults = []
        marks = self._marks.get(stream, {})
        left = event.commission_minor
        for bet, due in list(marks.items()):
            paid = min(due, left)
            left -= paid
            marks[bet] -= paid
            if not marks[bet]:
                del marks[bet]
        if left:
            faults.append(f"paid {left} that was not due")
        self._owed[stream] -= event.owed_minor
        if self._owed[stream] < 0:
            faults.append(f"paid {-self._owed[stream]} that was not owed")
            self._owed[stream] = 0
        paid_minor = event.commission_minor + event.owed_minor
        if event.commission_minor and marks and self._available[stream] > paid_minor:
            faults.append("left commission due that the balance covers")
        return faults


def _change(event: Movement) -> int:
    """What an event adds to the available balance."""
    match event:
        case FundsDeposited():
            return event.amount_minor
        case FundsWithdrawn():
            return -event.amount_minor
        case StakePlaced():
            return (event.owed_minor or 0) - event.stake_minor
        case StakeReturned():
            return event.stake_minor
        case WinPaid():
            return event.stake_minor + event.win_minor
        case CommissionCharged():
            return -event.commission_minor
        case DueCollected():
            return -event.commission_minor - event.owed_minor
        case SettlementReversed():
            return event.refunded_minor + event.owed_minor - event.taken_minor
        case StakeLost() | CommissionMarked():
            return 0
        case _:
            assert_never(event)
