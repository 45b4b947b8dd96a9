"""The gaming days: each measure by the day in which it falls, corrections and closed days too."""

from datetime import date, datetime, timedelta
from math import sqrt

import pytest

from domain.bets import BetKind
from domain.cards import parse_card
from domain.correction import CorrectedBet
from domain.event import Recorded, Stamp
from domain.money import Collection, CommissionPolicy
from domain.probability import covariance, house_edge
from domain.rules import Rules
from domain.site import Site
from projections.commission import CommissionBy, CommissionLine, commission
from projections.day_report import day_report
from projections.days import Days
from projections.runner import catch_up
from tests.projections.conftest import START, Ledger

ONLY = (Days(),)
DAY = START.date()
NEXT = DAY + timedelta(days=1)
BANKER_WINS = ("2S", "4D", "KH", "5C")
PLAYER_WINS = ("4S", "4D", "5H", "2C")


class Clocked(Ledger):
    """A ledger whose clock can be set, with a site."""

    def __init__(self) -> None:
        super().__init__()
        self.starts = START

    def at(self, position: int) -> datetime:
        return self.starts + timedelta(seconds=position)

    def site(self, command, *arguments, at, **named):
        site = self.aggregates.get("site") or Site()
        event = getattr(site, command)(
            *arguments, **named, stamp=Stamp(at=at, actor="manager", key="site")
        )
        self.events.append(Recorded(len(self.events) + 1, event))
        self.aggregates["site"] = site.apply(event)

    def at_a_table(self, rules=None):
        self.open_table("t1", rules=rules or Rules())
        self.do("shoe:s1", "open_physical", "t1", decks=8)
        for account in ("a1", "a2"):
            self.open_account(account, deposit_minor=10_000_00)

    def round_of(self, name, *bets, cards=BANKER_WINS):
        """Plays a round of the given bets, each an account, a kind and a stake."""
        self.open_round(name, shoe="s1")
        for number, (account, kind, stake_minor) in enumerate(bets, 1):
            self.bet(f"b{number}", kind, on=name, account=account, stake_minor=stake_minor)
        self.do(f"round:{name}", "close_betting")
        self.deal(name, *cards)
        self.settle(name)

    def correct(self, name, **holds):
        """Proposes and approves a correction in the round's own stream, which is all days need."""
        holds = {"cards": None, "bets": None, "is_void": False, **holds}
        proposer, approver = (
            Stamp(at=self.at(len(self.events) + 1), actor=actor, key="k") for actor in ("p", "q")
        )
        stream = f"round:{name}"
        proposed = self.aggregates[stream].propose_correction(
            f"c{len(self.events)}", **holds, reason="misread", stamp=proposer
        )
        self._add(proposed)
        for event in self.aggregates[stream].approve_correction(
            proposed.correction_id, stamp=approver
        ):
            self._add(event)

    def _add(self, event):
        self.events.append(Recorded(len(self.events) + 1, event))
        stream = event.originator_id
        self.aggregates[stream] = self.aggregates[stream].apply(event)


@pytest.fixture
def ledger():
    return Clocked()


@pytest.fixture
def report(connection, ledger):
    def fold(day=DAY, **named):
        catch_up(connection, ledger.source, projections=ONLY)
        return day_report(connection, day, **named)

    return fold


def cards(*texts):
    return tuple(map(parse_card, texts))


def measures(lines):
    """The measures that are counted, by the keys of the lines."""
    return {
        line.key: (line.turnover_minor, line.win_minor, line.commission_minor, line.bets)
        for line in lines
    }


def test_a_day_adds_up_by_table_shoe_bet_and_account(ledger, report):
    ledger.at_a_table()
    ledger.round_of(
        "r1",
        ("a1", BetKind.BANKER, 100_00),
        ("a2", BetKind.PLAYER, 50_00),
        ("a2", BetKind.TIE, 5_00),
    )
    ledger.round_of("r2", ("a1", BetKind.BANKER, 30_00), cards=PLAYER_WINS)
    day = report()
    everything = (185_00, -100_00 + 50_00 + 5_00 + 30_00, 5_00, 4)
    assert measures(day.totals) == {"": everything}
    assert measures(day.tables) == {"t1": everything}
    assert measures(day.shoes) == {"s1": everything}
    assert measures(day.bets) == {
        "banker": (130_00, -70_00, 5_00, 2),
        "player": (50_00, 50_00, 0, 1),
        "tie": (5_00, 5_00, 0, 1),
    }
    assert measures(day.accounts) == {
        "a1": (130_00, -70_00, 5_00, 2),
        "a2": (55_00, 55_00, 0, 2),
    }
    assert {line.key: line.rounds for line in day.bets} == {"banker": 2, "player": 1, "tie": 1}
    (total,) = day.totals
    assert (total.rounds, total.void_rounds) == (2, 0)
    assert total.to_json()["hold_percent"] == "-5.41"  # (-15.00 + 5.00) of 185.00


def test_a_push_is_turnover_and_a_returned_stake_is_none(ledger, report):
    ledger.at_a_table()
    ledger.round_of("r1", ("a1", BetKind.BANKER, 100_00), cards=("9S", "9H", "KD", "KC"))
    ledger.open_round("r2", shoe="s1")
    ledger.bet("b1", BetKind.PLAYER, on="r2", account="a1", stake_minor=7_00)
    ledger.bet("b2", BetKind.TIE, on="r2", account="a1", stake_minor=8_00)
    ledger.cancel_bet("b2", on="r2")
    ledger.void("r2")
    day = report()
    assert measures(day.totals) == {"": (100_00, 0, 0, 1)}
    (total,) = day.totals
    assert (total.rounds, total.void_rounds, total.in_play_end_minor) == (1, 1, 0)


def test_the_theoretical_win_is_turnover_times_the_house_edge(ledger, report):
    ledger.at_a_table()
    ledger.round_of("r1", ("a1", BetKind.BANKER, 1_000_00), ("a2", BetKind.TIE, 100_00))
    rules = Rules()
    banker, tie = house_edge(BetKind.BANKER, rules), house_edge(BetKind.TIE, rules)
    (total,) = report().totals
    assert total.theoretical == 1_000_00 * banker + 100_00 * tie
    line = total.to_json()
    assert line["theoretical_minor"] == round(total.theoretical) == 10_58 + 14_36
    assert line["deviation_minor"] == (-1_000_00 + 100_00 + 50_00) - line["theoretical_minor"]


def test_the_bets_of_a_round_hang_together_and_rounds_do_not(ledger, report):
    """Two equal bets in one round deviate twice as far as one, in two rounds only by the root."""
    rules = Rules()
    variance = covariance(BetKind.BANKER, BetKind.BANKER, rules)
    ledger.at_a_table()
    ledger.round_of("r1", ("a1", BetKind.BANKER, 10_00), ("a2", BetKind.BANKER, 10_00))
    ledger.round_of("r2", ("a1", BetKind.BANKER, 10_00))
    ledger.round_of("r3", ("a1", BetKind.BANKER, 10_00), ("a2", BetKind.PLAYER, 10_00))
    day = report()
    both = covariance(BetKind.BANKER, BetKind.PLAYER, rules)
    player = covariance(BetKind.PLAYER, BetKind.PLAYER, rules)
    assert both < 0
    (total,) = day.totals
    assert total.variance == 10_00**2 * ((4 + 1 + 1) * variance + player + 2 * both)
    banker = next(line for line in day.bets if line.key == "banker")
    assert banker.variance == 10_00**2 * 6 * variance
    deviation = total.to_json()["standard_deviation_minor"]
    assert deviation == round(sqrt(total.variance))


def test_what_is_in_play_at_both_ends_of_a_day(ledger, report):
    ledger.at_a_table()
    ledger.open_round("r1", shoe="s1")
    ledger.bet("b1", BetKind.BANKER, on="r1", account="a1", stake_minor=100_00)
    ledger.starts += timedelta(days=1)
    ledger.do("round:r1", "close_betting")
    ledger.deal("r1", *BANKER_WINS)
    ledger.settle("r1")
    ends = {
        day: (line.in_play_start_minor, line.in_play_end_minor, line.turnover_minor)
        for day in (DAY, NEXT)
        for line in report(day).totals
    }
    # The round belongs to the day in which it was settled.
    assert ends == {DAY: (0, 100_00, 0), NEXT: (100_00, 0, 100_00)}
    after = report(NEXT + timedelta(days=1))
    assert (after.is_played, after.totals) == (False, ())


def test_a_day_without_play_is_reported_as_such(ledger, report):
    ledger.at_a_table()
    day = report(date(2025, 12, 24))
    assert not day.is_played
    assert day.to_json()["played"] is False
    assert (day.start, day.end) == ("2025-12-24T06:00:00Z", "2025-12-25T06:00:00Z")


def test_only_one_table_is_reported_where_one_is_named(ledger, report):
    ledger.play(rounds=6)
    everything, one = report(), report(table="t1")
    assert one.tables == tuple(line for line in everything.tables if line.key == "t1")
    assert sum(line.rounds for line in everything.tables) > one.totals[0].rounds


def test_a_correction_moves_the_difference_into_the_day_of_the_correction(ledger, report):
    ledger.at_a_table()
    ledger.round_of("r1", ("a1", BetKind.BANKER, 100_00), ("a2", BetKind.PLAYER, 50_00))
    before = report().to_json()
    ledger.starts += timedelta(days=1)
    ledger.correct("r1", cards=cards(*PLAYER_WINS))
    assert report().to_json() == before
    day = report(NEXT)
    # Instead of 100.00 lost to the Banker bet and 50.00 won, 100.00 are won and 50.00 lost.
    assert measures(day.bets) == {"banker": (0, 200_00, -5_00, 0), "player": (0, -100_00, 0, 0)}
    (total,) = day.totals
    assert (total.rounds, total.in_play_end_minor, total.theoretical) == (0, 0, 0)
    assert total.variance == 0


def test_a_correction_of_bets_moves_them_between_accounts_and_kinds(connection, ledger, report):
    ledger.at_a_table()
    ledger.round_of("r1", ("a1", BetKind.BANKER, 100_00), ("a2", BetKind.TIE, 5_00))
    ledger.correct(
        "r1",
        bets=(
            CorrectedBet("b1", "a2", BetKind.BANKER, 60_00),
            CorrectedBet("b3", "a1", BetKind.PLAYER, 7_00),
        ),
    )
    day = report()
    assert measures(day.accounts) == {"a1": (7_00, 7_00, 0, 1), "a2": (60_00, -60_00, 3_00, 1)}
    assert measures(day.bets) == {
        "banker": (60_00, -60_00, 3_00, 1),
        "player": (7_00, 7_00, 0, 1),
        "tie": (0, 0, 0, 0),
    }
    assert [line.in_play_end_minor for line in day.accounts] == [0, 0]
    assert commission(connection, CommissionBy.ACCOUNT) == [
        CommissionLine("a2", "USD", 3_00, 60_00, 1)
    ]


def test_a_void_after_the_settlement_takes_everything_back(ledger, report):
    ledger.at_a_table()
    ledger.round_of("r1", ("a1", BetKind.BANKER, 100_00), ("a2", BetKind.TIE, 5_00))
    ledger.correct("r1", is_void=True)
    day = report()
    assert measures(day.totals) == {"": (0, 0, 0, 0)}
    (total,) = day.totals
    assert (total.rounds, total.void_rounds, total.variance) == (0, 1, 0)
    assert total.in_play_end_minor == 0


def test_several_corrections_of_a_round_leave_what_the_last_one_says(ledger, report):
    ledger.at_a_table()
    ledger.round_of("r1", ("a1", BetKind.BANKER, 100_00), ("a2", BetKind.TIE, 5_00))
    only = (CorrectedBet("b1", "a1", BetKind.BANKER, 40_00),)
    ledger.correct("r1", bets=only)
    ledger.correct("r1", cards=cards(*PLAYER_WINS))
    ledger.correct("r1", cards=cards(*BANKER_WINS))
    day = report()
    assert measures(day.totals) == {"": (40_00, -40_00, 2_00, 1)}
    (total,) = day.totals
    assert total.rounds == 1
    assert total.variance == 40_00**2 * covariance(BetKind.BANKER, BetKind.BANKER, Rules())


def test_what_comes_for_a_closed_day_falls_into_the_open_one(ledger, report):
    ledger.at_a_table()
    ledger.round_of("r1", ("a1", BetKind.BANKER, 100_00))
    ledger.site("close_day", DAY, at=START + timedelta(days=1))
    closed = report().to_json()
    assert closed["closed"] is True
    ledger.round_of("r2", ("a1", BetKind.BANKER, 20_00))
    assert report().to_json() == closed
    day = report(NEXT)
    assert measures(day.totals) == {"": (20_00, -20_00, 1_00, 1)}
    (late,) = day.late
    assert (late.key, late.turnover_minor, late.rounds) == (DAY.isoformat(), 20_00, 1)


def test_a_closed_report_is_the_same_after_other_settings_and_a_rebuild(connection, ledger, report):
    ledger.at_a_table()
    ledger.round_of("r1", ("a1", BetKind.BANKER, 100_00))
    ledger.site("close_day", DAY, at=START + timedelta(days=1))
    closed = report().to_json()
    later = START + timedelta(days=2)
    ledger.site("set_gaming_day", "Asia/Macau", starts_at="12:00", at=later)
    ledger.round_of("r2", ("a1", BetKind.BANKER, 20_00))
    assert report().to_json() == closed
    for table in (*Days.tables, "tracking", "parked"):
        connection.execute(f"DROP TABLE projection.{table}")
    assert report().to_json() == closed


def test_a_day_starts_by_the_clock_of_the_site_through_summer_time(ledger, report):
    ledger.site("set_gaming_day", "Europe/London", starts_at="06:00", at=START)
    lengths = {}
    for day in (date(2026, 3, 28), date(2026, 3, 29), date(2026, 10, 24), date(2026, 10, 25)):
        found = report(day)
        start, end = (datetime.fromisoformat(text) for text in (found.start, found.end))
        lengths[day] = (end - start) / timedelta(hours=1)
    assert list(lengths.values()) == [23, 24, 25, 24]


def test_commission_is_added_up_by_table_shoe_account_and_day(connection, ledger, report):
    deferred = CommissionPolicy(collection=Collection.DEFERRED)
    ledger.at_a_table(Rules(commission=deferred))
    ledger.round_of("r1", ("a1", BetKind.BANKER, 100_00), ("a2", BetKind.BANKER, 10_00))
    ledger.starts += timedelta(days=1)
    ledger.round_of("r2", ("a1", BetKind.BANKER, 1_10), ("a2", BetKind.PLAYER, 5_00))
    report()

    def lines(by):
        return [
            (line.key, line.commission_minor, line.winning_banker_stakes_minor, line.bets)
            for line in commission(connection, by)
        ]

    assert lines(CommissionBy.TABLE) == [("t1", 5_56, 111_10, 3)]
    assert lines(CommissionBy.SHOE) == [("s1", 5_56, 111_10, 3)]
    assert lines(CommissionBy.ACCOUNT) == [("a1", 5_06, 101_10, 2), ("a2", 50, 10_00, 1)]
    assert lines(CommissionBy.DAY) == [
        (DAY.isoformat(), 5_50, 110_00, 2),
        (NEXT.isoformat(), 6, 1_10, 1),
    ]


@pytest.mark.parametrize("events_per_page", [1, 2, 3, 7, 5_000])
def test_the_size_of_the_pages_makes_no_difference_to_corrections(
    connection, ledger, read_tables, events_per_page
):
    ledger.at_a_table()
    ledger.round_of("r1", ("a1", BetKind.BANKER, 100_00), ("a2", BetKind.TIE, 5_00))
    ledger.correct("r1", bets=(CorrectedBet("b1", "a2", BetKind.PLAYER, 60_00),))
    ledger.correct("r1", cards=cards(*PLAYER_WINS))
    ledger.site("close_day", DAY, at=START + timedelta(days=1))
    ledger.correct("r1", is_void=True)
    catch_up(connection, ledger.source, projections=ONLY)
    expected = read_tables()
    assert len(expected["day_pairs"]) > 3
    for table in (*Days.tables, "tracking", "parked"):
        connection.execute(f"DROP TABLE projection.{table}")
    catch_up(connection, ledger.source, projections=ONLY, events_per_page=events_per_page)
    assert read_tables() == expected
