"""Random play in which much commission is charged, deferred, collected and corrected.

Every command is one that the ledger may accept or refuse; what it decides is
not predicted here, only what must hold whatever it was.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from infrastructure.casino import Casino
from infrastructure.commands.contract import read_command
from infrastructure.commands.execution import Client, execute

START = datetime(2026, 3, 28, 20, 0, tzinfo=UTC)
CLIENT = Client("money", is_bound_to_clock=False)
DEALS = (
    "2S 4D KH 5C",  # Banker 9 to 2
    "KS 3D QH 4C 6C",  # Banker 7 to 6, after the Player's third card
    "4S 4D 5H 2C",  # Player 9 to 6
    "9S 9H KD KC",  # a tie
)
TABLES = {
    "T-charged": ("USD", {"commission": {"minimum_minor": 100, "rounding": "up"}}),
    "T-deferred": ("USD", {"commission": {"collection": "deferred", "increment_minor": 25}}),
    "T-yen": ("JPY", {"commission": {"collection": "deferred", "rounding": "half_even"}}),
    "T-dinar": ("KWD", {"variant": "ez"}),
}
ACCOUNTS = {"ann": "USD", "bob": "USD", "cyd": "USD", "jun": "JPY", "kim": "JPY", "wad": "KWD"}
BETS = ("banker", "banker", "banker", "player", "tie", "player_pair")

Fields = dict[str, Any]


class MoneyPlay:
    """The commands of one seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._at = START
        self._rounds: list[tuple[str, str, list[Fields]]] = []
        self._number = 0
        self._shoes = dict.fromkeys(TABLES, 0)

    def commands(self, count: int) -> Iterator[Fields]:
        """Opens everything, and then so many random commands."""
        yield {"command": "set_gaming_day", "zone": "Europe/London", "starts_at": "06:00"}
        for table_id, (currency, rules) in TABLES.items():
            opened = {"command": "open_table", "table_id": table_id, "currency": currency}
            yield {**opened, "rules": {**rules, "allow_opposite_bets": True}}
            yield self._open_shoe(table_id, 0)
        for account_id, currency in ACCOUNTS.items():
            yield {"command": "open_account", "account_id": account_id, "currency": currency}
            yield self._of_account("deposit", account_id, amount_minor=50_000)
        for _ in range(count):
            self._at += timedelta(minutes=self._random.choice((1, 5, 90)))
            yield from self._random.choices(
                (self._play, self._correct, self._money, self._close_shoe, self._close_day),
                weights=(60, 20, 15, 3, 4),
            )[0]()

    def stamped(self, fields: Fields) -> Fields:
        """A command with a key and a time of its own."""
        self._number += 1
        return {"key": f"k{self._number}", "at": self._at.isoformat(), **fields}

    def _play(self) -> Iterator[Fields]:
        table_id = self._random.choice(list(TABLES))
        round_id = f"R{self._number}"
        bets = self._bets(table_id)
        self._rounds.append((round_id, table_id, bets))
        yield {
            "command": "play_round",
            "round_id": round_id,
            "shoe_id": self._shoe(table_id),
            "bets": bets,
            "cards": self._random.choice(DEALS).split(),
        }

    def _bets(self, table_id: str) -> list[Fields]:
        currency, _ = TABLES[table_id]
        players = [account for account, holds in ACCOUNTS.items() if holds == currency]
        return [
            {
                "bet_id": f"B{number}",
                "account_id": self._random.choice(players),
                "bet": self._random.choice(BETS),
                "stake_minor": self._random.choice((1, 9, 10, 11, 1_010, 2_499, 9_999)),
            }
            for number in range(self._random.randint(1, 4))
        ]

    def _correct(self) -> Iterator[Fields]:
        if not self._rounds:
            return
        round_id, table_id, bets = self._random.choice(self._rounds)
        holds: Fields = self._random.choice(
            (
                {"cards": self._random.choice(DEALS).split()},
                {"bets": self._bets(table_id)},
                {"bets": bets[1:] or bets},
                {"cards": self._random.choice(DEALS).split(), "bets": self._bets(table_id)},
                {"void": True},
            )
        )
        correction_id = f"C{self._number}"
        proposed = {"round_id": round_id, "reason": "seen on camera", **holds}
        of = {"correction_id": correction_id}
        yield {"command": "propose_correction", "actor": "pit", **of, **proposed}
        decided = self._random.choice(("approve", "approve", "approve", "reject"))
        yield {"command": f"{decided}_correction", "actor": "manager", **of}

    def _money(self) -> Iterator[Fields]:
        account_id = self._random.choice(list(ACCOUNTS))
        amount = self._random.choice((100, 5_000, 40_000))
        yield self._random.choice(
            (
                self._of_account("collect_due", account_id),
                self._of_account("collect_due", account_id),
                self._of_account("withdraw", account_id, amount_minor=amount),
                self._of_account("deposit", account_id, amount_minor=amount),
                self._of_account("freeze_account", account_id, reason="asked for it"),
                self._of_account("unfreeze_account", account_id, reason="asked for it"),
                self._of_account("unfreeze_account", account_id, reason="looked into"),
                self._of_account("close_account", account_id, reason="left"),
            )
        )

    def _close_shoe(self) -> Iterator[Fields]:
        table_id = self._random.choice(list(TABLES))
        yield {"command": "close_shoe", "shoe_id": self._shoe(table_id)}
        yield self._open_shoe(table_id, self._shoes[table_id] + 1)

    def _close_day(self) -> Iterator[Fields]:
        # Closed before its events have all come: what follows is late.
        later = (self._at + timedelta(days=2)).isoformat()
        yield {"command": "close_day", "day": self._at.date().isoformat(), "at": later}

    def _shoe(self, table_id: str) -> str:
        return f"S-{table_id}-{self._shoes[table_id]}"

    def _open_shoe(self, table_id: str, number: int) -> Fields:
        self._shoes[table_id] = number
        shoe = {"shoe_id": self._shoe(table_id), "table_id": table_id, "source": "physical"}
        return {"command": "open_shoe", **shoe}

    def _of_account(self, command: str, account_id: str, **fields: Any) -> Fields:
        return {"command": command, "account_id": account_id, **fields}


def make_money(casino: Casino, *, seed: int, commands: int) -> list[Fields]:
    """Plays the commands of a seed one by one; the answers."""
    play = MoneyPlay(seed)
    answers = []
    for fields in play.commands(commands):
        command = read_command(json.dumps(play.stamped(fields)).encode())
        answers += execute(casino, [command], client=CLIENT)
    return answers
