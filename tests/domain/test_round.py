"""A round's life: bets, cards, outcome, settlement; and what each state refuses."""

from functools import partial

import pytest

from domain.bets import BetKind, Result
from domain.cards import parse_card
from domain.errors import Refused
from domain.round import (
    BetCancelled,
    BetPlaced,
    BetSettled,
    BettingClosed,
    CardDealt,
    Declared,
    Round,
    RoundOpened,
    RoundResolved,
    RoundSettled,
    RoundState,
    RoundVoided,
    ThirdCardDrawn,
)
from domain.rules import BetLimits, Limits, Rules
from domain.tableau import Hand, Outcome

PLAYER, BANKER = Hand.PLAYER, Hand.BANKER
RULES = Rules(limits=Limits(minimum_minor=100, tie=BetLimits(maximum_minor=500)))
OPENING = {
    "table_id": "t1",
    "shoe_id": "s1",
    "number": 1,
    "currency": "USD",
    "rules_version": 1,
    "rules": RULES,
}
OPENED = partial(RoundOpened, **OPENING)
SETTLED = RoundSettled
VOIDED = partial(RoundVoided, reason="misdeal")
CLOSED = BettingClosed


def cards(text):
    return tuple(parse_card(card) for card in text.split())


def offering(*kinds, **rules):
    """A round whose table offers these bets at eight to one, or their two prices."""
    two_prices = {
        BetKind.PERFECT_PAIR: {"one": (25, 1), "both": (200, 1)},
        BetKind.LUCKY6: {"two_cards": (12, 1), "three_cards": (20, 1)},
    }
    odds = {kind: two_prices.get(kind, (8, 1)) for kind in kinds}
    return partial(RoundOpened, **{**OPENING, "rules": Rules(odds=odds, **rules)})


def placed(bet_id, kind, stake_minor=100_00, account_id="a1"):
    return partial(
        BetPlaced, bet_id=bet_id, account_id=account_id, bet=kind, stake_minor=stake_minor
    )


def place(bet_id, stake_minor=100_00, account_id="a1"):
    return {"bet_id": bet_id, "account_id": account_id, "stake_minor": stake_minor}


def dealt(hand, card, irregular=None):
    return partial(CardDealt, hand=hand, card=parse_card(card), irregular=irregular)


def third(hand, card, irregular=None):
    return partial(ThirdCardDrawn, hand=hand, card=parse_card(card), irregular=irregular)


def first_four(text, irregular=None):
    return [
        dealt(hand, card, irregular)
        for hand, card in zip((PLAYER, BANKER, PLAYER, BANKER), text.split(), strict=True)
    ]


def resolved(player_total, banker_total, outcome):
    return partial(
        RoundResolved, player_total=player_total, banker_total=banker_total, outcome=outcome
    )


def paid(bet_id, result, stake_minor, win_minor=0, commission_minor=0):
    return partial(
        BetSettled,
        bet_id=bet_id,
        result=result,
        stake_minor=stake_minor,
        win_minor=win_minor,
        commission_minor=commission_minor,
    )


NATURAL = [*first_four("9H KS KD 4C"), resolved(9, 4, Outcome.PLAYER)]
BANKER_NATURAL = [*first_four("2H KS KD 9C"), resolved(2, 9, Outcome.BANKER)]
SIX_CARDS = [
    *first_four("2H 2S 3D KC"),
    third(PLAYER, "KS"),
    third(BANKER, "4D"),
    resolved(5, 6, Outcome.BANKER),
]

HISTORIES = {
    "unknown": [],
    "tombstone": [partial(BetCancelled, bet_id="b9")],
    "betting": [OPENED],
    "dealing": [OPENED, CLOSED],
    "half dealt": [OPENED, CLOSED, *first_four("2H 2S 3D KC")],
    "resolved": [OPENED, CLOSED, *NATURAL],
    "settled": [OPENED, CLOSED, *NATURAL, SETTLED],
    "void": [OPENED, VOIDED],
}
COMMANDS = {
    "open": partial(Round.open, **OPENING),
    "place": partial(Round.place_bet, kind=BetKind.PLAYER, **place("b1")),
    "cancel": partial(Round.cancel_bet, bet_id="b1"),
    "close": Round.close_betting,
    "deal": partial(Round.deal, cards=cards("9H"), irregular=None),
    "settle": Round.settle,
    "void": partial(Round.void, reason="misdeal"),
}
# By state, what each command above is refused with; None where it is accepted.
ANSWERS = {
    "unknown": [None, "unknown_round", None, *["unknown_round"] * 4],
    "tombstone": [None, "unknown_round", None, *["unknown_round"] * 4],
    "betting": ["already_exists", None, None, None, "betting_open", "betting_open", None],
    "dealing": ["already_exists", *["betting_closed"] * 3, None, "deal_incomplete", None],
    "half dealt": ["already_exists", *["betting_closed"] * 3, None, "deal_incomplete", None],
    "resolved": ["already_exists", *["betting_closed"] * 3, "third_card_not_allowed", None, None],
    "settled": ["already_exists", *["round_settled"] * 6],
    "void": ["already_exists", *["round_void"] * 6],
}
FIELDS = {"deal_incomplete": None, "third_card_not_allowed": "cards"}


@pytest.mark.parametrize(
    ("state", "command", "code"),
    [
        (state, command, code)
        for state, answers in ANSWERS.items()
        for command, code in zip(COMMANDS, answers, strict=True)
    ],
)
def test_each_state_has_its_answer_to_each_command(a_round, state, command, code):
    a_round.given(*HISTORIES[state]).when(COMMANDS[command])
    if code is None:
        assert not isinstance(a_round.answer, Refused)
    else:
        a_round.then_refused(code, field=FIELDS.get(code, "round_id"))


def test_a_round_opens_with_the_full_rules_in_force(a_round):
    a_round.when(Round.open, **OPENING).then(OPENED)
    assert a_round.state.rules == RULES


def test_a_round_recorded_elsewhere_says_where(a_round):
    a_round.when(Round.open, **OPENING, recorded_from="points-csv").then(
        partial(OPENED, recorded_from="points-csv")
    )


def test_a_bet_is_accepted_while_betting_is_open(a_round):
    a_round.given(OPENED).when(Round.place_bet, BetKind.BANKER, **place("b1")).then(
        placed("b1", BetKind.BANKER)
    )


def test_a_bet_is_accepted_once(a_round):
    a_round.given(OPENED, placed("b1", BetKind.TIE, 100))
    a_round.when(Round.place_bet, BetKind.TIE, **place("b1", 100)).then_refused(
        "already_exists", field="bet_id"
    )


def test_a_bet_that_the_table_does_not_offer_is_refused(a_round):
    a_round.given(OPENED).when(Round.place_bet, BetKind.DRAGON7, **place("b1")).then_refused(
        "bet_not_offered", field="bet"
    )


@pytest.mark.parametrize(
    ("kind", "stake_minor", "code"),
    [(BetKind.PLAYER, 99, "limit_below"), (BetKind.TIE, 501, "limit_above")],
)
def test_a_stake_outside_the_limits_is_refused(a_round, kind, stake_minor, code):
    a_round.given(OPENED).when(Round.place_bet, kind, **place("b1", stake_minor)).then_refused(
        code, field="stake_minor"
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [(BetKind.PLAYER, BetKind.BANKER), (BetKind.BANKER, BetKind.PLAYER)],
)
def test_player_and_banker_of_one_account_in_one_round_are_refused(a_round, first, second):
    a_round.given(OPENED, placed("b1", first))
    a_round.when(Round.place_bet, second, **place("b2")).then_refused("opposite_bets", field="bet")


def test_player_and_banker_of_two_accounts_are_accepted(a_round):
    a_round.given(OPENED, placed("b1", BetKind.PLAYER))
    a_round.when(Round.place_bet, BetKind.BANKER, **place("b2", account_id="a2")).then(
        placed("b2", BetKind.BANKER, account_id="a2")
    )


def test_a_cancelled_bet_is_opposite_to_none(a_round):
    a_round.given(OPENED, placed("b1", BetKind.PLAYER), partial(BetCancelled, bet_id="b1"))
    a_round.when(Round.place_bet, BetKind.BANKER, **place("b2")).then(placed("b2", BetKind.BANKER))


def test_opposite_bets_are_accepted_where_the_table_allows_them(a_round):
    allowing = partial(RoundOpened, **{**OPENING, "rules": Rules(allow_opposite_bets=True)})
    a_round.given(allowing, placed("b1", BetKind.PLAYER))
    a_round.when(Round.place_bet, BetKind.BANKER, **place("b2")).then(placed("b2", BetKind.BANKER))


def test_several_bets_of_one_account_on_one_side_are_accepted(a_round):
    a_round.given(OPENED, placed("b1", BetKind.PLAYER))
    a_round.when(Round.place_bet, BetKind.PLAYER, **place("b2")).then(placed("b2", BetKind.PLAYER))


def test_a_cancelled_bet_is_returned_and_cannot_come_again(a_round):
    a_round.given(OPENED, placed("b1", BetKind.PLAYER))
    a_round.when(Round.cancel_bet, "b1").then(partial(BetCancelled, bet_id="b1"))
    assert a_round.state.bets["b1"].settlement.result is Result.RETURNED
    a_round.when(Round.place_bet, BetKind.PLAYER, **place("b1")).then_refused(
        "bet_cancelled", field="bet_id"
    )
    a_round.when(Round.cancel_bet, "b1").then_refused("bet_cancelled", field="bet_id")


def test_a_cancellation_before_its_bet_leaves_a_tombstone(a_round):
    a_round.given(OPENED).when(Round.cancel_bet, "b1").then(partial(BetCancelled, bet_id="b1"))
    a_round.when(Round.place_bet, BetKind.PLAYER, **place("b1")).then_refused(
        "bet_cancelled", field="bet_id"
    )
    a_round.when(Round.place_bet, BetKind.PLAYER, **place("b2")).then(placed("b2", BetKind.PLAYER))


def test_a_cancellation_before_its_round_leaves_a_tombstone(a_round):
    a_round.when(Round.cancel_bet, "b1").then(partial(BetCancelled, bet_id="b1"))
    assert a_round.state.state is RoundState.UNOPENED
    late = partial(Round.place_bet, kind=BetKind.PLAYER, **place("b1"))
    a_round.when(late).then_refused("bet_cancelled", field="bet_id")
    a_round.when(Round.open, **OPENING).then(OPENED)
    a_round.when(late).then_refused("bet_cancelled", field="bet_id")


def test_four_cards_make_a_round_when_a_hand_has_a_natural(a_round):
    a_round.given(OPENED, CLOSED).when(Round.deal, cards("9H KS KD 4C"), irregular=None).then(
        *NATURAL
    )


def test_five_cards_make_a_round_when_the_player_stands(a_round):
    a_round.given(OPENED, CLOSED)
    a_round.when(Round.deal, cards("2H KS 4D 4C 3C"), irregular=None).then(
        *first_four("2H KS 4D 4C"), third(BANKER, "3C"), resolved(6, 7, Outcome.BANKER)
    )


def test_six_cards_make_a_round_when_both_draw(a_round):
    a_round.given(OPENED, CLOSED).when(Round.deal, cards("2H 2S 3D KC KS 4D"), irregular=None).then(
        *SIX_CARDS
    )
    assert a_round.state.dealt == cards("2H 2S 3D KC KS 4D")


@pytest.mark.parametrize(
    "text", ["9H KS KD 4C", "2H KS 4D 4C 3C", "2H 2S 3D KC KS 4D", "0? 7H 5D KC 3S", "2H 2S 3D KC"]
)
def test_cards_dealt_one_at_a_time_come_to_the_same_as_all_at_once(a_round, text):
    a_round.given(OPENED, CLOSED)
    all_at_once = a_round.when(Round.deal, cards(text), irregular=None).answer
    one_at_a_time = []
    for card in cards(text):
        events = a_round.when(Round.deal, (card,), irregular=None).answer
        one_at_a_time += events
        for event in events:
            a_round.state = a_round.state.apply(event)
    assert tuple(one_at_a_time) == all_at_once


@pytest.mark.parametrize("text", ["9H KS KD 4C 5S", "2H KS 4D 4C 3C 2S", "2H 2S 3D KC KS 4D AS"])
def test_a_card_that_the_tableau_forbids_is_refused_with_all_of_its_deal(a_round, text):
    a_round.given(OPENED, CLOSED).when(Round.deal, cards(text), irregular=None).then_refused(
        "third_card_not_allowed", field="cards"
    )


def test_an_irregular_third_card_is_recorded_with_its_reason_and_does_not_count(a_round):
    a_round.given(OPENED, placed("b1", BetKind.PLAYER), CLOSED)
    a_round.when(Round.deal, cards("9H KS KD 4C 5S 6S"), irregular="dealer's mistake").then(
        *first_four("9H KS KD 4C", "dealer's mistake"),
        resolved(9, 4, Outcome.PLAYER),
        third(PLAYER, "5S", "dealer's mistake"),
        third(BANKER, "6S", "dealer's mistake"),
    )
    a_round.when(Round.settle).then(paid("b1", Result.WON, 100_00, 100_00), SETTLED)


def test_an_irregular_third_card_is_recorded_after_a_deal_that_was_complete(a_round):
    a_round.given(OPENED, CLOSED, *NATURAL)
    a_round.when(Round.deal, cards("5S"), irregular="slipped out").then(
        third(PLAYER, "5S", "slipped out")
    )
    assert a_round.state.state is RoundState.RESOLVED


def test_an_irregular_card_of_the_banker_follows_a_third_card_of_the_player(a_round):
    a_round.given(OPENED, CLOSED)
    a_round.when(Round.deal, cards("2H 3S 3D 4C KS 2C"), irregular="drew on seven").then(
        *first_four("2H 3S 3D 4C", "drew on seven"),
        third(PLAYER, "KS", "drew on seven"),
        resolved(5, 7, Outcome.BANKER),
        third(BANKER, "2C", "drew on seven"),
    )


def test_a_reason_is_kept_with_a_deal_that_kept_to_the_tableau(a_round):
    a_round.given(OPENED, CLOSED)
    a_round.when(Round.deal, cards("9H KS KD 4C"), irregular="exposed too early").then(
        *first_four("9H KS KD 4C", "exposed too early"), resolved(9, 4, Outcome.PLAYER)
    )


def test_a_seventh_card_is_refused_even_with_a_reason(a_round):
    a_round.given(OPENED, CLOSED, *SIX_CARDS)
    a_round.when(Round.deal, cards("AS"), irregular="why not").then_refused(
        "third_card_not_allowed", field="cards"
    )


@pytest.mark.parametrize(
    ("kind", "text", "is_refused"),
    [
        (BetKind.PLAYER_PAIR, "0?", True),
        (BetKind.PLAYER_PAIR, "9?", False),
        (BetKind.PLAYER_PAIR, "9H 0?", False),
        (BetKind.PLAYER_PAIR, "9H KS 0S", True),
        (BetKind.BANKER_PAIR, "0?", False),
        (BetKind.BANKER_PAIR, "9H 0?", True),
        (BetKind.BANKER_PAIR, "9H 9? 0? 9?", False),
        (BetKind.EITHER_PAIR, "9H 0?", True),
        (BetKind.EITHER_PAIR, "9H 9? 9? 9?", False),
        (BetKind.PERFECT_PAIR, "9?", True),
        (BetKind.PERFECT_PAIR, "9H 9H 9H 9?", True),
        (BetKind.PERFECT_PAIR, "2H 2S 3D KC 0? 4?", False),
        (BetKind.TIE, "0? 0? 0? 0?", False),
        (BetKind.LUCKY6, "0? 0? 0? 0?", False),
    ],
)
def test_a_card_that_a_bet_cannot_be_decided_by_is_refused(a_round, kind, text, is_refused):
    a_round.given(offering(kind), placed("b1", kind), CLOSED)
    a_round.when(Round.deal, cards(text), irregular=None)
    if is_refused:
        a_round.then_refused("undecidable_bet", field="cards")
    else:
        assert len(a_round.answer) >= len(text.split())


def test_a_cancelled_bet_needs_no_card(a_round):
    a_round.given(
        offering(BetKind.PLAYER_PAIR),
        placed("b1", BetKind.PLAYER_PAIR),
        partial(BetCancelled, bet_id="b1"),
        CLOSED,
    )
    a_round.when(Round.deal, cards("0?"), irregular=None).then(dealt(PLAYER, "0?"))


def test_every_bet_is_settled_in_the_order_it_was_placed(a_round):
    a_round.given(
        OPENED,
        placed("b1", BetKind.BANKER, 100_00),
        placed("b2", BetKind.PLAYER, 50_00, "a2"),
        placed("b3", BetKind.TIE, 500, "a2"),
        placed("b4", BetKind.BANKER, 30, "a3"),
        CLOSED,
        *BANKER_NATURAL,
    )
    a_round.when(Round.settle).then(
        paid("b1", Result.WON, 100_00, 100_00, 5_00),
        paid("b2", Result.LOST, 50_00),
        paid("b3", Result.LOST, 500),
        paid("b4", Result.WON, 30, 30, 2),
        SETTLED,
    )
    assert a_round.state.open_bets == ()
    assert a_round.state.is_finished


def test_a_cancelled_bet_is_not_settled(a_round):
    a_round.given(
        OPENED,
        placed("b1", BetKind.BANKER),
        partial(BetCancelled, bet_id="b1"),
        CLOSED,
        *BANKER_NATURAL,
    )
    a_round.when(Round.settle).then(SETTLED)
    assert a_round.state.bets["b1"].settlement.result is Result.RETURNED


def test_a_round_without_bets_is_settled(a_round):
    a_round.given(OPENED, CLOSED, *NATURAL).when(Round.settle).then(SETTLED)


@pytest.mark.parametrize("state", ["betting", "dealing", "half dealt", "resolved"])
def test_a_void_round_returns_every_stake(a_round, state):
    opened, *later = HISTORIES[state]
    a_round.given(opened, placed("b1", BetKind.TIE, 100), placed("b2", BetKind.BANKER), *later)
    a_round.when(Round.void, "misdeal").then(VOIDED)
    assert {bet.settlement.result for bet in a_round.state.bets.values()} == {Result.RETURNED}
    assert a_round.state.is_finished


def test_what_another_system_recorded_is_kept_as_it_fell(a_round):
    a_round.given(OPENED)
    a_round.when(
        Round.record,
        player=cards("9? 0? 3?"),
        banker=cards("2? 4? 5?"),
        declared=Declared(2, 1, Outcome.PLAYER),
    ).then(
        *first_four("9? 2? 0? 4?"),
        third(PLAYER, "3?"),
        third(BANKER, "5?"),
        resolved(2, 1, Outcome.PLAYER),
        SETTLED,
    )
    assert (a_round.state.player, a_round.state.banker) == (cards("9? 0? 3?"), cards("2? 4? 5?"))


def test_a_round_that_stopped_between_deal_and_settlement_goes_on(a_round):
    a_round.given(OPENED, placed("b1", BetKind.PLAYER), CLOSED, *first_four("2H 2S 3D KC"))
    a_round.when(Round.deal, cards("KS 4D"), irregular=None).then(*SIX_CARDS[4:])
    a_round.when(Round.settle).then(paid("b1", Result.LOST, 100_00), SETTLED)


def test_the_third_cards_of_an_irregular_deal_are_the_players_and_then_the_bankers(a_round):
    a_round.given(OPENED, CLOSED)
    a_round.when(Round.deal, cards("6S 5S TS TD 2C 4C"), irregular="drew on 6").then(
        *first_four("6S 5S TS TD", "drew on 6"),
        third(PLAYER, "2C", "drew on 6"),
        third(BANKER, "4C", "drew on 6"),
        resolved(6, 9, Outcome.BANKER),
    )
