"""The journal: balanced entries, refused by the database where they are not, and their days."""

from datetime import UTC, date, datetime

import pytest
from psycopg.errors import CheckViolation

from domain.bets import BetKind
from domain.event import Stamp, Unreadable
from domain.money import Collection, CommissionPolicy
from domain.rules import Rules
from domain.site import GamingDayClosed, GamingDaySet
from projections.balances import Balances
from projections.journal import Journal
from projections.postings import Wanted, balance_as_of, balance_at, postings, trial_balance
from projections.runner import catch_up, check, parked, rebuild, retry

ONLY = (Balances(), Journal())
EVERYTHING = Wanted(until=10**9)


@pytest.fixture
def fold(connection, ledger):
    return lambda: catch_up(connection, ledger.source, projections=ONLY)


@pytest.fixture
def settled(ledger):
    """A Banker bet of 100.00 at five per cent that won, and 5.00 on a tie that lost."""
    play_a_bankers_win(ledger)
    return ledger


def play_a_bankers_win(ledger, rules=None):
    ledger.open_table("t1", rules=rules or Rules())
    ledger.do("shoe:s1", "open_physical", "t1", decks=8)
    ledger.open_account("a1", deposit_minor=1_000_00)
    ledger.open_round("r1", shoe="s1")
    ledger.bet("b1", BetKind.BANKER, on="r1", account="a1", stake_minor=100_00)
    ledger.bet("b2", BetKind.TIE, on="r1", account="a1", stake_minor=5_00)
    ledger.do("round:r1", "close_betting")
    ledger.deal("r1", "2S", "4D", "KH", "5C")
    ledger.settle("r1")


def site(ledger, event_type, at, **fields):
    """Adds an event of the site."""
    version = sum(each.event.originator_id == "site" for each in ledger.events) + 1
    event = event_type(*Stamp(at=at, actor="owner", key="k").on("site", version), **fields)
    ledger.events.append(ledger.events[-1]._replace(position=len(ledger.events) + 1, event=event))


def entries(connection, wanted=EVERYTHING):
    return [(each.account, each.amount_minor) for each in postings(connection, wanted)]


def held(connection, currency="USD"):
    """The balance of every account that has one, debits positive."""
    lines = trial_balance(connection)
    assert all(line.balance_minor == line.kept_minor for line in lines)
    return {
        line.account: line.balance_minor
        for line in lines
        if line.currency == currency and line.balance_minor
    }


def test_every_posting_says_what_it_belongs_to(connection, settled, fold):
    fold()
    (paid, *_) = [each for each in postings(connection, EVERYTHING) if each.line == 1][-3:]
    assert paid.event == "account.win_paid"
    assert (paid.account, paid.amount_minor, paid.balance_minor) == ("in_play:r1", 100_00, -5_00)
    assert (paid.account_id, paid.number, paid.round_id, paid.bet_id) == ("a1", 5, "r1", "b1")
    assert (paid.table_id, paid.shoe_id, paid.currency) == ("t1", "s1", "USD")
    assert paid.at == settled.at(paid.position)
    assert (paid.day, paid.own_day) == (date(2026, 1, 2), date(2026, 1, 2))


def test_a_won_bet_is_posted_in_full(connection, settled, fold):
    fold()
    assert held(connection) == {
        "cage": 1_000_00,
        "player:a1": -1_090_00,
        "win:t1:banker": 100_00,
        "win:t1:tie": -5_00,
        "commission:t1": -5_00,
    }


def test_marked_commission_is_due_and_revenue(connection, ledger, fold):
    deferred = CommissionPolicy(collection=Collection.DEFERRED)
    play_a_bankers_win(ledger, Rules(commission=deferred))
    ledger.do("account:a1", "collect_due")
    fold()
    made = {"account.commission_marked": [], "account.due_collected": []}
    for each in postings(connection, EVERYTHING):
        made.setdefault(each.event, []).append((each.account, each.amount_minor))
    assert made["account.commission_marked"] == [
        ("commission_due:a1", 5_00),
        ("commission:t1", -5_00),
    ]
    assert made["account.due_collected"] == [("player:a1", 5_00), ("commission_due:a1", -5_00)]
    assert "commission_due:a1" not in held(connection)


def test_every_balance_is_that_of_the_postings_up_to_it(connection, ledger, fold):
    ledger.play(rounds=20)
    fold()
    running = {}
    for each in postings(connection, EVERYTHING):
        key = (each.account, each.currency)
        running[key] = running.get(key, 0) + each.amount_minor
        assert each.balance_minor == running[key]
    for name, account in ledger.aggregates.items():
        if name.startswith("account:"):
            assert -running[f"player:{account.name}", "USD"] == account.available_minor


def test_amounts_of_a_thousand_million_million_are_exact(connection, ledger, fold):
    ledger.open_account("a1", currency="KWD")
    for _ in range(3):
        ledger.do("account:a1", "deposit", 10**15)
    ledger.do("account:a1", "withdraw", 1)
    fold()
    assert held(connection, "KWD") == {"cage": 3 * 10**15 - 1, "player:a1": 1 - 3 * 10**15}


def test_an_account_of_two_currencies_has_two_balances(connection, ledger, fold):
    ledger.open_account("a1", deposit_minor=5, currency="JPY")
    ledger.open_account("a2", deposit_minor=7, currency="USD")
    fold()
    assert held(connection, "JPY") == {"cage": 5, "player:a1": -5}
    assert held(connection, "USD") == {"cage": 7, "player:a2": -7}


def insert(connection, position, *amounts):
    for line, (currency, amount_minor) in enumerate(amounts, start=1):
        connection.execute(
            "INSERT INTO projection.journal (position, line, account, currency, amount_minor,"
            " balance_minor, topic, at, holds_from, day, own_day)"
            " VALUES (%s, %s, 'cage', %s, %s, 0, 'x', now(), now(), now(), now())",
            [position, line, currency, amount_minor],
        )


def test_the_database_refuses_an_entry_that_is_not_zero(connection, settled, fold):
    fold()
    with pytest.raises(CheckViolation, match="entry of position 900 is not balanced"):
        insert(connection, 900, ("USD", 1))


def test_the_database_refuses_an_entry_that_is_zero_only_across_currencies(
    connection, settled, fold
):
    fold()
    with pytest.raises(CheckViolation), connection.transaction():
        insert(connection, 900, ("USD", 1), ("JPY", -1))


def test_the_database_looks_at_an_entry_when_its_transaction_ends(connection, settled, fold):
    fold()
    before = len(entries(connection))
    with connection.transaction():
        insert(connection, 900, ("USD", 1), ("USD", -1))
    assert connection.execute("TABLE projection.journal_unbalanced").fetchall() == []
    assert len(entries(connection)) == before + 2


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE projection.journal SET amount_minor = amount_minor + 1 WHERE line = 1",
        "UPDATE projection.journal SET currency = 'EUR' WHERE line = 1",
        "UPDATE projection.journal SET position = 900 WHERE position = 7 AND line = 1",
        "DELETE FROM projection.journal WHERE line = 2",
    ],
)
def test_the_database_refuses_a_change_that_unbalances(connection, settled, fold, statement):
    fold()
    before = entries(connection)
    with pytest.raises(CheckViolation):
        connection.execute(statement)
    assert entries(connection) == before


def test_the_database_still_refuses_after_a_rebuild(connection, settled, fold):
    fold()
    for _ in range(2):
        rebuild(connection, settled.source, projections=ONLY)
    with pytest.raises(CheckViolation):
        insert(connection, 900, ("USD", 1))


@pytest.mark.parametrize("events_per_page", [1, 3, 5_000])
def test_what_is_rebuilt_equals_what_was_live(connection, ledger, events_per_page):
    ledger.play(rounds=8)
    site(ledger, GamingDayClosed, ledger.at(len(ledger.events)), day="2026-01-02")
    ledger.play(rounds=3, prefix="late-")
    catch_up(connection, ledger.source, projections=ONLY, events_per_page=events_per_page)
    assert check(connection, ledger.source, projections=ONLY) == []


def test_a_day_follows_the_site_from_the_setting_on(connection, ledger, fold):
    ledger.open_account("a1", deposit_minor=1)
    site(ledger, GamingDaySet, ledger.at(3), zone="Asia/Tokyo", starts_at="20:00")
    ledger.do("account:a1", "deposit", 2)
    fold()
    days = {each.amount_minor: each.day for each in postings(connection, EVERYTHING)}
    assert (days[1], days[2]) == (date(2026, 1, 2), date(2026, 1, 2))
    site(ledger, GamingDaySet, ledger.at(5), zone="Pacific/Kiritimati", starts_at="01:00")
    ledger.do("account:a1", "deposit", 3)
    fold()
    days = {each.amount_minor: each.day for each in postings(connection, EVERYTHING)}
    assert (days[2], days[3]) == (date(2026, 1, 2), date(2026, 1, 3))


def test_what_is_late_for_a_closed_day_stands_in_the_next_with_its_own_date(
    connection, ledger, fold
):
    ledger.open_account("a1")
    site(ledger, GamingDayClosed, ledger.at(2), day="2026-01-04")
    ledger.do("account:a1", "deposit", 1)
    fold()
    (debit, _) = postings(connection, EVERYTHING)
    assert (debit.day, debit.own_day) == (date(2026, 1, 5), date(2026, 1, 2))


def test_closing_a_day_rolls_win_and_commission_into_the_bankroll(connection, settled, fold):
    site(settled, GamingDayClosed, settled.at(99), day="2026-01-02")
    fold()
    assert held(connection) == {"cage": 1_000_00, "player:a1": -1_090_00, "house": 90_00}
    closing = list(postings(connection, EVERYTHING))[-6:]
    assert [(each.account, each.amount_minor) for each in closing] == [
        ("commission:t1", 5_00),
        ("house", -5_00),
        ("win:t1:banker", -100_00),
        ("house", 100_00),
        ("win:t1:tie", 5_00),
        ("house", -5_00),
    ]
    assert {(each.event, each.day, each.account_id) for each in closing} == {
        ("site.gaming_day_closed", date(2026, 1, 2), None)
    }


def test_a_close_rolls_nothing_of_a_later_day(connection, settled, fold):
    site(settled, GamingDayClosed, settled.at(99), day="2026-01-01")
    fold()
    assert held(connection)["commission:t1"] == -5_00
    site(settled, GamingDayClosed, settled.at(99), day="2026-01-03")
    fold()
    assert "commission:t1" not in held(connection)


def test_what_was_parked_before_a_day_was_closed_needs_a_rebuild(connection, settled, fold):
    site(settled, GamingDayClosed, settled.at(99), day="2026-01-02")
    late = settled.events[6]
    settled.events[6] = Unreadable(7, late.event.originator_id, 1, "broken")
    fold()
    settled.events[6] = late
    retry(connection, settled.source, projections=ONLY)
    assert "punto rebuild journal" in next(row.why for row in parked(connection))
    rebuild(connection, settled.source, projections=ONLY)
    assert parked(connection) == []


def test_a_balance_at_a_position_never_changes(connection, ledger, fold):
    known = []
    ledger.play(rounds=4, tables=["t1"])
    fold()
    for position in range(6, len(ledger.events) + 1):
        account = ledger.aggregates["account:t1-a1"]
        known.append(balance_as_of(connection, account.name, position))
    assert known[-1].available_minor == account.available_minor
    ledger.play(rounds=4, tables=["t1"], prefix="more-")
    fold()
    rebuild(connection, ledger.source, projections=ONLY)
    for before in known:
        assert balance_as_of(connection, "t1-a1", before.position) == before


def test_an_account_that_is_not_open_yet_has_no_balance(connection, settled, fold):
    fold()
    assert settled.events[2].event.TOPIC == "account.opened"
    assert balance_as_of(connection, "a1", 2) is None
    assert balance_as_of(connection, "a1", 3).available_minor == 0
    assert balance_at(connection, "a1", settled.at(3)).available_minor == 0
    assert balance_at(connection, "a1", datetime(2026, 1, 1, tzinfo=UTC)) is None
