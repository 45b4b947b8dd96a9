"""Cards, their notation, and what a shoe cannot hold."""

import pytest

from domain.cards import (
    DECK,
    FACE_DOWN,
    burn_count,
    excess_cards,
    parse_burned_card,
    parse_card,
)

POINTS = {"A": 1, "T": 0, "J": 0, "Q": 0, "K": 0, "0": 0} | {str(n): n for n in range(2, 10)}


def cards(text):
    return [parse_card(card) for card in text.split()]


@pytest.mark.parametrize("rank", POINTS)
@pytest.mark.parametrize("suit", "SHDC?")
def test_a_rank_and_a_suit_name_a_card_with_its_points(rank, suit):
    card = parse_card(rank + suit)
    assert (str(card), card.points) == (rank + suit, POINTS[rank])
    assert card.has_known_rank is (rank != "0")
    assert card.has_known_suit is (suit != "?")


@pytest.mark.parametrize(
    "text",
    [
        *("", "A", "AS ", " AS", "as", "aS", "As", "1S", "10S", "10", "XS", "AX", "SA", "?S", "??"),
        *("A??", "AS9H", "A♠", "0", "?", "\x00S", None, 0, 1.5, True, b"AS"),
        *(["A", "S"], ("A", "S")),
    ],
)
def test_anything_else_is_not_a_card(text):
    with pytest.raises(ValueError, match="is not a card"):
        parse_card(text)


def test_a_burned_card_may_lie_face_down():
    assert parse_burned_card("??") is FACE_DOWN
    assert str(FACE_DOWN) == "??"
    assert parse_burned_card("9H") == parse_card("9H")
    with pytest.raises(ValueError, match="is not a card"):
        parse_burned_card("?S")


def test_a_deck_holds_each_of_52_cards_once_starting_with_the_spades():
    assert len(DECK) == len(set(DECK)) == 52
    assert " ".join(map(str, DECK[:14])) == "AS 2S 3S 4S 5S 6S 7S 8S 9S TS JS QS KS AH"
    assert str(DECK[-1]) == "KC"


@pytest.mark.parametrize(
    ("card", "count"),
    [("AS", 1), ("2H", 2), ("9D", 9), ("TC", 10), ("JS", 10), ("QH", 10), ("K?", 10), ("0?", 10)],
)
def test_as_many_cards_are_burned_as_the_first_one_counts_and_ten_for_a_ten(card, count):
    assert burn_count(parse_card(card)) == count


@pytest.mark.parametrize("decks", [6, 8])
def test_a_full_shoe_has_no_card_in_excess(decks):
    assert excess_cards(DECK * decks, decks=decks) == {}


@pytest.mark.parametrize(
    ("most", "one_more", "excess"),
    [
        ("9H " * 8, "9H", {"9H": 9}),
        ("9? " * 32, "9?", {"9?": 33}),
        ("9H 9S " * 4 + "9? " * 24, "9?", {"9?": 33}),
        ("A? " * 32, "AS", {"A?": 33}),
        ("T? " * 32, "T?", {"T?": 33}),
        ("0? " * 128, "0?", {"0?": 129}),
        ("TS JH QD KC " * 8 + "0? " * 96, "0?", {"0?": 129}),
        ("0S " * 32, "0S", {"0S": 33}),
        ("TS JS QS KS " * 7 + "0S " * 4, "0S", {"0S": 33}),
    ],
)
def test_a_card_is_in_excess_when_it_is_seen_more_often_than_the_decks_hold_it(
    most, one_more, excess
):
    assert excess_cards(cards(most), decks=8) == {}
    assert excess_cards([*cards(most), *cards(one_more)], decks=8) == excess


def test_six_decks_hold_fewer_than_eight():
    assert excess_cards(cards("9H " * 7), decks=6) == {"9H": 7}
    assert excess_cards(cards("5? " * 25), decks=6) == {"5?": 25}
    assert excess_cards(cards("0? " * 97), decks=6) == {"0?": 97}


def test_each_card_in_excess_is_named():
    assert excess_cards(cards("9H " * 9 + "2S " * 10), decks=8) == {"9H": 9, "2S": 10}


def test_cards_that_were_burned_face_down_are_never_in_excess():
    assert excess_cards([FACE_DOWN] * 500, decks=8) == {}
