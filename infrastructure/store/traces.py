"""The W3C traces that commands came with, kept beside the events that they brought."""

from typing import Any, NamedTuple

from psycopg import Connection
from psycopg.rows import tuple_row

# Ranges do not overlap, so those that reach into a page begin in it, but for the first.
_FIND = """
SELECT first_position, last_position, traceparent
  FROM ledger.traces
 WHERE first_position <= %(last)s
   AND first_position >= coalesce(
           (SELECT max(first_position) FROM ledger.traces WHERE first_position <= %(first)s), 0
       )
"""


class Trace(NamedTuple):
    """The trace of a command, and the positions of its first and its last event."""

    first_position: int
    last_position: int
    traceparent: str


def traceparents(connection: Connection[Any], *, first: int, last: int) -> dict[int, str]:
    """The traceparent of each position of a range; those without one are left out."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        found = cursor.execute(_FIND, {"first": first, "last": last}, prepare=True).fetchall()
    return {
        position: trace.traceparent
        for trace in map(Trace._make, found)
        for position in range(max(first, trace.first_position), min(last, trace.last_position) + 1)
    }
