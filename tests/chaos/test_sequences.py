"""Random sequences against the model of the ledger, with kills in the middle of commands.

Every answer is the predicted one; only where its reply was lost may it say
that it is a replayed one.
"""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

import psycopg
import pytest

from infrastructure.casino import Casino
from infrastructure.commands.contract import Command, NotACommand, read_command
from infrastructure.commands.execution import Client, execute
from infrastructure.store.connection import Database
from tests.chaos.size import SEQUENCES, SEQUENCES_A_LEDGER
from tests.infrastructure.proxy import Proxy
from tests.simulation.generator import START, Step
from tests.simulation.model import Ledger
from tests.simulation.playing import (
    COMMANDS_A_SEQUENCE,
    Answer,
    Played,
    check_books,
    check_events,
    judge,
    sequence,
    story,
)

DISTURBED_EVERY = 3
"""So many sequences have one among them whose connections are ended."""
_DISTURBANCES = ("none", "none", "none", "none", "middle", "any", "reply", "killed")

_HEAD = "SELECT coalesce(max(notification_id), 0) FROM ledger.stored_events"
_TERMINATE = """
SELECT pg_terminate_backend(pid)
  FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""


def at(conninfo: str) -> Casino:
    return Casino(
        {"PERSISTENCE_MODULE": "infrastructure.store.factory", "PUNTO_CONNINFO": conninfo}
    )


class Killed(BaseException):
    """The application is no more; unlike an error, nobody in it can catch this."""


class Disturbed:
    """An application that is killed, or whose connections are, while it is at work."""

    def __init__(self, wire: Proxy, superuser: psycopg.Connection, random: Random) -> None:
        self.casino = at(wire.conninfo)
        self.kills = 0
        self.disturbances = 0
        self.replies_lost = 0
        self._wire = wire
        self._superuser = superuser
        self._random = random
        self._seconds = 0.002

    def ask(self, ledger: Ledger, step: Step, *, is_disturbed: bool) -> Played:
        """Sends one line; its first answer counts as such although its reply was lost."""
        before = self._head()
        try:
            command = read_command(step.line)
        except NotACommand:
            return Played(step, None, before, before)
        is_known = (step.client, command.key) in ledger.remembered
        kind = self._random.choice(_DISTURBANCES) if is_disturbed else "none"
        asked: list[datetime] = []

        def clock() -> datetime:
            asked.append(step.now)
            if len(asked) == 1:
                self._disturb_in_the_middle(kind)
            return step.now

        with self._disturbing(kind):
            answer = self._send(command, Client(step.client, clock=clock))
        if kind in ("any", "reply") and answer["replayed"] and not is_known:
            self.replies_lost += 1
            answer["replayed"] = False
        return Played(step, answer, before, self._head())

    @contextmanager
    def _disturbing(self, kind: str) -> Iterator[None]:
        ending = threading.Timer(self._random.random() * self._seconds, self._terminate)
        self._wire.cut_at_next_commit = kind == "reply"
        if kind == "any":
            ending.start()
        began = time.monotonic()
        yield
        if kind == "none":
            # So the moments are spread over what a command takes here.
            self._seconds = (self._seconds * 9 + (time.monotonic() - began)) / 10
        elif kind == "any":
            ending.join()
        self._wire.cut_at_next_commit = False

    def _disturb_in_the_middle(self, kind: str) -> None:
        if kind in ("middle", "killed"):
            self._terminate()
        if kind == "killed":
            raise Killed

    def _send(self, command: Command, client: Client) -> Answer:
        """Sends a command, to an application that is started again where this one is killed."""
        try:
            (answer,) = execute(self.casino, [command], client=client)
        except Killed:
            self.kills += 1
            self.casino.close()
            self.casino = at(self._wire.conninfo)
            (answer,) = execute(self.casino, [command], client=client)
        return json.loads(json.dumps(answer))

    def settle_down(self) -> None:
        """Gives up the connections that were ended last, for those who ask without a new try."""
        self.casino.recorder.datastore.pool.check()

    def close(self) -> None:
        self.casino.close()

    def _terminate(self) -> None:
        self.disturbances += self._superuser.execute(_TERMINATE).rowcount

    def _head(self) -> int:
        (head,) = self._superuser.execute(_HEAD).fetchone() or (0,)
        return int(head)


@pytest.fixture
def disturbed(
    database: Database, superuser_url: str, tmp_path: Path, random: Random
) -> Iterator[Disturbed]:
    with (
        Proxy(tmp_path, database.conninfo) as wire,
        psycopg.connect(superuser_url, autocommit=True) as superuser,
        closing(Disturbed(wire, superuser, random)) as disturbed,
    ):
        yield disturbed


@pytest.mark.parametrize("first", range(0, SEQUENCES, SEQUENCES_A_LEDGER))
def test_answers_are_as_predicted_although_it_is_killed_in_the_middle(
    disturbed: Disturbed, random: Random, first: int
) -> None:
    ledger, start = Ledger(), START
    for number in range(first, min(first + SEQUENCES_A_LEDGER, SEQUENCES)):
        generator = sequence(random.randrange(2**32), prefix=f"{number}-", start=start)
        played: list[Played] = []
        for _ in range(COMMANDS_A_SEQUENCE):
            step = generator.next(ledger)
            is_disturbed = number % DISTURBED_EVERY == 0
            played.append(disturbed.ask(ledger, step, is_disturbed=is_disturbed))
            faults = judge(ledger, played[-1])
            assert not faults, story(played, faults)
        disturbed.settle_down()
        check_books(disturbed.casino, ledger)
        check_events(disturbed.casino, played, after=played[0].head_before)
        start = generator.now + timedelta(minutes=1)
    print(f"{disturbed.disturbances} connections ended, {disturbed.replies_lost} replies lost")
    assert disturbed.disturbances > 0
    assert disturbed.kills > 0
    assert disturbed.replies_lost > 0
