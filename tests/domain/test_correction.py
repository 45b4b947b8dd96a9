"""Corrections of a settled round: who may decide, and what its own rules make of them."""

from functools import partial

import pytest

from domain.bets import BetKind, Result
from domain.cards import parse_card
from domain.correction import CorrectedBet, Correction, CorrectionFiled
from domain.errors import Refused
from domain.event import Stamp
from domain.round import (
    BetPlaced,
    BetSettled,
    BettingClosed,
    CardDealt,
    CorrectionProposed,
    CorrectionRejected,
    Round,
    RoundCorrected,
    RoundOpened,
    RoundResolved,
    RoundSettled,
    RoundState,
    ThirdCardDrawn,
)
from domain.rules import Limits, Rules
from domain.tableau import Hand, Outcome

ON_BANKER = CorrectedBet("b1", "a1", BetKind.BANKER, 100_00)
ON_PLAYER = CorrectedBet("b2", "a2", BetKind.PLAYER, 50_00)


def cards(text):
    return tuple(parse_card(card) for card in text.split())


def dealt(hand, card, **irregular):
    event_type = ThirdCardDrawn if irregular.pop("third", False) else CardDealt
    return partial(event_type, hand=hand, card=parse_card(card), **irregular)


def settled(bet, result, win_minor=0, commission_minor=0):
    return partial(
        BetSettled,
        bet_id=bet.bet_id,
        result=result,
        stake_minor=bet.stake_minor,
        win_minor=win_minor,
        commission_minor=commission_minor,
    )


def proposed(correction_id="c1", *, cards=None, bets=None, is_void=False):
    return partial(
        CorrectionProposed,
        correction_id=correction_id,
        reason="camera",
        is_void=is_void,
        cards=cards,
        bets=bets,
    )


def asking(correction_id="c1", *, cards=None, bets=None, is_void=False):
    """The arguments of a proposal."""
    what_holds = {"cards": cards, "bets": bets, "is_void": is_void}
    return {"correction_id": correction_id, "reason": "camera", **what_holds}


def by(actor, command, *arguments):
    """A command of another actor than the tests' own."""

    def do(state, *, stamp):
        return command(state, *arguments, stamp=Stamp(stamp.at, actor, stamp.key))

    return do


BANKER_WON = (
    partial(
        RoundOpened,
        table_id="t1",
        shoe_id="s1",
        number=1,
        currency="USD",
        rules_version=1,
        rules=Rules(limits=Limits(minimum_minor=100)),
    ),
    partial(BetPlaced, bet_id="b1", account_id="a1", bet=BetKind.BANKER, stake_minor=100_00),
    partial(BetPlaced, bet_id="b2", account_id="a2", bet=BetKind.PLAYER, stake_minor=50_00),
    BettingClosed,
    dealt(Hand.PLAYER, "2S"),
    dealt(Hand.BANKER, "9H"),
    dealt(Hand.PLAYER, "TS"),
    dealt(Hand.BANKER, "KD"),
    partial(RoundResolved, player_total=2, banker_total=9, outcome=Outcome.BANKER),
    settled(ON_BANKER, Result.WON, 100_00, 5_00),
    settled(ON_PLAYER, Result.LOST),
    RoundSettled,
)
"""A natural nine of the Banker; version 12 is the settlement."""

PLAYER_NINE = cards("9S 2H TS KD")


@pytest.fixture
def a_settled_round(a_round):
    return a_round.given(*BANKER_WON)


def test_a_correction_is_proposed_with_what_is_to_hold(a_settled_round):
    a_settled_round.when(Round.propose_correction, **asking(cards=PLAYER_NINE)).then(
        proposed(cards=PLAYER_NINE)
    )
    assert a_settled_round.state.state is RoundState.SETTLED


def test_an_approval_says_what_holds_and_settles_every_bet_anew(a_settled_round):
    a_settled_round.given(proposed(cards=PLAYER_NINE)).when(
        by("manager", Round.approve_correction, "c1")
    )
    corrected, *bets = a_settled_round.answer

    assert isinstance(corrected, RoundCorrected)
    assert (corrected.actor, corrected.proposed_by) == ("manager", "dealer-7")
    assert corrected.replaces_version == 12
    assert corrected.cards == PLAYER_NINE
    assert (corrected.player, corrected.banker) == (cards("9S TS"), cards("2H KD"))
    assert (corrected.player_total, corrected.banker_total) == (9, 2)
    assert corrected.outcome is Outcome.PLAYER
    assert corrected.bets == (ON_BANKER, ON_PLAYER)
    assert [(bet.bet_id, bet.result, bet.win_minor) for bet in bets] == [
        ("b1", Result.LOST, 0),
        ("b2", Result.WON, 50_00),
    ]


def test_nobody_decides_a_correction_of_their_own(a_settled_round):
    a_settled_round.given(proposed(is_void=True))
    a_settled_round.when(Round.approve_correction, "c1").then_refused("same_actor", field="actor")
    a_settled_round.when(Round.reject_correction, "c1").then_refused("same_actor", field="actor")


def test_a_rejected_correction_changes_nothing_and_is_decided(a_settled_round):
    a_settled_round.given(proposed(is_void=True), partial(CorrectionRejected, correction_id="c1"))
    assert a_settled_round.state.state is RoundState.SETTLED
    for command in (Round.approve_correction, Round.reject_correction):
        a_settled_round.when(by("manager", command, "c1")).then_refused(
            "already_decided", field="correction_id"
        )


def approve(state, correction_id, **what_holds):
    """The round after a correction was proposed and approved."""
    at = state.at
    asked = asking(correction_id, **what_holds)
    state = state.apply(state.propose_correction(**asked, stamp=Stamp(at, "pit", "k")))
    for event in state.approve_correction(correction_id, stamp=Stamp(at, "manager", "k")):
        state = state.apply(event)
    return state


def test_corrections_follow_one_another_and_each_replaces_the_latest(a_settled_round):
    first = approve(a_settled_round.state, "c1", cards=PLAYER_NINE)
    proposal = first.propose_correction(
        **asking("c2", bets=(ON_BANKER,)), stamp=Stamp(first.at, "pit", "k")
    )
    second = first.apply(proposal)
    corrected, *_ = second.approve_correction("c2", stamp=Stamp(first.at, "manager", "k"))

    assert first.settled_version == 14
    assert corrected.replaces_version == 14
    assert corrected.cards == PLAYER_NINE


def test_a_bet_that_is_left_out_is_returned_and_may_come_back(a_settled_round):
    without = approve(a_settled_round.state, "c1", bets=(ON_BANKER,))
    assert without.bets["b2"].settlement.result is Result.RETURNED
    again = approve(without, "c2", bets=(ON_BANKER, ON_PLAYER))
    assert again.bets["b2"].settlement.result is Result.LOST
    assert again.changes(without)[0].was == again.bets["b2"]


def test_only_what_a_correction_changes_is_a_change(a_settled_round):
    before = a_settled_round.state
    dearer = CorrectedBet("b1", "a1", BetKind.BANKER, 200_00)
    (change,) = before.changes(approve(before, "c1", bets=(dearer, ON_PLAYER)))

    assert (change.was.stake_minor, change.becomes.stake_minor) == (100_00, 200_00)
    assert not change.keeps_its_stake
    assert before.changes(approve(before, "c2", bets=(ON_BANKER, ON_PLAYER))) == ()


def test_a_void_returns_every_bet_and_keeps_the_cards(a_settled_round):
    void = approve(a_settled_round.state, "c1", is_void=True)

    assert void.state is RoundState.VOID
    assert {bet.settlement.result for bet in void.bets.values()} == {Result.RETURNED}
    assert void.dealt == cards("2S 9H TS KD")
    with pytest.raises(Refused, match="is void") as refused:
        approve(void, "c2", cards=PLAYER_NINE)
    assert refused.value.code == "round_void"


@pytest.mark.parametrize(
    ("what_holds", "code", "field"),
    [
        ({"cards": cards("2S 3H TS KD")}, "deal_incomplete", "cards"),
        ({"cards": cards("9S 2H TS KD 4C")}, "third_card_not_allowed", "cards"),
        ({"bets": (CorrectedBet("b1", "a1", BetKind.BANKER, 99),)}, "limit_below", "stake_minor"),
        ({"bets": (CorrectedBet("b1", "a1", BetKind.BIG, 100),)}, "bet_not_offered", "bet"),
        (
            {"bets": (ON_BANKER, CorrectedBet("b2", "a1", BetKind.PLAYER, 50_00))},
            "opposite_bets",
            "bet",
        ),
        ({"bets": (ON_BANKER, ON_BANKER)}, "already_exists", "bet_id"),
        (
            {
                "cards": cards("0? 2H 9S KD"),
                "bets": (CorrectedBet("b1", "a1", BetKind.PLAYER_PAIR, 100),),
            },
            "undecidable_bet",
            "cards",
        ),
    ],
)
def test_a_correction_is_judged_by_the_rounds_own_rules(a_settled_round, what_holds, code, field):
    a_settled_round.when(Round.propose_correction, **asking(**what_holds)).then_refused(
        code, field=field
    )


def test_a_pair_cannot_be_put_on_cards_that_were_not_read(a_round):
    unread = list(BANKER_WON)
    unread[6] = dealt(Hand.PLAYER, "0?")
    a_round.given(*unread)
    pair = CorrectedBet("b1", "a1", BetKind.PLAYER_PAIR, 100)
    a_round.when(Round.propose_correction, **asking(bets=(pair,))).then_refused(
        "undecidable_bet", field="cards"
    )


@pytest.mark.parametrize(("facts", "code"), [(BANKER_WON[:9], "round_open"), ((), "unknown_round")])
def test_only_a_settled_round_is_corrected(a_round, facts, code):
    a_round.given(*facts).when(Round.propose_correction, **asking(is_void=True)).then_refused(
        code, field="round_id"
    )


def test_a_forbidden_card_may_stand_where_the_deal_was_irregular(a_round):
    forbidden = dealt(Hand.PLAYER, "3C", irregular="slipped out", third=True)
    a_round.given(*BANKER_WON[:9], forbidden, *BANKER_WON[9:])
    after = approve(a_round.state, "c1", cards=cards("9S 2H TS KD 3C"))

    assert after.player == cards("9S TS 3C")
    assert after.declared.player_total == 9


def test_a_correction_that_another_one_made_impossible_is_refused_at_its_approval(a_settled_round):
    pending = proposed("c1", cards=cards("9S 2H TS KD"))
    voided = approve(a_settled_round.given(pending).state, "c2", is_void=True)
    with pytest.raises(Refused, match="is void"):
        voided.approve_correction("c1", stamp=Stamp(voided.at, "manager", "k"))


def test_the_id_of_a_correction_is_taken_once(stamp):
    correction = Correction("correction:c1")
    filed = correction.file("r1", stamp=stamp)
    assert filed == CorrectionFiled(**stamp.on("correction:c1", 1), round_id="r1")
    known = correction.apply(filed)
    assert known.round_id == "r1"
    with pytest.raises(Refused, match="is there") as taken:
        known.file("r2", stamp=stamp)
    assert taken.value.code == "already_exists"


def test_a_correction_that_nobody_proposed_is_unknown():
    with pytest.raises(Refused, match="there is no correction c1") as unknown:
        Correction("correction:c1").must_be_known()
    assert (unknown.value.code, unknown.value.field) == ("unknown_correction", "correction_id")
