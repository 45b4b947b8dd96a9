"""What moves between which accounts, as the ledger's table of accounts says it."""

from datetime import UTC, datetime

import pytest

from domain.account import (
    AccountClosed,
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
from domain.books import transfers
from domain.event import Stamp

STAMP = Stamp(at=datetime(2026, 1, 2, 12, tzinfo=UTC), actor="dealer-7", key="k1")
BET = {"round_id": "r1", "bet_id": "b1"}
REVERSED = {
    "correction_id": "c1",
    "stake_minor": 100_00,
    "win_minor": 0,
    "refunded_minor": 0,
    "unmarked_minor": 0,
    "owed_minor": 0,
}


def moved(event_type, **fields):
    event = event_type(*STAMP.on("account:a1", 1), **fields)
    return [tuple(move) for move in transfers(event, table_id="t1", bet="banker")]


def reversed_of(result, **fields):
    return moved(SettlementReversed, **BET, **{**REVERSED, "result": result, **fields})


def test_money_comes_and_goes_through_the_cage():
    assert moved(FundsDeposited, amount_minor=5) == [("cage", "player:a1", 5)]
    assert moved(FundsWithdrawn, amount_minor=5) == [("player:a1", "cage", 5)]


def test_a_banker_win_is_four_transfers_and_never_netted():
    assert [
        *moved(StakePlaced, **BET, stake_minor=100_00),
        *moved(WinPaid, **BET, stake_minor=100_00, win_minor=100_00),
        *moved(CommissionCharged, **BET, commission_minor=5_00),
    ] == [
        ("player:a1", "in_play:r1", 100_00),
        ("in_play:r1", "player:a1", 100_00),
        ("win:t1:banker", "player:a1", 100_00),
        ("player:a1", "commission:t1", 5_00),
    ]


def test_a_lost_stake_is_the_win_of_the_house():
    assert moved(StakeLost, **BET, stake_minor=5) == [("in_play:r1", "win:t1:banker", 5)]


def test_a_returned_stake_comes_out_of_play():
    assert moved(StakeReturned, **BET, stake_minor=5) == [("in_play:r1", "player:a1", 5)]


def test_a_win_of_nothing_moves_the_stake_alone():
    assert moved(WinPaid, **BET, stake_minor=1, win_minor=0) == [("in_play:r1", "player:a1", 1)]


def test_marked_commission_is_revenue_against_what_is_due():
    assert moved(CommissionMarked, **BET, commission_minor=5) == [
        ("commission_due:a1", "commission:t1", 5)
    ]


def test_collecting_pays_what_is_due_and_what_is_owed_from_the_wallet():
    assert moved(DueCollected, commission_minor=5, owed_minor=7) == [
        ("player:a1", "commission_due:a1", 5),
        ("player:a1", "owed:a1", 7),
    ]
    assert moved(DueCollected, commission_minor=0, owed_minor=7) == [("player:a1", "owed:a1", 7)]


def test_a_stake_of_a_correction_that_the_balance_does_not_cover_is_owed():
    assert moved(StakePlaced, **BET, stake_minor=100_00, owed_minor=30_00) == [
        ("owed:a1", "player:a1", 30_00),
        ("player:a1", "in_play:r1", 100_00),
    ]


def test_reversing_a_win_takes_it_back_and_puts_the_stake_in_play():
    assert reversed_of(
        Result.WON, win_minor=100_00, refunded_minor=3_00, unmarked_minor=2_00, owed_minor=10_00
    ) == [
        ("commission:t1", "player:a1", 3_00),
        ("commission:t1", "commission_due:a1", 2_00),
        ("owed:a1", "player:a1", 10_00),
        ("player:a1", "win:t1:banker", 100_00),
        ("player:a1", "in_play:r1", 100_00),
    ]


def test_reversing_a_loss_takes_the_stake_from_the_house():
    assert reversed_of(Result.LOST) == [("win:t1:banker", "in_play:r1", 100_00)]


def test_reversing_a_push_takes_the_stake_from_the_wallet():
    assert reversed_of(Result.PUSH) == [("player:a1", "in_play:r1", 100_00)]


@pytest.mark.parametrize(
    ("event_type", "fields"),
    [
        (AccountOpened, {"currency": "USD"}),
        (AccountFrozen, {"reason": "a look"}),
        (AccountUnfrozen, {"reason": "all well"}),
        (AccountClosed, {"reason": "asked"}),
        (AccountReopened, {"correction_id": "c1"}),
    ],
)
def test_what_becomes_of_an_account_itself_moves_nothing(event_type, fields):
    assert moved(event_type, **fields) == []
