"""Every refusal of the command contract, provoked by lines as a client sends them."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest

from infrastructure.casino import Casino
from infrastructure.commands.contract import NotACommand, read_command
from infrastructure.commands.execution import Client, error_of, execute
from tests.simulation.generator import START
from tests.simulation.playing import head, in_memory

Fields = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """Lines of which the last is refused, and all before it are done."""

    name: str
    lines: list[Fields | bytes]
    code: str
    field: str | None = None


def opened_table(**fields: Any) -> Fields:
    return {"command": "open_table", "table_id": "t", "currency": "USD", **fields}


def opened_account(account_id: str = "a", currency: str = "USD") -> Fields:
    return {"command": "open_account", "account_id": account_id, "currency": currency}


def deposit(amount_minor: Any = 10_000, account_id: str = "a") -> Fields:
    return {"command": "deposit", "account_id": account_id, "amount_minor": amount_minor}


def withdraw(amount_minor: int) -> Fields:
    return {"command": "withdraw", "account_id": "a", "amount_minor": amount_minor}


def turn(command: str, account_id: str = "a") -> Fields:
    return {"command": command, "account_id": account_id, "reason": "asked for"}


def opened_shoe(shoe_id: str = "s", **fields: Any) -> Fields:
    opening = {"command": "open_shoe", "shoe_id": shoe_id, "table_id": "t", "source": "physical"}
    return {**opening, **fields}


def shuffled_shoe() -> Fields:
    return opened_shoe(source="shuffled", seed="07" * 32)


def on_shoe(command: str, shoe_id: str = "s") -> Fields:
    return {"command": command, "shoe_id": shoe_id}


def burn(*cards: str) -> Fields:
    return {"command": "burn_cards", "shoe_id": "s", "cards": list(cards)}


def opened_round(round_id: str = "r", shoe_id: str = "s") -> Fields:
    return {"command": "open_round", "round_id": round_id, "shoe_id": shoe_id}


def on_round(command: str, round_id: str = "r") -> Fields:
    return {"command": command, "round_id": round_id}


def void(round_id: str = "r") -> Fields:
    return {"command": "void_round", "round_id": round_id, "reason": "misdeal"}


def closed_day(day: str) -> Fields:
    return {"command": "close_day", "day": day}


def bet(kind: str = "player", stake_minor: int = 100, **fields: Any) -> Fields:
    placed = {"bet_id": "b", "account_id": "a", "bet": kind, "stake_minor": stake_minor}
    return {**placed, **fields}


def place(kind: str = "player", stake_minor: int = 100, **fields: Any) -> Fields:
    return {"command": "place_bet", "round_id": "r", **bet(kind, stake_minor, **fields)}


def cancel(bet_id: str = "b", round_id: str = "r") -> Fields:
    return {"command": "cancel_bet", "bet_id": bet_id, "round_id": round_id}


def deal(*cards: str, **fields: Any) -> Fields:
    return {"command": "deal", "round_id": "r", "cards": list(cards), **fields}


def play(*bets: Fields, cards: Iterable[str] = (), round_id: str = "r") -> Fields:
    command = {"command": "play_round", "round_id": round_id, "shoe_id": "s", "bets": list(bets)}
    return {**command, "cards": list(cards)} if cards else command


def propose(correction_id: str = "c", round_id: str = "r", **what_holds: Any) -> Fields:
    proposal = {"command": "propose_correction", "actor": "pit", "reason": "camera"}
    return {**proposal, "correction_id": correction_id, "round_id": round_id, **what_holds}


def decide(command: str, actor: str = "manager", correction_id: str = "c") -> Fields:
    return {"command": command, "actor": actor, "correction_id": correction_id}


def at(command: Fields, distance: timedelta) -> Fields:
    return {**command, "at": (START + distance).isoformat()}


BANKER_WINS = ("2S", "3H", "KC", "6D")
PLAYER_NEEDS_A_THIRD = ("2S", "3H", "KC", "4D")
BOTH_STAND = ("7S", "6H", "KC", "KD")
SEATED = [opened_table(), opened_account(), deposit()]
SHOD = [*SEATED, opened_shoe()]
BETTING = [*SHOD, opened_round()]
STAKED = [*BETTING, place()]
DEALING = [*STAKED, on_round("close_betting")]
DEALT = [*DEALING, deal(*BANKER_WINS)]
SETTLED = [*DEALT, on_round("settle_round")]
VOID = [*STAKED, void()]
CLOSED = [opened_account(), turn("close_account")]
FROZEN = [opened_account(), deposit(), turn("freeze_account")]
DUE = [
    opened_table(rules={"commission": {"minimum_minor": 300}}),
    opened_account(),
    deposit(100),
    opened_shoe(),
    play(bet("banker"), cards=BANKER_WINS),
]
"""The commission of 300 took the balance of 200, and 100 are due."""


def shoe_after_the_cut_card(after_cut_card: int) -> list[Fields | bytes]:
    rules = {"after_cut_card": after_cut_card}
    return [opened_table(rules=rules), opened_shoe(), on_shoe("cut_card")]


def line(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


UNREADABLE = [
    Case("a line that is not JSON", [b"{"], "invalid_command"),
    Case("a line that is not an object", [b"[]"], "invalid_command"),
    Case("a line that is not UTF-8", [b'{"key": "\xff"}'], "invalid_command"),
    Case("a line nested without end", [b"[" * 100_000], "invalid_command"),
    Case("a line without end", [b" " * (1 << 20) + b"{}"], "invalid_command"),
    Case("a number that is none", [b'{"command": "deposit", "at": NaN}'], "invalid_command"),
    Case(
        "a doubled key",
        [b'{"command": "close_shoe", "key": "k", "shoe_id": "s", "shoe_id": "s"}'],
        "invalid_command",
    ),
    Case("a command that there is not", [{"command": "rob"}], "invalid_command", "command"),
    Case("no command", [{"account_id": "a"}], "invalid_command", "command"),
    Case("no key", [line(command="close_shoe", shoe_id="s")], "invalid_command", "key"),
    Case("a key that is too long", [{**withdraw(1), "key": "k" * 65}], "invalid_command", "key"),
    Case("a field too many", [{**withdraw(1), "tip": 5}], "invalid_command", "tip"),
    Case("a field too few", [{"command": "deposit"}], "invalid_command", "account_id"),
    Case("an amount with decimals", [deposit(1.0)], "invalid_command", "amount_minor"),
    Case("an amount in words", [deposit("100")], "invalid_command", "amount_minor"),
    Case("an amount that is true", [deposit(True)], "invalid_command", "amount_minor"),
    Case("an amount of nothing", [deposit(0)], "invalid_command", "amount_minor"),
    Case("an amount below nothing", [deposit(-1)], "invalid_command", "amount_minor"),
    Case("an amount beyond all bounds", [deposit(10**40)], "invalid_command", "amount_minor"),
    Case("an id with a blank", [deposit(1, "a b")], "invalid_command", "account_id"),
    Case("an id that ends the line", [deposit(1, "a\n")], "invalid_command", "account_id"),
    Case("no such currency", [opened_account("a", "XYZ")], "invalid_command", "currency"),
    Case(
        "a time without an offset",
        [{**opened_account(), "at": "2026-03-01T10:00:00"}],
        "invalid_command",
        "at",
    ),
    Case(
        "a time that is a number",
        [{**opened_account(), "at": 1_767_323_045}],
        "invalid_command",
        "at",
    ),
    Case(
        "a time before the calendar begins in UTC",
        [{**opened_account(), "at": "0001-01-01T00:00:00+07:00"}],
        "invalid_command",
        "at",
    ),
    Case(
        "a time after the calendar ends in UTC",
        [{**opened_account(), "at": "9999-12-31T23:59:59-07:00"}],
        "invalid_command",
        "at",
    ),
    Case(
        "no such time zone",
        [{"command": "set_gaming_day", "zone": "Mars/Olympus", "starts_at": "06:00"}],
        "invalid_command",
        "zone",
    ),
    Case(
        "no such time of day",
        [{"command": "set_gaming_day", "zone": "UTC", "starts_at": "24:00"}],
        "invalid_command",
        "starts_at",
    ),
    Case("no such bet", [place("roulette")], "invalid_command", "bet"),
    Case("no such card", [deal("1S")], "invalid_command", "cards.0"),
    Case("a card dealt face down", [deal("??")], "invalid_command", "cards.0"),
    Case("seven cards", [deal(*["AS"] * 7)], "invalid_command", "cards"),
    Case("a deal of no cards", [deal()], "invalid_command", "cards"),
    Case("seven decks", [opened_table(rules={"decks": 7})], "invalid_command", "rules.decks"),
    Case(
        "an unknown part of the rules",
        [opened_table(rules={"colour": "green"})],
        "invalid_command",
        "rules.colour",
    ),
    Case(
        "a pair of prices for a bet that has one",
        [opened_table(rules={"odds": {"lucky6": [12, 1]}})],
        "invalid_command",
        "rules",
    ),
    Case(
        "a shuffled shoe's seed that is too short",
        [opened_shoe(source="shuffled", seed="00")],
        "invalid_command",
        "seed",
    ),
    Case(
        "a seed for a physical shoe",
        [opened_table(), opened_shoe(seed="00" * 32)],
        "invalid_command",
        "seed",
    ),
    Case(
        "a physical shoe that is to deal by itself",
        [*DEALING, on_round("deal")],
        "invalid_command",
        "cards",
    ),
    Case(
        "a physical shoe that is to play by itself",
        [*SHOD, play()],
        "invalid_command",
        "cards",
    ),
    Case(
        "cards for a shuffled shoe",
        [opened_table(), shuffled_shoe(), opened_round(), on_round("close_betting"), deal("AS")],
        "invalid_command",
        "cards",
    ),
    Case(
        "an irregular deal of a shuffled shoe",
        [
            opened_table(),
            shuffled_shoe(),
            opened_round(),
            on_round("close_betting"),
            {**on_round("deal"), "irregular": "dropped"},
        ],
        "invalid_command",
        "irregular",
    ),
    Case(
        "a cut card of a shuffled shoe",
        [opened_table(), shuffled_shoe(), on_shoe("cut_card")],
        "invalid_command",
        "shoe_id",
    ),
]

UNKNOWN = [
    Case("a shoe at no table", [opened_shoe()], "unknown_table", "table_id"),
    Case(
        "rules of no table",
        [{"command": "change_rules", "table_id": "t", "rules": {}}],
        "unknown_table",
        "table_id",
    ),
    Case("a deposit to nobody", [deposit()], "unknown_account", "account_id"),
    Case("a withdrawal by nobody", [withdraw(1)], "unknown_account", "account_id"),
    Case("freezing nobody", [turn("freeze_account")], "unknown_account", "account_id"),
    Case("unfreezing nobody", [turn("unfreeze_account")], "unknown_account", "account_id"),
    Case("closing nobody", [turn("close_account")], "unknown_account", "account_id"),
    Case("a bet by nobody", [*BETTING, place(account_id="x")], "unknown_account", "account_id"),
    Case(
        "a round with a bet by nobody",
        [*SHOD, play(bet(account_id="x"), cards=BANKER_WINS)],
        "unknown_account",
        "account_id",
    ),
    Case("burning from no shoe", [burn("AS")], "unknown_shoe", "shoe_id"),
    Case("a cut card in no shoe", [on_shoe("cut_card")], "unknown_shoe", "shoe_id"),
    Case("closing no shoe", [on_shoe("close_shoe")], "unknown_shoe", "shoe_id"),
    Case("a round from no shoe", [opened_round()], "unknown_shoe", "shoe_id"),
    Case("a whole round from no shoe", [play()], "unknown_shoe", "shoe_id"),
    Case("a bet on no round", [*SHOD, place()], "unknown_round", "round_id"),
    Case("closing no round's bets", [on_round("close_betting")], "unknown_round", "round_id"),
    Case("dealing no round", [deal("AS")], "unknown_round", "round_id"),
    Case("settling no round", [on_round("settle_round")], "unknown_round", "round_id"),
    Case("voiding no round", [void()], "unknown_round", "round_id"),
    Case("settling a tombstone", [cancel(), on_round("settle_round")], "unknown_round", "round_id"),
]

TAKEN = [
    Case("a table twice", [opened_table(), opened_table()], "already_exists", "table_id"),
    Case("an account twice", [opened_account(), opened_account()], "already_exists", "account_id"),
    Case("a closed account again", [*CLOSED, opened_account()], "already_exists", "account_id"),
    Case(
        "a closed shoe again",
        [*SHOD, on_shoe("close_shoe"), opened_shoe()],
        "already_exists",
        "shoe_id",
    ),
    Case("a settled round again", [*SETTLED, opened_round()], "already_exists", "round_id"),
    Case("a void round again", [*VOID, opened_round()], "already_exists", "round_id"),
    Case("a bet twice", [*STAKED, place()], "already_exists", "bet_id"),
    Case(
        "a bet twice in a whole round",
        [*SHOD, play(bet(), bet("tie"), cards=BANKER_WINS)],
        "already_exists",
        "bet_id",
    ),
    Case("a shoe while one is open", [*SHOD, opened_shoe("s2")], "shoe_open"),
    Case("a round while one is open", [*BETTING, opened_round("r2")], "round_open"),
    Case("a whole round while one is open", [*BETTING, play(round_id="r2")], "round_open"),
    Case("closing a shoe with an open round", [*BETTING, on_shoe("close_shoe")], "round_open"),
    Case(
        "closing a shoe with a round that waits for its settlement",
        [*DEALT, on_shoe("close_shoe")],
        "round_open",
    ),
    Case(
        "a key again for something else",
        [{**opened_account(), "key": "k"}, {**opened_account("b"), "key": "k"}],
        "key_reused",
        "account_id",
    ),
]

TIMES = [
    Case(
        "a time in the future",
        [at(opened_account(), timedelta(minutes=5, microseconds=1))],
        "time_out_of_bounds",
        "at",
    ),
    Case(
        "a time too long ago",
        [at(opened_account(), -timedelta(days=7, microseconds=1))],
        "time_out_of_bounds",
        "at",
    ),
    Case(
        "a time before the account's latest",
        [at(opened_account(), timedelta(0)), at(deposit(), -timedelta(microseconds=1))],
        "time_out_of_bounds",
        "at",
    ),
    Case(
        "a settlement before the latest of an account in it",
        [
            *DEALT,
            at(deposit(), timedelta(minutes=2)),
            at(on_round("settle_round"), timedelta(minutes=1)),
        ],
        "time_out_of_bounds",
        "at",
    ),
    Case(
        "a round before its tombstone",
        [*SHOD, at(cancel(), timedelta(minutes=2)), at(opened_round(), timedelta(minutes=1))],
        "time_out_of_bounds",
        "at",
    ),
    Case("a gaming day that is not over", [closed_day("8999-12-31")], "time_out_of_bounds", "day"),
    Case("a closed day", [closed_day("2026-02-28")] * 2, "day_closed", "day"),
    Case(
        "a day before a closed one",
        [closed_day("2026-02-28"), closed_day("2026-02-27")],
        "day_closed",
        "day",
    ),
    Case("a day that is no date", [closed_day("28 February")], "invalid_command", "day"),
    Case("a day in digits", [closed_day("1772323200")], "invalid_command", "day"),
    Case("a day that is not there", [closed_day("2026-02-30")], "invalid_command", "day"),
    Case("a day out of all bounds", [closed_day("0001-01-01")], "invalid_command", "day"),
]

MONEY = [
    Case("a withdrawal above the balance", [*SEATED, withdraw(10_001)], "insufficient_funds"),
    Case(
        "a stake above the balance",
        [*BETTING, place(stake_minor=10_001)],
        "insufficient_funds",
        "stake_minor",
    ),
    Case(
        "stakes of a whole round above the balance",
        [*SHOD, play(bet("tie", 9_999), bet("player", 2, bet_id="b2"), cards=BANKER_WINS)],
        "insufficient_funds",
        "stake_minor",
    ),
    Case("a withdrawal of a stake in play", [*STAKED, withdraw(9_901)], "insufficient_funds"),
    Case("a withdrawal from a frozen account", [*FROZEN, withdraw(1)], "account_frozen"),
    Case(
        "a bet of a frozen account",
        [*BETTING, turn("freeze_account"), place()],
        "account_frozen",
        "account_id",
    ),
    Case(
        "a whole round with a bet of a frozen account",
        [*SHOD, turn("freeze_account"), play(bet(), cards=BANKER_WINS)],
        "account_frozen",
        "account_id",
    ),
    Case("a deposit to a closed account", [*CLOSED, deposit()], "account_closed", "account_id"),
    Case("a withdrawal from a closed account", [*CLOSED, withdraw(1)], "account_closed"),
    Case("freezing a closed account", [*CLOSED, turn("freeze_account")], "account_closed"),
    Case("unfreezing a closed account", [*CLOSED, turn("unfreeze_account")], "account_closed"),
    Case("closing a closed account", [*CLOSED, turn("close_account")], "account_closed"),
    Case(
        "a bet of a closed account",
        [*BETTING, withdraw(10_000), turn("close_account"), place()],
        "account_closed",
        "account_id",
    ),
    Case("closing an account with money", [*SEATED, turn("close_account")], "balance_not_zero"),
    Case(
        "closing an account with a stake in play",
        [*BETTING, place(stake_minor=10_000), turn("close_account")],
        "balance_not_zero",
    ),
    Case("closing an account with a due", [*DUE, turn("close_account")], "commission_outstanding"),
    Case(
        "a withdrawal of what is due",
        [*DUE, deposit(150), withdraw(51)],
        "commission_outstanding",
        "amount_minor",
    ),
    Case(
        "a bet in another currency",
        [*BETTING, opened_account("y", "JPY"), deposit(100, "y"), place(account_id="y")],
        "currency_mismatch",
        "account_id",
    ),
]

LIMITS = opened_table(
    rules={
        "odds": {"player": [1, 1], "banker": [1, 1], "tie": [8, 1]},
        "limits": {"minimum_minor": 10, "maximum_minor": 500, "tie": {"maximum_minor": 50}},
    }
)
LIMITED = [LIMITS, opened_account(), deposit(), opened_shoe(), opened_round()]

BETS = [
    Case("a stake below the limit", [*LIMITED, place(stake_minor=9)], "limit_below", "stake_minor"),
    Case("a stake above the limit", [*LIMITED, place(stake_minor=501)], "limit_above"),
    Case("a stake above the bet's own limit", [*LIMITED, place("tie", 51)], "limit_above"),
    Case(
        "a stake below the table's limit on a bet with a limit of its own",
        [*LIMITED, place("tie", 9)],
        "limit_below",
        "stake_minor",
    ),
    Case("a bet that is not offered", [*LIMITED, place("banker_pair")], "bet_not_offered", "bet"),
    Case(
        "banker after player",
        [*STAKED, place("banker", bet_id="b2")],
        "opposite_bets",
        "bet",
    ),
    Case(
        "player after banker in a whole round",
        [*SHOD, play(bet("banker"), bet("player", bet_id="b2"), cards=BANKER_WINS)],
        "opposite_bets",
        "bet",
    ),
    Case("a late bet", [*DEALING, place(bet_id="b2")], "betting_closed", "round_id"),
    Case("a bet on a dealt round", [*DEALT, place(bet_id="b2")], "betting_closed", "round_id"),
    Case("a late cancellation", [*DEALING, cancel()], "betting_closed", "round_id"),
    Case("closing the betting twice", [*DEALING, on_round("close_betting")], "betting_closed"),
    Case("dealing while bets are taken", [*STAKED, deal("AS")], "betting_open", "round_id"),
    Case("settling while bets are taken", [*STAKED, on_round("settle_round")], "betting_open"),
    Case("a cancelled bet again", [*STAKED, cancel(), place()], "bet_cancelled", "bet_id"),
    Case("a bet after its tombstone", [*BETTING, cancel(), place()], "bet_cancelled", "bet_id"),
    Case(
        "a bet after a tombstone that is older than its round",
        [*SHOD, cancel(), opened_round(), place()],
        "bet_cancelled",
        "bet_id",
    ),
    Case(
        "a whole round with a bet that was cancelled before it",
        [*SHOD, cancel(), play(bet(), cards=BANKER_WINS)],
        "bet_cancelled",
        "bet_id",
    ),
]

CARDS = [
    Case(
        "a card after a natural",
        [*DEALING, deal("2S", "9H", "3C", "KD", "4S")],
        "third_card_not_allowed",
        "cards",
    ),
    Case(
        "a card though both hands stand",
        [*DEALING, deal(*BOTH_STAND), deal("AS")],
        "third_card_not_allowed",
        "cards",
    ),
    Case(
        "a card for a Banker of 3 against an 8",
        [*DEALING, deal("2S", "3H", "KC", "KD", "8S", "AS")],
        "third_card_not_allowed",
        "cards",
    ),
    Case(
        "a seventh card of an irregular deal",
        [
            *DEALING,
            deal(*BOTH_STAND, "AS", "AH", irregular="two too many"),
            deal("AC", irregular="three too many"),
        ],
        "third_card_not_allowed",
        "cards",
    ),
    Case(
        "more cards of a shuffled shoe than the tableau allows",
        [
            opened_table(),
            shuffled_shoe(),
            opened_round(),
            on_round("close_betting"),
            on_round("deal"),
            on_round("deal"),
        ],
        "third_card_not_allowed",
    ),
    Case(
        "a whole round with a card too many",
        [*SHOD, play(cards=(*BANKER_WINS, "AS"))],
        "third_card_not_allowed",
        "cards",
    ),
    Case("settling without cards", [*DEALING, on_round("settle_round")], "deal_incomplete"),
    Case(
        "settling without the third card",
        [*DEALING, deal(*PLAYER_NEEDS_A_THIRD), on_round("settle_round")],
        "deal_incomplete",
    ),
    Case(
        "a whole round without the third card",
        [*SHOD, play(cards=PLAYER_NEEDS_A_THIRD)],
        "deal_incomplete",
    ),
    Case("a ninth ace of spades", [*SHOD, burn(*["AS"] * 9)], "card_not_in_shoe", "cards"),
    Case(
        "an ace of spades after eight were burned",
        [*SHOD, burn(*["AS"] * 8), opened_round(), on_round("close_betting"), deal("AS")],
        "card_not_in_shoe",
        "cards",
    ),
    Case(
        "a nine when all nines are gone, their suits unknown",
        [*SHOD, burn(*["9?"] * 32), opened_round(), on_round("close_betting"), deal("9S")],
        "card_not_in_shoe",
        "cards",
    ),
    Case(
        "a ten when all ten-valued cards are gone, their ranks unknown",
        [*SHOD, burn(*["0?"] * 128), opened_round(), on_round("close_betting"), deal("KS")],
        "card_not_in_shoe",
        "cards",
    ),
    Case(
        "a card that fell in a void round",
        [
            *SHOD,
            burn(*(["AS"] * 7)),
            opened_round(),
            on_round("close_betting"),
            deal("AS"),
            void(),
            play(cards=("AS", "9H", "2C", "KD"), round_id="r2"),
        ],
        "card_not_in_shoe",
        "cards",
    ),
    Case(
        "more cards than the shoe has",
        [
            *SHOD,
            burn(*(["??"] * 410)),
            opened_round(),
            void(),
            opened_round("r2"),
            on_round("close_betting", "r2"),
            {**deal(*BANKER_WINS), "round_id": "r2"},
            void("r2"),
            opened_round("r3"),
        ],
        "shoe_exhausted",
    ),
    Case(
        "a round from a shoe with too few cards",
        [*SHOD, burn(*["??"] * 411), opened_round()],
        "shoe_exhausted",
    ),
    Case(
        "a pair bet and a card of unknown rank",
        [*BETTING, place("player_pair"), on_round("close_betting"), deal("0?")],
        "undecidable_bet",
        "cards",
    ),
    Case(
        "a perfect pair bet and a card of unknown suit",
        [
            opened_table(rules={"odds": {"perfect_pair": {"one": [25, 1], "both": [200, 1]}}}),
            *BETTING[1:],
            place("perfect_pair"),
            on_round("close_betting"),
            deal("9S", "9?"),
        ],
        "undecidable_bet",
        "cards",
    ),
    Case(
        "a whole round with a pair bet and a card of unknown rank",
        [*SHOD, play(bet("banker_pair"), cards=("2S", "0?", "KC", "9D"))],
        "undecidable_bet",
        "cards",
    ),
]

ENDED = [
    Case(
        "a round with the cut card out",
        [*shoe_after_the_cut_card(0), opened_round()],
        "shoe_exhausted",
    ),
    Case(
        "a second round with the cut card out",
        [*shoe_after_the_cut_card(1), play(cards=BANKER_WINS), play(round_id="r2")],
        "shoe_exhausted",
    ),
    Case(
        "a second round after the one in which the cut card came out",
        [
            opened_table(),
            opened_shoe(),
            opened_round(),
            on_shoe("cut_card"),
            void(),
            play(cards=BANKER_WINS, round_id="r2"),
            opened_round("r3"),
        ],
        "shoe_exhausted",
    ),
    Case(
        "a round from a closed shoe",
        [*SHOD, on_shoe("close_shoe"), opened_round()],
        "shoe_closed",
        "shoe_id",
    ),
    Case("burning from a closed shoe", [*SHOD, on_shoe("close_shoe"), burn("AS")], "shoe_closed"),
    Case(
        "a cut card in a closed shoe",
        [*SHOD, on_shoe("close_shoe"), on_shoe("cut_card")],
        "shoe_closed",
        "shoe_id",
    ),
    Case(
        "closing a closed shoe",
        [*SHOD, on_shoe("close_shoe"), on_shoe("close_shoe")],
        "shoe_closed",
        "shoe_id",
    ),
    Case("burning after a round began", [*BETTING, burn("AS")], "burn_too_late"),
    Case("burning after a void round", [*VOID, burn("AS")], "burn_too_late"),
    Case(
        "burning what a shuffled shoe burned",
        [opened_table(), shuffled_shoe(), burn("AS")],
        "burn_too_late",
    ),
    Case("settling twice", [*SETTLED, on_round("settle_round")], "round_settled", "round_id"),
    Case("dealing a settled round", [*SETTLED, deal("AS")], "round_settled", "round_id"),
    Case("voiding a settled round", [*SETTLED, void()], "round_settled", "round_id"),
    Case("a bet on a settled round", [*SETTLED, place(bet_id="b2")], "round_settled", "round_id"),
    Case("a cancellation after the settlement", [*SETTLED, cancel()], "round_settled", "round_id"),
    Case("closing a settled round's bets", [*SETTLED, on_round("close_betting")], "round_settled"),
    Case("settling a void round", [*VOID, on_round("settle_round")], "round_void", "round_id"),
    Case("dealing a void round", [*VOID, deal("AS")], "round_void", "round_id"),
    Case("voiding twice", [*VOID, void()], "round_void", "round_id"),
    Case("a bet on a void round", [*VOID, place(bet_id="b2")], "round_void", "round_id"),
    Case("a cancellation of a void bet", [*VOID, cancel()], "round_void", "round_id"),
    Case("closing a void round's bets", [*VOID, on_round("close_betting")], "round_void"),
]

PROPOSED = [*SETTLED, propose(cards=BOTH_STAND)]
APPROVED = [*PROPOSED, decide("approve_correction")]
REJECTED = [*PROPOSED, decide("reject_correction")]
MADE_VOID = [*SETTLED, propose(void=True), decide("approve_correction")]
SHUFFLED_AND_SETTLED = [*SEATED, shuffled_shoe(), play(bet())]
CORRECTIONS = [
    Case("nothing to hold", [*SETTLED, propose()], "invalid_command"),
    Case("void and cards", [*SETTLED, propose(void=True, cards=BOTH_STAND)], "invalid_command"),
    Case("void and bets", [*SETTLED, propose(void=True, bets=[])], "invalid_command"),
    Case("a void that is none", [*SETTLED, propose(void=False)], "invalid_command", "void"),
    Case("three cards", [*SETTLED, propose(cards=["AS"] * 3)], "invalid_command", "cards"),
    Case(
        "a correction by nobody",
        [*SETTLED, {k: v for k, v in propose(void=True).items() if k != "actor"}],
        "invalid_command",
        "actor",
    ),
    Case(
        "an approval by nobody",
        [*PROPOSED, {"command": "approve_correction", "correction_id": "c"}],
        "invalid_command",
        "actor",
    ),
    Case(
        "other cards of a shuffled shoe",
        [*SHUFFLED_AND_SETTLED, propose(cards=BOTH_STAND)],
        "invalid_command",
        "cards",
    ),
    Case("correcting no round", [propose(void=True)], "unknown_round", "round_id"),
    Case("correcting an open round", [*DEALT, propose(void=True)], "round_open", "round_id"),
    Case("correcting a void round", [*VOID, propose(void=True)], "round_void", "round_id"),
    Case(
        "correcting what a correction made void",
        [*MADE_VOID, propose("c2", cards=BOTH_STAND)],
        "round_void",
        "round_id",
    ),
    Case(
        "a correction that is there",
        [*PROPOSED, propose(void=True)],
        "already_exists",
        "correction_id",
    ),
    Case("approving nothing", [decide("approve_correction")], "unknown_correction"),
    Case("rejecting nothing", [decide("reject_correction")], "unknown_correction"),
    Case("approving one's own", [*PROPOSED, decide("approve_correction", "pit")], "same_actor"),
    Case("rejecting one's own", [*PROPOSED, decide("reject_correction", "pit")], "same_actor"),
    Case("approving twice", [*APPROVED, decide("approve_correction")], "already_decided"),
    Case(
        "rejecting what was approved", [*APPROVED, decide("reject_correction")], "already_decided"
    ),
    Case(
        "approving what was rejected", [*REJECTED, decide("approve_correction")], "already_decided"
    ),
    Case(
        "approving what another correction made void",
        [
            *PROPOSED,
            propose("c2", void=True),
            decide("approve_correction", correction_id="c2"),
            decide("approve_correction"),
        ],
        "round_void",
        "round_id",
    ),
    Case(
        "a correction with a card too few",
        [*SETTLED, propose(cards=PLAYER_NEEDS_A_THIRD)],
        "deal_incomplete",
        "cards",
    ),
    Case(
        "a correction with a card too many",
        [*SETTLED, propose(cards=[*BOTH_STAND, "AS"])],
        "third_card_not_allowed",
        "cards",
    ),
    Case(
        "a correction with a ninth seven of spades",
        [
            *SETTLED,
            *(play(cards=("7S", "6H", "TS", "TD"), round_id=f"r{number}") for number in range(8)),
            propose(cards=("7S", "7H", "KC", "KD")),
        ],
        "card_not_in_shoe",
        "cards",
    ),
    Case(
        "a corrected bet above the limit",
        [*SETTLED, propose(bets=[bet(stake_minor=10**10)])],
        "limit_above",
        "stake_minor",
    ),
    Case(
        "corrected bets on both hands",
        [*SETTLED, propose(bets=[bet(), bet("banker", bet_id="b2")])],
        "opposite_bets",
        "bet",
    ),
    Case("one bet corrected twice", [*SETTLED, propose(bets=[bet(), bet()])], "already_exists"),
    Case(
        "a corrected bet of nobody",
        [*SETTLED, propose(bets=[bet(account_id="z")])],
        "unknown_account",
    ),
    Case(
        "a corrected bet in another currency",
        [*SETTLED, opened_account("y", "JPY"), propose(bets=[bet(account_id="y")])],
        "currency_mismatch",
        "account_id",
    ),
    Case(
        "a bet that was cancelled comes back by a correction",
        [
            *STAKED,
            cancel(),
            on_round("close_betting"),
            deal(*BANKER_WINS),
            on_round("settle_round"),
            propose(bets=[bet()]),
        ],
        "bet_cancelled",
        "bet_id",
    ),
    Case(
        "a corrected bet that is not offered",
        [*SETTLED, propose(bets=[bet("big")])],
        "bet_not_offered",
    ),
    Case(
        "corrected cards that leave a bet open",
        [
            *SHOD,
            play(bet("player_pair"), cards=BANKER_WINS),
            propose(cards=["0?", "6H", "KC", "2D"]),
        ],
        "undecidable_bet",
        "cards",
    ),
    Case(
        "a withdrawal of what a correction took",
        [
            *SHOD,
            play(bet("banker"), cards=BANKER_WINS),
            withdraw(10_095),
            propose(cards=["7S", "2H", "KC", "KD", "3D"]),
            decide("approve_correction"),
            deposit(195),
            withdraw(1),
        ],
        "commission_outstanding",
        "amount_minor",
    ),
]

CASES = [*UNREADABLE, *UNKNOWN, *TAKEN, *TIMES, *MONEY, *BETS, *CARDS, *ENDED, *CORRECTIONS]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_must_not_be_done_is_refused_by_its_code(case: Case) -> None:
    casino = in_memory()
    for number, fields in enumerate(case.lines[:-1]):
        done = _answer(casino, fields, number)
        assert done.get("ok"), done
    before = head(casino)

    refused = _answer(casino, case.lines[-1], len(case.lines))

    assert refused["error"]["code"] == case.code, refused
    if case.field is not None:
        assert refused["error"].get("field") == case.field
    assert refused["error"]["message"]
    assert head(casino) == before


def test_every_code_that_commands_can_meet_is_provoked_above() -> None:
    provoked = {case.code for case in CASES}

    assert provoked == {
        "account_closed",
        "account_frozen",
        "already_decided",
        "already_exists",
        "balance_not_zero",
        "bet_cancelled",
        "bet_not_offered",
        "betting_closed",
        "betting_open",
        "burn_too_late",
        "card_not_in_shoe",
        "commission_outstanding",
        "currency_mismatch",
        "day_closed",
        "deal_incomplete",
        "insufficient_funds",
        "invalid_command",
        "key_reused",
        "limit_above",
        "limit_below",
        "opposite_bets",
        "round_open",
        "round_settled",
        "round_void",
        "same_actor",
        "shoe_closed",
        "shoe_exhausted",
        "shoe_open",
        "third_card_not_allowed",
        "time_out_of_bounds",
        "undecidable_bet",
        "unknown_account",
        "unknown_correction",
        "unknown_round",
        "unknown_shoe",
        "unknown_table",
    }


def _answer(casino: Casino, fields: Fields | bytes, number: int) -> dict[str, Any]:
    text = fields if isinstance(fields, bytes) else line(**{"key": f"key-{number}", **fields})
    try:
        command = read_command(text)
    except NotACommand as unreadable:
        return {"ok": False, "error": error_of(unreadable)}
    return execute(casino, [command], client=Client("cli", clock=_clock))[0]


def _clock() -> datetime:
    return START
