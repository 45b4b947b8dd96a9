"""After corrections, and whatever else comes, the read models show what holds."""

import pytest

from domain.bets import BetKind
from domain.cards import parse_card
from domain.event import Recorded, Stamp
from domain.resettlement import resettle
from projections.balances import Balances, accounts
from projections.rounds import Rounds, rounds
from projections.runner import catch_up, parked
from projections.shoes import Shoes, shoes
from tests.simulation.model import Ledger as Model
from tests.simulation.playing import in_memory, notifications, play, sequence

FOLDED = (Balances(), Rounds(), Shoes())


@pytest.fixture
def fold(connection):
    def catch_up_with(source):
        catch_up(connection, source, projections=FOLDED)
        assert parked(connection) == []

    return catch_up_with


@pytest.fixture
def settled(ledger):
    """A round that the Banker won, with a bet on either hand."""
    ledger.open_table("t1")
    ledger.do("shoe:s1", "open_physical", "t1", decks=8)
    ledger.open_account("a1", deposit_minor=1_000_00)
    ledger.open_account("a2", deposit_minor=1_000_00)
    ledger.open_round("r1", shoe="s1")
    ledger.bet("b1", BetKind.BANKER, on="r1", account="a1", stake_minor=100_00)
    ledger.bet("b2", BetKind.PLAYER, on="r1", account="a2", stake_minor=50_00)
    ledger.do("round:r1", "close_betting")
    ledger.deal("r1", "2S", "9H", "TS", "KD")
    ledger.settle("r1")
    return ledger


def correct(ledger, **what_holds):
    """Proposes and approves, and records what the accounts and the shoe make of it."""
    before = ledger.aggregates["round:r1"]
    what_holds = {"cards": None, "bets": None, "is_void": False, **what_holds}
    ledger.do("round:r1", "propose_correction", "c1", reason="camera", **what_holds)
    proposal = ledger.aggregates["round:r1"].corrections["c1"]
    manager = Stamp(ledger.at(len(ledger.events) + 1), "manager", "key-2")
    decided = ledger.aggregates["round:r1"].approve_correction("c1", stamp=manager)
    after = before.corrected(proposal)
    named = {"correction_id": "c1", "shoe_is_closed": False, "stamp": manager}
    held = {name: ledger.aggregates[f"account:{name}"] for name in ("a1", "a2")}
    resettled = resettle(before, after, held, **named)
    drawn = ledger.aggregates["shoe:s1"].correct_draw(
        "r1", correction_id="c1", instead_of=before.dealt, cards=after.dealt, stamp=manager
    )
    for event in (*resettled.reversed, *decided, *resettled.settled, *drawn):
        ledger.events.append(Recorded(len(ledger.events) + 1, event))


def test_a_corrected_round_shows_its_cards_totals_outcome_and_turnover(connection, settled, fold):
    fold(settled.source)
    (before,) = rounds(connection)
    cards = tuple(map(parse_card, ("8S", "2H", "TS", "3D")))
    correct(settled, cards=cards)
    fold(settled.source)
    (after,) = rounds(connection)

    assert (before.outcome, after.outcome) == ("banker", "player")
    assert (after.player_cards, after.banker_cards) == (["8S", "TS"], ["2H", "3D"])
    assert (after.player_total, after.banker_total) == (8, 5)
    assert (after.turnover, after.bets) == ({"USD": 150_00}, 2)


def test_a_round_that_is_made_void_has_no_turnover_and_keeps_when_it_was_settled(
    connection, settled, fold
):
    fold(settled.source)
    (before,) = rounds(connection)
    correct(settled, is_void=True)
    fold(settled.source)
    (after,) = rounds(connection)

    assert (after.state, after.turnover, after.bets) == ("void", {"USD": 0}, 2)
    assert after.settled_at == before.settled_at
    assert [line.available_minor for line in accounts(connection)] == [1_000_00, 1_000_00]


@pytest.mark.parametrize("seed", range(7_000, 7_008))
def test_the_read_models_are_what_the_aggregates_are(connection, fold, seed):
    casino, model = in_memory(), Model()
    play(casino, model, sequence(seed), 150)
    stored = [
        Recorded(each.id, casino.mapper.to_domain_event(each)) for each in notifications(casino)
    ]
    fold(lambda after, limit: stored[after : after + limit])

    with casino.turn() as book:
        for line in accounts(connection):
            account = book.account(line.account_id)
            assert (line.available_minor, line.in_play_minor) == (
                account.available_minor,
                account.in_play_minor,
            )
            assert (line.commission_due_minor, line.owed_minor) == (
                account.commission_due_minor,
                account.owed_minor,
            )
            assert (line.is_frozen, line.is_closed) == (account.is_frozen, account.is_closed)
        for line in rounds(connection):
            round_ = book.round(line.round_id)
            assert line.state == round_.state.value
            assert line.player_cards == [str(card) for card in round_.player]
            staked = sum(bet.stake_minor for bet in round_.bets.values() if bet.counts)
            assert line.turnover == {round_.currency: staked}
        for line in shoes(connection):
            assert line.cards_drawn == len(book.shoe(line.shoe_id).drawn)
