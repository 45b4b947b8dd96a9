"""A round is rebuilt from its own events, to any version, and says why cards were drawn."""

import json

import pytest
from eventsourcing.persistence import JSONTranscoder
from msgspec.structs import replace

from domain.bets import BetKind
from domain.cards import parse_card
from domain.round import BetSettled, Declared
from domain.rules import Rules
from domain.tableau import Outcome
from infrastructure.audit.findings import Code, Finding
from infrastructure.audit.replay import replay
from infrastructure.store.mapper import EventMapper

MAPPER = EventMapper(JSONTranscoder())


def events_of(recorded, round_id):
    return [item.event for item in recorded if item.event.originator_id == f"round:{round_id}"]


@pytest.fixture
def r1(evening):
    return events_of(evening, "R1")


def test_a_round_is_rebuilt_whole_from_its_own_events(r1):
    replayed = replay(r1)

    assert list(replayed) == [
        "round_id",
        "table_id",
        "shoe_id",
        "state",
        "version",
        "rules",
        "player",
        "banker",
        "outcome",
        "bets",
        "steps",
        "findings",
    ]
    steps = replayed.pop("steps")
    assert replayed.pop("rules") == Rules().model_dump(mode="json", exclude_none=True)
    assert replayed == {
        "round_id": "R1",
        "table_id": "T1",
        "shoe_id": "S1",
        "state": "settled",
        "version": 19,
        "player": {"cards": ["2S", "AD", "4C"], "total": 7},
        "banker": {"cards": ["3H", "KC", "5D"], "total": 8},
        "outcome": "banker",
        "bets": [
            {
                "bet_id": "R1-b1",
                "account_id": "ann",
                "bet": "banker",
                "stake_minor": 100_00,
                "currency": "USD",
                "result": "won",
                "win_minor": 100_00,
                "commission_minor": 5_00,
            },
            {
                "bet_id": "R1-b2",
                "account_id": "bob",
                "bet": "player",
                "stake_minor": 50_00,
                "currency": "USD",
                "result": "lost",
                "win_minor": 0,
                "commission_minor": 0,
            },
            {
                "bet_id": "R1-b3",
                "account_id": "bob",
                "bet": "tie",
                "stake_minor": 10_00,
                "currency": "USD",
                "result": "lost",
                "win_minor": 0,
                "commission_minor": 0,
            },
            {
                "bet_id": "R1-b4",
                "account_id": "ann",
                "bet": "player_pair",
                "stake_minor": 5_00,
                "currency": "USD",
                "result": "returned",
                "win_minor": 0,
                "commission_minor": 0,
            },
        ],
        "findings": [],
    }
    assert [step["version"] for step in steps] == list(range(1, 20))
    assert steps[1] == {
        "version": 2,
        "event": "round.bet_placed",
        "at": "2026-03-01T12:00:16Z",
        "actor": "dealer",
        "bet_id": "R1-b1",
        "account_id": "ann",
        "bet": "banker",
        "stake_minor": 100_00,
    }
    assert [(step["event"], step["rule"]) for step in steps if "rule" in step] == [
        ("round.third_card_drawn", "Player has 3 and draws on 0-5"),
        (
            "round.third_card_drawn",
            (
                "Banker has 3, which draws on any third card of the Player but 8: "
                "the third card counts 4, so Banker draws"
            ),
        ),
    ]


def test_a_round_is_replayed_to_each_of_its_versions(r1):
    states = [replay(r1, to_version=version) for version in range(1, len(r1) + 1)]

    assert [state["version"] for state in states] == list(range(1, len(r1) + 1))
    assert [state["state"] for state in states] == (
        ["betting"] * 7 + ["dealing"] * 7 + ["resolved"] * 4 + ["settled"]
    )
    assert states[6]["bets"][3]["result"] == "returned"
    assert states[6]["bets"][0]["result"] == "open"
    assert states[12]["player"] == {"cards": ["2S", "AD", "4C"], "total": None}
    assert states[12]["outcome"] is None
    assert all(state["findings"] == [] for state in states)
    for state in states:
        assert state["steps"] == states[-1]["steps"][: state["version"]]


def test_the_same_events_give_the_same_bytes(r1):
    read_back = [MAPPER.to_domain_event(MAPPER.to_stored_event(event)) for event in r1]
    assert read_back == r1

    assert json.dumps(replay(r1)) == json.dumps(replay(read_back))


def test_the_order_in_which_odds_were_written_does_not_show(r1):
    rules = r1[0].rules
    turned = rules.model_copy(update={"odds": dict(reversed(rules.odds.items()))})
    other = [replace(r1[0], rules=turned), *r1[1:]]

    assert json.dumps(replay(r1)) == json.dumps(replay(other))


def test_a_round_that_was_never_opened_is_not_there(ledger):
    ledger.cancel("b1", "R1")

    assert replay([]) is None
    assert replay(events_of(ledger.recorded, "R1")) is None


def test_a_round_is_not_there_before_the_version_that_opened_it(ledger):
    ledger.open_table("T1")
    ledger.open_shoe("S1", "T1")
    ledger.cancel("b1", "R1")
    ledger.open_round("R1", "S1")
    events = events_of(ledger.recorded, "R1")

    assert replay(events, to_version=1) is None
    assert replay(events, to_version=2)["state"] == "betting"


def test_a_void_round_returns_its_bets_and_is_not_judged(evening):
    replayed = replay(events_of(evening, "R4"))

    assert replayed["state"] == "void"
    assert [bet["result"] for bet in replayed["bets"]] == ["returned"]
    assert replayed["player"] == {"cards": ["7S"], "total": None}
    assert replayed["findings"] == []


def test_findings_of_a_finished_round_and_those_of_others_are_told_once(r1):
    tampered = [
        replace(event, commission_minor=0)
        if isinstance(event, BetSettled) and event.bet_id == "R1-b1"
        else event
        for event in r1
    ]
    own = {"code": "commission_mismatch", "detail": "bet R1-b1: recorded 0, ruled 500"}
    extra = Finding(Code.IN_PLAY_NOT_ZERO, "5 USD left in play", "R1")
    again = Finding(Code.COMMISSION_MISMATCH, own["detail"], "R1")

    assert replay(tampered)["findings"] == [own]
    assert replay(tampered, findings=[extra, again])["findings"] == [
        own,
        {"code": "in_play_not_zero", "detail": "5 USD left in play"},
    ]
    assert replay(tampered, to_version=len(r1) - 1)["findings"] == []


@pytest.mark.parametrize(
    ("player", "banker", "rules"),
    [
        (
            "9S KD",
            "7H KC",
            [("round.resolved", "Player has a natural 9: neither hand draws")],
        ),
        (
            "2S KD",
            "8H KC",
            [("round.resolved", "Banker has a natural 8: neither hand draws")],
        ),
        (
            "6S KD",
            "7H KC",
            [
                (
                    "round.resolved",
                    (
                        "Player has 6 and stands on 6 and 7; "
                        "Player stood, Banker has 7 and stands on 6 and 7"
                    ),
                )
            ],
        ),
        (
            "6S KD",
            "5H KC 2H",
            [
                ("round.third_card_drawn", "Player stood, Banker has 5 and draws on 0-5"),
                ("round.resolved", "Player has 6 and stands on 6 and 7"),
            ],
        ),
        (
            "2S KD 8D",
            "3H KC",
            [
                ("round.third_card_drawn", "Player has 2 and draws on 0-5"),
                (
                    "round.resolved",
                    (
                        "Banker has 3, which draws on any third card of the Player but 8: "
                        "the third card counts 8, so Banker stands"
                    ),
                ),
            ],
        ),
        (
            "2S KD 6D",
            "6H KC 9D",
            [
                ("round.third_card_drawn", "Player has 2 and draws on 0-5"),
                (
                    "round.third_card_drawn",
                    (
                        "Banker has 6, which draws on a third card of the Player of 6-7: "
                        "the third card counts 6, so Banker draws"
                    ),
                ),
            ],
        ),
        (
            "2S KD 6D",
            "2H KC 9D",
            [
                ("round.third_card_drawn", "Player has 2 and draws on 0-5"),
                (
                    "round.third_card_drawn",
                    (
                        "Banker has 2, which draws on any third card of the Player: "
                        "the third card counts 6, so Banker draws"
                    ),
                ),
            ],
        ),
        (
            "2S KD 6D",
            "7H KC",
            [
                ("round.third_card_drawn", "Player has 2 and draws on 0-5"),
                (
                    "round.resolved",
                    (
                        "Banker has 7, which draws on none of the Player's third cards: "
                        "the third card counts 6, so Banker stands"
                    ),
                ),
            ],
        ),
        (
            "7S KD 6D",
            "5H KC",
            [
                (
                    "round.third_card_drawn",
                    (
                        "Player has 7 and stands on 6 and 7; "
                        "the tableau forbids this card and it does not count"
                    ),
                ),
                (
                    "round.resolved",
                    "Player stood, Banker has 5 and draws on 0-5; its third card is missing",
                ),
            ],
        ),
    ],
)
def test_a_step_says_why_a_third_card_was_drawn_or_not(player, banker, rules, ledger):
    ledger.open_table("T1")
    ledger.open_shoe("S1", "T1")
    ledger.record(
        "R1",
        "S1",
        number=1,
        player=tuple(map(parse_card, player.split())),
        banker=tuple(map(parse_card, banker.split())),
        declared=Declared(0, 0, Outcome.TIE),
    )
    replayed = replay(events_of(ledger.recorded, "R1"))

    assert [(step["event"], step["rule"]) for step in replayed["steps"] if "rule" in step] == rules


def test_prices_by_case_are_shown_in_one_order(ledger):
    odds = {
        BetKind.PERFECT_PAIR: {"both": (200, 1), "one": (25, 1)},
        BetKind.BANKER: (1, 1),
    }
    ledger.open_table("T1", rules=Rules(odds=odds))
    ledger.open_shoe("S1", "T1")
    ledger.open_round("R1", "S1")
    replayed = replay(events_of(ledger.recorded, "R1"))

    assert json.dumps(replayed["rules"]["odds"]) == (
        '{"banker": [1, 1], "perfect_pair": {"one": [25, 1], "both": [200, 1]}}'
    )
