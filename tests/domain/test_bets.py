"""Every bet, settled by every rule that bears on it."""

import pytest

from domain.bets import (
    LOST,
    PUSH,
    BetKind,
    Deal,
    Result,
    Settlement,
    Variant,
    is_undecidable,
)
from domain.cards import parse_card
from domain.money import CommissionPolicy, Rounding
from domain.rules import Rules
from domain.tableau import Outcome

ODDS = {
    BetKind.PLAYER: (1, 1),
    BetKind.BANKER: (1, 1),
    BetKind.TIE: (8, 1),
    BetKind.PLAYER_PAIR: (11, 1),
    BetKind.BANKER_PAIR: (11, 1),
    BetKind.EITHER_PAIR: (5, 1),
    BetKind.PERFECT_PAIR: {"one": (25, 1), "both": (200, 1)},
    BetKind.DRAGON7: (40, 1),
    BetKind.PANDA8: (25, 1),
    BetKind.LUCKY6: {"two_cards": (12, 1), "three_cards": (20, 1)},
    BetKind.SMALL: (3, 2),
    BetKind.BIG: (27, 50),
}


def deal(player: str, banker: str) -> Deal:
    """A deal by its two hands, as in `deal("9H KS", "2D 4C 7S")`."""
    return Deal.of(tuple(map(parse_card, player.split())), tuple(map(parse_card, banker.split())))


def settled(kind: BetKind, dealt: Deal, stake_minor: int = 100, **rules: object) -> Settlement:
    return Rules(odds=ODDS, **rules).settle(kind, stake_minor, dealt)


def won(win_minor: int, commission_minor: int = 0) -> Settlement:
    return Settlement(Result.WON, win_minor, commission_minor)


PLAYER_WINS = deal("9H KS", "2D 4C")
BANKER_WINS = deal("2D 4C", "9H KS")
BANKER_WINS_WITH_TWO_CARD_6 = deal("5H 5D AC", "3S 3D")
BANKER_WINS_WITH_THREE_CARD_6 = deal("2H 3D KC", "2S KD 4D")
BANKER_WINS_WITH_TWO_CARD_7 = deal("2H 4D", "3S 4D")
BANKER_WINS_WITH_THREE_CARD_7 = deal("2H 4D", "KS 4D 3C")
PLAYER_WINS_WITH_TWO_CARD_8 = deal("4H 4D", "3S 4D")
PLAYER_WINS_WITH_THREE_CARD_8 = deal("4H KD 4C", "3S 4D")
TIE = deal("3S 4D", "KS 7D")
TIE_OF_THREE_CARD_7 = deal("KS 3D 4C", "KH 3C 4D")
TIE_OF_THREE_CARD_8 = deal("KS 3D 5C", "KH 3C 5D")
TIE_OF_6 = deal("KS 6D", "KH 6C")


@pytest.mark.parametrize(
    ("dealt", "expected"), [(PLAYER_WINS, won(100)), (BANKER_WINS, LOST), (TIE, PUSH)]
)
@pytest.mark.parametrize("variant", Variant)
def test_player_pays_even_money_and_pushes_on_a_tie(dealt, expected, variant):
    assert settled(BetKind.PLAYER, dealt, variant=variant) == expected


@pytest.mark.parametrize(
    ("dealt", "expected"), [(BANKER_WINS, won(100, 5)), (PLAYER_WINS, LOST), (TIE, PUSH)]
)
def test_banker_pays_even_money_less_commission_and_pushes_on_a_tie(dealt, expected):
    assert settled(BetKind.BANKER, dealt) == expected


@pytest.mark.parametrize("dealt", [BANKER_WINS_WITH_TWO_CARD_6, BANKER_WINS_WITH_THREE_CARD_7])
def test_with_commission_no_banker_win_is_special(dealt):
    assert settled(BetKind.BANKER, dealt) == won(100, 5)


def test_commission_is_taken_on_the_win_by_the_tables_policy():
    policy = CommissionPolicy(increment_minor=25, rounding=Rounding.UP)
    assert settled(BetKind.BANKER, BANKER_WINS, 10_00, commission=policy) == won(10_00, 50)
    assert settled(BetKind.BANKER, BANKER_WINS, 10_01, commission=policy) == won(10_01, 75)


def test_commission_is_taken_on_the_amount_won_and_not_on_the_stake():
    rules = Rules(odds={BetKind.BANKER: (1, 2)})
    assert rules.settle(BetKind.BANKER, 100_00, BANKER_WINS) == won(50_00, 2_50)


@pytest.mark.parametrize("kind", [kind for kind in BetKind if kind is not BetKind.BANKER])
@pytest.mark.parametrize(
    "dealt", [PLAYER_WINS, BANKER_WINS_WITH_THREE_CARD_6, BANKER_WINS_WITH_THREE_CARD_7, TIE]
)
def test_no_bet_but_banker_pays_commission(kind, dealt):
    assert settled(kind, dealt).commission_minor == 0


@pytest.mark.parametrize("dealt", [BANKER_WINS_WITH_TWO_CARD_6, BANKER_WINS_WITH_THREE_CARD_6])
def test_without_commission_a_banker_win_with_6_pays_half(dealt):
    assert settled(BetKind.BANKER, dealt, variant=Variant.NO_COMMISSION) == won(50)


@pytest.mark.parametrize(
    ("rounding", "win_minor"),
    [(Rounding.DOWN, 2), (Rounding.UP, 3), (Rounding.HALF_UP, 3), (Rounding.HALF_EVEN, 2)],
)
def test_half_of_an_odd_win_is_rounded_as_the_table_rounds_wins(rounding, win_minor):
    half = settled(
        BetKind.BANKER,
        BANKER_WINS_WITH_TWO_CARD_6,
        5,
        variant=Variant.NO_COMMISSION,
        win_rounding=rounding,
    )
    assert half == won(win_minor)


def test_wins_are_rounded_down_where_the_table_says_nothing():
    assert settled(
        BetKind.BANKER, BANKER_WINS_WITH_TWO_CARD_6, 1, variant=Variant.NO_COMMISSION
    ) == won(0)


@pytest.mark.parametrize(
    ("dealt", "expected"),
    [
        (BANKER_WINS, won(100)),
        (BANKER_WINS_WITH_THREE_CARD_7, won(100)),
        (PLAYER_WINS, LOST),
        (TIE_OF_6, PUSH),
    ],
)
def test_without_commission_any_other_banker_win_pays_even_money(dealt, expected):
    assert settled(BetKind.BANKER, dealt, variant=Variant.NO_COMMISSION) == expected


@pytest.mark.parametrize(
    ("dealt", "expected"),
    [
        (BANKER_WINS_WITH_THREE_CARD_7, PUSH),
        (BANKER_WINS_WITH_TWO_CARD_7, won(100)),
        (BANKER_WINS_WITH_TWO_CARD_6, won(100)),
        (BANKER_WINS, won(100)),
        (PLAYER_WINS, LOST),
        (TIE_OF_THREE_CARD_7, PUSH),
    ],
)
def test_at_an_ez_table_banker_pushes_on_a_three_card_7_and_pays_no_commission(dealt, expected):
    assert settled(BetKind.BANKER, dealt, variant=Variant.EZ) == expected


@pytest.mark.parametrize(
    ("dealt", "expected"), [(TIE, won(800)), (PLAYER_WINS, LOST), (BANKER_WINS, LOST)]
)
def test_tie_pays_eight_to_one(dealt, expected):
    assert settled(BetKind.TIE, dealt) == expected


def test_the_odds_are_the_tables():
    assert Rules(odds={BetKind.TIE: (9, 1)}).settle(BetKind.TIE, 100, TIE) == won(900)


@pytest.mark.parametrize(
    ("player", "banker", "winners"),
    [
        ("4H 4S", "2D 4C", {"player_pair", "either_pair"}),
        ("2D 4C", "9H 9S", {"banker_pair", "either_pair"}),
        ("4H 4S", "9H 9S", {"player_pair", "banker_pair", "either_pair"}),
        ("4H 4H", "2D 4C", {"player_pair", "either_pair", "perfect_pair"}),
        ("JH QH", "9H KS", set()),
        ("TS KS", "8H AH", set()),
    ],
)
def test_a_pair_is_two_cards_of_one_rank_in_that_hand(player, banker, winners):
    kinds = (BetKind.PLAYER_PAIR, BetKind.BANKER_PAIR, BetKind.EITHER_PAIR, BetKind.PERFECT_PAIR)
    dealt = deal(player, banker)
    assert {kind for kind in kinds if settled(kind, dealt).result is Result.WON} == winners


def test_a_third_card_makes_no_pair():
    dealt = deal("KH 2D 2S", "KD 5D 5C")
    for kind in (BetKind.PLAYER_PAIR, BetKind.BANKER_PAIR, BetKind.EITHER_PAIR):
        assert settled(kind, dealt) == LOST


def test_pairs_pay_eleven_and_either_pair_five_to_one():
    dealt = deal("4H 4S", "9H 9S")
    assert settled(BetKind.PLAYER_PAIR, dealt) == won(1100)
    assert settled(BetKind.BANKER_PAIR, dealt) == won(1100)
    assert settled(BetKind.EITHER_PAIR, dealt) == won(500)


@pytest.mark.parametrize(
    ("player", "banker", "expected"),
    [
        ("4H 4H", "2D 4C", won(2500)),
        ("2D 4C", "9S 9S", won(2500)),
        ("4H 4H", "9S 9H", won(2500)),
        ("4H 4H", "9S 9S", won(20_000)),
        ("4H 4H", "4H 4H", won(20_000)),
        ("4H 4S", "9S 9H", LOST),
        ("JH 9S", "JH 9S", LOST),
    ],
)
def test_a_perfect_pair_in_both_hands_pays_the_higher_price_alone(player, banker, expected):
    assert settled(BetKind.PERFECT_PAIR, deal(player, banker)) == expected


@pytest.mark.parametrize(
    ("dealt", "expected"),
    [
        (BANKER_WINS_WITH_THREE_CARD_7, won(4000)),
        (BANKER_WINS_WITH_TWO_CARD_7, LOST),
        (BANKER_WINS_WITH_THREE_CARD_6, LOST),
        (TIE_OF_THREE_CARD_7, LOST),
        (PLAYER_WINS, LOST),
        (deal("KS 4D 4C", "KH 3C 4D"), LOST),
    ],
)
def test_dragon7_wins_when_the_banker_wins_with_a_three_card_7(dealt, expected):
    assert settled(BetKind.DRAGON7, dealt) == expected


@pytest.mark.parametrize(
    ("dealt", "expected"),
    [
        (PLAYER_WINS_WITH_THREE_CARD_8, won(2500)),
        (PLAYER_WINS_WITH_TWO_CARD_8, LOST),
        (PLAYER_WINS, LOST),
        (TIE_OF_THREE_CARD_8, LOST),
        (deal("KS 3D 5C", "KH 3C 6D"), LOST),
    ],
)
def test_panda8_wins_when_the_player_wins_with_a_three_card_8(dealt, expected):
    assert settled(BetKind.PANDA8, dealt) == expected


@pytest.mark.parametrize(
    ("dealt", "expected"),
    [
        (BANKER_WINS_WITH_TWO_CARD_6, won(1200)),
        (BANKER_WINS_WITH_THREE_CARD_6, won(2000)),
        (TIE_OF_6, LOST),
        (deal("KS 7D", "KH 6C"), LOST),
        (BANKER_WINS_WITH_TWO_CARD_7, LOST),
    ],
)
def test_lucky6_pays_by_the_number_of_cards_the_banker_won_with_6_on(dealt, expected):
    assert settled(BetKind.LUCKY6, dealt) == expected


@pytest.mark.parametrize(
    ("dealt", "cards"),
    [
        (PLAYER_WINS, 4),
        (TIE, 4),
        (BANKER_WINS_WITH_THREE_CARD_7, 5),
        (PLAYER_WINS_WITH_THREE_CARD_8, 5),
        (BANKER_WINS_WITH_THREE_CARD_6, 6),
    ],
)
def test_small_wins_on_four_cards_and_big_on_five_or_six(dealt, cards):
    assert len(dealt.player_cards) + len(dealt.banker_cards) == cards
    assert settled(BetKind.SMALL, dealt) == (won(150) if cards == 4 else LOST)
    assert settled(BetKind.BIG, dealt) == (won(54) if cards > 4 else LOST)


def test_a_third_card_that_the_tableau_forbids_counts_for_no_bet():
    as_it_fell = deal("9H KS 2C", "2D 4C 3H")
    assert as_it_fell == PLAYER_WINS
    assert settled(BetKind.SMALL, as_it_fell) == won(150)
    assert settled(BetKind.BIG, as_it_fell) == LOST


def test_a_deal_that_lacks_a_card_settles_nothing():
    with pytest.raises(AssertionError):
        deal("2H 3D", "2S 4D")


def test_a_deal_has_the_totals_and_the_outcome_of_the_tableau():
    dealt = deal("2H 3D KC", "2S KD 4D")
    assert (dealt.player_total, dealt.banker_total, dealt.outcome) == (5, 6, Outcome.BANKER)


@pytest.mark.parametrize(
    ("card", "undecidable"),
    [
        ("9H", set()),
        ("9?", {"perfect_pair"}),
        ("0S", {"player_pair", "banker_pair", "either_pair", "perfect_pair"}),
        ("0?", {"player_pair", "banker_pair", "either_pair", "perfect_pair"}),
    ],
)
def test_a_card_that_is_not_fully_known_leaves_pairs_without_an_answer(card, undecidable):
    assert {kind for kind in BetKind if is_undecidable(kind, parse_card(card))} == undecidable


def test_the_largest_stake_is_settled_to_the_minor_unit():
    assert settled(BetKind.BANKER, BANKER_WINS, 10**15 - 1) == won(10**15 - 1, 5 * 10**13)
    assert settled(BetKind.PERFECT_PAIR, deal("4H 4H", "9S 9S"), 10**15) == won(2 * 10**17)
