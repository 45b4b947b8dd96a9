"""The rounds: each state that a round can be left in, and the lists of them."""

from dataclasses import asdict, replace

import msgspec
import pytest

from domain.bets import BetKind
from domain.cards import parse_card
from domain.errors import Refused
from domain.round import Declared
from domain.rules import Rules
from domain.tableau import Outcome
from projections.rounds import RoundLine, Rounds, interrupted, rounds
from projections.runner import catch_up, parked


@pytest.fixture
def fold(connection, ledger):
    return lambda: catch_up(connection, ledger.source, projections=(Rounds(),))


@pytest.fixture
def line(connection, fold):
    """The only round, after everything is folded."""

    def read():
        fold()
        (line,) = rounds(connection)
        return line

    return read


@pytest.fixture
def opened(ledger):
    """A round r1 at a physical shoe, and two players with enough; its line as it opens."""
    ledger.open_table("t1")
    ledger.do("shoe:s1", "open_physical", "t1", decks=8)
    ledger.open_account("a1", deposit_minor=1_000_00)
    ledger.open_account("a2", deposit_minor=1_000_00)
    ledger.open_round("r1", shoe="s1")
    return RoundLine(
        round_id="r1",
        table_id="t1",
        shoe_id="s1",
        number=1,
        state="betting",
        player_cards=[],
        banker_cards=[],
        player_total=None,
        banker_total=None,
        outcome=None,
        bets=0,
        turnover={"USD": 0},
        opened_at=ledger.at(len(ledger.events)),
        settled_at=None,
    )


def stake(ledger):
    ledger.bet("b1", BetKind.BANKER, on="r1", account="a1", stake_minor=100_00)
    ledger.bet("b2", BetKind.PLAYER, on="r1", account="a2", stake_minor=50_00)


def test_an_opened_round_takes_bets(opened, line):
    assert line() == opened


def test_bets_are_counted_and_their_stakes_summed(ledger, opened, line):
    stake(ledger)
    assert line() == replace(opened, bets=2, turnover={"USD": 150_00})


def test_a_cancelled_bet_does_not_count(ledger, opened, line):
    stake(ledger)
    line()
    ledger.cancel_bet("b1", on="r1")
    assert line() == replace(opened, bets=1, turnover={"USD": 50_00})


def test_the_cancellation_of_a_bet_that_was_not_seen_changes_nothing(ledger, opened, line):
    stake(ledger)
    ledger.cancel_bet("b9", on="r1")
    assert line() == replace(opened, bets=2, turnover={"USD": 150_00})


def test_cards_stand_with_their_hand_before_the_deal_is_complete(ledger, opened, line):
    ledger.do("round:r1", "close_betting")
    ledger.deal("r1", "2S", "0?", "KH")
    assert line() == replace(
        opened, state="dealing", player_cards=["2S", "KH"], banker_cards=["0?"]
    )


def test_a_complete_deal_has_its_totals_and_outcome(ledger, opened, line):
    stake(ledger)
    ledger.do("round:r1", "close_betting")
    ledger.deal("r1", "2S", "4D", "KH", "AC", "9S")
    assert line() == replace(
        opened,
        state="resolved",
        player_cards=["2S", "KH", "9S"],
        banker_cards=["4D", "AC"],
        player_total=1,
        banker_total=5,
        outcome="banker",
        bets=2,
        turnover={"USD": 150_00},
    )


def test_a_settled_round_says_when(ledger, opened, line):
    stake(ledger)
    ledger.do("round:r1", "close_betting")
    ledger.deal("r1", "2S", "4D", "KH", "5C")
    ledger.settle("r1")
    settled_at = next(event.at for _, event in ledger.events if event.TOPIC == "round.settled")
    assert line() == replace(
        opened,
        state="settled",
        player_cards=["2S", "KH"],
        banker_cards=["4D", "5C"],
        player_total=2,
        banker_total=9,
        outcome="banker",
        bets=2,
        turnover={"USD": 150_00},
        settled_at=settled_at,
    )


def test_a_void_round_keeps_its_bets_and_has_no_turnover(ledger, opened, line):
    stake(ledger)
    ledger.void("r1")
    assert line() == replace(opened, state="void", bets=2, turnover={"USD": 0})


def test_a_round_of_another_system_stands_as_it_was_declared(ledger, opened, line):
    cards = {"player": ("2?", "0?", "0?"), "banker": ("9?", "0?")}
    ledger.do(
        "round:r1",
        "record",
        **{hand: tuple(map(parse_card, shown)) for hand, shown in cards.items()},
        declared=Declared(7, 9, Outcome.TIE),
    )
    recorded = line()
    assert (recorded.player_cards, recorded.banker_cards) == (["2?", "0?", "0?"], ["9?", "0?"])
    assert (recorded.player_total, recorded.banker_total, recorded.outcome) == (7, 9, "tie")


def test_a_round_that_has_only_tombstones_is_not_listed(connection, ledger, fold):
    ledger.cancel_bet("b1", on="r1")
    fold()
    assert rounds(connection) == []


def test_a_round_with_a_tombstone_opens_later(connection, ledger, fold):
    ledger.open_table("t1")
    ledger.open_shoe("s1", table="t1")
    ledger.cancel_bet("b1", on="r1")
    fold()
    ledger.open_round("r1", shoe="s1")
    fold()
    assert [(line.round_id, line.bets) for line in rounds(connection)] == [("r1", 0)]


def test_an_event_of_an_unknown_round_names_its_position(connection, ledger, opened, fold):
    ledger.do("round:r1", "close_betting")
    position, event = ledger.events[-1]
    event = msgspec.structs.replace(event, originator_id="round:r2")
    ledger.events.append(ledger.events[-1]._replace(position=position + 1, event=event))
    fold()
    (unfit,) = parked(connection)
    assert unfit.position == position + 1
    assert unfit.why == "round.betting_closed of round:r2: r2 was never opened"


@pytest.fixture
def played(connection, ledger, fold):
    """Ten rounds in turns at the tables t1 and t2."""
    ledger.play(rounds=10)
    fold()
    return connection


def names(lines):
    return [line.round_id for line in lines]


def test_rounds_are_listed_in_the_order_in_which_they_were_opened(played):
    assert names(rounds(played)) == [f"r{number}" for number in range(10)]


def test_a_limit_takes_the_newest_rounds_oldest_first(played):
    assert names(rounds(played, limit=3)) == ["r7", "r8", "r9"]


def test_rounds_of_one_table(played):
    assert names(rounds(played, table="t2", limit=2)) == ["r7", "r9"]


def test_rounds_of_one_shoe(played):
    assert names(rounds(played, shoe="t1-s1", limit=2)) == ["r6", "r8"]


def test_rounds_after_another_one(played):
    assert names(rounds(played, after="r6")) == ["r7", "r8", "r9"]
    assert names(rounds(played, after="r6", table="t1")) == ["r8"]


def test_a_round_that_is_not_there_is_refused_as_a_mark(played):
    with pytest.raises(Refused) as refused:
        rounds(played, after="r99")
    assert (refused.value.code, refused.value.field) == ("unknown_round", "after")


def test_a_period_holds_its_first_instant_and_not_its_last(played):
    lines = rounds(played)
    period = {"from_": lines[2].opened_at, "to": lines[5].opened_at}
    assert names(rounds(played, **period)) == ["r2", "r3", "r4"]


def test_lines_are_the_same_in_every_time_zone_and_search_path(played):
    lines = rounds(played)
    played.execute("SET TimeZone TO 'Asia/Bangkok'; SET DateStyle TO 'German'")
    played.execute("SET search_path TO pg_catalog")
    assert repr(rounds(played)) == repr(lines)


def test_turnover_is_a_whole_number(played):
    for line in rounds(played):
        assert all(type(amount) is int for amount in asdict(line)["turnover"].values())


def test_rounds_that_are_neither_settled_nor_void_are_interrupted(connection, ledger, fold):
    ledger.play(rounds=4)
    ledger.open_round("r4", shoe="t1-s1")
    ledger.open_round("r5", shoe="t2-s1")
    ledger.do("round:r5", "close_betting")
    fold()
    assert interrupted(connection) == ["r4", "r5"]


def test_a_round_records_the_rules_of_its_own_table(connection, ledger, fold):
    ledger.open_table("t6", rules=Rules(decks=6))
    ledger.open_shoe("s6", table="t6")
    ledger.open_round("r1", shoe="s6")
    fold()
    assert names(rounds(connection, table="t6")) == ["r1"]
