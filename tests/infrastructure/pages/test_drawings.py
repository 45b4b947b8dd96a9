"""Cards, roads and plots: well-formed drawings that say in words what they show."""

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.cards import DECK
from domain.roads import DerivedRoad, Result
from domain.tableau import Outcome
from infrastructure.pages.cards import card_drawing, card_name
from infrastructure.pages.plots import LABELS, VALUES, WIDTH, Bar, bars_drawing
from infrastructure.pages.road_drawings import (
    bead_plate_drawing,
    big_road_drawing,
    derived_road_drawing,
    derived_road_text,
)

BANKER, PLAYER, TIE = (Result(each) for each in (Outcome.BANKER, Outcome.PLAYER, Outcome.TIE))
RESULTS = st.lists(
    st.builds(
        Result,
        outcome=st.sampled_from(Outcome),
        has_player_pair=st.booleans(),
        has_banker_pair=st.booleans(),
    ),
    max_size=80,
)


def parsed(drawing):
    return ElementTree.fromstring(drawing)


def of_class(drawing, name):
    return [each for each in parsed(drawing).iter() if name in each.get("class", "").split()]


@pytest.mark.parametrize("card", [*map(str, DECK), "0?", "9?", "0H", "??"])
def test_a_card_is_a_picture_with_its_name(card):
    drawing = parsed(card_drawing(card))
    assert drawing.get("role") == "img"
    assert drawing.get("aria-label") == card_name(card)


def test_no_two_cards_have_one_name_or_one_picture():
    cards = [*map(str, DECK), "0?", "9?", "??"]
    assert len({card_name(card) for card in cards}) == len(cards)
    assert len({card_drawing(card) for card in cards}) == len(cards)


@pytest.mark.parametrize(
    ("card", "name"),
    [
        ("9H", "Nine of hearts"),
        ("TD", "Ten of diamonds"),
        ("0?", "Ten-valued card, suit unknown"),
        ("7?", "Seven, suit unknown"),
        ("??", "Card face down"),
    ],
)
def test_a_card_is_named_as_far_as_it_was_seen(card, name):
    assert card_name(card) == name


def test_a_card_that_does_not_count_says_so():
    drawing = parsed(card_drawing("9H", note='not "allowed"'))
    assert drawing.get("aria-label") == 'Nine of hearts, not "allowed"'
    assert "marked" in drawing.get("class")


@given(RESULTS)
def test_roads_are_well_formed_and_lose_no_round(results):
    decided = [result for result in results if result.outcome is not Outcome.TIE]
    assert len(of_class(bead_plate_drawing(results), "bead")) == len(results)
    assert len(of_class(big_road_drawing(results), "ring")) == len(decided)
    for road in DerivedRoad:
        assert parsed(derived_road_drawing(results, road)).get("role") == "img"


def test_a_bead_says_its_round_its_outcome_and_its_pairs():
    drawing = bead_plate_drawing([BANKER, Result(Outcome.TIE, True, True)])
    titles = [each.text for each in parsed(drawing).iter() if each.tag.endswith("title")]
    assert titles == ["Round 1: Banker", "Round 2: Tie, Player pair, Banker pair"]


def test_several_ties_on_one_cell_of_the_big_road_are_counted():
    assert [each.text for each in of_class(big_road_drawing([BANKER, TIE, TIE]), "ties")] == ["2"]
    assert of_class(big_road_drawing([BANKER, TIE]), "ties") == []


def test_ties_that_are_held_are_drawn_before_the_first_cell_is_there():
    assert len(of_class(big_road_drawing([TIE]), "tie-stroke")) == 1


def test_a_derived_road_can_be_read_in_words():
    results = [BANKER, BANKER, PLAYER, PLAYER, PLAYER, PLAYER]
    words = derived_road_text(results, DerivedRoad.BIG_EYE_BOY)
    assert words == "1 red, 1 blue, 1 red"
    assert derived_road_text([], DerivedRoad.SMALL_ROAD) == "nothing yet"


def test_a_plot_says_its_values_in_words():
    drawing = parsed(bars_drawing("Win", [Bar("T<1>", 5, "0.05 USD"), Bar("T2", -7, "-0.07 USD")]))
    assert drawing.get("aria-label") == "Win: T<1> 0.05 USD; T2 -0.07 USD"


@given(
    st.lists(
        st.builds(
            Bar,
            label=st.just("x"),
            value=st.integers(-(10**18), 10**18),
            text=st.just("y"),
            expected=st.none() | st.integers(-(10**18), 10**18),
            deviation=st.none() | st.integers(0, 10**18),
        ),
        max_size=8,
    )
)
def test_no_bar_leaves_its_plot(bars):
    drawing = bars_drawing("Plot", bars)
    for each in parsed(drawing).iter():
        if each.tag.endswith("rect"):
            left, width = float(each.get("x")), float(each.get("width"))
            assert left >= LABELS - 0.11
            assert width >= 0
            assert left + width <= WIDTH - VALUES + 0.21


def test_a_bar_is_as_long_as_its_value():
    bars = of_class(bars_drawing("Plot", [Bar("a", 50, ""), Bar("b", 100, "")]), "bar")
    half, whole = (float(bar.get("width")) for bar in bars)
    assert whole == pytest.approx(2 * half, abs=0.2)


def test_drawings_take_their_colours_from_the_style_sheet():
    for drawing in (card_drawing("9H"), big_road_drawing([BANKER, TIE]), bars_drawing("x", [])):
        assert not re.search(r"style=|fill=|stroke=|<script|href", drawing)
