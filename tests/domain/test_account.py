"""An account's life: money in and out, stakes, wins, commission and freezes."""

from functools import partial

import pytest

from domain.account import (
    MAXIMUM_BALANCE_MINOR,
    Account,
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
from domain.bets import LOST, PUSH, RETURNED, Result, Settlement
from domain.errors import Refused
from domain.event import replace
from domain.money import Collection

BET = {"round_id": "r1", "bet_id": "b1"}
OPENED = partial(AccountOpened, currency="USD")
FROZEN = partial(AccountFrozen, reason="chargeback")
UNFROZEN = partial(AccountUnfrozen, reason="cleared")
CLOSED = partial(AccountClosed, reason="asked for")
PER_ROUND = {**BET, "collection": Collection.PER_ROUND}
DEFERRED = {**BET, "collection": Collection.DEFERRED}


def deposited(amount_minor):
    return partial(FundsDeposited, amount_minor=amount_minor)


def withdrawn(amount_minor):
    return partial(FundsWithdrawn, amount_minor=amount_minor)


def staked(stake_minor, **bet):
    return partial(StakePlaced, **{**BET, **bet}, stake_minor=stake_minor)


def lost(stake_minor):
    return partial(StakeLost, **BET, stake_minor=stake_minor)


def returned(stake_minor):
    return partial(StakeReturned, **BET, stake_minor=stake_minor)


def paid(stake_minor, win_minor):
    return partial(WinPaid, **BET, stake_minor=stake_minor, win_minor=win_minor)


def charged(commission_minor):
    return partial(CommissionCharged, **BET, commission_minor=commission_minor)


def marked(commission_minor, bet_id="b1"):
    return partial(
        CommissionMarked, round_id="r1", bet_id=bet_id, commission_minor=commission_minor
    )


def won(win_minor, commission_minor=0):
    return Settlement(Result.WON, win_minor, commission_minor)


COMMANDS = {
    "deposit": partial(Account.deposit, amount_minor=1),
    "withdraw": partial(Account.withdraw, amount_minor=1),
    "stake": partial(Account.place_stake, stake_minor=1, **BET),
    "freeze": partial(Account.freeze, reason="chargeback"),
    "unfreeze": partial(Account.unfreeze, reason="cleared"),
    "close": partial(Account.close, reason="asked for"),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("facts", "code"), [([], "unknown_account"), ([OPENED, CLOSED], "account_closed")]
)
def test_an_account_that_is_not_there_or_closed_refuses_everything(account, facts, code, command):
    account.given(*facts).when(COMMANDS[command]).then_refused(code, field="account_id")


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("deposit", None),
        ("withdraw", "account_frozen"),
        ("stake", "account_frozen"),
        ("freeze", "account_frozen"),
        ("unfreeze", None),
    ],
)
def test_a_freeze_stops_bets_and_withdrawals(account, command, code):
    account.given(OPENED, deposited(100), FROZEN).when(COMMANDS[command])
    if code is None:
        assert not isinstance(account.answer, Refused)
    else:
        account.then_refused(code, field="account_id")


def test_an_account_opens_in_one_currency(account):
    account.when(Account.open, "USD").then(OPENED)


@pytest.mark.parametrize("facts", [[OPENED], [OPENED, CLOSED]])
def test_an_account_opens_once(account, facts):
    account.given(*facts).when(Account.open, "USD").then_refused(
        "already_exists", field="account_id"
    )


def test_the_version_is_the_sequential_transaction_number(account):
    account.given(OPENED, deposited(100), withdrawn(40))
    assert (account.state.version, account.state.available_minor) == (3, 60)


def test_a_deposit_is_available(account):
    account.given(OPENED).when(Account.deposit, 49_99).then(deposited(49_99))
    assert account.state.available_minor == 49_99


def test_no_stake_is_taken_whose_win_might_not_fit_beside_those_of_the_others(account):
    in_play = [staked(1, bet_id=f"b{number}") for number in range(799)]
    account.given(OPENED, deposited(MAXIMUM_BALANCE_MINOR), *in_play)
    account.when(Account.place_stake, 1, round_id="r1", bet_id="c1").then(staked(1, bet_id="c1"))
    account.when(Account.place_stake, 1, round_id="r1", bet_id="c2").then_refused("limit_above")


def test_no_deposit_takes_a_balance_above_the_largest(account):
    account.given(OPENED, deposited(MAXIMUM_BALANCE_MINOR - 1), staked(50))
    account.when(Account.deposit, 2).then_refused("limit_above", field="amount_minor")
    account.when(Account.deposit, 1).then(deposited(1))


def test_what_is_available_can_be_withdrawn(account):
    account.given(OPENED, deposited(100)).when(Account.withdraw, 100).then(withdrawn(100))
    assert account.state.available_minor == 0


def test_more_than_is_available_cannot_be_withdrawn(account):
    account.given(OPENED, deposited(100), staked(40))
    account.when(Account.withdraw, 61).then_refused("insufficient_funds", field="amount_minor")


def test_what_is_due_cannot_be_withdrawn(account):
    account.given(OPENED, deposited(100), staked(100), paid(100, 100), marked(5))
    account.when(Account.withdraw, 196).then_refused("commission_outstanding", field="amount_minor")
    account.when(Account.withdraw, 195).then(withdrawn(195))


def test_a_stake_leaves_the_available_balance_and_is_in_play(account):
    account.given(OPENED, deposited(100))
    account.when(Account.place_stake, 30, **BET).then(staked(30))
    state = account.state
    assert (state.available_minor, state.in_play_minor, state.balance_minor) == (70, 30, 100)


def test_a_stake_above_the_balance_is_refused(account):
    account.given(OPENED, deposited(49_99))
    account.when(Account.place_stake, 50_00, **BET).then_refused(
        "insufficient_funds", field="stake_minor"
    )


def test_a_stake_in_play_cannot_be_staked_again(account):
    account.given(OPENED, deposited(100), staked(70))
    account.when(Account.place_stake, 31, round_id="r1", bet_id="b2").then_refused(
        "insufficient_funds", field="stake_minor"
    )


def test_what_is_due_may_be_staked(account):
    account.given(OPENED, deposited(100), staked(100), paid(100, 100), marked(5))
    account.when(Account.place_stake, 200, round_id="r2", bet_id="b2").then(
        staked(200, round_id="r2", bet_id="b2")
    )


def test_one_bet_never_stakes_twice(account):
    account.given(OPENED, deposited(100), staked(30))
    with pytest.raises(AssertionError):
        account.when(Account.place_stake, 30, **BET)


def test_a_lost_stake_is_gone(account):
    account.given(OPENED, deposited(100), staked(30))
    account.when(Account.resolve_stake, LOST, **PER_ROUND).then(lost(30))
    assert (account.state.available_minor, account.state.in_play_minor) == (70, 0)


@pytest.mark.parametrize("settlement", [PUSH, RETURNED])
def test_a_stake_that_is_pushed_or_returned_comes_back(account, settlement):
    account.given(OPENED, deposited(100), staked(30))
    account.when(Account.resolve_stake, settlement, **PER_ROUND).then(returned(30))
    assert (account.state.available_minor, account.state.in_play_minor) == (100, 0)


def test_a_win_is_paid_on_top_of_the_stake(account):
    account.given(OPENED, deposited(100), staked(30))
    account.when(Account.resolve_stake, won(240), **PER_ROUND).then(paid(30, 240))
    assert (account.state.available_minor, account.state.in_play_minor) == (340, 0)


def test_a_win_that_was_rounded_to_nothing_returns_the_stake(account):
    account.given(OPENED, deposited(1), staked(1))
    account.when(Account.resolve_stake, won(0), **PER_ROUND).then(paid(1, 0))
    assert account.state.available_minor == 1


def test_the_win_and_the_commission_are_never_netted(account):
    account.given(OPENED, deposited(100_00), staked(100_00))
    account.when(Account.resolve_stake, won(100_00, 5_00), **PER_ROUND).then(
        paid(100_00, 100_00), charged(5_00)
    )
    assert account.state.available_minor == 195_00


def test_deferred_commission_is_marked_in_full(account):
    account.given(OPENED, deposited(100_00), staked(100_00))
    account.when(Account.resolve_stake, won(100_00, 5_00), **DEFERRED).then(
        paid(100_00, 100_00), marked(5_00)
    )
    assert (account.state.available_minor, account.state.commission_due_minor) == (200_00, 5_00)


def test_what_the_balance_does_not_cover_is_charged_in_part_and_marked_in_part(account):
    account.given(OPENED, deposited(1), staked(1))
    account.when(Account.resolve_stake, won(1, 100), **PER_ROUND).then(
        paid(1, 1), charged(2), marked(98)
    )
    assert (account.state.available_minor, account.state.commission_due_minor) == (0, 98)


def test_commission_is_covered_by_all_that_is_available(account):
    account.given(OPENED, deposited(100), staked(1))
    account.when(Account.resolve_stake, won(1, 100), **PER_ROUND).then(paid(1, 1), charged(100))
    assert account.state.available_minor == 1


def test_commission_of_several_wins_is_due_together(account):
    account.given(OPENED, deposited(2), staked(1), staked(1, bet_id="b2"))
    account.when(Account.resolve_stake, won(1, 100), **DEFERRED).then(paid(1, 1), marked(100))
    account.when(
        Account.resolve_stake,
        won(1, 7),
        round_id="r1",
        bet_id="b2",
        collection=Collection.DEFERRED,
    ).then(
        partial(WinPaid, round_id="r1", bet_id="b2", stake_minor=1, win_minor=1),
        partial(CommissionMarked, round_id="r1", bet_id="b2", commission_minor=7),
    )
    assert account.state.commission_due_minor == 107


@pytest.mark.parametrize(
    ("settlement", "facts"),
    [(LOST, [lost(30)]), (RETURNED, [returned(30)]), (won(30, 2), [paid(30, 30), charged(2)])],
)
def test_a_freeze_never_stops_a_settlement_or_a_refund(account, settlement, facts):
    account.given(OPENED, deposited(100), staked(30), FROZEN)
    account.when(Account.resolve_stake, settlement, **PER_ROUND).then(*facts)


def test_a_stake_is_resolved_once(account):
    account.given(OPENED, deposited(100), staked(30), lost(30))
    with pytest.raises(KeyError):
        account.when(Account.resolve_stake, LOST, **PER_ROUND)


def test_an_unfrozen_account_bets_again(account):
    account.given(OPENED, deposited(100), FROZEN).when(Account.unfreeze, "cleared").then(UNFROZEN)
    account.when(Account.place_stake, 100, **BET).then(staked(100))


def test_an_account_is_frozen_with_a_reason(account):
    account.given(OPENED).when(Account.freeze, "chargeback").then(FROZEN)
    assert account.state.is_frozen


@pytest.mark.parametrize("facts", [[OPENED], [OPENED, deposited(5), withdrawn(5)]])
def test_an_account_with_nothing_in_it_closes(account, facts):
    account.given(*facts).when(Account.close, "asked for").then(CLOSED)
    assert account.state.is_closed


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        ([deposited(1)], "balance_not_zero"),
        ([deposited(1), staked(1)], "balance_not_zero"),
        ([deposited(1), staked(1), paid(1, 1), charged(2), marked(98)], "commission_outstanding"),
    ],
)
def test_an_account_with_a_balance_in_play_or_due_does_not_close(account, facts, code):
    account.given(OPENED, *facts).when(Account.close, "asked for").then_refused(code)


def test_a_frozen_account_may_be_closed(account):
    account.given(OPENED, FROZEN).when(Account.close, "asked for").then(CLOSED)


def collected(commission_minor, owed_minor=0):
    return partial(DueCollected, commission_minor=commission_minor, owed_minor=owed_minor)


def reversed_(
    result, stake_minor, *, win_minor=0, refunded_minor=0, unmarked_minor=0, owed_minor=0
):
    return partial(
        SettlementReversed,
        **BET,
        correction_id="c1",
        result=result,
        stake_minor=stake_minor,
        win_minor=win_minor,
        refunded_minor=refunded_minor,
        unmarked_minor=unmarked_minor,
        owed_minor=owed_minor,
    )


OWING = (OPENED, deposited(100), partial(StakePlaced, **BET, stake_minor=150, owed_minor=50))
"""Nothing available, 50 owed, and 150 in play."""


def test_what_is_due_is_collected_from_the_balance(account):
    account.given(OPENED, deposited(100), marked(30)).when(Account.collect_due).then(collected(30))
    assert (account.state.available_minor, account.state.commission_due_minor) == (70, 0)


def test_what_the_balance_does_not_cover_stays_due(account):
    account.given(OPENED, deposited(20), marked(30)).when(Account.collect_due).then(collected(20))
    assert (account.state.available_minor, account.state.commission_due_minor) == (0, 10)


def test_commission_is_collected_before_what_is_owed(account):
    account.given(*OWING, marked(30), deposited(40)).when(Account.collect_due).then(
        collected(30, 10)
    )
    assert account.state.owed_minor == 40


def test_the_oldest_mark_is_paid_first(account):
    account.given(OPENED, marked(30, "b1"), marked(20, "b2"), deposited(40))
    account.when(Account.collect_due).then(collected(40))
    assert account.state.marks == {("r1", "b2"): 10}


@pytest.mark.parametrize("facts", [(OPENED,), (OPENED, deposited(1)), (OPENED, marked(1))])
def test_where_nothing_is_due_or_nothing_there_nothing_is_recorded(account, facts):
    account.given(*facts).when(Account.collect_due).then()


def test_a_frozen_account_pays_what_is_due(account):
    account.given(OPENED, deposited(100), marked(30), FROZEN)
    account.when(Account.collect_due).then(collected(30))


def test_what_is_owed_cannot_be_withdrawn(account):
    account.given(*OWING, deposited(60))
    account.when(Account.withdraw, 11).then_refused("commission_outstanding", field="amount_minor")
    account.when(Account.withdraw, 10).then(withdrawn(10))


def test_an_account_pays_what_is_due_and_closes(account):
    account.given(OPENED, deposited(30), marked(30))
    account.when(Account.close, "asked for").then(collected(30), CLOSED)


def test_an_account_that_cannot_pay_what_is_due_does_not_close(account):
    account.given(OPENED, deposited(29), marked(30))
    account.when(Account.close, "asked for").then_refused("commission_outstanding")


def test_an_account_with_more_than_is_due_does_not_close(account):
    account.given(OPENED, deposited(31), marked(30))
    account.when(Account.close, "asked for").then_refused("balance_not_zero")


WON = Settlement(Result.WON, win_minor=100, commission_minor=5)
REVERSAL = {**BET, "stake_minor": 100, "correction_id": "c1"}


def test_a_reversal_takes_the_win_and_the_stake_and_gives_the_commission_back(account):
    account.given(OPENED, deposited(195)).when(Account.reverse_settlement, WON, **REVERSAL).then(
        reversed_(Result.WON, 100, win_minor=100, refunded_minor=5)
    )
    assert (account.state.available_minor, account.state.in_play_minor) == (0, 100)


def test_what_was_spent_meanwhile_is_owed(account):
    account.given(OPENED, deposited(45)).when(Account.reverse_settlement, WON, **REVERSAL).then(
        reversed_(Result.WON, 100, win_minor=100, refunded_minor=5, owed_minor=150)
    )
    assert (account.state.available_minor, account.state.owed_minor) == (0, 150)


def test_commission_that_is_still_due_is_unmarked_and_the_rest_refunded(account):
    account.given(OPENED, deposited(202), marked(5), collected(2))
    account.when(Account.reverse_settlement, WON, **REVERSAL).then(
        reversed_(Result.WON, 100, win_minor=100, refunded_minor=2, unmarked_minor=3)
    )
    assert account.state.commission_due_minor == 0


def test_the_commission_due_of_other_bets_is_left_alone(account):
    account.given(OPENED, deposited(195), marked(7, "b2"))
    account.when(Account.reverse_settlement, WON, **REVERSAL).then(
        reversed_(Result.WON, 100, win_minor=100, refunded_minor=5)
    )
    assert account.state.marks == {("r1", "b2"): 7}


def test_the_reversal_of_a_loss_moves_nothing_but_the_stake(account):
    account.given(OPENED, deposited(10)).when(Account.reverse_settlement, LOST, **REVERSAL).then(
        reversed_(Result.LOST, 100)
    )
    assert (account.state.available_minor, account.state.in_play_minor) == (10, 100)


def test_the_reversal_of_a_push_takes_the_stake_back(account):
    account.given(OPENED, deposited(40)).when(Account.reverse_settlement, PUSH, **REVERSAL).then(
        reversed_(Result.PUSH, 100, owed_minor=60)
    )


def test_a_freeze_never_stops_a_correction(account):
    account.given(OPENED, deposited(195), FROZEN)
    account.when(Account.reverse_settlement, WON, **REVERSAL).then(
        reversed_(Result.WON, 100, win_minor=100, refunded_minor=5)
    )
    account.state = replace(account.state, stakes={})
    account.when(Account.place_corrected_stake, 10, **BET).then(
        partial(StakePlaced, **BET, stake_minor=10, owed_minor=10)
    )


def test_a_corrected_stake_that_is_covered_owes_nothing(account):
    account.given(OPENED, deposited(10)).when(Account.place_corrected_stake, 10, **BET).then(
        staked(10)
    )


def test_a_correction_reopens_a_closed_account_and_freezes_it(account):
    reopened = partial(AccountReopened, correction_id="c1")
    account.given(OPENED, CLOSED).when(Account.reopen, "c1").then(reopened)
    account.when(Account.place_stake, 1, **BET).then_refused("account_frozen", field="account_id")
    account.when(Account.deposit, 1).then(deposited(1))
    account.when(Account.reopen, "c1").then()
