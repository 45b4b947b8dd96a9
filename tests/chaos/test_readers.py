"""Readers of the log under load: nothing is missed, nothing comes twice, nobody is held up."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

import psycopg

from domain.event import Recorded
from infrastructure.store.reader import LogReader
from projections import runner
from tests.chaos.books import check_finished
from tests.chaos.load import EVENTS_A_COMMAND, Undisturbed, loads
from tests.chaos.size import EVENTS_READ
from tests.chaos.writers import Writer, finish

WRITERS = 8
EVENTS_A_PAGE = 100
_TERMINATE = """
SELECT pg_terminate_backend(pid)
  FROM pg_stat_activity
 WHERE datname = current_database() AND application_name = %s
"""
# The commit of a NOTIFY waits for those of every database of the server, which is not ours to see.
# A writer that is done folds the read models, and there it takes turns with the follower.
_HELD_UP = """
SELECT waiting.query, blocking.application_name, blocking.query
  FROM pg_stat_activity AS waiting
  CROSS JOIN LATERAL unnest(pg_blocking_pids(waiting.pid)) AS by (pid)
  JOIN pg_stat_activity AS blocking ON blocking.pid = by.pid
 WHERE waiting.datname = current_database()
   AND waiting.application_name = 'punto'
   AND blocking.datname = waiting.datname
   AND blocking.application_name <> 'punto'
   AND (waiting.query LIKE '%ledger.%' OR blocking.application_name <> 'follower')
"""


class Reader:
    """A reader in a thread, which connects again whenever its connection is ended."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self.seen: list[tuple[int, str, int]] = []
        self.connections = 0
        self.head: int | None = None
        self._url = url
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._read)

    def start(self) -> None:
        self._thread.start()

    def finish(self, head: int) -> None:
        """Lets it read to the head, and no further."""
        self.head = head
        self._thread.join()
        if self._failed is not None:
            raise self._failed

    def _read(self) -> None:
        try:
            while True:
                try:
                    with psycopg.connect(
                        self._url, autocommit=True, application_name=self.name
                    ) as connection:
                        self.connections += 1
                        if self._read_on(connection):
                            return
                except psycopg.OperationalError:
                    continue
        except BaseException as error:
            self._failed = error

    def _read_on(self, connection: psycopg.Connection) -> bool:
        raise NotImplementedError

    def _see(self, events: Sequence[Recorded]) -> None:
        self.seen += [
            (each.position, each.event.originator_id, each.event.originator_version)
            for each in events
        ]


class Tail(Reader):
    """Asks for what comes after the last position that it has seen."""

    def _read_on(self, connection: psycopg.Connection) -> bool:
        reader = LogReader(connection)
        while True:
            # Where it is to end is asked first: what came before that is then in the page.
            head = self.head
            after = self.seen[-1][0] if self.seen else 0
            events = reader.page(after, EVENTS_A_PAGE)
            self._see(events)
            if not events:
                if head is not None:
                    return True
                time.sleep(0.01)


class Follower(Reader):
    """Follows by notifications, and folds the read models."""

    def _read_on(self, connection: psycopg.Connection) -> bool:
        # One that polls this seldom would be seen to miss a notification.
        for _ in runner.follow(connection, LogReader(connection).page, poll_seconds=0.2):
            positions = {position for _, position in runner.positions(connection)}
            if self.head is not None and positions == {self.head}:
                return True
        raise AssertionError("it never ends by itself")


@contextmanager
def repeatedly(*things: Callable[[], None]) -> Iterator[None]:
    """Does each of these again and again, in a thread of its own."""
    done = threading.Event()
    failed: list[BaseException] = []

    def repeat(thing: Callable[[], None]) -> None:
        try:
            while not done.is_set():
                thing()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=repeat, args=(thing,)) for thing in things]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()
    if failed:
        raise failed[0]


def test_readers_miss_nothing_and_hold_nobody_up_whatever_is_done_to_them(
    url: str, superuser_url: str, tmp_path: Path, random: Random
) -> None:
    # The first commands of a file store an event each.
    commands = 10 + EVENTS_READ // EVENTS_A_COMMAND // WRITERS
    files = loads(WRITERS, commands=commands, random=random)
    undisturbed = Undisturbed(files)
    writers = [Writer(load, tmp_path, PUNTO_DATABASE_URL=url) for load in files]
    tail, follower = Tail("tail", url), Follower("follower", url)
    held_up: set[tuple[str, ...]] = set()

    def as_superuser(name: str) -> psycopg.Connection:
        return psycopg.connect(superuser_url, autocommit=True, application_name=name)

    with (
        as_superuser("maintenance") as maintenance,
        as_superuser("killer") as killer,
        as_superuser("watch") as watch,
        psycopg.connect(url, application_name="slow") as slow,
    ):
        chance = Random(random.random())

        def maintain() -> None:
            maintenance.execute("ANALYZE ledger.stored_events, ledger.answers, ledger.head")
            maintenance.execute("VACUUM ledger.stored_events, ledger.answers, ledger.head")
            time.sleep(0.05)

        def terminate_readers() -> None:
            time.sleep(chance.random() / 3)
            killer.execute(_TERMINATE, [chance.choice([tail.name, follower.name])])

        def look() -> None:
            held_up.update(watch.execute(_HELD_UP).fetchall())
            time.sleep(0.005)

        def read_slowly() -> None:
            slow.execute("SELECT count(*) FROM ledger.stored_events")
            slow.execute("SELECT count(*) FROM ledger.head")
            time.sleep(1)
            slow.rollback()

        for each in (*writers, tail, follower):
            each.start()
        with repeatedly(maintain, terminate_readers, look, read_slowly):
            finish(writers)
        head = len(undisturbed.stored)
        tail.finish(head)
        follower.finish(head)

    assert head >= EVENTS_READ
    assert held_up == set()
    assert [position for position, _, _ in tail.seen] == list(range(1, head + 1))
    assert sorted((stream, version) for _, stream, version in tail.seen) == [
        (stream, version) for stream, version, _, _ in undisturbed.stored
    ]
    assert tail.connections > 1
    assert follower.connections > 1
    check_finished(url, undisturbed, writers)
