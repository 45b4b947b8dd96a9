"""Commission recomputed from cards, by rules that stand there a second time."""

import json
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.bets import BetKind, Variant
from domain.cards import parse_card
from domain.event import Stamp
from domain.money import CommissionPolicy, Rounding
from domain.round import Round
from domain.rules import Rules
from domain.tableau import Outcome, judge
from infrastructure.audit.reconciliation.recomputed import RecomputedRound, counted_cards
from tests.infrastructure.audit.conftest import Ledger

VECTORS = json.loads((Path(__file__).parents[2] / "golden" / "commission.json").read_text())
BANKER_WINS = "2S 4D KH 5C"


def test_it_counts_the_cards_and_finds_the_winner_of_the_tableau():
    """Every pair of two-card totals, with every third card that may lie there."""
    thirds = [None, *range(10)]
    for player_two, banker_two, player_third, banker_third in product(
        range(10), range(10), thirds, thirds
    ):
        player = [0, player_two] + ([] if player_third is None else [player_third])
        banker = [0, banker_two] + ([] if banker_third is None else [banker_third])
        ruling = judge(player, banker)
        counted = counted_cards(player, banker)
        if ruling.missing is not None:
            assert counted is None
        else:
            assert counted == (list(ruling.player), list(ruling.banker))


def recomputed(recorded):
    """What the rounds' events come to: by bet and account, the last word on each."""
    rounds, booked = {}, {}
    for _, event in recorded:
        stream = event.originator_id
        if stream.startswith("round:"):
            for change in rounds.setdefault(stream, RecomputedRound()).see(event):
                key = (change.bet_id, change.account_id)
                booked[key] = booked.get(key, 0) + change.commission_minor
    return {key: minor for key, minor in booked.items() if minor}


def a_round(rules, *stakes, cards=BANKER_WINS):
    """A round in which one account bets each stake on the Banker."""
    ledger = Ledger()
    ledger.open_table("T1", rules=rules)
    ledger.open_account("ann", deposit_minor=sum(stakes) + 10**6)
    ledger.open_shoe("S1", "T1")
    ledger.play("R1", "S1", cards, bets=[("ann", BetKind.BANKER, stake) for stake in stakes])
    return ledger


@pytest.mark.parametrize("name", VECTORS["policies"])
def test_it_is_the_golden_commission_of_every_policy(name):
    policy = CommissionPolicy.model_validate_json(
        json.dumps({"rate_basis_points": VECTORS["rate_basis_points"], **VECTORS["policies"][name]})
    )
    rows = VECTORS["rows"]
    ledger = a_round(Rules(commission=policy), *(row["stake_minor"] for row in rows))
    expected = {
        (f"R1-b{number}", "ann"): row[name] for number, row in enumerate(rows, 1) if row[name]
    }
    assert recomputed(ledger.recorded) == expected


policies = st.builds(
    CommissionPolicy,
    rate_basis_points=st.integers(0, 10_000),
    increment_minor=st.sampled_from([1, 5, 25, 100]),
    rounding=st.sampled_from(list(Rounding)),
    minimum_minor=st.sampled_from([0, 1, 100]),
)


@given(policies, st.lists(st.integers(1, 10_000), min_size=1, max_size=6), st.randoms())
def test_rounding_does_not_depend_on_the_order_of_bets(policy, stakes, random):
    def by_stake(order):
        booked = recomputed(a_round(Rules(commission=policy), *order).recorded)
        return sorted(
            (stake, booked.get((f"R1-b{number}", "ann"), 0))
            for number, stake in enumerate(order, 1)
        )

    shuffled = list(stakes)
    random.shuffle(shuffled)
    assert by_stake(stakes) == by_stake(shuffled)


@pytest.mark.parametrize("variant", [Variant.NO_COMMISSION, Variant.EZ])
def test_the_other_variants_take_no_commission(variant):
    assert recomputed(a_round(Rules(variant=variant), 100_00).recorded) == {}


@pytest.mark.parametrize("cards", ["4S 4D 5H 2C", "9S 9H KD KC"])
def test_nothing_is_due_where_the_banker_does_not_win(cards):
    assert recomputed(a_round(Rules(), 100_00, cards=cards).recorded) == {}


def test_a_forbidden_third_card_does_not_count():
    ledger = a_round(Rules(), 100_00)
    ledger.open_round("R2", "S1")
    ledger.bet("R2-b1", "R2", "ann", BetKind.BANKER, 40_00)
    ledger.close_betting("R2")
    # A natural nine of the Banker, and a card that the Player should not have drawn.
    ledger.deal("R2", "2S 9D KH QC")
    ledger.deal("R2", "9C", irregular="drawn by mistake")
    ledger.settle("R2")
    assert recomputed(ledger.recorded) == {("R1-b1", "ann"): 5_00, ("R2-b1", "ann"): 2_00}


def test_a_cancelled_bet_and_a_void_round_make_nothing_due():
    ledger = a_round(Rules(), 100_00)
    ledger.open_round("R2", "S1")
    ledger.bet("R2-b1", "R2", "ann", BetKind.BANKER, 40_00)
    ledger.cancel("R2-b1", "R2")
    ledger.void("R2")
    assert recomputed(ledger.recorded) == {("R1-b1", "ann"): 5_00}


def corrected(ledger, **holds):
    holds = {"cards": None, "bets": None, "is_void": False, **holds}
    at = ledger.stamp().at
    round_: Round = ledger.get("round:R1")
    ledger.save(round_.propose_correction("C1", **holds, reason="seen", stamp=Stamp(at, "p", "k")))
    ledger.save(*ledger.get("round:R1").approve_correction("C1", stamp=Stamp(at, "q", "k")))
    return ledger


def test_corrected_cards_take_it_back():
    player_wins = tuple(map(parse_card, ("4S", "4D", "5H", "2C")))
    ledger = corrected(a_round(Rules(), 100_00), cards=player_wins)
    assert ledger.get("round:R1").declared.outcome is Outcome.PLAYER
    assert recomputed(ledger.recorded) == {}


def test_a_void_after_the_settlement_takes_it_back():
    assert recomputed(corrected(a_round(Rules(), 100_00), is_void=True).recorded) == {}
