"""The ledger as a page asks it. No page writes."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from psycopg import Connection

from infrastructure.store.reader import LogReader


@dataclass(frozen=True, slots=True)
class AskedLedger:
    """A connection to ask on, and a reader of the log on it."""

    connection: Connection[Any]
    reader: LogReader


OpenLedger = Callable[[], AbstractContextManager[AskedLedger]]
"""Lends a ledger for one page."""

EVENTS_JUDGED_AT_ONCE = 200_000
"""Up to this many events, what goes through all of them is done without being asked for."""


class NotThere(Exception):  # noqa: N818 - it says what is the case, as Refused does
    """The ledger does not hold what a page is asked for. The message is one sentence."""


class NotUnderstood(Exception):  # noqa: N818
    """What a form sent cannot be read. The message is one sentence."""
