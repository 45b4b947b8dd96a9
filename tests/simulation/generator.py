"""Random commands from a seed: most of them fit what has happened, many of them must not be done.

The generator looks at the model of the ledger to find what fits, and at its own
dice to find what does not.
"""

import copy
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from tests.simulation import game
from tests.simulation.model import CLOCK_AHEAD_MAX, CLOCK_BEHIND_MAX, Ledger, due

START = datetime(2026, 3, 1, 10, 0, tzinfo=UTC)
CURRENCIES = ("USD", "USD", "JPY", "KWD")
_INSTANT = timedelta(microseconds=1)
_PRICES: dict[str, Any] = {
    **game.STANDARD_ODDS,
    "either_pair": [5, 1],
    "perfect_pair": {"one": [25, 1], "both": [200, 1]},
    "dragon7": [40, 1],
    "panda8": [25, 1],
    "lucky6": {"two_cards": [12, 1], "three_cards": [20, 1]},
    "small": [3, 2],
    "big": [27, 50],
}


# The Player's third cards at which the Banker begins or ceases to draw.
_EDGES = {3: "789", 4: "A278", 5: "3478", 6: "5678"}


@dataclass(frozen=True)
class Step:
    """A line, who sends it and when. `command` is None where the line cannot be read."""

    line: bytes
    command: dict[str, Any] | None
    client: str
    now: datetime


class Generator:
    """A sequence of commands. `prefix` keeps its ids apart from those of other sequences."""

    def __init__(self, seed: int, *, prefix: str = "", start: datetime = START) -> None:
        self.random = Random(seed)
        self.now = start
        self.steps: list[Step] = []
        self._prefix = prefix
        self._made = 0
        self._hostility = self.random.choice((0.2, 0.6, 1.0, 1.0, 2.0))
        self._tables = self._names("t", self.random.choice((1, 1, 2, 3)))
        self._accounts = self._names("a", self.random.choice((1, 2, 3, 4)))
        self._shoes: list[str] = []
        self._rounds: list[str] = []
        self._bets: list[str] = []
        self._corrections: list[str] = []
        self._is_poor = self.random.random() < 0.15
        self._is_murky = self.random.random() < 0.15
        self._opening = self._first_commands()

    def next(self, ledger: Ledger) -> Step:
        """The next line, given what the ledger has come to."""
        self.now += timedelta(seconds=self.random.choice((0, 1, 3, 20, 200)))
        if self.steps and self._chance(0.07):
            step = self._again()
        elif self._chance(0.04):
            step = self._unreadable(self._command(ledger))
        else:
            command = self._opening.pop(0) if self._opening else self._command(ledger)
            step = self._step(command, self._client())
        self.steps.append(step)
        return step

    def _chance(self, probability: float) -> bool:
        return self.random.random() < probability * self._hostility

    def _names(self, kind: str, count: int) -> list[str]:
        return [f"{self._prefix}{kind}{number}" for number in range(1, count + 1)]

    def _new(self, kind: str) -> str:
        self._made += 1
        return f"{self._prefix}{kind}{self._made}"

    def _client(self) -> str:
        return "floor" if self._chance(0.03) else "cli"

    def _step(self, command: dict[str, Any], client: str) -> Step:
        return Step(json.dumps(command).encode(), command, client, self.now)

    def _one(self, known: list[str], kind: str) -> str:
        """One that is known, or rarely one that nobody has heard of."""
        if not known or self._chance(0.02):
            return f"{self._prefix}{kind}-unknown"
        return self.random.choice(known)

    # The same key again

    def _again(self) -> Step:
        earlier = self.random.choice(self.steps)
        if earlier.command is None:
            return Step(earlier.line, None, earlier.client, self.now)
        command = dict(earlier.command)
        client = earlier.client
        match self.random.randrange(5):
            case 0:
                names = list(command)
                self.random.shuffle(names)
                command = {name: command[name] for name in names}
            case 1:
                client = "floor" if client == "cli" else "cli"
            case 2:
                command = self._altered(command)
            case 3:
                other = self.random.choice(self.steps).command or command
                command = {**other, "key": command["key"]}
        return self._step(command, client)

    def _altered(self, command: dict[str, Any]) -> dict[str, Any]:
        """The same command with one field that is not the same."""
        altered = copy.deepcopy(command)
        for name in ("stake_minor", "amount_minor"):
            if name in altered:
                altered[name] += 1
                return altered
        if "reason" in altered:
            altered["reason"] += "!"
        else:
            altered["actor"] = "somebody-else"
        return altered

    # Lines that cannot be read

    def _unreadable(self, command: dict[str, Any]) -> Step:
        line = json.dumps(command)
        spoiled: dict[str, Any] = dict(command)
        match self.random.randrange(12):
            case 0:
                spoiled["colour"] = "red"
            case 1:
                spoiled.pop(self.random.choice(["key", "command"]))
            case 2:
                spoiled["command"] = "rob_bank"
            case 3:
                spoiled["key"] = self.random.choice(["", "a b", "x" * 65, 7, None])
            case 4:
                spoiled["at"] = self.random.choice(["2026-03-01T10:00:00", "yesterday", 0])
            case 5:
                return Step(line[:-1].encode(), None, "cli", self.now)
            case 6:
                doubled = f'{line[:-1]}, "key": "again"}}'
                return Step(doubled.encode(), None, "cli", self.now)
            case 7:
                return Step(b"[" + line.encode() + b"]", None, "cli", self.now)
            case 8:
                return Step(b"\xff" + line.encode(), None, "cli", self.now)
            case 9:
                amount = self.random.choice([1.5, 1.0, "100", True, 0, -1, 10**15 + 1, None])
                spoiled = {**self._fresh("deposit"), "account_id": "a", "amount_minor": amount}
            case 10:
                cards = self.random.choice([["ZZ"], ["10S"], ["as"], ["??"], [], ["AS"] * 7, "AS"])
                spoiled = {**self._fresh("deal"), "round_id": "r", "cards": cards}
            case _:
                rules = self.random.choice(
                    [
                        {"colour": "green"},
                        {"decks": 0},
                        {"odds": {"roulette": [35, 1]}},
                        {"odds": {"player": [1, 0]}},
                        {"variant": "punto"},
                        {"commission": {"rate_basis_points": -1}},
                        {"commission": {"rounding": "nearest"}},
                        {"limits": {"minimum_minor": 10, "maximum_minor": 9}},
                    ]
                )
                spoiled = {**self._fresh("change_rules"), "table_id": "t", "rules": rules}
        return Step(json.dumps(spoiled).encode(), None, "cli", self.now)

    # Commands

    def _fresh(self, command: str) -> dict[str, Any]:
        fields: dict[str, Any] = {"command": command, "key": self._new("k")}
        if self._chance(0.1):
            fields["actor"] = "dealer-7"
        return fields

    def _first_commands(self) -> list[dict[str, Any]]:
        commands = []
        for table_id in self._tables:
            is_alike = bool(commands) and self.random.random() < 0.7
            currency = commands[0]["currency"] if is_alike else self.random.choice(CURRENCIES)
            opening = {**self._fresh("open_table"), "table_id": table_id, "currency": currency}
            if self.random.random() < 0.8:
                opening["rules"] = self._rules()
            commands.append(opening)
        for account_id in self._accounts:
            opening = {**self._fresh("open_account"), "account_id": account_id}
            opening["currency"] = (
                self.random.choice(CURRENCIES) if self._chance(0.2) else commands[0]["currency"]
            )
            amount = self.random.choice((1, 100) if self._is_poor else (100, 5_000, 1_000_000))
            deposit = {**self._fresh("deposit"), "account_id": account_id, "amount_minor": amount}
            commands += [opening, deposit]
        return commands

    def _command(self, ledger: Ledger) -> dict[str, Any]:
        make = self._fitting(ledger) if not self._chance(0.25) else self._any()
        command = make(ledger)
        at = self._at(ledger)
        if at is not None:
            command["at"] = at
        return command

    def _any(self) -> Any:
        return self.random.choice(
            (
                self._set_gaming_day,
                self._open_table,
                self._change_rules,
                self._open_account,
                self._deposit,
                self._withdraw,
                self._freeze,
                self._unfreeze,
                self._close_account,
                self._collect_due,
                self._propose,
                self._decide,
                self._open_shoe,
                self._burn,
                self._cut,
                self._close_shoe,
                self._open_round,
                self._place_bet,
                self._cancel_bet,
                self._close_betting,
                self._deal,
                self._settle,
                self._void,
                self._play_round,
            )
        )

    def _fitting(self, ledger: Ledger) -> Any:
        """Something that the state of a table, or of a round there, waits for."""
        if any(a["status"] == "frozen" for a in ledger.accounts.values()) and self._chance(0.1):
            return self._unfreeze
        if self._chance(0.08):
            return self._withdraw if self.random.random() < 0.5 else self._deposit
        if (
            any(_outstanding(account) for _, account in self._own(ledger))
            and self.random.random() < 0.15
        ):
            return self.random.choice(
                (self._withdraw, self._withdraw, self._collect_due, self._close_account)
            )
        if self._undecided(ledger):
            # Meanwhile the money is spent, and the accounts close.
            if self.random.random() < 0.7:
                return self.random.choice(
                    (self._decide, self._decide, self._withdraw, self._close_account)
                )
        elif self._settled(ledger) and self.random.random() < 0.25:
            return self._propose
        round_ids = self._live(ledger)
        if not round_ids:
            return self._between_rounds(ledger)
        found = ledger.rounds[self.random.choice(round_ids)]
        if found["state"] == "betting":
            return self.random.choices(
                (self._place_bet, self._cancel_bet, self._close_betting, self._freeze),
                (5, 1, 3, self._hostility / 4),
            )[0]
        if game.next_hand(found["player"], found["banker"]) is None:
            return self.random.choices((self._settle, self._deal, self._cut), (6, 1, 0.5))[0]
        return self.random.choices((self._deal, self._settle, self._cut), (8, 0.7, 0.3))[0]

    def _between_rounds(self, ledger: Ledger) -> Any:
        is_open = [
            ledger.shoes[shoe]
            for shoe in self._shoes
            if shoe in ledger.shoes and ledger.shoes[shoe]["is_open"]
        ]
        if not is_open:
            return self._open_shoe
        if is_open[0]["rounds"] == 0 and not is_open[0]["out"] and self.random.random() < 0.3:
            return self._burn
        is_ending = any(shoe["after_cut_card"] is not None for shoe in is_open)
        return self.random.choices(
            (
                self._open_round,
                self._play_round,
                self._cancel_bet,
                self._change_rules,
                self._close_shoe,
                self._cut,
                self._withdraw,
                self._burn,
            ),
            (
                5,
                5,
                0.4,
                0.8,
                5 if is_ending else 0.3,
                0.2 if is_ending else 0.8,
                3 if self._is_poor else 0.2,
                0.2,
            ),
        )[0]

    def _live(self, ledger: Ledger) -> list[str]:
        return [
            round_id
            for round_id in self._rounds
            if ledger.rounds.get(round_id, {"state": "void"})["state"] not in ("settled", "void")
        ]

    def _at(self, ledger: Ledger) -> str | None:
        if self.random.random() < 0.6 and not self._chance(0.05):
            return None
        if not self._chance(0.12):
            at = max([self.now, *ledger.latest.values()])
            if at > self.now + CLOCK_AHEAD_MAX:
                at = self.now
        else:
            at = self.random.choice(
                (
                    self.now - timedelta(seconds=30),
                    self.now - timedelta(hours=2),
                    self.now + CLOCK_AHEAD_MAX,
                    self.now + CLOCK_AHEAD_MAX + _INSTANT,
                    self.now + timedelta(minutes=1),
                    self.now - CLOCK_BEHIND_MAX,
                    self.now - CLOCK_BEHIND_MAX - _INSTANT,
                )
            )
        zone = self.random.choice((timedelta(0), timedelta(hours=2), timedelta(hours=-3.5)))
        text = (at + zone).replace(tzinfo=None).isoformat()
        if not zone:
            return text + self.random.choice(("Z", "+00:00"))
        return text + ("+02:00" if zone > timedelta(0) else "-03:30")

    # The site, tables and accounts

    def _set_gaming_day(self, ledger: Ledger) -> dict[str, Any]:
        zone = self.random.choice(("UTC", "Europe/London", "Asia/Macau"))
        starts_at = self.random.choice(("06:00", "00:00", "23:59"))
        return {**self._fresh("set_gaming_day"), "zone": zone, "starts_at": starts_at}

    def _open_table(self, ledger: Ledger) -> dict[str, Any]:
        table_id = self._one(self._tables, "t")
        currency = self.random.choice(CURRENCIES)
        return {**self._fresh("open_table"), "table_id": table_id, "currency": currency}

    def _change_rules(self, ledger: Ledger) -> dict[str, Any]:
        table_id = self._one(self._tables, "t")
        return {**self._fresh("change_rules"), "table_id": table_id, "rules": self._rules()}

    def _rules(self) -> dict[str, Any]:
        choice = self.random.choice
        rules: dict[str, Any] = {}
        if self.random.random() < 0.5:
            rules["variant"] = choice(("commission", "no_commission", "ez"))
        if self.random.random() < 0.4:
            rules["decks"] = choice((6, 8))
        if self._is_murky or self.random.random() < 0.7:
            kinds = ["player", "banker", *self.random.sample(game.KINDS, self.random.randint(1, 8))]
            rules["odds"] = {kind: _PRICES[kind] for kind in dict.fromkeys(kinds)}
            if self.random.random() < 0.1:
                rules["odds"]["banker"] = choice(([19, 20], [1, 2]))
            if self.random.random() < 0.2:
                rules["odds"]["tie"] = [9, 1]
        if self.random.random() < 0.6:
            rules["commission"] = {
                "rate_basis_points": choice((500, 500, 400, 0, 333, 10_000)),
                "increment_minor": choice((1, 1, 25, 5)),
                "rounding": choice(("half_up", "half_even", "up", "down")),
                "minimum_minor": choice((0, 0, 1, 100, 5_000)),
                "collection": choice(("per_round", "deferred")),
            }
        if self._is_poor:
            rules |= {"variant": "commission", "commission": {"minimum_minor": choice((101, 250))}}
        if self.random.random() < 0.3:
            rules["win_rounding"] = choice(("half_up", "half_even", "up", "down"))
        if self.random.random() < 0.3:
            rules["limits"] = {"minimum_minor": 5, "maximum_minor": 3_000}
            if self.random.random() < 0.5:
                rules["limits"][choice(("player", "banker", "tie", "big"))] = choice(
                    ({"maximum_minor": 50}, {"minimum_minor": 20}, {"minimum_minor": 1})
                )
        if self.random.random() < 0.3:
            rules["after_cut_card"] = choice((0, 1))
        if self.random.random() < 0.3:
            rules["allow_opposite_bets"] = choice((True, False))
        return rules

    def _own(self, ledger: Ledger) -> list[tuple[str, dict[str, Any]]]:
        """The accounts of this sequence, where others have played on the same ledger."""
        return [(name, ledger.accounts[name]) for name in self._accounts if name in ledger.accounts]

    def _account(self, command: str, **fields: Any) -> dict[str, Any]:
        return {**self._fresh(command), "account_id": self._one(self._accounts, "a"), **fields}

    def _open_account(self, ledger: Ledger) -> dict[str, Any]:
        return self._account("open_account", currency=self.random.choice(CURRENCIES))

    def _deposit(self, ledger: Ledger) -> dict[str, Any]:
        return self._account("deposit", amount_minor=self.random.choice((1, 99, 100, 10_000)))

    def _withdraw(self, ledger: Ledger) -> dict[str, Any]:
        command = self._account("withdraw")
        owing = [name for name, account in self._own(ledger) if _outstanding(account)]
        if owing and self.random.random() < 0.7:
            command["account_id"] = self.random.choice(owing)
        unknown = {"available": 7, "marks": {}, "owed": 0}
        held = ledger.accounts.get(command["account_id"], unknown)
        free = held["available"] - _outstanding(held)
        amount = self.random.choice(
            (1, held["available"], held["available"] + 1, free, free + 1, held["available"] // 2)
        )
        return {**command, "amount_minor": max(amount, 1)}

    def _freeze(self, ledger: Ledger) -> dict[str, Any]:
        return self._account("freeze_account", reason="lost card")

    def _unfreeze(self, ledger: Ledger) -> dict[str, Any]:
        return self._account("unfreeze_account", reason="found card")

    def _collect_due(self, ledger: Ledger) -> dict[str, Any]:
        command = self._account("collect_due")
        owing = [name for name, account in self._own(ledger) if _outstanding(account)]
        if owing and self.random.random() < 0.7:
            command["account_id"] = self.random.choice(owing)
        return command

    def _close_account(self, ledger: Ledger) -> dict[str, Any]:
        command = self._account("close_account", reason="leaves")
        empty = [
            name
            for name, account in self._own(ledger)
            if account["available"] == _outstanding(account) and account["status"] != "closed"
        ]
        if empty and self.random.random() < 0.7:
            command["account_id"] = self.random.choice(empty)
        return command

    # Shoes

    def _open_shoe(self, ledger: Ledger) -> dict[str, Any]:
        free = [
            table
            for table in self._tables
            if ledger.tables.get(table, {"shoe": None})["shoe"] is None
        ]
        shoe_id = self._one(self._shoes, "s") if self._chance(0.05) else self._new("s")
        if shoe_id not in self._shoes:
            self._shoes.append(shoe_id)
        table_id = self._one(self._tables if self._chance(0.1) else free or self._tables, "t")
        source = self.random.choice(("physical", "physical", "physical", "shuffled"))
        command = {**self._fresh("open_shoe"), "shoe_id": shoe_id, "table_id": table_id}
        command["source"] = source
        if source == "shuffled" or self._chance(0.03):
            command["seed"] = self.random.randbytes(32).hex()
        return command

    def _shoe(self, ledger: Ledger) -> str:
        is_open = [s for s in self._shoes if ledger.shoes.get(s, {"is_open": False})["is_open"]]
        return self._one(self._shoes if self._chance(0.1) else is_open or self._shoes, "s")

    def _burn(self, ledger: Ledger) -> dict[str, Any]:
        match self.random.randrange(8):
            case 0:
                card = self._card()
                cards = [card] * self.random.choice((5, 6, 7, 8, 9))
            case 1:
                cards = [self.random.choice(game.RANKS[:9]) + "?"] * self.random.choice((24, 32))
            case 2:
                cards = ["??"] * self.random.choice((300, 310, 312, 313, 408, 412, 416))
            case _:
                cards = [self._card(), "??", "??"]
        return {**self._fresh("burn_cards"), "shoe_id": self._shoe(ledger), "cards": cards}

    def _cut(self, ledger: Ledger) -> dict[str, Any]:
        return {**self._fresh("cut_card"), "shoe_id": self._shoe(ledger)}

    def _close_shoe(self, ledger: Ledger) -> dict[str, Any]:
        return {**self._fresh("close_shoe"), "shoe_id": self._shoe(ledger)}

    # Rounds

    def _new_round(self) -> str:
        if self._rounds and self._chance(0.06):
            return self.random.choice(self._rounds)
        round_id = self._new("r")
        self._rounds.append(round_id)
        return round_id

    def _round(self, ledger: Ledger) -> str:
        live = self._live(ledger)
        return self._one(self._rounds if self._chance(0.1) else live or self._rounds, "r")

    def _open_round(self, ledger: Ledger) -> dict[str, Any]:
        round_id = self._new_round()
        return {**self._fresh("open_round"), "round_id": round_id, "shoe_id": self._shoe(ledger)}

    def _bet(self, ledger: Ledger, rules: dict[str, Any]) -> dict[str, Any]:
        account_id = self._one(self._accounts, "a")
        available = ledger.accounts.get(account_id, {"available": 50})["available"]
        offered = list(rules["odds"])
        if self.random.random() < (0.8 if self._is_poor else 0.1 if self._is_murky else 0.5):
            offered = ["banker", "banker", "player"]
        if self._chance(0.05):
            offered = list(game.KINDS)
        stake = self.random.choice((1, 5, 10, 10, 30, 50, 50, 70, 99, 100, 250, 1_001))
        if self._chance(0.06):
            stake = self.random.choice((available, available + 1, 3_001, 10**10))
        elif available and (self._is_poor or stake > available):
            stake = available // 2 + 1
        bet_id = self.random.choice(self._bets) if self._bets and self._chance(0.05) else None
        if bet_id is None:
            bet_id = self._new("b")
            self._bets.append(bet_id)
        return {
            "bet_id": bet_id,
            "account_id": account_id,
            "bet": self.random.choice(offered),
            "stake_minor": max(stake, 1),
        }

    def _place_bet(self, ledger: Ledger) -> dict[str, Any]:
        round_id = self._round(ledger)
        rules = ledger.rounds.get(round_id, {"rules": {"odds": game.STANDARD_ODDS}})["rules"]
        return {**self._fresh("place_bet"), "round_id": round_id, **self._bet(ledger, rules)}

    def _cancel_bet(self, ledger: Ledger) -> dict[str, Any]:
        round_id = self._round(ledger)
        bet_id = self._new("b")
        placed = list(ledger.rounds.get(round_id, {"bets": ()})["bets"])
        if placed and not self._chance(0.15):
            bet_id = self.random.choice(placed)
        else:
            self._bets.append(bet_id)
            if self._chance(0.5):
                round_id = self._new("r")
                self._rounds.append(round_id)
        return {**self._fresh("cancel_bet"), "bet_id": bet_id, "round_id": round_id}

    def _on_round(self, ledger: Ledger, command: str, **fields: Any) -> dict[str, Any]:
        return {**self._fresh(command), "round_id": self._round(ledger), **fields}

    def _close_betting(self, ledger: Ledger) -> dict[str, Any]:
        return self._on_round(ledger, "close_betting")

    def _settle(self, ledger: Ledger) -> dict[str, Any]:
        return self._on_round(ledger, "settle_round")

    def _void(self, ledger: Ledger) -> dict[str, Any]:
        return self._on_round(ledger, "void_round", reason="misdeal")

    # Corrections

    def _undecided(self, ledger: Ledger) -> list[str]:
        return [
            correction_id
            for correction_id in self._corrections
            if not ledger.corrections.get(correction_id, {"is_decided": True})["is_decided"]
        ]

    def _settled(self, ledger: Ledger) -> list[str]:
        return [
            round_id
            for round_id in self._rounds
            if ledger.rounds.get(round_id, {"state": "void"})["state"] == "settled"
        ]

    def _actor(self) -> str:
        return self.random.choice(("pit-3", "manager-1", "manager-2"))

    def _propose(self, ledger: Ledger) -> dict[str, Any]:
        settled = self._settled(ledger)
        round_id = self._one(self._rounds if self._chance(0.1) else settled or self._rounds, "r")
        correction_id = self._new("c")
        if self._corrections and self._chance(0.05):
            correction_id = self.random.choice(self._corrections)
        self._corrections.append(correction_id)
        command = {**self._fresh("propose_correction"), "actor": self._actor()}
        command |= {"correction_id": correction_id, "round_id": round_id, "reason": "camera"}
        found = ledger.rounds.get(round_id)
        what = self.random.choice(("cards", "cards", "bets", "bets", "both", "void"))
        if what == "void":
            return {**command, "void": True}
        if what in ("cards", "both"):
            command["cards"] = self._corrected_cards(found)
        if what in ("bets", "both"):
            command["bets"] = self._corrected_bets(ledger, found)
        return command

    def _corrected_cards(self, found: dict[str, Any] | None) -> list[str]:
        if found is not None and self._chance(0.1):
            return list(found["dealt"]) if len(found["dealt"]) >= 4 else self._hand([], [])
        cards = self._hand([], [])
        if self._chance(0.1):
            cards = cards[:-1] if len(cards) > 4 else [*cards, self._card()]
        is_irregular = found is not None and found["is_irregular"]
        if is_irregular and len(cards) < 6 and self.random.random() < 0.5:
            cards = [*cards, self._card()]
        return cards

    def _corrected_bets(self, ledger: Ledger, found: dict[str, Any] | None) -> list[dict[str, Any]]:
        if found is None:
            return [self._bet(ledger, {"odds": game.STANDARD_ODDS})]
        bets = [
            {
                "bet_id": bet_id,
                "account_id": bet["account"],
                "bet": bet["kind"],
                "stake_minor": bet["stake"],
            }
            for bet_id, bet in found["bets"].items()
            if not bet["is_cancelled"] or self._chance(0.3)
        ]
        for bet in bets:
            match self.random.randrange(5):
                case 0:
                    bet["stake_minor"] = self.random.choice((5, 50, 250, bet["stake_minor"] + 1))
                case 1:
                    bet["account_id"] = self._one(self._accounts, "a")
                case 2:
                    bet["bet"] = self.random.choice(list(found["rules"]["odds"]))
        if bets and self.random.random() < 0.3:
            bets.pop(self.random.randrange(len(bets)))
        if self.random.random() < 0.3:
            bets.append(self._bet(ledger, found["rules"]))
        return bets

    def _decide(self, ledger: Ledger) -> dict[str, Any]:
        open_ones = self._undecided(ledger)
        known = self._corrections if self._chance(0.1) else open_ones or self._corrections
        correction_id = self._one(known, "c")
        name = "reject_correction" if self.random.random() < 0.1 else "approve_correction"
        command = {**self._fresh(name), "actor": self._actor(), "correction_id": correction_id}
        proposal = ledger.corrections.get(correction_id)
        if proposal is not None and proposal["actor"] == command["actor"]:
            command["actor"] = "somebody" if not self._chance(0.15) else command["actor"]
        return command

    def _deal(self, ledger: Ledger) -> dict[str, Any]:
        command = self._on_round(ledger, "deal")
        found = ledger.rounds.get(command["round_id"])
        shoe = ledger.shoes[found["shoe"]] if found else None
        if shoe is not None and (shoe["source"] == "shuffled") != self._chance(0.03):
            return command
        cards = self._hand(*(found["player"], found["banker"]) if found else ([], []))
        if self.random.random() < 0.4:
            cards = cards[: self.random.randint(1, max(len(cards), 1))]
        if self._chance(0.08):
            cards = [*cards, self._card()][:6]
        if self._chance(0.08):
            command["irregular"] = "the dealer drew one too many"
            if self.random.random() < 0.5:
                cards = [*cards, self._card()][:6]
        command["cards"] = cards or [self._card()]
        return command

    def _play_round(self, ledger: Ledger) -> dict[str, Any]:
        command = {**self._fresh("play_round"), "round_id": self._new_round()}
        command["shoe_id"] = self._shoe(ledger)
        shoe = ledger.shoes.get(command["shoe_id"])
        rules = ledger.tables[shoe["table"]]["rules"] if shoe else {"odds": game.STANDARD_ODDS}
        bets = [self._bet(ledger, rules) for _ in range(self.random.randrange(5))]
        command["bets"] = bets
        if shoe is None or (shoe["source"] == "physical") != self._chance(0.03):
            cards = self._hand([], [])
            if self._chance(0.06):
                cards = cards[:-1] if self.random.random() < 0.5 else [*cards, self._card()][:6]
            command["cards"] = cards
        return command

    def _hand(self, player: list[str], banker: list[str]) -> list[str]:
        """The cards that the tableau asks for, to the end of the round."""
        cards = []
        player, banker = list(player), list(banker)
        while (whose := game.next_hand(player, banker)) is not None:
            card = self._card()
            if len(player) + len(banker) in (2, 3) and self.random.random() < 0.3:
                card = player[0] if whose == "player" else banker[0]  # A perfect pair.
            edges = _EDGES.get(game.total(banker)) if len(player) == len(banker) == 2 else None
            if edges and self.random.random() < 0.5:
                card = self.random.choice(edges) + self.random.choice(game.SUITS)
            (player if whose == "player" else banker).append(card)
            cards.append(card)
        return cards

    def _card(self) -> str:
        rank, suit = self.random.choice(game.RANKS), self.random.choice(game.SUITS)
        if self.random.random() < (0.3 if self._is_murky else 0.01):
            suit = "?"
            if rank in "TJQK":
                rank = self.random.choice((rank, "0"))
        return rank + suit


def _outstanding(account: dict[str, Any]) -> int:
    """What an account has due and owes."""
    owed: int = account["owed"]
    return due(account) + owed
