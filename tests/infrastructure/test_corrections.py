"""Corrections and collections as a client gives them, from the command to the balance."""

import json
from typing import Any

import pytest

from infrastructure.casino import Casino
from infrastructure.commands.contract import read_command
from infrastructure.commands.execution import Client, execute

BANKER_WINS = ["2S", "9H", "TS", "KD"]
PLAYER_WINS = ["9S", "2H", "TS", "KD"]
DEFERRED = {"commission": {"collection": "deferred"}}


class Desk:
    """Gives commands to a ledger in memory, each under a key of its own."""

    def __init__(self) -> None:
        self.casino = Casino({"PERSISTENCE_MODULE": "infrastructure.store.memory"})
        self.given = 0

    def ask(self, command: str, **fields: Any) -> dict[str, Any]:
        self.given += 1
        line = {"command": command, "key": f"k{self.given}", **fields}
        read = read_command(json.dumps(line).encode())
        (answer,) = execute(self.casino, [read], client=Client("cli"))
        return answer

    def do(self, command: str, **fields: Any) -> dict[str, Any]:
        answer = self.ask(command, **fields)
        assert answer["ok"], answer
        return answer["result"]

    def refused(self, command: str, **fields: Any) -> str:
        return self.ask(command, **fields)["error"]["code"]

    def seat(self, *accounts: str, rules: dict[str, Any] | None = None) -> None:
        """A table with a physical shoe, and accounts that hold 100.00."""
        self.do("open_table", table_id="t", currency="USD", rules=rules or {})
        self.do("open_shoe", shoe_id="s", table_id="t", source="physical")
        for account_id in accounts:
            self.do("open_account", account_id=account_id, currency="USD")
            self.do("deposit", account_id=account_id, amount_minor=100_00)

    def play(self, round_id: str, *bets: tuple[str, str, int], cards: list[str]) -> dict[str, Any]:
        named = [bet(f"{round_id}-b{number}", *each) for number, each in enumerate(bets, start=1)]
        return self.do("play_round", round_id=round_id, shoe_id="s", bets=named, cards=cards)

    def correct(self, correction_id: str, round_id: str, **what_holds: Any) -> dict[str, Any]:
        named = {"correction_id": correction_id, "round_id": round_id, "reason": "camera"}
        self.do("propose_correction", **named, actor="pit", **what_holds)
        return self.do("approve_correction", correction_id=correction_id, actor="manager")

    def balance(self, account_id: str) -> tuple[int, int, int]:
        """What is available, due and owed."""
        with self.casino.turn() as book:
            account = book.account(account_id)
            assert account.in_play_minor == 0
            return account.available_minor, account.commission_due_minor, account.owed_minor

    def topics(self, stream: str) -> list[str]:
        return [event.topic for event in self.casino.recorder.select_events(stream)]


def bet(bet_id: str, account_id: str, kind: str, stake_minor: int) -> dict[str, Any]:
    return {"bet_id": bet_id, "account_id": account_id, "bet": kind, "stake_minor": stake_minor}


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_correction_of_cards_pays_the_winners_and_takes_from_the_losers(desk):
    desk.seat("ann", "bob")
    desk.play("r", ("ann", "banker", 100_00), ("bob", "player", 50_00), cards=BANKER_WINS)
    assert (desk.balance("ann"), desk.balance("bob")) == ((195_00, 0, 0), (50_00, 0, 0))

    answer = desk.correct("c", "r", cards=PLAYER_WINS)

    assert (desk.balance("ann"), desk.balance("bob")) == ((0, 0, 0), (150_00, 0, 0))
    assert (answer["outcome"], answer["state"]) == ("player", "settled")
    assert [(each["before_minor"], each["after_minor"]) for each in answer["accounts"]] == [
        (195_00, 0),
        (50_00, 150_00),
    ]


def test_a_correction_there_and_back_leaves_every_balance_as_it_was(desk):
    desk.seat("ann", "bob", rules={"variant": "commission"})
    desk.play("r", ("ann", "banker", 100_00), ("bob", "player", 50_00), cards=BANKER_WINS)
    desk.do("withdraw", account_id="ann", amount_minor=195_00)
    desk.correct("c1", "r", cards=PLAYER_WINS)
    assert desk.balance("ann") == (0, 0, 195_00)
    desk.correct("c2", "r", cards=BANKER_WINS)
    desk.do("collect_due", account_id="ann")

    assert (desk.balance("ann"), desk.balance("bob")) == ((0, 0, 0), (50_00, 0, 0))


def test_an_account_whose_bets_do_not_change_records_nothing(desk):
    desk.seat("ann", "bob")
    desk.play("r", ("ann", "banker", 100_00), ("bob", "player", 50_00), cards=BANKER_WINS)
    before = desk.topics("account:bob")
    desk.correct(
        "c",
        "r",
        bets=[bet("r-b1", "ann", "banker", 50_00), bet("r-b2", "bob", "player", 50_00)],
    )

    assert desk.topics("account:bob") == before
    assert desk.balance("ann") == (100_00 + 50_00 - 2_50, 0, 0)


def test_a_bet_of_another_account_moves_there(desk):
    desk.seat("ann", "bob")
    desk.play("r", ("ann", "banker", 100_00), cards=BANKER_WINS)
    desk.correct("c", "r", bets=[bet("r-b1", "bob", "banker", 100_00)])

    assert (desk.balance("ann"), desk.balance("bob")) == ((100_00, 0, 0), (195_00, 0, 0))


def test_a_stake_that_the_other_account_cannot_cover_is_owed_and_paid_from_its_win(desk):
    desk.seat("ann", "bob")
    desk.do("withdraw", account_id="bob", amount_minor=100_00)
    desk.play("r", ("ann", "banker", 100_00), cards=BANKER_WINS)
    desk.correct("c", "r", bets=[bet("r-b1", "bob", "banker", 100_00)])

    assert desk.balance("bob") == (95_00, 0, 0)
    assert "account.due_collected" in desk.topics("account:bob")


def test_a_void_after_the_settlement_returns_every_stake(desk):
    desk.seat("ann", "bob")
    desk.play("r", ("ann", "banker", 100_00), ("bob", "player", 50_00), cards=BANKER_WINS)
    answer = desk.correct("c", "r", void=True)

    assert (desk.balance("ann"), desk.balance("bob")) == ((100_00, 0, 0), (100_00, 0, 0))
    assert answer["state"] == "void"
    assert {each["result"] for each in answer["bets"]} == {"returned"}


def test_what_was_spent_meanwhile_is_owed_and_nothing_can_be_withdrawn_before(desk):
    desk.seat("ann")
    desk.play("r", ("ann", "banker", 100_00), cards=BANKER_WINS)
    desk.do("withdraw", account_id="ann", amount_minor=195_00)
    answer = desk.correct("c", "r", cards=PLAYER_WINS)

    assert answer["accounts"][0]["owed_minor"] == 195_00
    desk.do("deposit", account_id="ann", amount_minor=200_00)
    assert desk.refused("withdraw", account_id="ann", amount_minor=5_01) == "commission_outstanding"
    assert desk.do("collect_due", account_id="ann")["owed_collected_minor"] == 195_00
    desk.do("withdraw", account_id="ann", amount_minor=5_00)


def test_a_frozen_account_is_corrected_and_stays_frozen(desk):
    desk.seat("ann")
    desk.play("r", ("ann", "banker", 100_00), cards=BANKER_WINS)
    desk.do("freeze_account", account_id="ann", reason="lost card")
    desk.correct("c", "r", cards=PLAYER_WINS)

    assert desk.balance("ann") == (0, 0, 0)
    assert desk.refused("withdraw", account_id="ann", amount_minor=1) == "account_frozen"


def test_a_closed_account_is_open_again_and_frozen(desk):
    desk.seat("ann")
    desk.play("r", ("ann", "player", 100_00), cards=BANKER_WINS)
    desk.do("close_account", account_id="ann", reason="leaves")
    desk.correct("c", "r", cards=PLAYER_WINS)

    assert desk.balance("ann") == (200_00, 0, 0)
    assert desk.refused("withdraw", account_id="ann", amount_minor=1) == "account_frozen"
    desk.do("unfreeze_account", account_id="ann", reason="paid out")
    desk.do("withdraw", account_id="ann", amount_minor=200_00)
    desk.do("close_account", account_id="ann", reason="leaves")


def test_a_repeated_approval_gives_its_first_answer_and_reverses_nothing(desk):
    desk.seat("ann")
    desk.play("r", ("ann", "banker", 100_00), cards=BANKER_WINS)
    desk.do(
        "propose_correction", correction_id="c", round_id="r", reason="x", actor="pit", void=True
    )
    named = {"key": "once", "correction_id": "c", "actor": "manager"}
    first, again = (desk.ask("approve_correction", **named) for _ in range(2))

    assert again == {**first, "replayed": True}
    assert desk.balance("ann") == (100_00, 0, 0)


def test_deferred_commission_is_due_until_the_shoe_closes(desk):
    desk.seat("ann", "bob", rules=DEFERRED)
    desk.play("r", ("ann", "banker", 100_00), ("bob", "banker", 20_00), cards=BANKER_WINS)
    assert (desk.balance("ann"), desk.balance("bob")) == ((200_00, 5_00, 0), (120_00, 1_00, 0))
    assert (
        desk.refused("withdraw", account_id="ann", amount_minor=195_01) == "commission_outstanding"
    )
    assert desk.do("collect_due", account_id="bob")["commission_collected_minor"] == 1_00
    desk.do("close_shoe", shoe_id="s")

    assert (desk.balance("ann"), desk.balance("bob")) == ((195_00, 0, 0), (119_00, 0, 0))


def test_what_a_balance_does_not_cover_when_the_shoe_closes_stays_due(desk):
    desk.seat("ann", rules=DEFERRED)
    desk.play("r1", ("ann", "banker", 100_00), cards=BANKER_WINS)
    desk.play("r2", ("ann", "player", 199_00), cards=BANKER_WINS)
    desk.do("close_shoe", shoe_id="s")

    assert desk.balance("ann") == (0, 4_00, 0)
    assert desk.do("collect_due", account_id="ann")["commission_collected_minor"] == 0
    assert desk.refused("close_account", account_id="ann", reason="x") == "commission_outstanding"
    desk.do("deposit", account_id="ann", amount_minor=4_00)
    desk.do("close_account", account_id="ann", reason="leaves")


def test_commission_that_a_correction_marks_is_collected_with_the_shoe_or_at_once(desk):
    desk.seat("ann", rules=DEFERRED)
    desk.play("r1", ("ann", "banker", 20_00), cards=PLAYER_WINS)
    desk.play("r2", ("ann", "banker", 20_00), cards=PLAYER_WINS)
    assert desk.balance("ann") == (60_00, 0, 0)
    desk.correct("c1", "r1", cards=BANKER_WINS)
    assert desk.balance("ann") == (100_00, 1_00, 0)
    desk.do("close_shoe", shoe_id="s")
    assert desk.balance("ann") == (99_00, 0, 0)
    desk.correct("c2", "r2", cards=BANKER_WINS)
    assert desk.balance("ann") == (138_00, 0, 0)


def test_a_correction_takes_back_commission_that_was_collected_and_commission_that_is_due(desk):
    desk.seat("ann", rules=DEFERRED)
    desk.play("r1", ("ann", "banker", 20_00), cards=BANKER_WINS)
    desk.do("collect_due", account_id="ann")
    desk.play("r2", ("ann", "banker", 40_00), cards=BANKER_WINS)
    assert desk.balance("ann") == (159_00, 2_00, 0)
    desk.correct("c1", "r1", void=True)
    assert desk.balance("ann") == (140_00, 2_00, 0)
    desk.correct("c2", "r2", void=True)
    assert desk.balance("ann") == (100_00, 0, 0)


@pytest.mark.parametrize(
    ("variant", "cards", "won_minor"),
    [
        ("no_commission", ["2S", "6H", "TS", "KD", "3C"], 50_00),
        ("no_commission", ["2S", "9H", "TS", "KD"], 100_00),
        ("ez", ["2S", "3H", "TS", "KD", "4C", "4D"], 0),
        ("ez", ["2S", "9H", "TS", "KD"], 100_00),
    ],
)
def test_without_commission_a_banker_bet_is_corrected_by_its_variant(
    desk, variant, cards, won_minor
):
    desk.seat("ann", rules={"variant": variant})
    desk.play("r", ("ann", "banker", 100_00), cards=PLAYER_WINS)
    desk.correct("c", "r", cards=cards)

    assert desk.balance("ann") == (100_00 + won_minor, 0, 0)


def test_the_shoe_counts_the_cards_that_hold(desk):
    desk.seat("ann")
    desk.play("r", cards=BANKER_WINS)
    desk.correct("c", "r", cards=["2S", "4H", "TS", "KD", "AC"])
    with desk.casino.turn() as book:
        assert book.shoe("s").cards_left == 416 - 5


def test_a_correction_of_other_bets_in_a_shuffled_shoe_leaves_its_cards(desk):
    desk.do("open_table", table_id="t", currency="USD")
    desk.do("open_shoe", shoe_id="s", table_id="t", source="shuffled", seed="07" * 32)
    desk.do("open_account", account_id="ann", currency="USD")
    desk.do("deposit", account_id="ann", amount_minor=100_00)
    staked = [bet("b", "ann", "tie", 1_00)]
    desk.do("play_round", round_id="r1", shoe_id="s", bets=staked)
    desk.correct("c", "r1", void=True)
    desk.do("play_round", round_id="r2", shoe_id="s", bets=[])
    desk.do("close_shoe", shoe_id="s")

    assert desk.balance("ann") == (100_00, 0, 0)
