"""The lists of tables and shoes."""

from dataclasses import replace

import msgspec
import pytest

from domain.bets import Variant
from domain.cards import parse_burned_card, parse_card
from domain.round import RoundOpened
from domain.rules import Rules
from projections.runner import catch_up, parked
from projections.shoes import ShoeLine, Shoes, shoes
from projections.tables import TableLine, Tables, tables


@pytest.fixture
def fold(connection, ledger):
    return lambda: catch_up(connection, ledger.source, projections=(Shoes(), Tables()))


OPEN_TABLE = TableLine(
    table_id="t1",
    currency="USD",
    rules_version=1,
    variant="commission",
    decks=8,
    shoe_id=None,
    rounds=0,
    opened_at=None,
)


@pytest.fixture
def table(connection, ledger, fold):
    """The only table's line, without the time that is the same in all tests."""

    def read():
        fold()
        (line,) = tables(connection)
        assert line.opened_at == ledger.at(1)
        return replace(line, opened_at=None)

    return read


def test_an_opened_table_has_no_shoe(ledger, table):
    ledger.open_table("t1")
    assert table() == OPEN_TABLE


def test_changed_rules_show_their_version(ledger, table):
    ledger.open_table("t1")
    ledger.do("table:t1", "change_rules", Rules(variant=Variant.EZ, decks=6))
    assert table() == replace(OPEN_TABLE, rules_version=2, variant="ez", decks=6)


def test_a_table_shows_the_shoe_that_is_on_it_until_it_is_removed(ledger, table):
    ledger.open_table("t1")
    ledger.open_shoe("s1", table="t1")
    assert table() == replace(OPEN_TABLE, shoe_id="s1")
    ledger.close_shoe("s1")
    assert table() == OPEN_TABLE


def test_a_table_counts_the_rounds_that_were_opened_at_it(connection, ledger, fold):
    ledger.play(rounds=5)
    fold()
    assert [(line.table_id, line.rounds) for line in tables(connection)] == [("t1", 3), ("t2", 2)]


def test_a_round_at_a_table_that_was_never_opened_names_its_position(connection, ledger, fold):
    ledger.play(rounds=1)
    opened = next(each for each in ledger.events if isinstance(each.event, RoundOpened))
    event = msgspec.structs.replace(opened.event, table_id="t9")
    ledger.events.append(opened._replace(position=len(ledger.events) + 1, event=event))
    fold()
    (unfit,) = parked(connection)
    assert (unfit.name, unfit.position) == ("tables", len(ledger.events))
    assert unfit.why.endswith("t9 was never opened")


@pytest.fixture
def shoe(connection, fold):
    def read():
        fold()
        (line,) = shoes(connection)
        return line

    return read


@pytest.fixture
def physical(ledger):
    ledger.open_table("t1")
    ledger.do("shoe:s1", "open_physical", "t1", decks=8)
    return ShoeLine(
        shoe_id="s1",
        table_id="t1",
        decks=8,
        source="physical",
        state="open",
        rounds=0,
        cards_drawn=0,
        cards_burned=0,
        cut_card_is_out=False,
        opened_at=ledger.at(2),
        closed_at=None,
    )


def test_an_opened_shoe_is_full(physical, shoe):
    assert shoe() == physical


def test_burned_cards_are_counted(ledger, physical, shoe):
    ledger.do("shoe:s1", "burn", tuple(map(parse_burned_card, ["2S", "??", "??"])))
    assert shoe() == replace(physical, cards_burned=3)


def test_cards_are_counted_when_their_round_ends(ledger, physical, shoe):
    ledger.do("shoe:s1", "start_round", "r1", after_cut_card=1)
    assert shoe() == replace(physical, rounds=1)
    ledger.do("shoe:s1", "end_round", tuple(map(parse_card, ["2S", "4D", "KH", "5C"])))
    assert shoe() == replace(physical, rounds=1, cards_drawn=4)


def test_rounds_are_counted_though_another_system_left_numbers_out(ledger, physical, shoe):
    for number in (1, 4):
        ledger.do("shoe:s1", "start_recorded_round", f"r{number}", number=number)
        ledger.do("shoe:s1", "end_round", ())
    assert shoe().rounds == 2


def test_the_cut_card_comes_out(ledger, physical, shoe):
    ledger.do("shoe:s1", "reach_cut_card")
    assert shoe() == replace(physical, cut_card_is_out=True)


def test_a_closed_shoe_says_when(ledger, physical, shoe):
    ledger.do("shoe:s1", "close", seed=None)
    assert shoe() == replace(physical, state="closed", closed_at=ledger.at(3))


def test_shoes_of_one_table(connection, ledger, fold):
    ledger.play(rounds=0)
    ledger.close_shoe("t2-s1")
    ledger.open_shoe("t2-s2", table="t2")
    fold()
    assert [line.shoe_id for line in shoes(connection)] == ["t1-s1", "t2-s1", "t2-s2"]
    assert [line.shoe_id for line in shoes(connection, table="t2")] == ["t2-s1", "t2-s2"]


def test_an_event_of_an_unknown_shoe_names_its_position(connection, ledger, physical, fold):
    ledger.do("shoe:s1", "close", seed=None)
    event = msgspec.structs.replace(ledger.events[-1].event, originator_id="shoe:s2")
    ledger.events.append(ledger.events[-1]._replace(position=4, event=event))
    fold()
    (unfit,) = parked(connection)
    assert (unfit.name, unfit.position) == ("shoes", 4)
    assert unfit.why.endswith("s2 was never opened")
