"""Follows what accounts have available: no ledger of ours lets it fall below zero."""

from collections import Counter
from typing import assert_never

from domain.account import (
    CommissionCharged,
    CommissionMarked,
    FundsDeposited,
    FundsWithdrawn,
    StakeLost,
    StakePlaced,
    StakeReturned,
    WinPaid,
)
from infrastructure.audit.findings import Code, Finding
from infrastructure.audit.record import StakeMovement


class Wallets:
    """The available balance of every account, in minor units, by its stream."""

    def __init__(self) -> None:
        self._available: Counter[str] = Counter()

    def see(self, event: FundsDeposited | FundsWithdrawn | StakeMovement) -> list[Finding]:
        """Takes in what moves money; a finding where it takes what is not there."""
        stream = event.originator_id
        change_minor = _change(event)
        self._available[stream] += change_minor
        if change_minor >= 0 or self._available[stream] >= 0:
            return []
        detail = f"{stream} falls to {self._available[stream]} with version "
        return [Finding(Code.ACCOUNT_MISMATCH, f"{detail}{event.originator_version}")]


def _change(event: FundsDeposited | FundsWithdrawn | StakeMovement) -> int:
    match event:
        case FundsDeposited():
            return event.amount_minor
        case FundsWithdrawn():
            return -event.amount_minor
        case StakePlaced():
            return -event.stake_minor
        case StakeReturned():
            return event.stake_minor
        case WinPaid():
            return event.stake_minor + event.win_minor
        case CommissionCharged():
            return -event.commission_minor
        case StakeLost() | CommissionMarked():
            return 0
        case _:
            assert_never(event)
