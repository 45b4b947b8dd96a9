"""The feed, killed at any moment as is the server it publishes to: downstream is the ledger."""

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import psycopg
import pytest

from tests.chaos.load import EVENTS_A_COMMAND, Undisturbed, loads
from tests.chaos.size import (
    EVENTS_PUBLISHED,
    EVENTS_READ,
    FEED_KILLS,
    NATS_KILLS,
    SECONDS_MAX,
    TIMES,
)
from tests.chaos.writers import Writer, finish, punto, run_and_kill, start_python
from tests.infrastructure.nats import NatsServer

SERVERS_OF_A_CLUSTER = 3
LEADER_KILLS = 3
STREAM = "LEDGER"
WRITERS = 8
_END_FEEDS = """
SELECT pg_terminate_backend(pid)
  FROM pg_stat_activity
 WHERE datname = current_database() AND query LIKE '%recorded_at%' AND pid <> pg_backend_pid()
"""


class Feed:
    """`punto feed nats` in a process of its own, started again whenever it has ended."""

    def __init__(self, url: str, servers: Sequence[NatsServer]) -> None:
        self.starts = 0
        self._environment = {**os.environ, "PUNTO_DATABASE_URL": url}
        self._options = (
            *("--url", ",".join(server.url for server in servers), "--stream", STREAM),
            *(part for server in servers for part in ("--monitor", server.monitor)),
            *("--replicas", str(len(servers))),
        )
        self._process: subprocess.Popen[bytes] | None = None

    def keep_up(self) -> None:
        """Starts it where it has given up, as whoever runs it would."""
        if self._process is None or self._process.poll() is not None:
            self.kill()
            self.starts += 1
            self._process = start_python(
                "infrastructure.cli.main", "feed", "nats", *self._options,
                env=self._environment, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def stored(servers: Sequence[NatsServer]) -> int:
    """How far the stream has come, by the server that knows most."""
    counts = [0]
    for server in servers:
        try:
            found = server.ask("jsz?streams=true")
        except OSError:
            continue
        for account in found.get("account_details", ()):
            counts += [each["state"]["last_seq"] for each in account.get("stream_detail", ())]
    return max(counts)


def publish_and_kill(
    feed: Feed,
    servers: Sequence[NatsServer],
    *,
    head: int,
    disturb: Sequence[Callable[[], None]],
    random: Random,
) -> None:
    """Publishes up to the head, and does each of these at a moment of its own.

    All in the first half: a fast feed is to have something left to do after each.
    """
    moments = sorted(random.randrange(head // 2) for _ in disturb)
    until = time.monotonic() + SECONDS_MAX * 3
    for moment, do in zip([*moments, head], [*disturb, feed.kill], strict=True):
        while (count := stored(servers)) < moment:
            assert time.monotonic() < until, f"the feed hangs at {count}"
            feed.keep_up()
            time.sleep(0.02)
        time.sleep(random.random() / 50)
        do()


def must_be_equal(url: str, servers: Sequence[NatsServer], head: int) -> None:
    """The stream holds the ledger, in order, each event once."""
    urls = ",".join(server.url for server in servers)
    ran = punto(
        "feed", "verify", "--url", urls, "--stream", STREAM, "--json", PUNTO_DATABASE_URL=url
    )
    document = json.loads(ran.stdout)
    assert (document["differences"], document["position"], document["behind"]) == ([], head, 0)
    assert sum(each["downstream"]["count"] for each in document["ranges"]) == head


@pytest.fixture
def head(url: str) -> int:
    """A ledger with many events; its head."""
    shoes = -(-EVENTS_PUBLISHED // 3_300)
    ran = punto(
        "simulate", "--tables", "1", "--shoes", str(shoes), "--seats", "7", "--seed", "1",
        PUNTO_DATABASE_URL=url,
    )  # fmt: skip
    assert ran.returncode == 0, ran
    with psycopg.connect(url) as connection:
        ((count,),) = connection.execute("SELECT count(*) FROM ledger.stored_events").fetchall()
    return int(count)


def test_a_stream_is_the_ledger_whenever_its_feed_and_its_server_are_killed(
    url: str, head: int, tmp_path: Path, random: Random
) -> None:
    with NatsServer(tmp_path / "nats") as server:
        feed = Feed(url, [server])

        def restart_server() -> None:
            server.kill()
            time.sleep(random.random())
            server.start()

        disturb = [feed.kill] * FEED_KILLS + [restart_server] * NATS_KILLS
        random.shuffle(disturb)
        try:
            publish_and_kill(feed, [server], head=head, disturb=disturb, random=random)
        finally:
            feed.kill()
        assert feed.starts > FEED_KILLS // 2
        must_be_equal(url, [server], head)


@pytest.mark.skipif(TIMES < 2, reason="three servers are for `make chaos`")
def test_a_cluster_holds_the_ledger_whenever_its_leader_is_killed(
    url: str, head: int, tmp_path: Path, random: Random
) -> None:
    servers = [NatsServer(tmp_path / f"n{number}") for number in range(SERVERS_OF_A_CLUSTER)]
    try:
        for server in servers:
            server.peers = servers
            server.start(wait=False)
        for server in servers:
            server.wait()
        feed = Feed(url, servers)

        def restart_leader() -> None:
            for server in servers:
                if server.leads(STREAM):
                    server.kill()
                    time.sleep(random.random() * 3)
                    server.start()

        try:
            publish_and_kill(
                feed, servers, head=head, disturb=[restart_leader] * LEADER_KILLS, random=random
            )
        finally:
            feed.kill()
        must_be_equal(url, servers, head)
    finally:
        for server in servers:
            server.kill()


def test_a_tail_misses_nothing_while_writers_and_its_connection_are_killed(
    url: str, superuser_url: str, tmp_path: Path, random: Random
) -> None:
    files = loads(WRITERS, commands=EVENTS_READ // EVENTS_A_COMMAND // WRITERS, random=random)
    head = len(Undisturbed(files).stored)
    writers = [Writer(load, tmp_path, PUNTO_DATABASE_URL=url) for load in files]
    out = tmp_path / "tail.ndjson"
    with out.open("wb") as file:
        tail = start_python(
            "infrastructure.cli.main", "feed", "tail", "--follow",
            env={**os.environ, "PUNTO_DATABASE_URL": url},
            stdout=file, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    ended, done = 0, threading.Event()

    def end_feeds() -> None:
        nonlocal ended
        with psycopg.connect(superuser_url, autocommit=True) as connection:
            while not done.is_set():
                ended += len(connection.execute(_END_FEEDS).fetchall())
                time.sleep(0.1)

    killer = threading.Thread(target=end_feeds)
    killer.start()
    try:
        for writer in writers[1:]:
            writer.start()
        run_and_kill(writers[0], kills=2 * TIMES, random=random)
        finish(writers)
        until = time.monotonic() + SECONDS_MAX
        while out.read_bytes().count(b"\n") < head:
            assert tail.poll() is None
            assert time.monotonic() < until, "the tail hangs"
            time.sleep(0.1)
    finally:
        done.set()
        killer.join()
        tail.kill()
        tail.wait()
    positions = [int(json.loads(line)["id"]) for line in out.read_bytes().splitlines()]
    assert positions == list(range(1, head + 1))
    assert ended > 0, "its connection was never ended"
