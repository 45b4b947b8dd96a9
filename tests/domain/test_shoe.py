"""A shoe's life: opened, burned, dealt from round by round, closed."""

from functools import partial

import pytest

from domain.cards import DECK, FACE_DOWN, parse_card
from domain.shoe import (
    CardsBurned,
    CardsDrawn,
    CutCardReached,
    RoundStarted,
    Shoe,
    ShoeClosed,
    ShoeOpened,
)
from domain.shuffle import SCHEME, commitment, shuffled
from infrastructure.store.mapper import facts as state_of

SEED = bytes(range(32))
SHUFFLED = partial(
    ShoeOpened,
    table_id="t1",
    decks=8,
    source="shuffled",
    scheme=SCHEME,
    commitment=commitment(SEED),
    seed_given=True,
)
CUT_CARD = CutCardReached
CLOSED = partial(ShoeClosed, seed=None)


def cards(text):
    return tuple(parse_card(card) for card in text.split())


def physical(decks=8):
    return partial(ShoeOpened, table_id="t1", decks=decks, source="physical")


def burned(*, seed=SEED, decks=8):
    turned_up = shuffled(seed, decks)[0]
    return partial(CardsBurned, cards=(turned_up, *[FACE_DOWN] * (turned_up.points or 10)))


def started(number, round_id=None):
    return partial(RoundStarted, round_id=round_id or f"r{number}", number=number)


def drew(number, text):
    return partial(CardsDrawn, round_id=f"r{number}", cards=cards(text))


def all_drawn_but(left, *, decks=8):
    """Rounds are not asked how many cards they hold, so one can draw what brings a shoe low."""
    return partial(CardsDrawn, round_id="r1", cards=(DECK * decks)[left:])


def start(number, *, after_cut_card=1):
    return {"round_id": f"r{number}", "after_cut_card": after_cut_card}


@pytest.mark.parametrize("decks", [6, 8])
def test_a_physical_shoe_opens_full(shoe, decks):
    shoe.when(Shoe.open_physical, "t1", decks=decks).then(physical(decks))
    assert shoe.state.cards_left == 52 * decks


@pytest.mark.parametrize("decks", [6, 8])
@pytest.mark.parametrize("number", range(8))
def test_a_shuffled_shoe_opens_with_its_commitment_and_burns_by_itself(shoe, decks, number):
    seed = bytes([number]) * 32
    shoe.when(Shoe.open_shuffled, "t1", decks=decks, seed=seed, seed_given=False).then(
        partial(
            ShoeOpened,
            table_id="t1",
            decks=decks,
            source="shuffled",
            scheme=SCHEME,
            commitment=commitment(seed),
            seed_given=False,
        ),
        burned(seed=seed, decks=decks),
    )
    turned_up = shuffled(seed, decks)[0]
    assert shoe.state.cards_left == 52 * decks - 1 - (turned_up.points or 10)


@pytest.mark.parametrize("facts", [[physical()], [physical(), CLOSED]])
def test_a_shoe_opens_once(shoe, facts):
    shoe.given(*facts)
    shoe.when(Shoe.open_physical, "t1", decks=8).then_refused("already_exists", field="shoe_id")
    shoe.when(Shoe.open_shuffled, "t1", decks=8, seed=SEED, seed_given=True).then_refused(
        "already_exists", field="shoe_id"
    )


def test_the_seed_stays_out_of_the_events_until_the_shoe_closes(shoe):
    shoe.given(SHUFFLED, burned(), started(1), drew(1, "9H KS 2D 4C"))
    for events in (shoe.when(Shoe.start_round, **start(2)).answer, SHUFFLED, burned()):
        assert SEED.hex() not in str(events)
    shoe.when(Shoe.close, seed=SEED).then(partial(ShoeClosed, seed=SEED.hex()))
    assert commitment(bytes.fromhex(shoe.answer.seed)) == commitment(SEED)


def test_cards_are_burned_from_a_physical_shoe_when_it_is_done(shoe):
    burn = (*cards("3H"), *[FACE_DOWN] * 3)
    shoe.given(physical()).when(Shoe.burn, burn).then(partial(CardsBurned, cards=burn))
    assert shoe.state.cards_left == 412


def test_burning_is_never_demanded(shoe):
    shoe.given(physical()).when(Shoe.start_round, **start(1)).then(started(1))


@pytest.mark.parametrize(
    ("facts", "code", "field"),
    [
        ([], "unknown_shoe", "shoe_id"),
        ([physical(), partial(CardsBurned, cards=cards("AS 2S"))], "already_exists", None),
        ([physical(), started(1)], "burn_too_late", None),
        ([physical(), started(1), drew(1, "9H KS 2D 4C")], "burn_too_late", None),
        ([SHUFFLED, burned()], "burn_too_late", None),
        ([physical(), CLOSED], "shoe_closed", "shoe_id"),
    ],
)
def test_cards_are_burned_once_and_before_the_first_round(shoe, facts, code, field):
    shoe.given(*facts).when(Shoe.burn, cards("AH 2H")).then_refused(code, field=field)


def test_more_of_a_card_than_the_decks_hold_cannot_be_burned(shoe):
    shoe.given(physical(6)).when(Shoe.burn, cards("AH " * 7)).then_refused(
        "card_not_in_shoe", field="cards"
    )


def test_rounds_are_numbered_from_one(shoe):
    shoe.given(physical())
    for number in (1, 2, 3):
        shoe.when(Shoe.start_round, **start(number)).then(started(number))
        shoe.when(Shoe.end_round, cards("9H KS 2D 4C")).then(drew(number, "9H KS 2D 4C"))
    assert shoe.state.cards_left == 416 - 12


def test_a_round_of_another_system_keeps_its_number(shoe):
    shoe.given(physical()).when(Shoe.start_recorded_round, "r7", number=7).then(started(7))
    shoe.when(Shoe.end_round, ()).then(drew(7, ""))
    shoe.when(Shoe.start_round, **start(8)).then(started(8))


def test_a_shoe_deals_one_round_at_a_time(shoe):
    shoe.given(physical(), started(1))
    shoe.when(Shoe.start_round, **start(2)).then_refused("round_open")
    shoe.when(Shoe.start_recorded_round, "r2", number=2).then_refused("round_open")


@pytest.mark.parametrize(
    ("facts", "code"), [([], "unknown_shoe"), ([physical(), CLOSED], "shoe_closed")]
)
def test_no_round_starts_on_a_shoe_that_is_not_open(shoe, facts, code):
    shoe.given(*facts).when(Shoe.start_round, **start(1)).then_refused(code, field="shoe_id")


def test_a_round_that_was_called_off_leaves_the_cards_it_drew_out_of_the_shoe(shoe):
    shoe.given(physical(), started(1)).when(Shoe.end_round, cards("9H KS")).then(drew(1, "9H KS"))
    assert shoe.state.cards_left == 414


def test_after_the_cut_card_one_more_round_is_dealt(shoe):
    shoe.given(physical(), started(1)).when(Shoe.reach_cut_card).then(CUT_CARD)
    shoe.given(drew(1, "9H KS 2D 4C")).when(Shoe.start_round, **start(2)).then(started(2))
    shoe.given(drew(2, "9H KS 2D 4C"))
    shoe.when(Shoe.start_round, **start(3)).then_refused("shoe_exhausted")


def test_after_the_cut_card_no_round_is_dealt_where_the_table_says_so(shoe):
    shoe.given(physical(), started(1), CUT_CARD, drew(1, "9H KS 2D 4C"))
    shoe.when(Shoe.start_round, **start(2, after_cut_card=0)).then_refused("shoe_exhausted")


def test_a_cut_card_between_two_rounds_counts_like_one_within_a_round(shoe):
    shoe.given(physical(), started(1), drew(1, "9H KS 2D 4C"), CUT_CARD)
    shoe.when(Shoe.start_round, **start(2, after_cut_card=0)).then_refused("shoe_exhausted")
    shoe.when(Shoe.start_round, **start(2)).then(started(2))


@pytest.mark.parametrize(
    ("facts", "code", "field"),
    [
        ([], "unknown_shoe", "shoe_id"),
        ([physical(), CUT_CARD], "already_exists", None),
        ([physical(), CLOSED], "shoe_closed", "shoe_id"),
    ],
)
def test_the_cut_card_comes_out_once_of_an_open_shoe(shoe, facts, code, field):
    shoe.given(*facts).when(Shoe.reach_cut_card).then_refused(code, field=field)


@pytest.mark.parametrize("decks", [6, 8])
@pytest.mark.parametrize(("left", "exhausted"), [(6, False), (5, True), (0, True)])
def test_no_round_starts_on_fewer_cards_than_it_may_need(shoe, decks, left, exhausted):
    shoe.given(physical(decks), started(1), all_drawn_but(left, decks=decks))
    shoe.when(Shoe.start_round, **start(2))
    if exhausted:
        shoe.then_refused("shoe_exhausted")
    else:
        shoe.then(started(2))


@pytest.mark.parametrize(("decks", "most"), [(6, 6), (8, 8)])
def test_a_card_that_the_decks_have_not_left_is_refused(shoe, decks, most):
    dealt = "9H " * (most - 1)
    shoe.given(physical(decks), partial(CardsBurned, cards=cards("9H KS")))
    shoe.given(started(1), drew(1, "KS " + "9H " * (most - 2)))
    shoe.state.check_cards(cards("9H"))
    shoe.when(lambda state, stamp: state.check_cards(cards("9H 9H"))).then_refused(
        "card_not_in_shoe", field="cards"
    )
    shoe.when(lambda state, stamp: state.check_cards(cards(dealt))).then_refused(
        "card_not_in_shoe", field="cards"
    )


def test_more_cards_than_the_shoe_has_left_are_refused(shoe):
    face_down = partial(CardsBurned, cards=(FACE_DOWN,) * 412)
    shoe.given(physical(), face_down)
    shoe.state.check_cards(cards("9H KS 2D 4C"))
    shoe.when(lambda state, stamp: state.check_cards(cards("9H KS 2D 4C 5C"))).then_refused(
        "card_not_in_shoe", field="cards"
    )


def test_a_shuffled_shoe_deals_on_from_where_it_stands(shoe):
    order = shuffled(SEED, 8)
    shoe.given(SHUFFLED, burned())
    first = len(shoe.state.burned)
    assert shoe.state.next_cards(4, in_round=0, seed=SEED) == order[first : first + 4]
    assert shoe.state.next_cards(1, in_round=4, seed=SEED) == order[first + 4 : first + 5]
    shoe.given(started(1), partial(CardsDrawn, round_id="r1", cards=order[first : first + 5]))
    assert shoe.state.next_cards(4, in_round=0, seed=SEED) == order[first + 5 : first + 9]


@pytest.mark.parametrize(("behind", "meets"), [(17, False), (16, True), (11, True)])
def test_the_cut_card_of_a_shuffled_shoe_lies_before_its_last_sixteen_cards(shoe, behind, meets):
    shoe.given(SHUFFLED, started(1), all_drawn_but(behind + 5), started(2))
    assert shoe.state.meets_cut_card(5) is meets
    assert not shoe.given(CUT_CARD).state.meets_cut_card(5)


def test_the_cut_card_of_a_physical_shoe_lies_where_the_dealer_put_it(shoe):
    shoe.given(physical(), started(1), all_drawn_but(10), started(2))
    assert not shoe.state.meets_cut_card(6)


def test_a_physical_shoe_closes_between_two_rounds(shoe):
    shoe.given(physical(), started(1)).when(Shoe.close, seed=None).then_refused("round_open")
    shoe.given(drew(1, "9H KS 2D 4C")).when(Shoe.close, seed=None).then(CLOSED)
    shoe.when(Shoe.close, seed=None).then_refused("shoe_closed", field="shoe_id")


def test_a_shoe_that_is_not_there_cannot_close(shoe):
    shoe.when(Shoe.close, seed=None).then_refused("unknown_shoe", field="shoe_id")


def test_a_burned_card_is_stored_in_its_notation(shoe):
    shoe.given(physical()).when(Shoe.burn, (*cards("AS"), FACE_DOWN))
    assert state_of(shoe.answer)["cards"] == ["AS", "??"]


def test_a_whole_shuffled_shoe_can_be_dealt_without_a_card_in_excess(shoe):
    shoe.given(SHUFFLED, burned())
    number = 0
    while not shoe.state.cut_card_is_out:
        number += 1
        six = shoe.state.next_cards(6, in_round=0, seed=SEED)
        shoe.state.check_cards(six)
        shoe.given(started(number))
        if shoe.state.meets_cut_card(6):
            shoe.when(Shoe.reach_cut_card).then(CUT_CARD)
        shoe.given(partial(CardsDrawn, round_id=f"r{number}", cards=six))
    shoe.when(Shoe.start_round, **start(number + 1)).then(started(number + 1))
    assert 6 <= shoe.state.cards_left <= 16
