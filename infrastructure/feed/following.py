"""Follows the ledger for a feed: page after page, and on when the database was away."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import Connection

from infrastructure.feed.envelope import Sent
from infrastructure.feed.errors import FeedError
from infrastructure.feed.log import FeedLog
from infrastructure.store.errors import StoreUnavailable, first_line

POLL_SECONDS = 1.0
PATIENCE_SECONDS = 60.0
"""How long a database, or what is downstream, may be away before the feed gives up."""
RETRY_SECONDS = 0.25
_CHANNEL = "stored_events"

Connect = Callable[[], "Connection[Any]"]
Say = Callable[[str], None]


class Patience:
    """Says once that something is away, and waits until it has been for too long."""

    def __init__(self, what: str, say: Say) -> None:
        self._what = what
        self._say = say
        self._since: float | None = None

    def wait(self, error: Exception) -> None:
        """Waits a little; raises the error where it has lasted too long."""
        if self._since is None:
            self._since = time.monotonic()
            self._say(f"{self._what} is away: the feed goes on when it is back")
        if time.monotonic() - self._since > PATIENCE_SECONDS:
            raise error
        time.sleep(RETRY_SECONDS)

    def reward(self) -> None:
        """It has answered."""
        self._since = None


def follow(
    connect: Connect, *, after: int, held: str | None, source: str | None, wait: bool, say: Say
) -> Iterator[list[Sent]]:
    """The pages after a position, each once; with `wait` also what comes later, without end.

    `held` is the hash of the content at that position as it is downstream, and
    `source` where it came from. What was last yielded is compared again
    whenever the database was away, for it may have come back as another.
    """
    patience = Patience("The database", say)
    while True:
        try:
            with connect() as connection:
                for page in _pages(connection, after=after, held=held, source=source, wait=wait):
                    patience.reward()
                    if page:
                        yield page
                        after, held = page[-1].position, page[-1].hash
                return
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            patience.wait(StoreUnavailable(f"The database went away: {first_line(error)}"))
        except StoreUnavailable as error:
            patience.wait(error)


def _pages(
    connection: Connection[Any], *, after: int, held: str | None, source: str | None, wait: bool
) -> Iterator[list[Sent]]:
    """Pages on one connection; an empty one whenever there is nothing new."""
    log = FeedLog(connection)
    if source is not None and log.source != source:
        raise FeedError(f"Downstream holds events of {source}, and this store is {log.source}")
    if held is not None:
        log.must_hold(after, held)
    if wait:
        _listen(connection)
    while True:
        page = log.page(after)
        yield page
        if page:
            after = page[-1].position
        elif not wait:
            return
        else:
            # A notification only shortens the wait: one that is missed costs a poll.
            for _ in connection.notifies(timeout=POLL_SECONDS, stop_after=1):
                pass


def _listen(connection: Connection[Any]) -> None:
    assert connection.autocommit, "LISTEN takes effect at the commit"
    # A standby announces nothing, and is polled.
    with suppress(psycopg.errors.ReadOnlySqlTransaction):
        connection.execute(f"LISTEN {_CHANNEL}")
