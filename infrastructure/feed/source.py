"""Which store the feed's events come from: the site, and the store's incarnation."""

import re
from typing import Any

from psycopg import Connection
from psycopg.rows import tuple_row

from infrastructure.feed.errors import FeedError

_SITE = re.compile(r"[A-Za-z0-9._-]{1,64}")
_LATEST = """
SELECT site, incarnation::text
  FROM ledger.incarnations
 ORDER BY number DESC
 LIMIT 1
"""
_START = "INSERT INTO ledger.incarnations (site) VALUES (%s)"


def source(connection: Connection[Any]) -> str:
    """The URN of this store; with a position it names an event for ever."""
    site, incarnation = _latest(connection)
    return f"urn:puntobanco:{site}:{incarnation}"


def start_incarnation(connection: Connection[Any], *, site: str | None) -> str:
    """Starts a new source, for a store that was restored or copied; the site stays unless given."""
    if site is not None and not _SITE.fullmatch(site):
        raise FeedError(f"A site is named in letters, digits, dots, - and _, not {site!r}")
    connection.execute(_START, [site or _latest(connection)[0]])
    return source(connection)


def _latest(connection: Connection[Any]) -> tuple[str, str]:
    row = connection.cursor(row_factory=tuple_row).execute(_LATEST).fetchone()
    assert row is not None, "the migration started the first incarnation"
    return row[0], row[1]
