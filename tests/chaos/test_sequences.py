"""Random sequences against the model of the ledger, with backends ended in the middle of commands.

Every answer is the predicted one; only where its reply was lost may it say
that it is a replayed one.
"""

import json
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

import psycopg
import pytest

from infrastructure.casino import Casino
from infrastructure.commands.contract import NotACommand, read_command
from infrastructure.commands.execution import Client, execute
from infrastructure.store.connection import Database
from tests.chaos.size import SEQUENCES
from tests.infrastructure.proxy import Proxy
from tests.simulation.generator import START, Step
from tests.simulation.model import Ledger
from tests.simulation.playing import (
    COMMANDS_A_SEQUENCE,
    Played,
    check_books,
    check_events,
    judge,
    sequence,
    story,
)

_HEAD = "SELECT coalesce(max(notification_id), 0) FROM ledger.stored_events"
_TERMINATE = """
SELECT pg_terminate_backend(pid)
  FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""


class Disturbed:
    """An application whose connections are ended while it is at work, about every third time."""

    def __init__(
        self, casino: Casino, wire: Proxy, superuser: psycopg.Connection, random: Random
    ) -> None:
        self.casino = casino
        self.disturbances = 0
        self.replies_lost = 0
        self._wire = wire
        self._superuser = superuser
        self._random = random
        self._seconds = 0.002

    def ask(self, ledger: Ledger, step: Step) -> Played:
        """Sends one line; its first answer counts as such although its reply was lost."""
        before = self._head()
        try:
            command = read_command(step.line)
        except NotACommand:
            return Played(step, None, before, before, asked_clock=False)
        is_known = step.command is not None and (
            (step.client, step.command["key"]) in ledger.remembered
        )
        kind = self._random.choice(("none", "none", "none", "middle", "any", "reply"))
        ending = threading.Timer(self._random.random() * self._seconds, self._terminate)
        asked: list[datetime] = []

        def clock() -> datetime:
            asked.append(step.now)
            if kind == "middle" and len(asked) == 1:
                self._terminate()
            return step.now

        self._wire.cut_at_next_commit = kind == "reply"
        if kind == "any":
            ending.start()
        began = time.monotonic()
        [answer] = execute(self.casino, [command], client=Client(step.client, clock=clock))
        if kind == "none":
            # So the moments are spread over what a command takes here.
            self._seconds = (self._seconds * 9 + (time.monotonic() - began)) / 10
        elif kind == "any":
            ending.join()
        self._wire.cut_at_next_commit = False
        answer = json.loads(json.dumps(answer))
        if kind in ("any", "reply") and answer["replayed"] and not is_known:
            self.replies_lost += 1
            answer["replayed"] = False
        return Played(step, answer, before, self._head(), asked_clock=bool(asked))

    def settle_down(self) -> None:
        """Gives up the connections that were ended last, for those who ask without a new try."""
        self.casino.recorder.datastore.pool.check()

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
        Casino(
            {
                "PERSISTENCE_MODULE": "infrastructure.store.factory",
                "PUNTO_CONNINFO": wire.conninfo,
            }
        ) as casino,
        psycopg.connect(superuser_url, autocommit=True) as superuser,
    ):
        yield Disturbed(casino, wire, superuser, random)


def test_answers_are_as_predicted_although_connections_end_in_the_middle(
    disturbed: Disturbed, random: Random
) -> None:
    ledger, start = Ledger(), START
    for number in range(SEQUENCES):
        generator = sequence(random.randrange(2**32), prefix=f"{number}-", start=start)
        played: list[Played] = []
        for _ in range(COMMANDS_A_SEQUENCE):
            played.append(disturbed.ask(ledger, generator.next(ledger)))
            faults = judge(ledger, played[-1])
            assert not faults, story(played, faults)
        disturbed.settle_down()
        check_books(disturbed.casino, ledger)
        check_events(disturbed.casino, played, after=played[0].head_before)
        start = generator.now + timedelta(minutes=1)
    print(f"{disturbed.disturbances} connections ended, {disturbed.replies_lost} replies lost")
    assert disturbed.disturbances > 0
    assert disturbed.replies_lost > 0
