"""A server that is stopped under load and comes back a good while later."""

import json
import os
import signal
import subprocess
import time
from contextlib import ExitStack, closing
from pathlib import Path
from random import Random

import psycopg

from infrastructure.store.embedded import EmbeddedServer
from infrastructure.store.schema import LEDGER_ROLE, upgrade
from tests.chaos.books import check_finished
from tests.chaos.load import Undisturbed, loads
from tests.chaos.size import SECONDS_AWAY, SECONDS_MAX, TIMES
from tests.chaos.writers import Writer, finish, start_python

WRITERS = 4
_ENDED = ("round.settled", "round.voided")


class Follower:
    """`punto rounds --follow`, and the rounds that it has shown."""

    def __init__(self, folder: Path, url: str) -> None:
        self._shown = folder / "rounds.ndjson"
        self._complaints = folder / "complaints"
        with self._shown.open("wb") as out, self._complaints.open("wb") as complaints:
            self._process = start_python(
                "infrastructure.cli.main",
                *("rounds", "--follow", "--json"),
                env={**os.environ, "PUNTO_DATABASE_URL": url},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=complaints,
            )

    @property
    def rounds(self) -> list[str]:
        whole = self._shown.read_bytes().split(b"\n")[:-1]
        lines = [json.loads(line) for line in whole]
        # Those that were interrupted when it began are shown again when they end.
        return [line["round_id"] for line in lines if line["state"] in ("settled", "void")]

    @property
    def complaints(self) -> str:
        return self._complaints.read_text()

    def wait_for_its_connection(self, superuser: psycopg.Connection) -> None:
        until = time.monotonic() + SECONDS_MAX
        connected = "SELECT FROM pg_stat_activity WHERE application_name = 'punto'"
        while superuser.execute(connected).fetchone() is None:
            assert self._process.poll() is None, self.complaints
            assert time.monotonic() < until, "it does not connect"
            time.sleep(0.02)

    def wait_for(self, rounds: int) -> None:
        until = time.monotonic() + SECONDS_MAX
        while len(self.rounds) < rounds:
            assert self._process.poll() is None, self.complaints
            assert time.monotonic() < until, "it shows no more"
            time.sleep(0.02)

    def close(self) -> None:
        """Stops it; it would wait for ever for a server that is gone."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        self._process.wait(SECONDS_MAX)


def test_writers_and_readers_wait_for_a_server_that_is_away_and_go_on_by_themselves(
    initialised_home: Path, tmp_path: Path, random: Random
) -> None:
    files = loads(WRITERS, commands=50 * TIMES, random=random)
    undisturbed = Undisturbed(files)
    ended = [stream for stream, _, topic, _ in undisturbed.stored if topic in _ENDED]
    with EmbeddedServer(initialised_home) as server, ExitStack() as started:
        url = server.url(user=LEDGER_ROLE)
        with psycopg.connect(server.url(), autocommit=True) as superuser:
            upgrade(superuser)
            follower = started.enter_context(closing(Follower(tmp_path, url)))
            # It waits for a server that goes away, and not for one that was never there.
            follower.wait_for_its_connection(superuser)
        writers = [Writer(load, tmp_path, PUNTO_DATABASE_URL=url) for load in files]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.wait_for(random.randrange(1, 10 * TIMES))
        server.stop()
        time.sleep(SECONDS_AWAY)
        answered = [writer.answered for writer in writers]
        server.start()

        finish(writers)
        assert [writer.starts for writer in writers] == [1] * WRITERS
        assert any(
            before < len(writer.load.commands)
            for before, writer in zip(answered, writers, strict=True)
        )
        follower.wait_for(len(ended))
        follower.close()
        assert sorted(f"round:{round_id}" for round_id in follower.rounds) == sorted(ended)
        assert "go on when it is back" in follower.complaints
        check_finished(url, undisturbed, writers)
