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
from domain.bets import Result

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

    `table_id` and `bet` are the round's table and what was staked on. An event
    of no round needs neither, and `bet` counts only where the house wins or loses.
    """
    return [move for move in _transfers(event, table_id, f"{WIN}{table_id}:{bet}") if move[2]]


def _transfers(event: AccountEvent, table_id: str, win: str) -> list[Transfer]:
    name = event.originator_id.removeprefix("account:")
    wallet = WALLET + name
    match event:
        case FundsDeposited():
            return [Transfer(CAGE, wallet, event.amount_minor)]
        case FundsWithdrawn():
            return [Transfer(wallet, CAGE, event.amount_minor)]
        case StakePlaced():
            return [
                Transfer(OWED + name, wallet, event.owed_minor or 0),
                Transfer(wallet, IN_PLAY + event.round_id, event.stake_minor),
            ]
        case StakeLost():
            return [Transfer(IN_PLAY + event.round_id, win, event.stake_minor)]
        case StakeReturned():
            return [Transfer(IN_PLAY + event.round_id, wallet, event.stake_minor)]
        case WinPaid():
            return [
                Transfer(IN_PLAY + event.round_id, wallet, event.stake_minor),
                Transfer(win, wallet, event.win_minor),
            ]
        case CommissionCharged():
            return [Transfer(wallet, COMMISSION + table_id, event.commission_minor)]
        case CommissionMarked():
            return [Transfer(COMMISSION_DUE + name, COMMISSION + table_id, event.commission_minor)]
        case DueCollected():
            return [
                Transfer(wallet, COMMISSION_DUE + name, event.commission_minor),
                Transfer(wallet, OWED + name, event.owed_minor),
            ]
        case SettlementReversed():
            # What comes in goes first, so that the wallet never shows less than nothing.
            taken_from = win if event.result is Result.LOST else wallet
            return [
                Transfer(COMMISSION + table_id, wallet, event.refunded_minor),
                Transfer(COMMISSION + table_id, COMMISSION_DUE + name, event.unmarked_minor),
                Transfer(OWED + name, wallet, event.owed_minor),
                Transfer(wallet, win, event.win_minor),
                Transfer(taken_from, IN_PLAY + event.round_id, event.stake_minor),
            ]
        case (
            AccountOpened()
            | AccountFrozen()
            | AccountUnfrozen()
            | AccountClosed()
            | AccountReopened()
        ):
            return []
        case _:
            assert_never(event)
