"""Simulated play: the seed decides everything, and nothing that it does is refused."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import pairwise

import pytest

from domain.account import CommissionCharged, CommissionMarked, FundsDeposited, StakePlaced
from domain.bets import BetKind, Result, Variant
from domain.cards import DECK
from domain.errors import Refused
from domain.event import DomainEvent
from domain.money import Collection, CommissionPolicy
from domain.round import BetPlaced, BetSettled, CardDealt, RoundOpened, ThirdCardDrawn
from domain.rules import BetLimits, Limits, Rules
from domain.shoe import CardsBurned, CardsDrawn, CutCardReached, RoundStarted, ShoeClosed
from domain.shuffle import shuffled
from infrastructure.casino import Casino
from infrastructure.simulation import STARTS_AT, simulate

SIDE_BETS = {
    BetKind.PLAYER: (1, 1),
    BetKind.BANKER: (1, 1),
    BetKind.TIE: (9, 1),
    BetKind.EITHER_PAIR: (5, 1),
    BetKind.PERFECT_PAIR: {"one": (25, 1), "both": (200, 1)},
    BetKind.DRAGON7: (40, 1),
    BetKind.PANDA8: (25, 1),
    BetKind.LUCKY6: {"two_cards": (12, 1), "three_cards": (20, 1)},
    BetKind.SMALL: (3, 2),
    BetKind.BIG: (27, 50),
}


class Killed(BaseException):
    """The process ends in the middle of a simulation."""


def stored(casino: Casino) -> list[tuple[object, ...]]:
    """Every event as it is stored, in the order of the ledger."""
    return [
        (each.id, each.originator_id, each.originator_version, each.topic, each.state)
        for each in casino.recorder.select_notifications(1, 1_000_000)
    ]


def events_of(casino: Casino, *kinds: type[DomainEvent]) -> list[DomainEvent]:
    notifications = casino.recorder.select_notifications(1, 1_000_000)
    events = [casino.mapper.to_domain_event(each) for each in notifications]
    return [event for event in events if isinstance(event, kinds or DomainEvent)]


@pytest.fixture(scope="module")
def make_casino() -> Iterator[Callable[[], Casino]]:
    made: list[Casino] = []

    def make() -> Casino:
        made.append(Casino({"PERSISTENCE_MODULE": "infrastructure.store.memory"}))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def casino(make_casino: Callable[[], Casino]) -> Casino:
    return make_casino()


@pytest.fixture(scope="module")
def played(make_casino: Callable[[], Casino]) -> Casino:
    """Two tables with a shoe each and three seats, for tests that only look."""
    casino = make_casino()
    report = simulate(casino, tables=2, shoes=1, seats=3, seed=1)
    assert report.refused == 0
    return casino


def test_a_simulation_tells_what_was_played(casino):
    report = simulate(casino, tables=1, shoes=2, seats=2, seed=5)
    rounds = len(events_of(casino, RoundOpened))
    bets = len(events_of(casino, BetPlaced))
    assert report.to_json() == {
        "tables": 1,
        "shoes": 2,
        "seats": 2,
        "currency": "USD",
        "rounds": rounds,
        "bets": bets,
        "commands": rounds + 1 + 2 + 2 * (2 + 1 + 1),
        "replayed": 0,
        "refused": 0,
        "first_refusal": None,
        "position": len(stored(casino)),
    }
    assert str(report) == f"Rounds: {rounds}, bets: {bets}, shoes: 2"


@pytest.mark.parametrize("batch", [1, 20, 10_000])
def test_the_same_seed_in_another_ledger_gives_the_same_bytes(played, casino, batch):
    simulate(casino, tables=2, shoes=1, seats=3, seed=1, batch=batch)
    assert stored(casino) == stored(played)


def test_the_same_seed_again_is_all_replayed(casino):
    first = simulate(casino, tables=2, shoes=1, seats=2, seed=3)
    before = stored(casino)
    again = simulate(casino, tables=2, shoes=1, seats=2, seed=3)
    assert again.replayed == again.commands == first.commands
    assert (again.rounds, again.bets, again.refused) == (first.rounds, first.bets, 0)
    assert str(again).endswith("all of them there already")
    assert stored(casino) == before


def test_another_seed_in_the_same_ledger_is_another_set_of_ids(casino):
    first = simulate(casino, tables=1, shoes=1, seats=2, seed=1)
    second = simulate(casino, tables=1, shoes=1, seats=2, seed=2)
    assert (second.replayed, second.refused) == (0, 0)
    assert (first.rounds, first.bets) != (second.rounds, second.bets)
    assert {event.shoe_id for event in events_of(casino, RoundOpened)} == {
        "sim1-T1-S1",
        "sim2-T1-S1",
    }


@pytest.mark.parametrize(
    "seed",
    [0, 10**12 - 1, 10**12, 10**5000],
    ids=["zero", "twelve digits", "thirteen", "thousands"],
)
def test_any_seed_that_is_not_negative_is_one(casino, seed):
    report = simulate(casino, tables=1, shoes=1, seats=1, seed=seed)
    assert report.refused == 0
    assert 60 < report.rounds < 100


def test_the_same_seed_in_another_currency_is_refused_and_says_so(casino):
    simulate(casino, tables=1, shoes=1, seats=1, seed=1)
    before = stored(casino)
    report = simulate(casino, tables=1, shoes=1, seats=1, seed=1, currency="EUR")
    assert report.refused == 2
    assert "the first sim1-T1: key sim1-T1 was used for a command with another currency" in str(
        report
    )
    assert stored(casino) == before


def test_a_simulation_that_was_killed_ends_as_if_it_had_not_been(played, casino):
    def kill(done, total):
        if done >= 70:
            raise Killed

    with pytest.raises(Killed):
        simulate(casino, tables=2, shoes=1, seats=3, seed=1, progress=kill)
    report = simulate(casino, tables=2, shoes=1, seats=3, seed=1)
    assert 0 < report.replayed < report.commands
    assert f"{report.replayed:,} of {report.commands:,} commands there already" in str(report)
    assert stored(casino) == stored(played)


def test_progress_counts_rounds_and_ends_with_all_of_them(casino):
    told = []
    report = simulate(
        casino,
        tables=1,
        shoes=1,
        seats=0,
        seed=1,
        progress=lambda done, total: told.append((done, total)),
    )
    assert told[0] == (20, report.rounds)
    assert told[-1] == (report.rounds, report.rounds)
    assert report.bets == 0


def test_nothing_to_play_is_nothing_played(casino):
    assert simulate(casino, tables=0, shoes=1, seats=1, seed=1).commands == 0


def test_a_currency_that_does_not_exist_is_refused(casino):
    with pytest.raises(Refused, match="'XYZ' is not an ISO 4217 currency"):
        simulate(casino, tables=1, shoes=1, seats=1, seed=1, currency="XYZ")


def test_more_seats_than_a_round_has_bets_for_are_refused(casino):
    with pytest.raises(Refused, match="a table has at most 300 seats"):
        simulate(casino, tables=1, shoes=1, seats=301, seed=1)


def test_the_clock_starts_at_a_fixed_instant_and_never_goes_back(played):
    times = [event.at for event in events_of(played)]
    assert times[0] == STARTS_AT
    assert times == sorted(times)


def test_rounds_of_a_shoe_are_thirty_to_sixty_seconds_apart(played):
    opened = events_of(played, RoundOpened)
    gaps = {
        after.at - before.at
        for before, after in pairwise(opened)
        if before.shoe_id == after.shoe_id
    }
    assert timedelta(seconds=30) <= min(gaps) < max(gaps) <= timedelta(seconds=60)


def test_each_shoe_is_dealt_from_its_own_order_and_ends_by_its_cut_card(played):
    drawn = defaultdict(list)
    for event in events_of(played, CardsDrawn):
        drawn[event.originator_id].append(event.cards)
    burned = {event.originator_id: len(event.cards) for event in events_of(played, CardsBurned)}
    first, second = drawn.values()
    assert first != second
    for shoe_id, rounds in drawn.items():
        cards = [card for cards in rounds for card in cards]
        assert max(Counter(cards).values()) <= 8
        assert set(cards) == set(DECK)
        # With one more round after the cut card, which lies sixteen cards from the end.
        left = 8 * 52 - burned[shoe_id] - len(cards)
        assert 0 <= left <= 12
        assert left + len(rounds[-1]) <= 16 < left + len(rounds[-1]) + len(rounds[-2])
    assert len(events_of(played, ShoeClosed)) == len(events_of(played, CutCardReached)) == 2


def test_without_a_round_after_the_cut_card_the_shoe_ends_with_it(make_casino):
    with_one, without = make_casino(), make_casino()
    simulate(with_one, tables=1, shoes=1, seats=1, seed=1)
    report = simulate(without, tables=1, shoes=1, seats=1, seed=1, rules=Rules(after_cut_card=0))
    assert report.refused == 0
    after_one = len(events_of(with_one, RoundStarted))
    assert len(events_of(without, RoundStarted)) == after_one - 1


def test_players_bet_mostly_on_banker_and_player_and_now_and_then_sit_out(casino):
    report = simulate(casino, tables=1, shoes=2, seats=7, seed=4)
    kinds = Counter(event.bet for event in events_of(casino, BetPlaced))
    assert set(kinds) == {
        BetKind.PLAYER,
        BetKind.BANKER,
        BetKind.TIE,
        BetKind.PLAYER_PAIR,
        BetKind.BANKER_PAIR,
    }
    assert kinds[BetKind.PLAYER] + kinds[BetKind.BANKER] > 0.7 * report.bets
    betting = {(event.originator_id, event.account_id) for event in events_of(casino, BetPlaced)}
    assert 0.7 * 7 * report.rounds < len(betting) < 0.95 * 7 * report.rounds


def test_no_account_bets_on_both_sides_of_a_round(played):
    sides = Counter(
        (event.originator_id, event.account_id)
        for event in events_of(played, BetPlaced)
        if event.bet in (BetKind.PLAYER, BetKind.BANKER)
    )
    assert set(sides.values()) == {1}


def test_each_bet_has_an_id_that_no_other_has(played):
    ids = [event.bet_id for event in events_of(played, BetPlaced)]
    assert len(ids) == len(set(ids))
    assert ids[0].startswith("sim1-T1-S1-R1-B")


def test_some_commission_has_to_be_rounded_and_all_of_it_is_charged(played):
    won = [
        event
        for event in events_of(played, BetSettled)
        if event.result is Result.WON and event.commission_minor
    ]
    assert any(event.win_minor * 5 % 100 for event in won)
    assert any(event.win_minor * 5 % 100 == 0 for event in won)
    charged = sum(event.commission_minor for event in events_of(played, CommissionCharged))
    assert charged == sum(event.commission_minor for event in won)


def test_deposits_cover_every_stake_of_the_shoe(played):
    deposited, staked = Counter(), Counter()
    for event in events_of(played, FundsDeposited):
        deposited[event.originator_id] += event.amount_minor
    for event in events_of(played, StakePlaced):
        staked[event.originator_id] += event.stake_minor
    assert set(deposited) == set(staked)
    assert all(staked[account] <= deposited[account] for account in staked)


@pytest.mark.parametrize(
    "rules",
    [
        Rules(variant=Variant.NO_COMMISSION),
        Rules(variant=Variant.EZ, odds={**SIDE_BETS}),
        Rules(decks=6, odds={**SIDE_BETS}, after_cut_card=0),
        Rules(odds={BetKind.TIE: (8, 1)}),
        Rules(odds={BetKind.LUCKY6: {"two_cards": (12, 1), "three_cards": (20, 1)}}),
        Rules(commission=CommissionPolicy(minimum_minor=500_00, increment_minor=25_00)),
        Rules(
            commission=CommissionPolicy(
                collection=Collection.DEFERRED, rate_basis_points=10_000, increment_minor=333
            )
        ),
        Rules(
            limits=Limits(
                minimum_minor=777, maximum_minor=5_000, tie=BetLimits(maximum_minor=1_000)
            )
        ),
        Rules(limits=Limits(minimum_minor=10**12, maximum_minor=10**12)),
    ],
    ids=[
        "no_commission",
        "ez with side bets",
        "six decks with side bets",
        "tie alone",
        "lucky6 alone",
        "commission above the win",
        "deferred commission",
        "limits",
        "high limits",
    ],
)
def test_by_other_rules_nothing_is_refused_either(casino, rules):
    report = simulate(casino, tables=1, shoes=2, seats=3, seed=1, rules=rules)
    assert report.refused == 0, report.first_refusal
    assert report.bets > 0
    placed = events_of(casino, BetPlaced)
    assert {event.bet for event in placed} <= set(rules.odds)
    for event in placed:
        minimum, maximum = rules.limits.of(event.bet)
        assert minimum <= event.stake_minor <= maximum
    assert len(events_of(casino, ShoeClosed)) == 2


def test_commission_above_the_win_is_charged_in_full_from_what_was_deposited(casino):
    rules = Rules(commission=CommissionPolicy(minimum_minor=500_00))
    simulate(casino, tables=1, shoes=1, seats=2, seed=1, rules=rules)
    assert events_of(casino, CommissionCharged)
    assert not events_of(casino, CommissionMarked)


def test_limits_that_no_deposit_covers_are_refused(casino):
    rules = Rules(limits=Limits(minimum_minor=10**15, maximum_minor=10**15))
    with pytest.raises(Refused, match="too high to simulate play by"):
        simulate(casino, tables=1, shoes=1, seats=1, seed=1, rules=rules)


def test_the_order_of_play_is_the_shuffle_of_the_seed_that_the_shoe_shows(played):
    closed = events_of(played, ShoeClosed)[0]
    order = shuffled(bytes.fromhex(closed.seed), 8)
    burned = events_of(played, CardsBurned)[0].cards
    dealt = [
        event.card
        for event in events_of(played, CardDealt, ThirdCardDrawn)
        if event.originator_id == "round:sim1-T1-S1-R1"
    ]
    assert tuple(dealt) == order[len(burned) : len(burned) + len(dealt)]


def test_on_postgresql_it_gives_the_same_bytes_as_in_memory(played, database):
    env = {
        "PERSISTENCE_MODULE": "infrastructure.store.factory",
        "PUNTO_CONNINFO": database.conninfo,
    }
    with Casino(env) as casino:
        simulate(casino, tables=2, shoes=1, seats=3, seed=1)
        assert stored(casino) == stored(played)
    with Casino(env) as casino:
        again = simulate(casino, tables=2, shoes=1, seats=3, seed=1)
        assert again.replayed == again.commands
