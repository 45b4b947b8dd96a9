"""What the audit reads from a store, all of it as of one moment."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.rows import tuple_row

from domain.account import AccountOpened
from domain.event import Entry, Recorded
from domain.rules import Rules
from domain.table import RulesChanged, TableOpened
from infrastructure.audit.audit import Known, Scope, learn_rules
from infrastructure.store.reader import PAGE_SIZE, LogReader
from infrastructure.store.session import KeptState
from infrastructure.store.states import STATE_LOGIC

# Others may be long at work on what this one sees.
_BEGIN = """
BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY;
SET LOCAL idle_in_transaction_session_timeout = 0
"""
_EXPORT = "SELECT pg_export_snapshot()"

_RULES = """
SELECT notification_id, originator_id, originator_version, topic, state
  FROM ledger.stored_events
 WHERE originator_id >= 'table:' AND originator_id < 'table;'
   AND topic IN ('table.opened', 'table.rules_changed')
 ORDER BY notification_id
"""
_ACCOUNTS_OPENED = """
SELECT notification_id, originator_id, originator_version, topic, state
  FROM ledger.stored_events
 WHERE originator_id > %s AND originator_id < 'account;' AND originator_version = 1
 ORDER BY originator_id
 LIMIT %s
"""
_KEPT = """
SELECT stream, version, state
  FROM ledger.states
 WHERE logic = %s AND stream >= %s AND stream < %s
"""
_ACCOUNTS = """
SELECT notification_id, originator_id, originator_version, topic, state
  FROM ledger.stored_events
 WHERE (originator_id, originator_version) > (%s, %s) AND originator_id < %s
 ORDER BY originator_id, originator_version
 LIMIT %s
"""
_AT_POSITIONS = """
SELECT notification_id, originator_id, originator_version, topic, state
  FROM ledger.stored_events
 WHERE notification_id = ANY(%s)
 ORDER BY notification_id
"""
_SHOES_OF_ROUND = """
SELECT split_part(
           encode(
               substring(state FROM position('"shoe_id":"'::bytea IN state) + 11 FOR 65), 'escape'
           ), '"', 1
       )
  FROM ledger.stored_events
 WHERE originator_id = %s AND topic = 'round.opened'
   AND position('"shoe_id":"'::bytea IN state) > 0
UNION
SELECT substring(originator_id FROM 6)
  FROM ledger.stored_events
 WHERE originator_id >= 'shoe:' AND originator_id < 'shoe;'
   AND position(convert_to(%s, 'UTF8') IN state) > 0
"""
_SHOES_NAMING = """
SELECT substring(originator_id FROM 6)
  FROM ledger.stored_events
 WHERE originator_id >= 'shoe:' AND originator_id < 'shoe;' AND topic = 'shoe.opened'
   AND position(convert_to(%s, 'UTF8') IN state) > 0
"""
_ROUNDS_NAMING = """
SELECT substring(originator_id FROM 7)
  FROM ledger.stored_events
 WHERE topic = 'round.opened' AND position(convert_to(%s, 'UTF8') IN state) > 0
"""
_ROUNDS_STARTED = """
SELECT split_part(
           encode(
               substring(state FROM position('"round_id":"'::bytea IN state) + 12 FOR 65),
               'escape'
           ), '"', 1
       )
  FROM ledger.stored_events
 WHERE originator_id = ANY(%s) AND position('"round_id":"'::bytea IN state) > 0
"""
# A window of positions at a time, so that neither side holds more than a part of the answer.
# Where few rounds are wanted, the server still looks at all events, and sends few.
_ABOUT = """
SELECT notification_id, originator_id, originator_version, topic, state
  FROM ledger.stored_events
 WHERE notification_id > %(after)s AND notification_id <= %(until)s
   AND (
       originator_id = ANY(%(streams)s)
       OR split_part(originator_id, ':', 1) = 'round'
      AND substring(originator_id FROM 7) = ANY(%(rounds)s)
       OR position('"round_id":"'::bytea IN state) > 0
      AND split_part(
              encode(
                  substring(state FROM position('"round_id":"'::bytea IN state) + 12 FOR 65),
                  'escape'
              ), '"', 1
          ) = ANY(%(rounds)s)
   )
 ORDER BY notification_id
"""
_TURNS_OF_SHOES = """
SELECT notification_id, topic = 'shoe.opened'
  FROM ledger.stored_events
 WHERE originator_id >= 'shoe:' AND originator_id < 'shoe;'
   AND topic IN ('shoe.opened', 'shoe.closed')
 ORDER BY notification_id
"""
_EVENTS_OF_ACCOUNTS = """
SELECT originator_id, count(*)
  FROM ledger.stored_events
 WHERE originator_id >= 'account:' AND originator_id < 'account;'
 GROUP BY originator_id
 ORDER BY originator_id
"""

POSITIONS_AT_ONCE = 100_000
ACCOUNTS = ("account:", "account;")
"""All streams of accounts lie between these two."""


class Source:
    """A ledger as it was when the transaction on the connection began."""

    def __init__(self, connection: Connection[Any], *, can_read_states: bool) -> None:
        self._connection = connection
        self._cursor = connection.cursor(row_factory=tuple_row)
        self._can_read_states = can_read_states
        self.reader = LogReader(connection)

    def export(self) -> str:
        """The name by which other connections see the same."""
        ((snapshot,),) = self._rows(_EXPORT)
        return str(snapshot)

    def known(self, *, with_states: bool = False) -> Known:
        """What can be said of the whole ledger beforehand."""
        rules: dict[str, dict[int, Rules]] = {}
        for entry in self.reader.read(self._rows(_RULES)):
            if isinstance(entry, Recorded) and isinstance(entry.event, TableOpened | RulesChanged):
                learn_rules(rules, entry.event)
        currencies: dict[str, str] = {}
        after = ACCOUNTS[0]
        while rows := self._rows(_ACCOUNTS_OPENED, after, PAGE_SIZE):
            after = rows[-1][1]
            for entry in self.reader.read(rows):
                if isinstance(entry, Recorded) and isinstance(entry.event, AccountOpened):
                    currencies[entry.event.originator_id] = entry.event.currency
        return Known(rules, currencies, self.kept(*ACCOUNTS) if with_states else {})

    def kept(self, first: str, end: str) -> dict[str, KeptState]:
        """The states kept of some accounts, as far as they may be seen."""
        if not self._can_read_states:
            return {}
        rows = self._rows(_KEPT, STATE_LOGIC, first, end)
        return {stream: KeptState(stream, version, state) for stream, version, state in rows}

    def accounts(self, first: str, end: str) -> Iterator[list[Entry]]:
        """The events of accounts from one stream on and before another, stream by stream."""
        stream, version = first, 0
        while rows := self._rows(_ACCOUNTS, stream, version, end, PAGE_SIZE):
            yield self.reader.read(rows)
            _, stream, version, _, _ = rows[-1]

    def at(self, positions: Sequence[int]) -> Iterator[list[Entry]]:
        """The events at some positions, in their order."""
        for start in range(0, len(positions), PAGE_SIZE):
            page = list(positions[start : start + PAGE_SIZE])
            yield self.reader.read(self._rows(_AT_POSITIONS, page))

    def about(self, scope: Scope) -> Iterator[list[Entry]]:
        """What an audit of one round, shoe or table has to see, in the order of positions."""
        shoes, rounds = self._within(scope)
        streams = [f"shoe:{shoe_id}" for shoe_id in shoes]
        after = 0
        head = self.reader.head()
        wanted = {"streams": streams, "rounds": rounds}
        while after < head:
            until = after + POSITIONS_AT_ONCE
            rows = self._rows(_ABOUT, {**wanted, "after": after, "until": until})
            yield self.reader.read(rows)
            after = until

    def _within(self, scope: Scope) -> tuple[list[str], list[str]]:
        """The shoes and the rounds that a scope has to do with, by either's own account."""
        if scope.round is not None:
            # What of its shoe is about other rounds matters as well: which they were.
            named = f'"round_id":"{scope.round}"'
            shoes_of_it = self._rows(_SHOES_OF_ROUND, f"round:{scope.round}", named)
            return [shoe for (shoe,) in shoes_of_it], [scope.round]
        if scope.shoe is not None:
            shoes = {scope.shoe}
            named = f'"shoe_id":"{scope.shoe}"'
        else:
            named = f'"table_id":"{scope.table}"'
            shoes = {shoe for (shoe,) in self._rows(_SHOES_NAMING, named)}
        rounds = {round_id for (round_id,) in self._rows(_ROUNDS_NAMING, named)}
        streams = [f"shoe:{shoe_id}" for shoe_id in shoes]
        rounds |= {round_id for (round_id,) in self._rows(_ROUNDS_STARTED, streams)}
        return sorted(shoes), sorted(rounds)

    def cut(self, parts: int) -> list[tuple[int, int]]:
        """Ranges of about the same size, as pairs of the position before and the last one.

        They end where the fewest shoes are open.
        """
        head = self.reader.head()
        size = head / parts
        ends = [0]
        turns: list[tuple[int, int]] = [(0, 0)]
        for position, is_opened in self._rows(_TURNS_OF_SHOES):
            turns.append((position, turns[-1][1] + (1 if is_opened else -1)))
        for number in range(1, parts):
            wanted = round(number * size)
            near = [turn for turn in turns if abs(turn[0] - wanted) <= size / 4]
            closest = min(
                near, key=lambda turn: (turn[1], abs(turn[0] - wanted)), default=(wanted, 0)
            )
            ends.append(max(closest[0], ends[-1]))
        ends.append(head)
        return list(pairwise(ends))

    def cut_accounts(self, parts: int) -> tuple[list[tuple[str, str]], int]:
        """Ranges of streams with about as many events each; and how many these are in all."""
        counts = self._rows(_EVENTS_OF_ACCOUNTS)
        total = sum(count for _, count in counts)
        starts = [ACCOUNTS[0]]
        seen = 0
        for stream, count in counts:
            if seen >= len(starts) * total / parts:
                starts.append(stream)
            seen += count
        return list(zip(starts, [*starts[1:], ACCOUNTS[1]], strict=True)), total

    def _rows(self, statement: str, *parameters: Any) -> list[Any]:
        named = parameters[0] if parameters and isinstance(parameters[0], dict) else parameters
        return self._cursor.execute(statement.encode(), named or None, binary=True).fetchall()


@contextmanager
def reading(
    connection: Connection[Any], *, can_read_states: bool, snapshot: str | None = None
) -> Iterator[Source]:
    """A source that stays as it is while others write: as of now, or as of another's moment."""
    connection.execute(_BEGIN)
    try:
        if snapshot is not None:
            connection.execute(b"SET TRANSACTION SNAPSHOT '%b'" % snapshot.encode())
        yield Source(connection, can_read_states=can_read_states)
    finally:
        with suppress(psycopg.Error):
            connection.execute("ROLLBACK")
