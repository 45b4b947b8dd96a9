"""The page of the ledger itself: how far it has come, and what lags behind it or is left out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from infrastructure.pages.ledger import AskedLedger
from infrastructure.store.schema import guard_faults
from projections import parking, rounds, runner
from projections.parking import Parked

INTERRUPTED_SHOWN = 100
PARKED_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Follower:
    """What follows the ledger: a read model or a feed, and the position that it has come to."""

    name: str
    position: int
    lag_events: int
    parked: int = 0


ReadFeeds = Callable[[], Sequence[tuple[str, int]]]
"""Gives each feed that the service knows of, with its position, which is kept downstream."""


@dataclass(frozen=True, slots=True)
class LedgerView:
    """What the page of the ledger shows; of parked events and interrupted rounds the first."""

    head: int
    recorded_at: datetime | None
    guard_faults: tuple[str, ...]
    projections: tuple[Follower, ...]
    feeds: tuple[Follower, ...]
    parked: tuple[Parked, ...]
    parked_count: int
    interrupted: tuple[str, ...]
    interrupted_count: int


def ledger_view(ledger: AskedLedger, read_feeds: ReadFeeds) -> LedgerView:
    """The head, and how far everything that follows it has come."""
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
        feeds=tuple(
            Follower(name, position, max(head - position, 0)) for name, position in read_feeds()
        ),
        parked=tuple(parked[:PARKED_SHOWN]),
        parked_count=len(parked),
        interrupted=tuple(interrupted[:INTERRUPTED_SHOWN]),
        interrupted_count=len(interrupted),
    )


def no_feeds() -> Sequence[tuple[str, int]]:
    """Where the service knows of none."""
    return ()
