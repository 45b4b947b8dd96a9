"""What holds of accounts and rounds after any commands in any order."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from eventsourcing.persistence import JSONTranscoder
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.account import (
    Account,
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
from domain.bets import RETURNED, BetKind, Result, Settlement, Variant
from domain.cards import DECK, parse_card
from domain.correction import CorrectedBet
from domain.errors import Refused
from domain.event import DomainEvent, Stamp
from domain.money import Collection, CommissionPolicy
from domain.resettlement import resettle
from domain.round import BetSettled, Round, RoundState
from domain.rules import Rules
from domain.tableau import Hand, next_hand
from infrastructure.store.mapper import EventMapper

MAPPER = EventMapper(JSONTranscoder())
STAMP = Stamp(at=datetime(2026, 1, 2, 12, 0, tzinfo=UTC), actor="dealer-7", key="key-1")
# The same lines thousands of times over, which other tests run too: measuring them takes longer.
pytestmark = pytest.mark.usefixtures("unmeasured")

ACCOUNTS = ("account:a1", "account:a2")
ROUNDS = ("round:r1", "round:r2")
RESOLVING = (StakeLost, StakeReturned, WinPaid)


@dataclass
class Ledger:
    """Accounts and rounds in memory: a command is recorded whole or not at all."""

    rules: Rules
    streams: dict[str, Any] = field(default_factory=dict)
    history: list[DomainEvent] = field(default_factory=list)

    def __post_init__(self) -> None:
        for stream_id in ACCOUNTS:
            self.streams[stream_id] = Account(stream_id)
            self.record(self.streams[stream_id].open("USD", stamp=STAMP))
        for stream_id in ROUNDS:
            self.streams[stream_id] = Round(stream_id)

    def record(self, *events: DomainEvent) -> None:
        for event in events:
            stream = self.streams[event.originator_id]
            self.streams[event.originator_id] = stream.apply(event)
            self.history.append(event)

    def attempt(self, command: Callable[["Ledger"], None]) -> None:
        streams, length = dict(self.streams), len(self.history)
        try:
            command(self)
        except Refused:
            self.streams = streams
            del self.history[length:]

    def resolve(self, round: Round, bet_id: str, settlement: Settlement) -> None:  # noqa: A002
        account = self.streams[round.bets[bet_id].account_id]
        self.record(
            *account.resolve_stake(
                settlement,
                round_id=round.id,
                bet_id=bet_id,
                collection=self.rules.commission.collection,
                stamp=STAMP,
            )
        )

    def of(self, account_id: str, *types: type[DomainEvent]) -> list[Any]:
        return [
            event
            for event in self.history
            if event.originator_id == account_id and isinstance(event, types)
        ]


Command = Callable[[Ledger], None]


def on_account(name: str) -> Callable[..., Command]:
    def make(account_id: str, *arguments: object) -> Command:
        def command(ledger: Ledger) -> None:
            account = ledger.streams[account_id]
            answer = getattr(account, name)(*arguments, stamp=STAMP)
            ledger.record(*(answer if isinstance(answer, tuple) else (answer,)))

        return command

    return make


def open_round(round_id: str) -> Command:
    return lambda ledger: ledger.record(
        ledger.streams[round_id].open(
            table_id="t1",
            shoe_id="s1",
            number=1,
            currency="USD",
            rules_version=1,
            rules=ledger.rules,
            stamp=STAMP,
        )
    )


def place_bet(
    round_id: str, bet_id: str, account_id: str, kind: BetKind, stake_minor: int
) -> Command:
    def command(ledger: Ledger) -> None:
        ledger.record(
            ledger.streams[round_id].place_bet(
                kind, bet_id=bet_id, account_id=account_id, stake_minor=stake_minor, stamp=STAMP
            )
        )
        ledger.record(
            ledger.streams[account_id].place_stake(
                stake_minor, round_id=round_id, bet_id=bet_id, stamp=STAMP
            )
        )

    return command


def cancel_bet(round_id: str, bet_id: str) -> Command:
    def command(ledger: Ledger) -> None:
        before = ledger.streams[round_id]
        ledger.record(before.cancel_bet(bet_id, stamp=STAMP))
        if bet_id in before.bets:
            ledger.resolve(before, bet_id, RETURNED)

    return command


def close_betting(round_id: str) -> Command:
    return lambda ledger: ledger.record(ledger.streams[round_id].close_betting(stamp=STAMP))


def deal(round_id: str, cards: list[Any], irregular: str | None) -> Command:
    return lambda ledger: ledger.record(
        *ledger.streams[round_id].deal(tuple(cards), irregular=irregular, stamp=STAMP)
    )


def settle(round_id: str) -> Command:
    def command(ledger: Ledger) -> None:
        before = ledger.streams[round_id]
        ledger.record(*before.settle(stamp=STAMP))
        for event in ledger.history[-len(before.open_bets) - 1 : -1]:
            assert isinstance(event, BetSettled)
            settlement = Settlement(event.result, event.win_minor, event.commission_minor)
            ledger.resolve(before, event.bet_id, settlement)

    return command


def play_out(round_id: str, cards: list[Any]) -> Command:
    """Closes betting, deals until the deal is complete, and settles."""

    def command(ledger: Ledger) -> None:
        close_betting(round_id)(ledger)
        for card in cards:
            if ledger.streams[round_id].declared is None:
                deal(round_id, [card], None)(ledger)
        settle(round_id)(ledger)

    return command


def void(round_id: str) -> Command:
    def command(ledger: Ledger) -> None:
        before = ledger.streams[round_id]
        ledger.record(before.void("misdeal", stamp=STAMP))
        for bet in before.open_bets:
            ledger.resolve(before, bet.id, RETURNED)

    return command


def correct(
    round_id: str, cards: list[Any] | None, bets: tuple[CorrectedBet, ...] | None, kind: str
) -> Command:
    """Proposes and approves other cards, other bets, both, or a void."""

    def command(ledger: Ledger) -> None:
        before = ledger.streams[round_id]
        correction_id = f"c{before.version}"
        ledger.record(
            before.propose_correction(
                correction_id,
                cards=_deal_of(cards) if kind in ("cards", "both") else None,
                bets=bets if kind in ("bets", "both") else None,
                is_void=kind == "void",
                reason="camera",
                stamp=Stamp(STAMP.at, "pit", "key-2"),
            )
        )
        decided = ledger.streams[round_id].approve_correction(correction_id, stamp=STAMP)
        after = ledger.streams[round_id]
        for event in decided:
            after = after.apply(event)
        named = {"correction_id": correction_id, "shoe_is_closed": False, "stamp": STAMP}
        held = {stream_id: ledger.streams[stream_id] for stream_id in ACCOUNTS}
        touched = {
            bet.account_id
            for change in before.changes(after)
            for bet in (change.was, change.becomes)
            if bet is not None
        }
        held = {stream_id: account for stream_id, account in held.items() if stream_id in touched}
        resettled = resettle(before, after, held, **named)
        ledger.record(*resettled.reversed, *decided, *resettled.settled)

    return command


def _deal_of(cards: list[Any]) -> tuple[Any, ...]:
    """As many of the cards as the tableau asks for."""
    player: list[int] = []
    banker: list[int] = []
    taken = []
    for card in cards:
        hand = next_hand(player, banker)
        if hand is None:
            break
        (player if hand is Hand.PLAYER else banker).append(card.points)
        taken.append(card)
    return tuple(taken)


ODDS = {
    BetKind.PLAYER: (1, 1),
    BetKind.BANKER: (1, 1),
    BetKind.TIE: (8, 1),
    BetKind.PLAYER_PAIR: (11, 1),
    BetKind.PERFECT_PAIR: {"one": (25, 1), "both": (200, 1)},
    BetKind.BIG: (27, 50),
}
table_rules = st.builds(
    lambda variant, collection, minimum_minor, *, opposite: Rules(
        variant=variant,
        odds=ODDS,
        commission=CommissionPolicy(collection=collection, minimum_minor=minimum_minor),
        allow_opposite_bets=opposite,
    ),
    st.sampled_from(Variant),
    st.sampled_from(Collection),
    st.sampled_from([0, 100]),
    opposite=st.booleans(),
)
accounts, rounds = st.sampled_from(ACCOUNTS), st.sampled_from(ROUNDS)
bets = st.sampled_from(["b1", "b2", "b3", "b4", "b5"])
amounts = st.integers(1, 300)
cards = st.sampled_from([*DECK, parse_card("0?"), parse_card("9?")])
commands = st.one_of(
    st.builds(on_account("deposit"), accounts, amounts),
    st.builds(on_account("withdraw"), accounts, amounts),
    st.builds(on_account("collect_due"), accounts),
    st.builds(on_account("freeze"), accounts, st.just("chargeback")),
    st.builds(on_account("unfreeze"), accounts, st.just("cleared")),
    st.builds(on_account("close"), accounts, st.just("asked for")),
    st.builds(place_bet, rounds, bets, accounts, st.sampled_from(list(ODDS)), amounts),
    st.builds(cancel_bet, rounds, bets),
    st.builds(close_betting, rounds),
    st.builds(
        deal, rounds, st.lists(cards, min_size=1, max_size=6), st.sampled_from([None, "slipped"])
    ),
    st.builds(settle, rounds),
    st.builds(play_out, rounds, st.lists(cards, min_size=6, max_size=6)),
    st.builds(play_out, rounds, st.lists(cards, min_size=6, max_size=6)),
    st.builds(play_out, rounds, st.lists(cards, min_size=6, max_size=6)),
    st.builds(void, rounds),
    st.builds(
        correct,
        rounds,
        st.lists(cards, min_size=6, max_size=6),
        st.lists(
            st.builds(CorrectedBet, bets, accounts, st.sampled_from(list(ODDS)), amounts),
            max_size=4,
            unique_by=lambda bet: bet.bet_id,
        ).map(tuple),
        st.sampled_from(["cards", "cards", "bets", "bets", "both", "void"]),
    ),
)
openings = st.tuples(
    *[st.builds(on_account("deposit"), st.just(id_), st.integers(1, 1000)) for id_ in ACCOUNTS],
    *[st.just(open_round(id_)) for id_ in ROUNDS],
)
stakes = st.builds(
    place_bet, rounds, bets, accounts, st.sampled_from([BetKind.BANKER, *ODDS]), amounts
)
sequences = st.tuples(
    st.lists(commands, max_size=2),
    openings,
    st.lists(stakes, min_size=2, max_size=6),
    st.lists(commands, min_size=4, max_size=30),
).map(lambda parts: [command for part in parts for command in part])
"""Opened accounts and rounds and some stakes, so that most sequences come beyond refusals."""


def play(rules: Rules, sequence: list[Command]) -> Ledger:
    ledger = Ledger(rules)
    for command in sequence:
        ledger.attempt(command)
    return ledger


any_order = settings(deadline=None, max_examples=150)


@any_order
@given(table_rules, sequences)
def test_no_balance_ever_goes_below_zero(rules, sequence):
    ledger = Ledger(rules)
    for command in sequence:
        ledger.attempt(command)
    states = {stream_id: Account(stream_id) for stream_id in ACCOUNTS}
    for event in ledger.history:
        if event.originator_id in states:
            state = states[event.originator_id].apply(event)
            assert min(state.available_minor, state.commission_due_minor, state.owed_minor) >= 0
            states[event.originator_id] = state


@any_order
@given(table_rules, sequences)
def test_every_stake_in_play_is_resolved_once_when_its_round_is_finished_or_its_bet_cancelled(
    rules, sequence
):
    ledger = play(rules, sequence)
    for stream_id in ACCOUNTS:
        placed = Counter(
            (event.round_id, event.bet_id, event.stake_minor)
            for event in ledger.of(stream_id, StakePlaced, SettlementReversed)
        )
        resolved = Counter(
            (event.round_id, event.bet_id, event.stake_minor)
            for event in ledger.of(stream_id, *RESOLVING)
        )
        open_ones = Counter(
            (round_id, bet.id, bet.stake_minor)
            for round_id in ROUNDS
            for bet in ledger.streams[round_id].open_bets
            if bet.account_id == stream_id and not ledger.streams[round_id].is_finished
        )
        assert placed == resolved + open_ones


@any_order
@given(table_rules, sequences)
def test_what_is_in_play_is_what_the_unfinished_rounds_hold(rules, sequence):
    ledger = play(rules, sequence)
    for stream_id in ACCOUNTS:
        held = sum(
            bet.stake_minor
            for round_id in ROUNDS
            for bet in ledger.streams[round_id].open_bets
            if bet.account_id == stream_id
        )
        assert ledger.streams[stream_id].in_play_minor == held
    for round_id in ROUNDS:
        if ledger.streams[round_id].is_finished:
            assert ledger.streams[round_id].open_bets == ()


@any_order
@given(table_rules, sequences)
def test_a_balance_is_the_sum_of_what_the_events_moved(rules, sequence):
    ledger = play(rules, sequence)
    for stream_id in ACCOUNTS:
        balance_minor = (
            sum(event.amount_minor for event in ledger.of(stream_id, FundsDeposited))
            - sum(event.amount_minor for event in ledger.of(stream_id, FundsWithdrawn))
            + sum(event.win_minor for event in ledger.of(stream_id, WinPaid))
            - sum(event.stake_minor for event in ledger.of(stream_id, StakeLost))
            - sum(event.commission_minor for event in ledger.of(stream_id, CommissionCharged))
            + sum(event.owed_minor or 0 for event in ledger.of(stream_id, StakePlaced))
            - sum(e.commission_minor + e.owed_minor for e in ledger.of(stream_id, DueCollected))
            + sum(
                event.stake_minor + event.refunded_minor + event.owed_minor - event.taken_minor
                for event in ledger.of(stream_id, SettlementReversed)
            )
        )
        assert ledger.streams[stream_id].balance_minor == balance_minor


@any_order
@given(table_rules, sequences)
def test_the_commission_of_a_round_is_charged_or_marked_in_full(rules, sequence):
    ledger = play(rules, sequence)
    demanded = {
        (event.originator_id, event.bet_id): event.commission_minor
        for event in ledger.history
        if type(event) is BetSettled
    }
    taken = sum(
        event.commission_minor
        for stream_id in ACCOUNTS
        for event in ledger.of(stream_id, CommissionCharged, CommissionMarked)
    )
    given_back = sum(
        event.refunded_minor + event.unmarked_minor
        for stream_id in ACCOUNTS
        for event in ledger.of(stream_id, SettlementReversed)
    )
    assert taken - given_back == sum(demanded.values())
    if rules.commission.collection is Collection.DEFERRED:
        assert not [event for event in ledger.history if isinstance(event, CommissionCharged)]


@any_order
@given(table_rules, sequences)
def test_replay_of_the_stored_events_one_by_one_gives_the_same_states(rules, sequence):
    ledger = play(rules, sequence)
    replayed: dict[str, Any] = {stream_id: Account(stream_id) for stream_id in ACCOUNTS}
    replayed |= {stream_id: Round(stream_id) for stream_id in ROUNDS}
    for event in ledger.history:
        again = MAPPER.to_domain_event(MAPPER.to_stored_event(event))
        assert again == event
        replayed[event.originator_id] = replayed[event.originator_id].apply(again)
    assert replayed == ledger.streams


@any_order
@given(table_rules, sequences)
def test_versions_are_one_two_three_without_a_gap(rules, sequence):
    ledger = play(rules, sequence)
    for stream_id in (*ACCOUNTS, *ROUNDS):
        versions = [e.originator_version for e in ledger.history if e.originator_id == stream_id]
        assert versions == list(range(1, len(versions) + 1))


@any_order
@given(table_rules, sequences)
def test_a_settled_round_has_settled_every_bet_that_was_not_cancelled(rules, sequence):
    ledger = play(rules, sequence)
    for stream_id in ROUNDS:
        state = ledger.streams[stream_id]
        if state.state is RoundState.SETTLED:
            for bet in state.bets.values():
                is_returned = bet.settlement.result is Result.RETURNED
                was_corrected = bool(state.corrections)
                assert is_returned == (bet.id in state.cancelled) or was_corrected


@any_order
@given(table_rules, sequences)
def test_money_comes_from_outside_the_house_and_the_players_debt_and_from_nowhere_else(
    rules, sequence
):
    ledger = play(rules, sequence)
    held = sum(
        account.balance_minor - account.commission_due_minor - account.owed_minor
        for account in (ledger.streams[stream_id] for stream_id in ACCOUNTS)
    )
    settled = {
        (event.originator_id, event.bet_id): event
        for event in ledger.history
        if isinstance(event, BetSettled)
    }
    house = sum(
        (event.stake_minor if event.result is Result.LOST else -event.win_minor)
        + event.commission_minor
        for event in settled.values()
    )
    outside = sum(
        event.amount_minor
        for stream_id in ACCOUNTS
        for event in ledger.of(stream_id, FundsDeposited)
    ) - sum(
        event.amount_minor
        for stream_id in ACCOUNTS
        for event in ledger.of(stream_id, FundsWithdrawn)
    )
    assert held + house == outside
