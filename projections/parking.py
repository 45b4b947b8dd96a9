"""Parked events: those that a read model cannot fold, and what follows them in their streams.

A read model goes on without them, and is not whole until they are folded.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from psycopg import Connection, Error, Rollback
from psycopg.errors import DataError, IntegrityError, ProgramLimitExceeded
from psycopg.rows import class_row, scalar_row, tuple_row

from domain.event import Entry, Recorded, Unreadable
from projections.projection import Projection, ProjectionFailed, utc

WHY_LENGTH_MAX = 500

# The tables are named without a schema, for a rebuild parks in one of its own.
DDL = """
    CREATE TABLE IF NOT EXISTS parked (
        name text COLLATE "C" NOT NULL,
        position bigint NOT NULL,
        stream text COLLATE "C" NOT NULL,
        version bigint NOT NULL,
        topic text COLLATE "C",
        why text NOT NULL,
        parked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
        PRIMARY KEY (name, position)
    )
"""
_EXISTS = "SELECT to_regclass('projection.parked') IS NOT NULL"
_READ = """
    SELECT name, position, stream, version, topic, why, parked_at
      FROM projection.parked
     ORDER BY position, name
"""
_COUNT = "SELECT name, count(*) FROM projection.parked GROUP BY name"
_COUNT_EVENTS = "SELECT count(DISTINCT position) FROM projection.parked"
_STREAMS = "SELECT name, stream, min(position) FROM parked GROUP BY name, stream"
_POSITIONS = "SELECT position FROM parked WHERE name = %(name)s ORDER BY position"
_PARK = """
    INSERT INTO parked (name, position, stream, version, topic, why)
    SELECT %(name)s, * FROM unnest(
        %(position)s::bigint[], %(stream)s::text[], %(version)s::bigint[], %(topic)s::text[],
        %(why)s::text[]
    )
    ON CONFLICT (name, position) DO UPDATE SET topic = excluded.topic, why = excluded.why
"""
_RELEASE = "DELETE FROM parked WHERE name = %(name)s AND position = ANY (%(positions)s::bigint[])"
_FORGET = "DELETE FROM projection.parked WHERE name = %(name)s"
_REPLACE = """
    INSERT INTO projection.parked (name, position, stream, version, topic, why, parked_at)
    SELECT name, position, stream, version, topic, why, parked_at
      FROM projection_rebuild.parked
     WHERE name = %(name)s
"""


class Parked(NamedTuple):
    """An event that a read model has left out; `topic` is None where no model reads the event."""

    name: str
    position: int
    stream: str
    version: int
    topic: str | None
    why: str
    parked_at: datetime


class _LeftOut(NamedTuple):
    """An entry that is to be parked; `why` is None where it only follows one that is."""

    entry: Entry
    why: str | None


def parked(connection: Connection[Any]) -> list[Parked]:
    """Every parked event, by position; a role that may only read can ask."""
    if not _exists(connection):
        return []
    with utc(connection.cursor(binary=True, row_factory=class_row(Parked))) as rows:
        return rows.execute(_READ).fetchall()


def counts(connection: Connection[Any]) -> dict[str, int]:
    """How many events are parked for each read model that has any."""
    if not _exists(connection):
        return {}
    with connection.cursor(row_factory=tuple_row) as cursor:
        return dict(cursor.execute(_COUNT).fetchall())


def count_events(connection: Connection[Any]) -> int:
    """How many events are parked, whichever and however many read models left them out."""
    if not _exists(connection):
        return 0
    with connection.cursor(row_factory=scalar_row) as cursor:
        count: int | None = cursor.execute(_COUNT_EVENTS).fetchone()
    assert count is not None
    return count


def fold(
    connection: Connection[Any], projections: Sequence[Projection], entries: Sequence[Entry]
) -> None:
    """Folds a page into the tables of the schema in use, and parks there what cannot be folded.

    The caller's transaction holds the read models' rows of `tracking`: what is
    parked already is read here, as another process may have parked or folded it.
    """
    shared_out = _shared_out(projections, entries)
    first: dict[str, dict[str, int]] = {projection.name: {} for projection in projections}
    with connection.cursor(row_factory=tuple_row) as cursor:
        for name, stream, position in cursor.execute(_STREAMS):
            if name in first:
                first[name][stream] = position
    if not any(first.values()) and _fold_all(connection, shared_out):
        return
    for projection, wanted in shared_out:
        left_out = _fold_what_fits(connection, projection, wanted, first[projection.name])
        _park(connection, projection, left_out, first[projection.name])


def _fold_all(
    connection: Connection[Any], shared_out: Sequence[tuple[Projection, Sequence[Entry]]]
) -> bool:
    """Folds a page into all read models at one go, or into none where an entry does not fit."""
    try:
        with connection.transaction():
            for projection, entries in shared_out:
                events = [entry for entry in entries if isinstance(entry, Recorded)]
                if len(events) < len(entries):
                    raise Rollback
                _fold(connection, projection, events)
            return True
    except ProjectionFailed:
        pass
    return False


def _shared_out(
    projections: Sequence[Projection], entries: Sequence[Entry]
) -> list[tuple[Projection, list[Entry]]]:
    """The read models that want any of the entries, each with those."""
    wanted: list[tuple[Projection, list[Entry]]] = [(projection, []) for projection in projections]
    by_topic: dict[str, list[list[Entry]]] = {}
    for projection, own in wanted:
        for topic in projection.topics:
            by_topic.setdefault(topic, []).append(own)
    for entry in entries:
        if isinstance(entry, Recorded):
            for own in by_topic.get(entry.event.TOPIC, ()):
                own.append(entry)
        else:
            for projection, own in wanted:
                if _wants(projection, entry):
                    own.append(entry)
    return [(projection, own) for projection, own in wanted if own]


def positions(connection: Connection[Any], projection: Projection) -> list[int]:
    """The positions of what is parked for a read model in the schema in use."""
    with connection.cursor(row_factory=scalar_row) as cursor:
        return cursor.execute(_POSITIONS, {"name": projection.name}).fetchall()


def fold_parked(
    connection: Connection[Any],
    projection: Projection,
    entries: Sequence[Entry],
    first: dict[str, int],
) -> int:
    """Folds parked events that fit by now, and returns how many are parked no longer.

    `first` holds the streams whose earlier events stay parked, each with the
    first position, and is added to.
    """
    wanted = [entry for entry in entries if _wants(projection, entry)]
    left_out = _fold_what_fits(connection, projection, wanted, first)
    staying = {entry.position for entry, _ in left_out}
    # One that nobody could read may have turned out to be none that is wanted.
    released = [entry.position for entry in entries if entry.position not in staying]
    connection.execute(_RELEASE, {"name": projection.name, "positions": released})
    _park(connection, projection, left_out, first)
    return len(released)


def forget(connection: Connection[Any], projection: Projection) -> None:
    """Removes what is parked for a read model that starts from the first event."""
    connection.execute(_FORGET, {"name": projection.name})


def replace_by_rebuilt(connection: Connection[Any], projection: Projection) -> None:
    """Puts what a rebuild parked in the place of what was parked."""
    forget(connection, projection)
    connection.execute(_REPLACE, {"name": projection.name})


def _wants(projection: Projection, entry: Entry) -> bool:
    if isinstance(entry, Recorded):
        return entry.event.TOPIC in projection.topics
    # Its topic may be what is wrong with it; the name of its stream says which model it is of.
    kind, _, _ = entry.stream.partition(":")
    return any(topic.startswith(f"{kind}.") for topic in projection.topics)


def _fold_what_fits(
    connection: Connection[Any],
    projection: Projection,
    entries: Sequence[Entry],
    first: dict[str, int],
) -> list[_LeftOut]:
    """Folds events, and returns those left out: the broken ones and what follows in their streams.

    A page that fails is halved until the event that does not fit stands alone.
    What is left out depends on the events only, and not on the pages; but a value that
    no table holds is not seen where it is gone again by the end of its page.
    """
    left_out: list[_LeftOut] = []

    def leave_out(entry: Entry, why: str | None) -> None:
        left_out.append(_LeftOut(entry, why))
        first[_stream(entry)] = min(first.get(_stream(entry), entry.position), entry.position)

    readable: list[Recorded] = []
    for entry in entries:
        if isinstance(entry, Unreadable):
            leave_out(entry, entry.why)
        else:
            readable.append(entry)
    pieces = [readable]
    while pieces:
        piece = pieces.pop()
        if first:
            candidates, piece = piece, []
            for entry in candidates:
                if first.get(entry.event.originator_id, entry.position) < entry.position:
                    leave_out(entry, None)
                else:
                    piece.append(entry)
        if not piece:
            continue
        try:
            with connection.transaction():
                _fold(connection, projection, piece)
        except ProjectionFailed as failure:
            if len(piece) == 1:
                leave_out(piece[0], failure.reason)
            else:
                middle = len(piece) // 2
                pieces += [piece[middle:], piece[:middle]]
    return left_out


# What no table holds: the database says so, or there is no way to write it down for it.
_UNFIT = (DataError, IntegrityError, ProgramLimitExceeded, ValueError)


def _fold(connection: Connection[Any], projection: Projection, events: Sequence[Recorded]) -> None:
    try:
        projection.fold(connection.cursor(row_factory=tuple_row), events)
    except _UNFIT as error:
        # Which event it is, only a piece of one event tells.
        event = events[0].event
        told = error.diag.message_primary if isinstance(error, Error) else None
        reason = f"{event.TOPIC} of {event.originator_id}: {told or error}"
        raise ProjectionFailed(projection.name, events[0].position, reason) from error


def _park(
    connection: Connection[Any],
    projection: Projection,
    left_out: Sequence[_LeftOut],
    first: dict[str, int],
) -> None:
    if not left_out:
        return
    entries = [entry for entry, _ in left_out]
    connection.execute(
        _PARK,
        {
            "name": projection.name,
            "position": [entry.position for entry in entries],
            "stream": [_stream(entry) for entry in entries],
            "version": [_version(entry) for entry in entries],
            "topic": [
                entry.event.TOPIC if isinstance(entry, Recorded) else None for entry in entries
            ],
            "why": [
                _line(f"it follows position {first[_stream(entry)]}" if why is None else why)
                for entry, why in left_out
            ],
        },
    )


def _stream(entry: Entry) -> str:
    return entry.event.originator_id if isinstance(entry, Recorded) else entry.stream


def _version(entry: Entry) -> int:
    return entry.event.originator_version if isinstance(entry, Recorded) else entry.version


def _line(why: str) -> str:
    # A reason may quote what was stored, and PostgreSQL keeps no text with a zero byte in it.
    return "".join(char if char.isprintable() else "?" for char in why)[:WHY_LENGTH_MAX]


def _exists(connection: Connection[Any]) -> bool:
    with connection.cursor(row_factory=scalar_row) as cursor:
        return bool(cursor.execute(_EXISTS).fetchone())
