"""The page of the ledger itself: how far it has come, and what lags behind it or is left out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from infrastructure.pages.ledger import AskedLedger
from infrastructure.store.schema import guard_faults
from projections import parking, rounds, runner
from projections.parking import Parked

INTERRUPTED_SHOWN = 100
PARKED_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Follower:
    """What follows the ledger: a read model or a feed, and the position that it has come to.

    Where that cannot be read, there is an `error` instead.
    """

    name: str
    position: int | None
    lag_events: int | None
    parked: int = 0
    error: str | None = None


ReadFeeds = Callable[[int], Sequence[Mapping[str, Any]]]
"""Gives each feed that the service knows of, and how far it is behind a head."""


@dataclass(frozen=True, slots=True)
class LedgerView:
    """What the page of the ledger shows; of parked events and interrupted rounds the first."""

    head: int
    recorded_at: datetime | None
    guard_faults: tuple[str, ...]
    projections: tuple[Follower, ...]
    parked: tuple[Parked, ...]
    parked_count: int
    interrupted: tuple[str, ...]
    interrupted_count: int


def ledger_view(ledger: AskedLedger) -> LedgerView:
    """The head, and how far the read models have come."""
    head = ledger.reader.head()
    counts = parking.counts(ledger.connection)
    parked = parking.parked(ledger.connection)
    interrupted = rounds.interrupted(ledger.connection)
    return LedgerView(
        head=head,
        recorded_at=ledger.reader.head_recorded_at(),
        guard_faults=tuple(guard_faults(ledger.connection)),
        projections=tuple(
            Follower(name, position, max(head - position, 0), counts.get(name, 0))
            for name, position in runner.positions(ledger.connection)
        ),
        parked=tuple(parked[:PARKED_SHOWN]),
        parked_count=len(parked),
        interrupted=tuple(interrupted[:INTERRUPTED_SHOWN]),
        interrupted_count=len(interrupted),
    )


def no_feeds(_: int) -> Sequence[Mapping[str, Any]]:
    """Where the service knows of none."""
    return ()
