"""Commands of one writer, on a table, shoes and accounts of its own, and what they come to."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from infrastructure.casino import Casino
from infrastructure.commands.contract import read_command
from infrastructure.commands.execution import Client, execute
from tests.simulation.playing import IN_MEMORY

EVENTS_A_COMMAND = 5
"""At least so many, in the mean of all commands."""

_ROUNDS_A_SHOE = 40
_KINDS = ("player", "banker", "tie", "banker_pair")

Command = dict[str, Any]
Answer = dict[str, Any]
Stored = tuple[str, int, str, bytes]


class Load:
    """A file of commands. Each has a time of its own, so that it stores the same wherever it runs.

    Some are refused, and the refusal is remembered like any answer.
    """

    def __init__(self, name: str, *, commands: int, random: Random) -> None:
        self.commands: list[Command] = []
        self._name = name
        self._random = random
        self._at = datetime.now(UTC).replace(microsecond=0) - timedelta(days=3)
        self._accounts = [f"{name}-a{number}" for number in range(2)]
        self._add("open_table", table_id=f"{name}-t", currency="USD")
        for account_id in self._accounts:
            self._add("open_account", account_id=account_id, currency="USD")
            self._add("deposit", account_id=account_id, amount_minor=1_000_000_00)
        number = 0
        while len(self.commands) < commands:
            if number % _ROUNDS_A_SHOE == 0:
                self._change_shoe(number // _ROUNDS_A_SHOE)
            self._play(f"{name}-r{number}", f"{name}-s{number // _ROUNDS_A_SHOE}")
            number += 1
        # A round that is interrupted at the end of the file is as good as any.
        del self.commands[commands:]

    @property
    def lines(self) -> list[bytes]:
        return [json.dumps(command).encode() + b"\n" for command in self.commands]

    def _add(self, command: str, **fields: Any) -> None:
        self._at += timedelta(seconds=1)
        key = f"{self._name}.{len(self.commands) + 1}"
        self.commands.append({"command": command, "key": key, "at": self._at.isoformat(), **fields})

    def _change_shoe(self, number: int) -> None:
        if number > 0:
            self._add("close_shoe", shoe_id=f"{self._name}-s{number - 1}")
        seed = self._random.randbytes(32).hex()
        shoe = {"shoe_id": f"{self._name}-s{number}", "table_id": f"{self._name}-t"}
        self._add("open_shoe", **shoe, source="shuffled", seed=seed)

    def _play(self, round_id: str, shoe_id: str) -> None:
        account_id = self._random.choice(self._accounts)
        match self._random.randrange(6):
            case 0:
                self._step_by_step(round_id, shoe_id)
            case 1:
                self._add("withdraw", account_id=account_id, amount_minor=10**12)
            case 2:
                self._add(
                    "deposit", account_id=account_id, amount_minor=self._random.randrange(1, 99)
                )
            case _:
                bets = [self._bet(kind) for kind in self._random.sample(_KINDS, 2)]
                self._add("play_round", round_id=round_id, shoe_id=shoe_id, bets=bets)

    def _step_by_step(self, round_id: str, shoe_id: str) -> None:
        self._add("open_round", round_id=round_id, shoe_id=shoe_id)
        for kind in self._random.sample(_KINDS, 3):
            self._add("place_bet", round_id=round_id, **self._bet(kind))
        self._add("cancel_bet", round_id=round_id, bet_id=self.commands[-1]["bet_id"])
        self._add("close_betting", round_id=round_id)
        if self._random.random() < 0.3:
            self._add("void_round", round_id=round_id, reason="the lights went out")
        else:
            self._add("deal", round_id=round_id)
            self._add("settle_round", round_id=round_id)

    def _bet(self, kind: str) -> dict[str, Any]:
        account_id = self._random.choice(self._accounts)
        stake_minor = self._random.randrange(1_00, 100_00)
        return {"bet_id": kind, "account_id": account_id, "bet": kind, "stake_minor": stake_minor}


def loads(count: int, *, commands: int, random: Random) -> list[Load]:
    """Files for so many writers, of so many commands each."""
    return [Load(f"w{number}", commands=commands, random=random) for number in range(count)]


class Undisturbed:
    """What the files come to where nothing happens: every stream, every answer."""

    def __init__(self, files: Iterable[Load], *, client: str = "cli") -> None:
        self.answers: dict[str, Answer] = {}
        self.events_of: Counter[str] = Counter()
        self.stored: list[Stored] = []
        with Casino(IN_MEMORY) as casino:
            before = 0
            for load in files:
                for line in load.lines:
                    (answer,) = execute(casino, [read_command(line)], client=Client(client))
                    self.answers[answer["key"]] = json.loads(json.dumps(answer))
                    if answer["ok"]:
                        self.events_of[answer["key"]] = answer["position"] - before
                        before = answer["position"]
            notifications = casino.recorder.select_notifications(1, before + 1)
        self.stored = sorted(
            (str(each.originator_id), each.originator_version, each.topic, each.state)
            for each in notifications
        )


def same(one: Answer, other: Answer, *, but: Sequence[str] = ("replayed",)) -> bool:
    """Whether two answers differ in nothing but some fields."""
    return {**one, **dict.fromkeys(but)} == {**other, **dict.fromkeys(but)}
