"""The ledger's accounts, and what each event of a player's account moves between them.

Double entry: money moves from one account to another, debit and credit at once,
so that nothing can move one side only.
"""

from typing import NamedTuple, assert_never

from domain.account import (
    AccountClosed,
    AccountEvent,
    AccountFrozen,
    AccountOpened,
    AccountUnfrozen,
    CommissionCharged,
    CommissionMarked,
    FundsDeposited,
    FundsWithdrawn,
    StakeLost,
    StakePlaced,
    StakeReturned,
    WinPaid,
)

CAGE = "cage"
HOUSE = "house"
WALLET = "player:"
IN_PLAY = "in_play:"
WIN = "win:"
COMMISSION = "commission:"
COMMISSION_DUE = "commission_due:"
OWED = "owed:"


class Transfer(NamedTuple):
    """An amount that is debited to one account and credited to another."""

    debit: str
    credit: str
    amount_minor: int


def transfers(event: AccountEvent, *, table_id: str, bet: str) -> list[Transfer]:
    """What an event moves, in the order in which it happens; nothing of no amount.

    `table_id` and `bet` are the round's table and what was staked on; an event
    of no round needs neither, and `bet` counts only where the house wins or loses.
    """
    name = event.originator_id.removeprefix("account:")
    wallet = WALLET + name
    match event:
        case FundsDeposited():
            return [Transfer(CAGE, wallet, event.amount_minor)]
        case FundsWithdrawn():
            return [Transfer(wallet, CAGE, event.amount_minor)]
        case StakePlaced():
            return [Transfer(wallet, IN_PLAY + event.round_id, event.stake_minor)]
        case StakeLost():
            win = f"{WIN}{table_id}:{bet}"
            return [Transfer(IN_PLAY + event.round_id, win, event.stake_minor)]
        case StakeReturned():
            return [Transfer(IN_PLAY + event.round_id, wallet, event.stake_minor)]
        case WinPaid():
            stake = Transfer(IN_PLAY + event.round_id, wallet, event.stake_minor)
            if not event.win_minor:
                return [stake]
            return [stake, Transfer(f"{WIN}{table_id}:{bet}", wallet, event.win_minor)]
        case CommissionCharged():
            return [Transfer(wallet, COMMISSION + table_id, event.commission_minor)]
        case CommissionMarked():
            return [Transfer(COMMISSION_DUE + name, COMMISSION + table_id, event.commission_minor)]
        case AccountOpened() | AccountFrozen() | AccountUnfrozen() | AccountClosed():
            return []
        case _:
            assert_never(event)
