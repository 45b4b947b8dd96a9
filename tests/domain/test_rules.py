"""A table's rules: what may be written in them, and what they allow to be staked."""

import json

import pytest
from pydantic import ValidationError

from domain.bets import BetKind
from domain.errors import Refused
from domain.event import MAXIMUM_MINOR, MAXIMUM_WIN_MINOR
from domain.rules import STANDARD_RULES, Limits, Rules

DEFAULTS = {
    "variant": "commission",
    "decks": 8,
    "odds": {
        "player": [1, 1],
        "banker": [1, 1],
        "tie": [8, 1],
        "player_pair": [11, 1],
        "banker_pair": [11, 1],
    },
    "commission": {
        "rate_basis_points": 500,
        "increment_minor": 1,
        "rounding": "half_up",
        "minimum_minor": 0,
        "collection": "per_round",
    },
    "win_rounding": "down",
    "limits": {"minimum_minor": 1, "maximum_minor": 1_000_000_000},
    "after_cut_card": 1,
    "allow_opposite_bets": False,
}


def read(**parts: object) -> Rules:
    return Rules.model_validate_json(json.dumps(parts))


def test_every_part_of_the_rules_is_optional_and_has_its_default():
    assert json.loads(read().model_dump_json(exclude_none=True)) == DEFAULTS
    assert read() == read(**DEFAULTS) == STANDARD_RULES


def test_a_bet_may_have_limits_of_its_own():
    rules = read(limits={"minimum_minor": 100, "tie": {"maximum_minor": 100_000}})
    assert rules.limits.of(BetKind.TIE) == (100, 100_000)
    assert rules.limits.of(BetKind.PLAYER) == (100, 1_000_000_000)


@pytest.mark.parametrize(
    ("stake_minor", "code"), [(99, "limit_below"), (100, None), (500, None), (501, "limit_above")]
)
def test_a_stake_lies_within_the_limits(stake_minor, code):
    rules = read(limits={"minimum_minor": 100, "maximum_minor": 500})
    if code is None:
        rules.check_stake(BetKind.PLAYER, stake_minor)
        return
    with pytest.raises(Refused) as refused:
        rules.check_stake(BetKind.PLAYER, stake_minor)
    assert (refused.value.code, refused.value.field) == (code, "stake_minor")


def test_a_bet_that_the_odds_do_not_name_is_not_offered():
    with pytest.raises(Refused) as refused:
        STANDARD_RULES.check_stake(BetKind.DRAGON7, 100)
    assert (refused.value.code, refused.value.field) == ("bet_not_offered", "bet")


@pytest.mark.parametrize(
    "parts",
    [
        {"decks": 7},
        {"decks": 4},
        {"decks": 8.0},
        {"decks": True},
        {"decks": "8"},
        {"variant": "super6"},
        {"odds": {"tie": [8, 0]}},
        {"odds": {"tie": [0, 1]}},
        {"odds": {"tie": [8]}},
        {"odds": {"tie": 8}},
        {"odds": {"tie": [8.5, 1]}},
        {"odds": {"tie": [-8, 1]}},
        {"odds": {"tiger": [8, 1]}},
        {"odds": {"tie": {"one": [8, 1]}}},
        {"odds": {"lucky6": [12, 1]}},
        {"odds": {"lucky6": {"two_cards": [12, 1]}}},
        {"odds": {"lucky6": {"one": [12, 1], "both": [20, 1]}}},
        {"odds": {"perfect_pair": {"one": [25, 1], "both": [200, 1], "none": [1, 1]}}},
        {"commission": {"rate_basis_points": -1}},
        {"commission": {"rate_basis_points": 10_001}},
        {"commission": {"rate_basis_points": 500.0}},
        {"commission": {"increment_minor": 0}},
        {"commission": {"minimum_minor": -1}},
        {"commission": {"rounding": "nearest"}},
        {"commission": {"collection": "never"}},
        {"commission": {"rate": 5}},
        {"win_rounding": "floor"},
        {"limits": {"minimum_minor": 0}},
        {"limits": {"minimum_minor": 2, "maximum_minor": 1}},
        {"limits": {"minimum_minor": 100, "tie": {"maximum_minor": 99}}},
        {"limits": {"tie": {"minimum": 1}}},
        {"limits": {"tiger": {"minimum_minor": 1}}},
        {"after_cut_card": 2},
        {"after_cut_card": -1},
        {"after_cut_card": True},
        {"allow_opposite_bets": 1},
        {"jackpot": True},
    ],
    ids=json.dumps,
)
def test_rules_that_make_no_sense_are_refused(parts):
    with pytest.raises(ValidationError):
        read(**parts)


def test_odds_with_two_prices_are_written_by_case():
    rules = read(odds={"lucky6": {"two_cards": [12, 1], "three_cards": [20, 1]}})
    assert rules.odds == {BetKind.LUCKY6: {"two_cards": (12, 1), "three_cards": (20, 1)}}


def test_a_stake_that_could_win_more_than_any_bet_may_is_refused():
    rules = Rules(
        odds={BetKind.LUCKY6: {"two_cards": (12, 1), "three_cards": (1000, 1)}},
        limits=Limits(maximum_minor=MAXIMUM_MINOR),
    )
    rules.check_stake(BetKind.LUCKY6, MAXIMUM_WIN_MINOR // 1000)
    with pytest.raises(Refused) as refused:
        rules.check_stake(BetKind.LUCKY6, MAXIMUM_WIN_MINOR // 1000 + 1)
    assert (refused.value.code, refused.value.field) == ("limit_above", "stake_minor")
