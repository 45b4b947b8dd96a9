"""How single faults are judged, and what a report says of them."""

import pytest
from msgspec.structs import asdict, replace

from domain.account import CommissionCharged, StakeReturned
from domain.bets import BetKind, Result
from domain.cards import parse_card
from domain.event import Unreadable
from domain.round import BetSettled, Declared
from domain.shoe import CutCardReached
from domain.tableau import Outcome
from infrastructure.audit.audit import Scope
from infrastructure.audit.findings import Code


def hand(text):
    return tuple(parse_card(card) for card in text.split())


@pytest.fixture
def recorded_as(ledger, audited):
    """Records one round as it is told and gives the findings as codes and details."""

    def judged(player, banker, player_total, banker_total, outcome):
        ledger.open_table("T1")
        ledger.open_shoe("S1", "T1")
        ledger.record(
            "R1",
            "S1",
            number=1,
            player=hand(player),
            banker=hand(banker),
            declared=Declared(player_total, banker_total, outcome),
        )
        report = audited(ledger.recorded)
        return [(finding.code.value, finding.detail) for finding in report.examples]

    return judged


def test_an_unexpected_third_card_of_the_player_is_judged_on_without_it(recorded_as):
    assert recorded_as("7S 0? 9H", "5H 0? 3C", 7, 8, Outcome.BANKER) == [
        (
            "player_third_card_unexpected",
            "9H for the player hand is forbidden (two-card totals player 7, banker 5)",
        )
    ]


def test_an_unexpected_third_card_of_the_banker_does_not_count_for_its_total(recorded_as):
    assert recorded_as("7S 0?", "6H 0? 3C", 7, 9, Outcome.BANKER) == [
        (
            "banker_third_card_unexpected",
            "3C for the banker hand is forbidden (two-card totals player 7, banker 6)",
        ),
        ("banker_total_mismatch", "recorded 9, ruled 6"),
        ("outcome_mismatch", "recorded banker, ruled player"),
    ]


def test_a_round_with_a_missing_card_is_not_judged_further(recorded_as):
    assert recorded_as("2S 3S", "5H 0?", 9, 9, Outcome.TIE) == [
        (
            "player_third_card_missing",
            "the player hand had to draw (two-card totals player 5, banker 5)",
        )
    ]


def test_a_missing_card_of_the_banker_is_found_beside_an_unexpected_one(recorded_as):
    found = recorded_as("7S 0? 9H", "5H 0?", 9, 9, Outcome.TIE)

    assert [code for code, _ in found] == [
        "banker_third_card_missing",
        "player_third_card_unexpected",
    ]


def test_an_irregular_card_is_found_and_nothing_else(ledger, audited):
    ledger.open_table("T1")
    ledger.open_account("ann")
    ledger.open_shoe("S1", "T1")
    ledger.open_round("R1", "S1")
    ledger.bet("b1", "R1", "ann", BetKind.BANKER, 10_00)
    ledger.close_betting("R1")
    ledger.deal("R1", "7S 9H KD KC")
    ledger.deal("R1", "2S 3S", irregular="pulled by mistake")
    ledger.settle("R1")
    ledger.close_shoe("S1")

    report = audited(ledger.recorded)

    assert report.findings == {
        "player_third_card_unexpected": 1,
        "banker_third_card_unexpected": 1,
    }


def test_a_pair_on_a_card_that_nobody_could_read_is_not_judged(evening, audited):
    filed = [recorded.event.originator_id for recorded in evening].index("correction:C1")
    tampered = [
        recorded._replace(event=replace(recorded.event, card=parse_card("0?")))
        if recorded.event.originator_id == "round:R3"
        and str(getattr(recorded.event, "card", "")) == "KD"
        else recorded._replace(event=replace(recorded.event, bet=BetKind.EITHER_PAIR))
        if getattr(recorded.event, "bet", None) is BetKind.TIE
        and recorded.event.originator_id == "round:R3"
        else recorded
        for recorded in evening[:filed]
    ]

    assert "payout_mismatch" in audited(tampered).findings
    # The table does not offer the bet; with a bet that it offers nothing is left to say.
    offered = [
        recorded._replace(event=replace(recorded.event, bet=BetKind.PLAYER_PAIR))
        if getattr(recorded.event, "bet", None) is BetKind.EITHER_PAIR
        else recorded
        for recorded in tampered
    ]
    assert audited(offered).findings == {"shoe_sequence_gap": 1}


def test_a_pair_of_the_other_hand_is_judged_beside_an_unread_card(ledger, audited):
    ledger.open_table("T1")
    ledger.open_account("ann")
    ledger.open_shoe("S1", "T1")
    ledger.play("R1", "S1", "9S 0? 9H 8?", bets=[("ann", BetKind.PLAYER_PAIR, 10_00)])
    settled = next(
        place
        for place, recorded in enumerate(ledger.recorded)
        if isinstance(recorded.event, BetSettled)
    )
    tampered = list(ledger.recorded)
    tampered[settled] = tampered[settled]._replace(
        event=replace(tampered[settled].event, win_minor=1)
    )

    assert audited(ledger.recorded).findings == {}
    assert audited(tampered).findings == {"payout_mismatch": 1, "account_mismatch": 1}


def test_a_shoe_that_gives_more_cards_than_it_holds_is_overdrawn(ledger, audited):
    ledger.open_table("T1")
    ledger.open_shoe("S1", "T1")
    for number in range(1, 106):
        ledger.record(
            f"R{number}",
            "S1",
            number=number,
            player=hand("9S 0?"),
            banker=hand("0? 0?"),
            declared=Declared(9, 0, Outcome.PLAYER),
        )

    report = audited(ledger.recorded)

    assert report.to_json() == {
        "rounds": 105,
        "rounds_with_findings": 0,
        "findings": {"shoe_overdrawn": 1, "shoe_card_excess": 2},
        "examples": [
            {
                "round_id": None,
                "code": "shoe_overdrawn",
                "detail": "420 cards came out, 8 decks hold 416",
                "shoe_id": "S1",
            },
            {
                "round_id": None,
                "code": "shoe_card_excess",
                "detail": "9S came out 105 times, 8 decks hold 8",
                "shoe_id": "S1",
            },
            {
                "round_id": None,
                "code": "shoe_card_excess",
                "detail": "0? came out 315 times, 8 decks hold 128",
                "shoe_id": "S1",
            },
        ],
    }


def test_burned_cards_and_rounds_still_open_count_for_their_shoe(ledger, audited):
    ledger.open_table("T1")
    ledger.open_shoe("S1", "T1")
    ledger.burn("S1", "2C " * 8)
    ledger.open_round("R1", "S1")
    ledger.close_betting("R1")
    ledger.deal("R1", "2C 3H")

    assert audited(ledger.recorded).findings == {"shoe_card_excess": 1}


def test_a_fault_of_the_history_is_passed_on(evening, audited):
    report = audited(evening, history_faults=["the trigger events_guard is off"])

    assert report.to_json()["examples"] == [
        {
            "round_id": None,
            "code": "history_unprotected",
            "detail": "the trigger events_guard is off",
        }
    ]
    assert report.rounds_with_findings == 0


def late_return(evening):
    """A second resolution of a lost stake, in its account's next version."""
    bob = [r.event for r in evening if r.event.originator_id == "account:bob"]
    lost = next(event for event in bob if event.TOPIC == "account.stake_lost")
    return StakeReturned(
        originator_id=lost.originator_id,
        originator_version=bob[-1].originator_version + 1,
        at=evening[-1].event.at,
        actor="someone",
        key="late",
        round_id=lost.round_id,
        bet_id=lost.bet_id,
        stake_minor=lost.stake_minor,
    )


def test_a_second_settlement_after_the_shoe_has_closed_is_found(evening, audited, at_new_positions):
    event = late_return(evening)
    late = at_new_positions([*(recorded.event for recorded in evening), event])

    report = audited(late)

    assert report.rounds == 12
    assert report.rounds_with_findings == 1
    assert report.findings == {
        "bet_settled_twice": 1,
        "account_mismatch": 1,
        "in_play_not_zero": 1,
    }
    assert {finding.round_id for finding in report.examples} == {event.round_id}


def test_a_second_verdict_takes_the_place_of_the_first(evening, audited, at_new_positions):
    event = late_return(evening)
    stream = f"round:{event.round_id}"
    events = [recorded.event for recorded in evening]
    place = next(
        place
        for place, other in enumerate(events)
        if isinstance(other, BetSettled) and other.originator_id == stream
    )
    events[place] = replace(events[place], commission_minor=1)
    first = audited(at_new_positions(events))
    second = audited(at_new_positions([*events, event]))

    assert first.findings["commission_mismatch"] == 1
    assert second.findings["commission_mismatch"] == 1
    assert second.rounds_with_findings == 1
    assert [finding.code for finding in second.examples].count(Code.COMMISSION_MISMATCH) == 1


def test_a_settlement_recorded_twice_by_the_round_is_found_after_its_shoe_has_closed(
    evening, audited, at_new_positions
):
    events = [recorded.event for recorded in evening]
    own = [event for event in events if event.originator_id == "round:R1"]
    settled = next(event for event in own if isinstance(event, BetSettled))
    again = replace(settled, originator_version=own[-1].originator_version + 1)

    report = audited(at_new_positions([*events, again]))

    assert report.findings == {"bet_settled_twice": 1}
    assert report.rounds == 12


def test_a_settlement_without_its_last_event_is_found(evening, audited, at_new_positions):
    rest = at_new_positions(
        recorded.event
        for recorded in evening
        if (recorded.event.TOPIC, recorded.event.originator_id) != ("round.settled", "round:R1")
    )

    report = audited(rest)

    assert report.findings == {"account_mismatch": 3, "shoe_sequence_gap": 1}
    assert {finding.round_id for finding in report.examples} == {"R1"}


def test_examples_are_a_few_of_each_code_in_one_order(evening, audited):
    tampered = [
        recorded._replace(event=replace(recorded.event, result=Result.PUSH))
        if isinstance(recorded.event, BetSettled)
        else recorded
        for recorded in evening
    ]

    report = audited(tampered)

    assert report.findings["payout_mismatch"] > 5
    codes = [finding.code for finding in report.examples]
    assert codes.count(Code.PAYOUT_MISMATCH) == 5
    assert codes == sorted(codes, key=list(Code).index)
    assert audited(tampered) == report


def unreadable(evening, place):
    ledger = list(evening)
    position, event = ledger[place]
    ledger[place] = Unreadable(
        position, event.originator_id, event.originator_version, "not JSON at character 7"
    )
    return ledger


def test_an_event_that_cannot_be_read_is_a_gap_that_names_it_and_its_round(evening, audited):
    for place, (position, event) in enumerate(evening):
        report = audited(unreadable(evening, place), examples_max=1_000)

        gaps = {
            finding.detail: finding.round_id
            for finding in report.examples
            if finding.code == "stream_gap"
        }
        kind, _, name = event.originator_id.partition(":")
        assert gaps == {
            f"version {event.originator_version} of {event.originator_id}, at position "
            f"{position}, cannot be read: not JSON at character 7": (
                name if kind == "round" else None
            )
        }


def test_an_event_of_a_judged_round_that_cannot_be_read_is_found(evening, audited):
    version = max(
        recorded.event.originator_version
        for recorded in evening
        if recorded.event.originator_id == "round:R1"
    )
    late = Unreadable(len(evening) + 1, "round:R1", version + 1, "unknown topic")

    report = audited([*evening, late])

    assert (report.rounds, report.rounds_with_findings) == (12, 1)
    assert report.findings == {"stream_gap": 1}


@pytest.mark.parametrize("scope", [Scope(round="R1"), Scope(shoe="S1"), Scope(table="T1")])
def test_a_scope_finds_the_faults_that_lie_in_it(scope, evening, audited):
    tampered = [
        recorded._replace(event=replace(recorded.event, stake_minor=1))
        if recorded.event.TOPIC == "account.stake_lost" and recorded.event.round_id == "R1"
        else recorded
        for recorded in evening
    ]

    report = audited(tampered, scope=scope)

    assert report.findings == {"account_mismatch": 2, "in_play_not_zero": 1}
    assert report.rounds_with_findings == 1
    assert report.rounds == (1 if scope.round else 4)


@pytest.mark.parametrize("scope", [Scope(round="R3"), Scope(shoe="S2"), Scope(table="T2")])
def test_a_scope_leaves_out_the_faults_that_lie_elsewhere(scope, evening, audited):
    tampered = [
        recorded._replace(event=replace(recorded.event, stake_minor=1))
        if recorded.event.TOPIC == "account.stake_lost" and recorded.event.round_id == "R1"
        else recorded
        for recorded in evening[3:]
    ]

    assert audited(tampered, scope=scope).findings == {}


def test_a_round_is_audited_from_what_names_it_and_its_shoe_alone(evening, audited, load_from):
    load_rounds, load_stream = load_from(evening)
    own = {each.position: each for each in (*load_rounds(["R1"]), *load_stream("shoe:S1"))}
    own = [own[position] for position in sorted(own)]
    elsewhere = [
        recorded._replace(event=replace(recorded.event, table_id="T2"))
        if recorded.event.TOPIC == "shoe.opened"
        else recorded
        for recorded in own
    ]

    report = audited(own, scope=Scope(round="R1"))

    assert (report.rounds, report.findings) == (1, {})
    assert audited(elsewhere, scope=Scope(round="R1")).findings == {"shoe_sequence_gap": 1}


def test_a_scope_does_not_depend_on_the_order_within_a_commit(evening, audited):
    opened = next(
        place
        for place, recorded in enumerate(evening)
        if (recorded.event.TOPIC, recorded.event.originator_id) == ("round.opened", "round:R1")
    )
    staked = next(
        place
        for place, recorded in enumerate(evening)
        if recorded.event.TOPIC == "account.stake_placed" and recorded.event.round_id == "R1"
    )
    events = [recorded.event for recorded in evening]
    events.insert(opened, events.pop(staked))
    moved = [
        recorded._replace(event=event) for recorded, event in zip(evening, events, strict=True)
    ]

    for scope in (None, Scope(round="R1"), Scope(shoe="S1"), Scope(table="T1")):
        report = audited(moved, scope=scope)
        assert report.findings == {}
        assert report.rounds == {None: 12}.get(scope, 1 if scope and scope.round else 4)


def test_an_event_of_a_closed_shoe_that_cannot_be_read_is_found(evening, audited):
    version = max(
        recorded.event.originator_version
        for recorded in evening
        if recorded.event.originator_id == "shoe:S1"
    )
    late = Unreadable(len(evening) + 3, "shoe:S1", version + 1, "unknown topic")

    report = audited([*evening, late])

    assert [finding.detail for finding in report.examples] == [
        f"positions {len(evening) + 1} to {len(evening) + 2} are missing",
        (
            f"version {version + 1} of shoe:S1, at position {len(evening) + 3}, "
            "cannot be read: unknown topic"
        ),
    ]
    assert report.examples[1].shoe_id == "S1"


@pytest.mark.parametrize("scope", [Scope(round="R1"), Scope(shoe="S1"), Scope(table="T1")])
def test_a_scope_names_its_own_events_that_cannot_be_read(scope, evening, audited):
    place = next(
        place
        for place, recorded in enumerate(evening)
        if recorded.event.originator_id == "round:R1"
    )

    assert audited(unreadable(evening, place), scope=scope).findings["stream_gap"] == 1
    assert "stream_gap" not in audited(unreadable(evening, 0), scope=scope).findings


def test_a_stake_of_a_cancelled_bet_that_was_not_returned_is_found_at_once(ledger, audited):
    ledger.open_table("T1")
    ledger.open_account("ann")
    ledger.open_shoe("S1", "T1")
    ledger.open_round("R1", "S1")
    ledger.bet("b1", "R1", "ann", BetKind.BANKER, 10_00)
    ledger.cancel("b1", "R1")
    assert ledger.recorded.pop().event.TOPIC == "account.stake_returned"

    report = audited(ledger.recorded)

    assert [(finding.code, finding.detail) for finding in report.examples] == [
        (
            "account_mismatch",
            "bet b1 of account:ann: the stake of a cancelled bet was not returned",
        )
    ]


def test_commission_charged_where_the_rules_defer_it_is_found(evening, audited):
    place = next(
        place
        for place, recorded in enumerate(evening)
        if recorded.event.TOPIC == "account.commission_marked"
    )
    marked = evening[place].event
    ledger = list(evening)
    ledger[place] = evening[place]._replace(event=CommissionCharged(**asdict(marked)))

    report = audited(ledger)

    assert [finding.detail for finding in report.examples if finding.round_id == "R2"] == [
        "bet R2-b1 of account:cyd: charged 200, the rules defer commission",
        "shoe S2, round R2: marked cyd, the accounts say otherwise",
    ]


def test_an_event_that_follows_the_closing_of_a_shoe_is_found(evening, audited, at_new_positions):
    events = [recorded.event for recorded in evening]
    closed = next(event for event in reversed(events) if event.TOPIC == "shoe.closed")
    reached = CutCardReached(
        originator_id=closed.originator_id,
        originator_version=closed.originator_version + 1,
        at=closed.at,
        actor="someone",
        key="late",
    )

    report = audited(at_new_positions([*events, reached]))

    assert report.findings == {"shoe_sequence_gap": 1}
    assert report.examples[0].shoe_id == "S2"


def test_a_round_that_opens_in_a_closed_shoe_is_found(evening, audited, at_new_positions):
    events = [recorded.event for recorded in evening]
    opened = next(event for event in events if event.TOPIC == "round.opened")
    late = replace(opened, originator_id="round:R13", number=5)

    report = audited(at_new_positions([*events, late]))

    assert report.findings == {"shoe_sequence_gap": 1}
    assert report.rounds == 13
    assert report.examples[0].round_id == "R13"
