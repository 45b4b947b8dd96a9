"""The tableau against a table written out by hand, over every hand there can be."""

from itertools import product

import pytest

from domain.tableau import Hand, Outcome, banker_draws, judge, next_hand, outcome, total

# Who draws, row by row as printed on the tables; `D` draws and `S` stands.
# The columns are the Player's third card, 0 to 9, and at the end "the Player stood".
BANKER_ROWS = {
    0: "DDDDDDDDDD D",
    1: "DDDDDDDDDD D",
    2: "DDDDDDDDDD D",
    3: "DDDDDDDDSD D",
    4: "SSDDDDDDSS D",
    5: "SSSSDDDDSS D",
    6: "SSSSSSDDSS S",
    7: "SSSSSSSSSS S",
}
PLAYER_ROW = "DDDDDDSS"
PAIRS = list(product(range(10), repeat=2))


def _expected_next(player: tuple[int, ...], banker: tuple[int, ...]) -> Hand | None:
    """What the printed table says of a Player hand of two or three cards, the Banker's of two."""
    player_two = (player[0] + player[1]) % 10
    banker_two = (banker[0] + banker[1]) % 10
    if player_two > 7 or banker_two > 7:
        return None
    if PLAYER_ROW[player_two] == "D" and len(player) == 2:
        return Hand.PLAYER
    column = player[2] if len(player) == 3 else 11
    return Hand.BANKER if BANKER_ROWS[banker_two][column] == "D" else None


def test_every_four_cards_are_followed_by_the_card_that_the_table_demands():
    for player, banker in product(PAIRS, PAIRS):
        assert next_hand(player, banker) == _expected_next(player, banker), (player, banker)


def test_every_third_card_of_the_player_is_answered_by_the_banker_as_the_table_says():
    for player, banker, third in product(PAIRS, PAIRS, range(10)):
        if _expected_next(player, banker) is Hand.PLAYER:
            drawn = (*player, third)
            assert next_hand(drawn, banker) == _expected_next(drawn, banker), (drawn, banker)


def test_no_deal_goes_on_after_the_banker_has_drawn():
    for player_two, banker_two, third, last in product(range(10), repeat=4):
        player, banker = (0, player_two), (0, banker_two)
        if _expected_next(player, banker) is Hand.PLAYER:
            player = (*player, third)
        if _expected_next(player, banker) is Hand.BANKER:
            assert next_hand(player, (*banker, last)) is None


def test_the_first_four_cards_go_to_player_and_banker_in_turn():
    assert next_hand([], []) is Hand.PLAYER
    assert next_hand([1], []) is Hand.BANKER
    assert next_hand([1], [2]) is Hand.PLAYER
    assert next_hand([1, 3], [2]) is Hand.BANKER


@pytest.mark.parametrize(
    ("cards", "expected"),
    [((8, 9), 7), ((0, 3, 8), 1), ((0, 0), 0), ((9, 9, 9), 7), ((5, 5), 0), ((2, 7), 9)],
)
def test_a_total_is_the_last_digit_of_the_sum(cards, expected):
    assert total(cards) == expected


def test_the_higher_total_wins_and_equal_totals_are_a_tie():
    for player_total, banker_total in PAIRS:
        expected = {True: Outcome.PLAYER, False: Outcome.BANKER}[player_total > banker_total]
        if player_total == banker_total:
            expected = Outcome.TIE
        assert outcome(player_total, banker_total) is expected


def test_the_banker_looks_at_the_third_card_and_never_at_the_final_total_of_the_player():
    # 5 + 3 makes 8: with 3 against a third card of 3 the Banker draws all the same.
    assert next_hand((0, 5, 3), (0, 3)) is Hand.BANKER
    # 0 + 8 makes 8 too, and here the third card itself is the 8.
    assert next_hand((0, 0, 8), (0, 3)) is None


def test_a_natural_of_either_hand_ends_the_deal_for_both():
    assert next_hand((0, 8), (0, 0)) is None
    assert next_hand((0, 0), (4, 5)) is None


def test_the_banker_never_draws_against_or_with_a_natural():
    for total_of_one, total_of_other, third in product(range(10), (8, 9), (None, *range(10))):
        assert not banker_draws(total_of_one, total_of_other, third)
        assert not banker_draws(total_of_other, total_of_one, third)


def test_a_third_card_of_a_player_who_stood_is_unexpected_and_does_not_count():
    ruling = judge((0, 7, 2), (0, 6))
    assert ruling.unexpected == (Hand.PLAYER,)
    assert (ruling.player, ruling.player_total, ruling.outcome) == ((0, 7), 7, Outcome.PLAYER)


def test_the_banker_is_judged_as_if_an_unexpected_third_card_of_the_player_were_not_there():
    ruling = judge((0, 6, 9), (0, 5, 4))
    assert ruling.unexpected == (Hand.PLAYER,)
    assert (ruling.missing, ruling.banker_total, ruling.outcome) == (None, 9, Outcome.BANKER)


def test_both_third_cards_can_be_unexpected():
    ruling = judge((0, 9, 1), (0, 9, 2))
    assert ruling.unexpected == (Hand.PLAYER, Hand.BANKER)
    assert ruling.outcome is Outcome.TIE


def test_a_third_card_that_the_table_demands_and_is_not_there_is_missing():
    assert judge((0, 5), (0, 7)).missing is Hand.PLAYER
    assert judge((0, 7), (0, 5)).missing is Hand.BANKER
    assert judge((0, 5, 6), (0, 6)).missing is Hand.BANKER


def test_a_missing_card_of_the_player_leaves_nothing_to_judge_of_the_banker():
    ruling = judge((0, 5), (0, 3, 4))
    assert (ruling.missing, ruling.unexpected) == (Hand.PLAYER, ())
