"""The balances: every movement of an account, in the row that is left of it."""

from dataclasses import replace

import msgspec
import pytest

from domain.account import FundsDeposited
from domain.bets import BetKind
from domain.money import Collection, CommissionPolicy
from domain.rules import Rules
from projections.balances import AccountLine, Balance, Balances, accounts, balance
from projections.runner import catch_up, parked

ONLY = (Balances(),)


@pytest.fixture
def fold(connection, ledger):
    return lambda: catch_up(connection, ledger.source, projections=ONLY)


def at_a_table(ledger, rules=None):
    """An account of 1,000.00 at a physical shoe."""
    ledger.open_table("t1", rules=rules or Rules())
    ledger.do("shoe:s1", "open_physical", "t1", decks=8)
    ledger.open_account("a1", deposit_minor=1_000_00)
    ledger.open_round("r1", shoe="s1")


def bankers_win(ledger):
    ledger.do("round:r1", "close_betting")
    ledger.deal("r1", "2S", "4D", "KH", "5C")
    ledger.settle("r1")


EMPTY = Balance(
    account_id="a1",
    currency="USD",
    available_minor=0,
    in_play_minor=0,
    commission_due_minor=0,
    owed_minor=0,
    position=1,
)


def test_an_opened_account_has_nothing(connection, ledger, fold):
    ledger.open_account("a1")
    fold()
    assert balance(connection, "a1") == EMPTY


def test_an_account_that_was_never_opened_has_no_balance(connection, fold):
    fold()
    assert balance(connection, "a1") is None


def test_deposits_and_withdrawals_move_what_is_available(connection, ledger, fold):
    ledger.open_account("a1", deposit_minor=100_00)
    ledger.do("account:a1", "withdraw", 30_00)
    fold()
    assert balance(connection, "a1") == replace(EMPTY, available_minor=70_00, position=3)


def test_a_stake_is_in_play_until_it_is_resolved(connection, ledger, fold):
    at_a_table(ledger)
    ledger.bet("b1", BetKind.BANKER, on="r1", account="a1", stake_minor=100_00)
    fold()
    staked = balance(connection, "a1")
    assert (staked.available_minor, staked.in_play_minor) == (900_00, 100_00)


def test_a_lost_stake_is_gone(connection, ledger, fold):
    at_a_table(ledger)
    ledger.bet("b1", BetKind.PLAYER, on="r1", account="a1", stake_minor=100_00)
    bankers_win(ledger)
    fold()
    lost = balance(connection, "a1")
    assert (lost.available_minor, lost.in_play_minor) == (900_00, 0)


def test_a_banker_win_comes_back_in_full_less_its_commission(connection, ledger, fold):
    at_a_table(ledger)
    ledger.bet("b1", BetKind.BANKER, on="r1", account="a1", stake_minor=100_00)
    bankers_win(ledger)
    fold()
    won = balance(connection, "a1")
    assert (won.available_minor, won.in_play_minor) == (1_095_00, 0)
    assert won.commission_due_minor == 0


def test_deferred_commission_is_due(connection, ledger, fold):
    at_a_table(ledger, Rules(commission=CommissionPolicy(collection=Collection.DEFERRED)))
    ledger.bet("b1", BetKind.BANKER, on="r1", account="a1", stake_minor=100_00)
    bankers_win(ledger)
    fold()
    won = balance(connection, "a1")
    assert (won.available_minor, won.commission_due_minor) == (1_100_00, 5_00)


@pytest.mark.parametrize("end", ["cancel", "void"])
def test_a_returned_stake_is_available_again(connection, ledger, fold, end):
    at_a_table(ledger)
    ledger.bet("b1", BetKind.TIE, on="r1", account="a1", stake_minor=100_00)
    if end == "cancel":
        ledger.cancel_bet("b1", on="r1")
    else:
        ledger.void("r1")
    fold()
    returned = balance(connection, "a1")
    assert (returned.available_minor, returned.in_play_minor) == (1_000_00, 0)


def test_a_sum_above_eight_bytes_is_exact(connection, ledger, fold):
    ledger.open_account("a1")
    for _ in range(3):
        ledger.do("account:a1", "deposit", 10**18 // 4)
    more = msgspec.structs.replace(ledger.events[-1].event, amount_minor=10**19)
    for version in (5, 6):
        event = msgspec.structs.replace(more, originator_version=version)
        ledger.events.append(ledger.events[-1]._replace(position=version, event=event))
    fold()
    assert balance(connection, "a1").available_minor == 3 * 10**18 // 4 + 2 * 10**19


def test_accounts_are_listed_in_the_order_in_which_they_were_opened(connection, ledger, fold):
    for name in ("b", "a", "c"):
        ledger.open_account(name)
    ledger.do("account:a", "freeze", "a dispute")
    ledger.do("account:b", "freeze", "a dispute")
    ledger.do("account:b", "unfreeze", "it is settled")
    ledger.do("account:c", "close", "the player asked")
    fold()
    listed = accounts(connection)
    assert [(line.account_id, line.version) for line in listed] == [("b", 3), ("a", 2), ("c", 2)]
    assert [(line.is_frozen, line.is_closed) for line in listed] == [
        (False, False),
        (True, False),
        (False, True),
    ]
    assert listed[0] == AccountLine(
        account_id="b",
        currency="USD",
        available_minor=0,
        in_play_minor=0,
        commission_due_minor=0,
        owed_minor=0,
        is_frozen=False,
        is_closed=False,
        opened_at=ledger.at(1),
        version=3,
    )


def test_a_limit_takes_the_newest_accounts(connection, ledger, fold):
    for name in ("b", "a", "c"):
        ledger.open_account(name)
    fold()
    assert [line.account_id for line in accounts(connection, limit=2)] == ["a", "c"]


def test_an_account_opens_once(connection, ledger, fold):
    ledger.open_account("a1")
    ledger.events.append(ledger.events[0]._replace(position=2))
    fold()
    (event,) = parked(connection)
    assert (event.name, event.position) == ("balances", 2)
    assert event.why == "account.opened of account:a1: a1 is there already"


def test_an_event_of_an_account_that_was_never_opened_names_its_position(connection, ledger, fold):
    ledger.open_account("a1", deposit_minor=1)
    event = msgspec.structs.replace(ledger.events[1].event, originator_id="account:a2")
    assert isinstance(event, FundsDeposited)
    ledger.events.append(ledger.events[1]._replace(position=3, event=event))
    fold()
    (unfit,) = parked(connection)
    assert (unfit.name, unfit.position) == ("balances", 3)
    assert unfit.why == "account.funds_deposited of account:a2: a2 was never opened"
