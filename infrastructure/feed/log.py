"""The ledger as the feed reads it: rows in the order of their positions, each in its envelope."""

from collections.abc import Iterable, Sequence
from typing import Any, cast

from psycopg import Connection
from psycopg.rows import tuple_row

from infrastructure.feed.envelope import Glance, Sent, StoredFact, envelope, glance
from infrastructure.feed.errors import FeedError
from infrastructure.feed.source import source
from infrastructure.store.traces import traceparents

PAGE_SIZE = 1_000
SHOES_IN_MEMORY = 20_000

_PAGE = """
SELECT notification_id, originator_id, originator_version, topic, state, recorded_at
  FROM ledger.stored_events
 WHERE notification_id > %s
 ORDER BY notification_id
 LIMIT %s
"""
_OPENED = """
SELECT originator_id, state
  FROM ledger.stored_events
 WHERE originator_id = ANY(%s)
   AND topic = 'round.opened'
   AND notification_id <= %s
"""
_HEAD = "SELECT coalesce(max(notification_id), 0) FROM ledger.stored_events"


class FeedLog:
    """Reads the ledger on a connection of its own.

    Positions are 1, 2, 3 … in the order of commits: a page never runs past an
    event that is not yet committed.
    """

    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection
        self._shoes: dict[str, str] = {}
        self.source = source(connection)

    def head(self) -> int:
        """The position of the latest event; 0 where there is none."""
        ((head,),) = self._rows(_HEAD, ())
        return cast(int, head)

    def page(self, after: int, limit: int = PAGE_SIZE) -> list[Sent]:
        """The next events after a position.

        Raises FeedError where a position is missing, or the store has become another source.
        """
        if source(self._connection) != self.source:
            raise FeedError("The store has started a new incarnation: start the feed again")
        facts = [StoredFact(*row) for row in self._rows(_PAGE, (after, limit))]
        if not facts:
            return []
        for place, fact in enumerate(facts, after + 1):
            if fact.position != place:
                raise FeedError(f"Position {place} of the ledger is missing")
        seen = [glance(fact.state) for fact in facts]
        self._look_shoes_up(zip(facts, seen, strict=True), upto=after)
        traces = traceparents(self._connection, first=after + 1, last=after + len(facts))
        return [
            envelope(
                fact,
                each,
                source=self.source,
                partition=self._partition(fact, each),
                traceparent=traces.get(fact.position),
            )
            for fact, each in zip(facts, seen, strict=True)
        ]

    def must_hold(self, position: int, content_hash: str) -> None:
        """Raises FeedError unless the event at a position has this content."""
        found = self.page(position - 1, 1) if position > 0 else []
        if not found:
            raise FeedError(
                f"Downstream holds position {position} and the ledger ends at {self.head()}:"
                " it is another store, or one that was restored; `punto feed new-incarnation`"
                " starts a new source"
            )
        if found[0].hash != content_hash:
            raise FeedError(
                f"What downstream holds at position {position} is not what the ledger holds"
                " there: it is another store, or one that was restored; `punto feed"
                " new-incarnation` starts a new source"
            )

    def _partition(self, fact: StoredFact, seen: Glance | None) -> str:
        """The shoe of what was played with one; else the stream, such as an account, itself."""
        kind, _, _ = fact.stream.partition(":")
        if kind == "account" or seen is None:
            return fact.stream
        if kind == "round" and fact.topic == "round.opened":
            self._shoes[fact.stream] = f"shoe:{seen.shoe_id}"
        if round_stream := _round_of(fact, seen):
            # A tombstone may stand before its round: it has no shoe yet.
            return self._shoes.get(round_stream, round_stream)
        return fact.stream if seen.shoe_id is None else f"shoe:{seen.shoe_id}"

    def _look_shoes_up(
        self, facts: Iterable[tuple[StoredFact, Glance | None]], *, upto: int
    ) -> None:
        if len(self._shoes) > SHOES_IN_MEMORY:
            self._shoes.clear()
        unknown = {
            round_stream
            for fact, seen in facts
            if (round_stream := _round_of(fact, seen)) and round_stream not in self._shoes
        }
        if unknown:
            for stream, state in self._rows(_OPENED, (list(unknown), upto)):
                if opened := glance(state):
                    self._shoes[stream] = f"shoe:{opened.shoe_id}"

    def _rows(self, query: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        cursor = self._connection.cursor(row_factory=tuple_row)
        return cursor.execute(query.encode(), parameters, prepare=True, binary=True).fetchall()


def _round_of(fact: StoredFact, seen: Glance | None) -> str | None:
    """The stream of the round that an event of a round, or of its correction, belongs to."""
    kind, _, _ = fact.stream.partition(":")
    if kind == "round":
        return fact.stream
    if kind == "correction" and seen is not None and seen.round_id is not None:
        return f"round:{seen.round_id}"
    return None
