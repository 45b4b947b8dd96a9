"""Keeps the read models up to date: page by page, each event exactly once, whoever runs it."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import Any

from psycopg import Connection, OperationalError
from psycopg.pq import TransactionStatus

from projections import parking, tracking
from projections import rebuild as rebuilding
from projections.balances import Balances
from projections.days import Days
from projections.journal import Journal
from projections.parking import Parked as Parked
from projections.parking import parked as parked
from projections.projection import Projection, ProjectionError
from projections.rebuild import Difference
from projections.rounds import Rounds
from projections.shoes import Shoes
from projections.tables import Tables
from projections.tracking import (
    EVENTS_PER_PAGE,
    EVENTS_PER_PAGE_OF_REBUILD,
    Progress,
    Source,
)

ALL: tuple[Projection, ...] = (
    Balances(),
    Days(),
    Journal(),
    Rounds(),
    Shoes(),
    Tables(),
)

CHANNEL = "stored_events"
"""What a writer notifies when it has stored events."""


def ensure(connection: Connection[Any], projections: Sequence[Projection] = ALL) -> None:
    """Makes the tables of read models that have none, to be filled from the first event on."""
    _must_be_free(connection)
    tracking.ensure(connection, projections)


def catch_up(
    connection: Connection[Any],
    source: Source,
    *,
    projections: Sequence[Projection] = ALL,
    until: int | None = None,
    progress: Progress | None = None,
    events_per_page: int = EVENTS_PER_PAGE,
) -> int:
    """Folds what has come since, up to the head, and returns how many events were read.

    With `until`, it stops when that position is reached, where a writer might
    otherwise always be a page ahead. Read models that are missing are made, and
    those of an older version are rebuilt first. What one cannot fold is parked,
    together with all that follows in the same stream, and everything else goes on.
    """
    _must_be_free(connection)
    tracking.ensure(connection, projections)
    rebuilding.rebuild_outdated(
        connection, source, projections, progress=progress, events_per_page=events_per_page
    )
    events_read = 0
    while True:
        position, count, is_at_head = _fold_page(connection, source, projections, events_per_page)
        events_read += count
        if progress is not None:
            progress(position)
        if is_at_head or (until is not None and position >= until):
            return events_read


def follow(
    connection: Connection[Any],
    source: Source,
    *,
    poll_seconds: float = 1.0,
    projections: Sequence[Projection] = ALL,
) -> Iterator[int]:
    """Catches up whenever events are stored, and yields each time how many were read.

    A notification only shortens the wait: one that is missed costs `poll_seconds`.
    """
    assert connection.autocommit, "LISTEN takes effect at the commit"
    connection.execute(f"LISTEN {CHANNEL}")
    try:
        while True:
            for _ in connection.notifies(timeout=0):
                pass  # What was announced so far is read by this turn.
            yield catch_up(connection, source, projections=projections)
            for _ in connection.notifies(timeout=poll_seconds, stop_after=1):
                pass
    finally:
        # An interrupt may have come in the middle of a statement.
        if connection.info.transaction_status is TransactionStatus.IDLE:
            # A connection that has ended listens no more, and must not hide why we end.
            with suppress(OperationalError):
                connection.execute(f"UNLISTEN {CHANNEL}")


def rebuild(
    connection: Connection[Any],
    source: Source,
    names: Collection[str] | None = None,
    *,
    projections: Sequence[Projection] = ALL,
    progress: Progress | None = None,
    events_per_page: int = EVENTS_PER_PAGE_OF_REBUILD,
) -> None:
    """Builds read models anew from the events, all or those named, while the old ones answer."""
    _must_be_free(connection)
    chosen = _chosen(projections, names)
    rebuilding.rebuild(
        connection, source, chosen, progress=progress, events_per_page=events_per_page
    )


def check(
    connection: Connection[Any],
    source: Source,
    names: Collection[str] | None = None,
    *,
    projections: Sequence[Projection] = ALL,
    progress: Progress | None = None,
    events_per_page: int = EVENTS_PER_PAGE_OF_REBUILD,
) -> list[Difference]:
    """Builds read models beside the live ones, all or those named, and says where they differ.

    They are compared as of the position of the live ones, which stay as they are.
    """
    _must_be_free(connection)
    chosen = _chosen(projections, names)
    return rebuilding.check(
        connection, source, chosen, progress=progress, events_per_page=events_per_page
    )


def retry(
    connection: Connection[Any],
    source: Source,
    *,
    projections: Sequence[Projection] = ALL,
    events_per_page: int = EVENTS_PER_PAGE,
) -> int:
    """Folds parked events again, by position, and returns how many are parked no longer.

    One whose stream has an earlier one that still cannot be folded stays parked.
    That others of the same row were folded meanwhile makes no difference: where
    a row is made of several streams, their events change different parts of it
    or are counted.
    """
    _must_be_free(connection)
    tracking.ensure(connection, projections)
    rebuilding.rebuild_outdated(
        connection, source, projections, progress=None, events_per_page=events_per_page
    )
    count = 0
    for projection in projections:
        with connection.transaction():
            tracking.use_schema(connection, "projection")
            tracking.must_be_of_our_version([projection], tracking.lock(connection, [projection]))
            positions = parking.positions(connection, projection)
            first: dict[str, int] = {}
            for start in range(0, len(positions), events_per_page):
                entries = [
                    entry
                    for position in positions[start : start + events_per_page]
                    for entry in tracking.read(source, position - 1, 1)
                ]
                count += parking.fold_parked(connection, projection, entries, first)
    return count


def positions(connection: Connection[Any]) -> list[tuple[str, int]]:
    """The position of every read model, by name; a role that may only read can ask."""
    return [(row.name, row.position) for row in tracking.tracked(connection)]


def _fold_page(
    connection: Connection[Any],
    source: Source,
    projections: Sequence[Projection],
    events_per_page: int,
) -> tuple[int, int, bool]:
    """Folds one page into the read models that are furthest behind, in one transaction.

    Returns the position they have reached, how many events that took, and
    whether there are no more.
    """
    with connection.transaction():
        tracking.use_schema(connection, "projection")
        locked = tracking.lock(connection, projections)
        tracking.must_be_of_our_version(projections, locked)
        after = min(row.position for row in locked)
        others = [row.position for row in locked if row.position > after]
        behind = {row.name for row in locked if row.position == after}
        # Up to where the next ones stand, and from there on together with them.
        limit = min([events_per_page, *(position - after for position in others)])
        events = tracking.read(source, after, limit)
        position = after + len(events)
        if events:
            group = [projection for projection in projections if projection.name in behind]
            parking.fold(connection, group, events)
            tracking.advance(connection, group, position)
        return position, len(events), len(events) < limit


def _chosen(projections: Sequence[Projection], names: Collection[str] | None) -> list[Projection]:
    known = {projection.name: projection for projection in projections}
    for name in names or ():
        if name not in known:
            raise ProjectionError(f"there is no projection {name}, only {', '.join(sorted(known))}")
    return [projection for name, projection in known.items() if not names or name in names]


def _must_be_free(connection: Connection[Any]) -> None:
    # In a transaction of the caller each page would only be a savepoint of it.
    assert connection.autocommit, "each page is a transaction of its own"
    assert connection.info.transaction_status is TransactionStatus.IDLE
