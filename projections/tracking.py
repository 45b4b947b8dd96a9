"""How far each read model has come: one row each, moved on together with what was folded."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from psycopg import Connection
from psycopg.rows import class_row, scalar_row, tuple_row

from domain.event import Entry
from projections import parking
from projections.projection import Projection, ProjectionError

Source = Callable[[int, int], Sequence[Entry]]
"""`source(after, limit)`: the next events after a position; fewer than `limit` only at the head."""

Progress = Callable[[int], None]
"""Is told after each page the position that was reached."""

EVENTS_PER_PAGE = 5_000
EVENTS_PER_PAGE_OF_REBUILD = 20_000

# "ensure" and "rebuild" in ASCII.
ENSURE_LOCK = 0x656E73757265
REBUILD_LOCK = 0x72656275696C64

_TRACKING = """
    CREATE TABLE IF NOT EXISTS projection.tracking (
        name text COLLATE "C" PRIMARY KEY,
        version integer NOT NULL,
        position bigint NOT NULL,
        updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
    )
"""
_EXISTS = "SELECT to_regclass('projection.tracking') IS NOT NULL"
_ALL_EXIST = """
    SELECT to_regclass('projection.tracking') IS NOT NULL
       AND to_regclass('projection.parked') IS NOT NULL
"""
_READ = "SELECT name, version, position FROM projection.tracking ORDER BY name"
_ADD = """
    INSERT INTO projection.tracking (name, version, position)
    VALUES (%(name)s, %(version)s, 0)
    ON CONFLICT (name) DO NOTHING
    RETURNING true
"""
_LOCK = """
    SELECT name, version, position
      FROM projection.tracking
     WHERE name = ANY (%(names)s::text[])
     ORDER BY name
       FOR UPDATE
"""
_ADVANCE = """
    UPDATE projection.tracking
       SET position = %(position)s, updated_at = clock_timestamp()
     WHERE name = ANY (%(names)s::text[])
"""
# What a crash loses is folded again, rows and position alike: no page waits for the disk.
# A fold finds its rows by their keys: a plan that looks through all of a table, made while
# that was small, would be kept while it grows. What has no key to go by then seems so dear
# to servers before version 18 that they would compile it.
_USE_SCHEMA = """
    SELECT set_config('search_path', %(search_path)s, true),
           set_config('synchronous_commit', 'off', true),
           set_config('enable_seqscan', 'off', true),
           set_config('jit', 'off', true)
"""


class Tracked(NamedTuple):
    """A read model as it stands: the version of its logic, and the last position folded."""

    name: str
    version: int
    position: int


def tracked(connection: Connection[Any]) -> list[Tracked]:
    """Every read model as it stands; a role that may only read can ask."""
    with connection.cursor(row_factory=scalar_row) as cursor:
        if not cursor.execute(_EXISTS).fetchone():
            return []
    with connection.cursor(row_factory=class_row(Tracked)) as rows:
        return rows.execute(_READ).fetchall()


def lock(connection: Connection[Any], projections: Iterable[Projection]) -> list[Tracked]:
    """Locks the rows of some read models until the end of the transaction.

    Whoever folds holds them, so that each event is folded once, whatever
    other processes do.
    """
    with connection.cursor(row_factory=class_row(Tracked)) as rows:
        names = [projection.name for projection in projections]
        return rows.execute(_LOCK, {"names": names}).fetchall()


def advance(connection: Connection[Any], projections: Iterable[Projection], position: int) -> None:
    """Records that everything up to a position is folded."""
    names = [projection.name for projection in projections]
    connection.execute(_ADVANCE, {"names": names, "position": position})


def ensure(connection: Connection[Any], projections: Sequence[Projection]) -> None:
    """Makes the tables of read models that have none, to be filled from the first event on."""
    with connection.cursor(row_factory=scalar_row) as exist:
        if exist.execute(_ALL_EXIST).fetchone():
            names = {row.name for row in tracked(connection)}
            if all(projection.name in names for projection in projections):
                return
    with connection.transaction():
        # IF NOT EXISTS is no help against another process that is just making the same table.
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [ENSURE_LOCK])
        connection.execute(_TRACKING)
        use_schema(connection, "projection")
        connection.execute(parking.DDL)
        for projection in projections:
            row = {"name": projection.name, "version": projection.version}
            with connection.cursor(row_factory=tuple_row) as cursor:
                is_new = cursor.execute(_ADD, row).fetchone() is not None
            if is_new:
                # Rows of unknown position would be folded twice.
                parking.forget(connection, projection)
                for table in projection.tables:
                    connection.execute(f"DROP TABLE IF EXISTS {table}")
                connection.execute(projection.ddl, prepare=False)
                if projection.indexes:
                    connection.execute(projection.indexes, prepare=False)


def use_schema(connection: Connection[Any], schema: str) -> None:
    """Readies a transaction for a schema's tables: names mean them, rows are found by keys."""
    connection.execute(_USE_SCHEMA, {"search_path": f"{schema}, pg_temp"})


def read(source: Source, after: int, limit: int) -> Sequence[Entry]:
    """The next page of events; refuses one that does not follow the position without a gap."""
    events = source(after, limit)
    if not events and after and not source(after - 1, 1):
        raise ahead(after)
    if events and (events[0].position, events[-1].position) != (after + 1, after + len(events)):
        raise ProjectionError(
            f"the events after position {after} are not numbered without gaps: run `punto audit`"
        )
    return events


def ahead(position: int) -> ProjectionError:
    """What is said of read models that hold more than the ledger does."""
    return ProjectionError(
        f"the projections stand at position {position}, where the ledger has not come to:"
        " run `punto rebuild`"
    )


def must_be_of_our_version(projections: Iterable[Projection], locked: Sequence[Tracked]) -> None:
    """Refuses read models that another version of their logic has folded."""
    versions = {row.name: row.version for row in locked}
    for projection in projections:
        if versions.get(projection.name) != projection.version:
            raise ProjectionError(
                f"projection {projection.name} was rebuilt by another version of this program"
            )
