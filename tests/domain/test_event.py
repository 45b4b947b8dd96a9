"""What events let in, and the shape in which each of them is stored for ever."""

import json
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from pathlib import Path

import pytest
from eventsourcing.persistence import JSONTranscoder, MapperDeserialisationError, StoredEvent
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.account import (
    AccountClosed,
    AccountFrozen,
    AccountOpened,
    AccountReopened,
    AccountUnfrozen,
    CommissionCharged,
    CommissionMarked,
    DueCollected,
    FundsDeposited,
    FundsWithdrawn,
    SettlementReversed,
    StakeLost,
    StakePlaced,
    StakeReturned,
    WinPaid,
)
from domain.bets import BetKind, Result, Variant
from domain.cards import DECK, FACE_DOWN, parse_card
from domain.correction import CorrectedBet, CorrectionFiled
from domain.event import EVENT_TYPES, DomainEvent
from domain.money import Collection, CommissionPolicy, Rounding
from domain.round import (
    BetCancelled,
    BetPlaced,
    BetSettled,
    BettingClosed,
    CardDealt,
    CorrectionProposed,
    CorrectionRejected,
    RoundCorrected,
    RoundOpened,
    RoundResolved,
    RoundSettled,
    RoundVoided,
    ThirdCardDrawn,
)
from domain.rules import BetLimits, Limits, Rules
from domain.shoe import (
    CardsBurned,
    CardsDrawn,
    CutCardReached,
    DrawCorrected,
    RoundStarted,
    ShoeClosed,
    ShoeOpened,
)
from domain.shuffle import SCHEME, commitment
from domain.site import GamingDayClosed, GamingDaySet
from domain.table import RulesChanged, ShoePlaced, ShoeRemoved, TableOpened
from domain.tableau import Hand, Outcome
from infrastructure.store.mapper import EventMapper

GOLDEN = Path(__file__).parents[1] / "golden" / "events"
MAPPER = EventMapper(JSONTranscoder())
COMMON = {
    "originator_id": "stream:1",
    "originator_version": 7,
    "at": datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
    "actor": "dealer-7",
    "key": "k:2026-01-02.1",
}
RULES = Rules(
    variant=Variant.NO_COMMISSION,
    decks=6,
    odds={
        BetKind.PLAYER: (1, 1),
        BetKind.BANKER: (1, 1),
        BetKind.SMALL: (3, 2),
        BetKind.LUCKY6: {"two_cards": (12, 1), "three_cards": (20, 1)},
    },
    commission=CommissionPolicy(
        rate_basis_points=400,
        increment_minor=25,
        rounding=Rounding.UP,
        minimum_minor=100,
        collection=Collection.DEFERRED,
    ),
    win_rounding=Rounding.HALF_EVEN,
    limits=Limits(minimum_minor=100, small=BetLimits(maximum_minor=50_000)),
    after_cut_card=0,
    allow_opposite_bets=True,
)
BET = {"round_id": "r1", "bet_id": "b1"}
SEED = bytes(range(32))

# By the name of its file, what the stored sample of an event means. When an event
# gets a new class version, its old file stays and the sample of the new one is added.
SAMPLES: dict[str, DomainEvent] = {
    f"{sample.func.TOPIC}.v{sample.func.class_version}": sample(**COMMON)
    for sample in (
        partial(GamingDaySet, zone="Asia/Macau", starts_at="06:00"),
        partial(GamingDayClosed, day="2026-01-01"),
        partial(TableOpened, currency="USD", rules=RULES),
        partial(RulesChanged, rules_version=2, rules=Rules()),
        partial(ShoePlaced, shoe_id="s1"),
        partial(ShoeRemoved, shoe_id="s1"),
        partial(
            ShoeOpened,
            table_id="t1",
            decks=8,
            source="shuffled",
            scheme=SCHEME,
            commitment=commitment(SEED),
            seed_given=False,
        ),
        partial(CardsBurned, cards=(parse_card("2H"), FACE_DOWN, FACE_DOWN)),
        partial(RoundStarted, round_id="r1", number=1),
        partial(CardsDrawn, round_id="r1", cards=tuple(map(parse_card, ("9H", "KS", "0?", "4?")))),
        partial(
            DrawCorrected,
            round_id="r1",
            correction_id="c1",
            instead_of=(parse_card("9H"), parse_card("0?")),
            cards=(parse_card("8H"), parse_card("KS")),
            marked=("a1", "a2"),
        ),
        partial(CutCardReached),
        partial(ShoeClosed, seed=SEED.hex()),
        partial(
            RoundOpened,
            table_id="t1",
            shoe_id="s1",
            number=1,
            currency="USD",
            rules_version=2,
            rules=RULES,
            recorded_from="points-csv",
        ),
        partial(BetPlaced, bet_id="b1", account_id="a1", bet=BetKind.BANKER, stake_minor=10_000),
        partial(BetCancelled, bet_id="b1"),
        partial(BettingClosed),
        partial(CardDealt, hand=Hand.PLAYER, card=parse_card("9H")),
        partial(ThirdCardDrawn, hand=Hand.BANKER, card=parse_card("0?"), irregular="slipped out"),
        partial(RoundResolved, player_total=4, banker_total=7, outcome=Outcome.BANKER),
        partial(
            BetSettled,
            bet_id="b1",
            result=Result.WON,
            stake_minor=10_000,
            win_minor=10_000,
            commission_minor=500,
        ),
        partial(RoundSettled),
        partial(RoundVoided, reason="misdeal: tapis mouillé"),
        partial(
            CorrectionProposed,
            correction_id="c1",
            reason="the eye in the sky saw a nine",
            is_void=False,
            cards=tuple(map(parse_card, ("9H", "KS", "0?", "4?"))),
            bets=(CorrectedBet("b1", "a1", BetKind.BANKER, 10_000),),
        ),
        partial(CorrectionRejected, correction_id="c1"),
        partial(
            RoundCorrected,
            correction_id="c1",
            proposed_by="floor-3",
            replaces_version=6,
            is_void=False,
            cards=tuple(map(parse_card, ("9H", "KS", "0?", "4?"))),
            player=(parse_card("9H"), parse_card("0?")),
            banker=(parse_card("KS"), parse_card("4?")),
            player_total=9,
            banker_total=4,
            outcome=Outcome.PLAYER,
            bets=(CorrectedBet("b1", "a1", BetKind.BANKER, 10_000),),
        ),
        partial(CorrectionFiled, round_id="r1"),
        partial(AccountOpened, currency="JPY"),
        partial(FundsDeposited, amount_minor=10**15),
        partial(FundsWithdrawn, amount_minor=1),
        partial(StakePlaced, **BET, stake_minor=10_000),
        partial(StakeLost, **BET, stake_minor=10_000),
        partial(StakeReturned, **BET, stake_minor=10_000),
        partial(WinPaid, **BET, stake_minor=10_000, win_minor=0),
        partial(CommissionCharged, **BET, commission_minor=500),
        partial(CommissionMarked, **BET, commission_minor=500),
        partial(DueCollected, commission_minor=500, owed_minor=0),
        partial(
            SettlementReversed,
            **BET,
            correction_id="c1",
            result=Result.WON,
            stake_minor=10_000,
            win_minor=10_000,
            refunded_minor=300,
            unmarked_minor=200,
            owed_minor=9_700,
        ),
        partial(AccountReopened, correction_id="c1"),
        partial(AccountFrozen, reason="chargeback"),
        partial(AccountUnfrozen, reason="cleared"),
        partial(AccountClosed, reason="asked for"),
    )
}


def stored(event: DomainEvent) -> bytes:
    """An event's state, as it is stored beside its stream and version."""
    return MAPPER.to_stored_event(event).state


def loaded(event_type: type[DomainEvent], state: bytes) -> DomainEvent:
    """The event that a stored state means today."""
    stream_id, version = COMMON["originator_id"], COMMON["originator_version"]
    return MAPPER.to_domain_event(StoredEvent(stream_id, version, event_type.TOPIC, state))


def refused(why: str) -> pytest.RaisesExc[MapperDeserialisationError]:
    """What is read is checked against the types of the fields."""
    return pytest.raises(MapperDeserialisationError, match=f"cannot be read: .*{why}")


def _topic(name: str) -> str:
    return name.rpartition(".v")[0]


def test_every_event_has_a_golden_sample_of_its_version():
    current = {
        f"{topic}.v{event_type.class_version}"
        for topic, event_type in EVENT_TYPES.items()
        if event_type.__module__.startswith("domain.")
    }
    assert current <= set(SAMPLES), "add a sample above"
    files = {path.name.removesuffix(".json") for path in GOLDEN.iterdir()}
    assert files == set(SAMPLES), "write the file once, by the bytes of stored(), and never again"


@pytest.mark.parametrize("name", SAMPLES)
def test_a_golden_sample_is_loaded_into_an_equal_event_for_ever(name):
    state = (GOLDEN / f"{name}.json").read_bytes()
    assert loaded(EVENT_TYPES[_topic(name)], state) == SAMPLES[name]


@pytest.mark.parametrize("name", SAMPLES)
def test_an_event_is_stored_by_the_bytes_of_its_golden_sample(name):
    sample = SAMPLES[name]
    if not name.endswith(f".v{sample.class_version}"):
        pytest.skip("an older version is read, and no longer written")
    assert stored(sample) == (GOLDEN / f"{name}.json").read_bytes()


def test_the_topics_that_others_rely_on_are_fixed():
    fixed = {
        "round.card_dealt": CardDealt,
        "round.third_card_drawn": ThirdCardDrawn,
        "round.bet_settled": BetSettled,
        "account.commission_charged": CommissionCharged,
    }
    assert {topic: EVENT_TYPES[topic] for topic in fixed} == fixed
    assert {"result", "stake_minor", "win_minor", "commission_minor"} < set(
        BetSettled.__struct_fields__
    )
    assert {"round_id", "bet_id", "commission_minor"} < set(CommissionCharged.__struct_fields__)


def test_two_events_never_share_a_topic():
    with pytest.raises(AssertionError, match="two events share the topic"):
        type("Impostor", (DomainEvent,), {"TOPIC": "round.settled", "__module__": __name__})


amounts = st.integers(min_value=1, max_value=10**18)
ids = st.from_regex(r"\A[A-Za-z0-9._:-]{1,64}\Z")
texts = st.text(st.characters(codec="utf-8"), max_size=50)
times = st.datetimes(
    min_value=datetime(1, 1, 2),  # noqa: DTZ001 - the strategy adds the zone
    max_value=datetime(9999, 12, 30),  # noqa: DTZ001 - as above
    timezones=st.sampled_from(
        [UTC, timezone(timedelta(hours=7)), timezone(-timedelta(hours=3, minutes=30))]
    ),
)
cards = st.sampled_from([*DECK, parse_card("0?"), parse_card("9?"), parse_card("0S")])
rules = st.builds(
    Rules,
    variant=st.sampled_from(Variant),
    decks=st.sampled_from([6, 8]),
    odds=st.dictionaries(
        st.sampled_from([BetKind.PLAYER, BetKind.BANKER, BetKind.TIE, BetKind.BIG]),
        st.tuples(st.integers(1, 1000), st.integers(1, 1000)),
    ),
    win_rounding=st.sampled_from(Rounding),
    allow_opposite_bets=st.booleans(),
)
stamps = {
    "originator_id": st.just(COMMON["originator_id"]),
    "originator_version": st.just(COMMON["originator_version"]),
    "at": times.map(lambda at: at.astimezone(UTC)),  # as commands have it
    "actor": texts,
    "key": ids,
}
events = st.one_of(
    st.builds(WinPaid, **stamps, round_id=ids, bet_id=ids, stake_minor=amounts, win_minor=amounts),
    st.builds(CardsBurned, **stamps, cards=st.lists(cards | st.just(FACE_DOWN)).map(tuple)),
    st.builds(
        ThirdCardDrawn,
        **stamps,
        hand=st.sampled_from(Hand),
        card=cards,
        irregular=st.none() | texts,
    ),
    st.builds(TableOpened, **stamps, currency=st.just("USD"), rules=rules),
    st.builds(
        BetSettled,
        **stamps,
        bet_id=ids,
        result=st.sampled_from(Result),
        stake_minor=amounts,
        win_minor=amounts,
        commission_minor=amounts,
    ),
)


@pytest.mark.usefixtures("unmeasured")
@settings(deadline=None)
@given(events)
def test_an_event_that_was_stored_and_loaded_is_equal_and_stored_by_the_same_bytes(event):
    again = loaded(type(event), stored(event))
    assert again == event
    assert stored(again) == stored(event)


@given(times)
def test_a_time_is_kept_in_utc_whatever_zone_it_is_read_in(at):
    state = json.dumps({"at": at.isoformat(), "actor": "dealer-7", "key": "k1"}).encode()
    event = loaded(CutCardReached, state)
    assert event.at == at
    assert event.at.utcoffset() == timedelta(0)
    assert json.loads(stored(event))["at"].endswith("Z")


@pytest.mark.parametrize(
    "at",
    [
        *("2026-01-02T03:04:05", "2026-01-02", 1_767_323_045, "1767323045", "noon", "", None),
        *("2026-02-30T03:04:05Z", "0001-01-01T00:00:00+07:00", "9999-12-31T23:59:59-07:00"),
    ],
)
def test_a_stored_time_that_is_naive_or_no_time_is_refused(at):
    state = json.dumps({"at": at, "actor": "dealer-7", "key": "k1"}).encode()
    with refused("at"):
        loaded(CutCardReached, state)


@pytest.mark.parametrize("amount", ["1.0", "1.5", "1e2", "true", "false", '"1"', "null", "0", "-1"])
def test_a_stored_amount_that_is_no_positive_integer_is_refused(amount):
    state = f'{{"at":"2026-01-02T03:04:05Z","actor":"a","key":"k","amount_minor":{amount}}}'
    with refused("amount_minor"):
        loaded(FundsDeposited, state.encode())


@pytest.mark.parametrize("version", ["7.0", "true", '"7"', "null"])
def test_a_stored_version_that_is_no_integer_is_refused(version):
    state = f'{{"at":"2026-01-02T03:04:05Z","actor":"a","key":"k","originator_version":{version}}}'
    with refused("originator_version"):
        loaded(CutCardReached, state.encode())


def test_a_field_that_an_event_does_not_have_is_refused():
    fields = json.loads(stored(FundsDeposited(**COMMON, amount_minor=1)))
    with refused("`amount`"):
        loaded(FundsDeposited, json.dumps({**fields, "amount": 1}).encode())
    with pytest.raises(TypeError, match="amount"):
        FundsDeposited(**COMMON, amount_minor=1, amount=1)


@pytest.mark.parametrize("name", ["at", "actor", "key", "amount_minor"])
def test_a_field_that_is_missing_is_refused(name):
    fields = json.loads(stored(FundsDeposited(**COMMON, amount_minor=1)))
    del fields[name]
    with refused(f"`{name}`"):
        loaded(FundsDeposited, json.dumps(fields).encode())


def test_an_event_cannot_be_changed():
    event = FundsDeposited(**COMMON, amount_minor=1)
    with pytest.raises(AttributeError, match="immutable"):
        event.amount_minor = 2
    assert event.amount_minor == 1


NO_CARDS = ["??", "9", "XX", "", "9h", " 9H", 9, None, ["9H"]]
PLAIN = {"at": "2026-01-02T03:04:05Z", "actor": "a", "key": "k"}


@pytest.mark.parametrize("event_type", [CardDealt, ThirdCardDrawn])
@pytest.mark.parametrize("card", NO_CARDS)
def test_a_dealt_card_that_is_none_is_refused(event_type, card):
    state = {**PLAIN, "hand": "player", "card": card}
    with refused("card"):
        loaded(event_type, json.dumps(state).encode())


@pytest.mark.parametrize("card", NO_CARDS)
def test_a_drawn_card_that_is_none_is_refused(card):
    state = {**PLAIN, "round_id": "r1", "cards": ["9H", card]}
    with refused("card"):
        loaded(CardsDrawn, json.dumps(state).encode())


@pytest.mark.parametrize("card", NO_CARDS[1:])
def test_a_burned_card_that_is_none_and_not_face_down_is_refused(card):
    with refused("card"):
        loaded(CardsBurned, json.dumps({**PLAIN, "cards": ["??", card]}).encode())


@pytest.mark.parametrize(
    "dealt",
    [
        partial(CardDealt, hand=Hand.PLAYER, card=FACE_DOWN),
        partial(ThirdCardDrawn, hand=Hand.BANKER, card=FACE_DOWN),
        partial(CardsDrawn, round_id="r1", cards=(parse_card("9H"), FACE_DOWN)),
    ],
)
def test_a_dealt_card_that_lies_face_down_is_no_event(dealt):
    with pytest.raises(ValueError, match="shows its face"):
        dealt(**COMMON)


def test_a_card_that_was_read_is_the_one_card_of_its_notation():
    state = {**PLAIN, "hand": "player", "card": "9H"}
    assert loaded(CardDealt, json.dumps(state).encode()).card is parse_card("9H")
