"""Builds read models from the first event on, beside the live ones, and then swaps them.

The old tables answer until the swap, which is one short transaction. A rebuild
that was killed is gone on with by the next one of the same read models, from the
last page that was stored.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from psycopg import Connection
from psycopg.errors import DeadlockDetected, DependentObjectsStillExist, LockNotAvailable
from psycopg.rows import scalar_row, tuple_row
from psycopg.sql import SQL, Composed, Identifier

from projections import parking
from projections.projection import Projection, ProjectionError
from projections.tracking import (
    REBUILD_LOCK,
    Progress,
    Source,
    ahead,
    ensure,
    lock,
    must_be_of_our_version,
    read,
    tracked,
    use_schema,
)

# Whoever reads for long holds the swap up, and the waiting swap would hold up all other readers.
# It gives up and tries again sooner than PostgreSQL looks for deadlocks (1 s), so that a reader of
# several tables never is the victim of one.
SWAP_LOCK_TIMEOUT = "500ms"

_LEFTOVERS = "SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = 'projection_rebuild'"
_GRANTS = """
    SELECT format(
               'GRANT %%s ON projection_rebuild.%%I TO %%s%%s', privilege_type, class.relname,
               CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END,
               CASE WHEN is_grantable THEN ' WITH GRANT OPTION' ELSE '' END
           )
      FROM pg_catalog.pg_class AS class
      JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace
     CROSS JOIN LATERAL aclexplode(class.relacl)
     WHERE namespace.nspname = 'projection' AND class.relname = %(table)s
       AND grantee <> class.relowner
    UNION ALL
    SELECT format('GRANT SELECT ON projection_rebuild.%%I TO puntobanco_reader', %(table)s::text)
      FROM pg_catalog.pg_roles
     WHERE rolname = 'puntobanco_reader'
"""
# How far tables that are being built have come; each page moves it on.
_BUILDING = """
    CREATE TABLE projection_rebuild.building (
        name text COLLATE "C" PRIMARY KEY,
        version integer NOT NULL,
        position bigint NOT NULL
    )
"""
_BUILDING_EXISTS = "SELECT to_regclass('projection_rebuild.building') IS NOT NULL"
_BEGIN_BUILDING = """
    INSERT INTO projection_rebuild.building (name, version, position)
    VALUES (%(name)s, %(version)s, 0)
"""
_READ_BUILDING = "SELECT name, version, position FROM projection_rebuild.building"
_ADVANCE_BUILDING = "UPDATE projection_rebuild.building SET position = %(position)s"
_TRACK = """
    UPDATE projection.tracking
       SET version = %(version)s, position = %(position)s, updated_at = clock_timestamp()
     WHERE name = %(name)s
"""
# The same row twice counts twice.
_COMPARE = """
    SELECT (SELECT count(*) FROM (
               TABLE projection.{table} EXCEPT ALL TABLE projection_rebuild.{table}
           ) AS only_live),
           (SELECT count(*) FROM (
               TABLE projection_rebuild.{table} EXCEPT ALL TABLE projection.{table}
           ) AS only_rebuilt)
"""
# When and why something was parked makes no difference.
_COMPARE_PARKED = """
    SELECT (SELECT count(*) FROM (
               SELECT position FROM projection.parked WHERE name = %(name)s
               EXCEPT SELECT position FROM projection_rebuild.parked WHERE name = %(name)s
           ) AS only_live),
           (SELECT count(*) FROM (
               SELECT position FROM projection_rebuild.parked WHERE name = %(name)s
               EXCEPT SELECT position FROM projection.parked WHERE name = %(name)s
           ) AS only_rebuilt)
"""


class Difference(NamedTuple):
    """How many rows of a read model's table are not in its rebuilt one, and the other way round."""

    name: str
    table: str
    only_live: int
    only_rebuilt: int


def rebuild(
    connection: Connection[Any],
    source: Source,
    projections: Sequence[Projection],
    *,
    progress: Progress | None,
    events_per_page: int,
) -> None:
    """Builds these read models anew; waits for another rebuild to end."""
    ensure(connection, projections)
    with _one_at_a_time(connection):
        _rebuild(connection, source, projections, progress, events_per_page)


def check(
    connection: Connection[Any],
    source: Source,
    projections: Sequence[Projection],
    *,
    progress: Progress | None,
    events_per_page: int,
) -> list[Difference]:
    """Builds these read models beside the live ones, and says where those differ from them."""
    ensure(connection, projections)
    must_be_of_our_version(projections, tracked(connection))
    chosen = {projection.name for projection in projections}
    with _one_at_a_time(connection), _beside(connection, projections):
        position = 0
        while True:
            live = min(row.position for row in tracked(connection) if row.name in chosen)
            if live - position < events_per_page:
                # The rest is folded while nobody else can go on.
                return _compare(connection, source, projections, position, events_per_page)
            with connection.transaction():
                use_schema(connection, "projection_rebuild")
                position = _fold_to(
                    connection, source, projections, position, position + events_per_page
                )
            if progress is not None:
                progress(position)


def rebuild_outdated(
    connection: Connection[Any],
    source: Source,
    projections: Sequence[Projection],
    *,
    progress: Progress | None,
    events_per_page: int,
) -> None:
    """Builds those read models anew that an older version of their logic has folded.

    One that a newer version has folded is refused: two programs of different
    versions would otherwise rebuild it in turns for ever.
    """
    if not _outdated(connection, projections):
        return
    with _one_at_a_time(connection):
        # Looked at again under the lock, for another process may just have done it.
        if outdated := _outdated(connection, projections):
            _rebuild(connection, source, outdated, progress, events_per_page)


def _outdated(connection: Connection[Any], projections: Collection[Projection]) -> list[Projection]:
    versions = {row.name: row.version for row in tracked(connection)}
    for projection in projections:
        if versions[projection.name] > projection.version:
            raise ProjectionError(
                f"projection {projection.name} was built by a newer program: use that one,"
                f" or run `punto rebuild {projection.name}` with this one"
            )
    return [
        projection for projection in projections if versions[projection.name] < projection.version
    ]


def _rebuild(
    connection: Connection[Any],
    source: Source,
    projections: Sequence[Projection],
    progress: Progress | None,
    events_per_page: int,
) -> None:
    position = _built_before(connection, projections)
    if position is None:
        _begin(connection, projections)
        position = 0
    try:
        while True:
            position = _build(connection, source, projections, position, progress, events_per_page)
            try:
                _swap(connection, source, projections, position, events_per_page)
            except (LockNotAvailable, DeadlockDetected):
                continue
            break
    except Exception:
        # What fails now would fail again from here. What is interrupted would not.
        if not connection.closed:
            _clear(connection)
        raise
    _clear(connection)


@contextmanager
def _beside(connection: Connection[Any], projections: Sequence[Projection]) -> Iterator[None]:
    """Makes empty tables to build in, and drops them at the end."""
    _begin(connection, projections)
    try:
        yield
    finally:
        if not connection.closed:
            _clear(connection)


def _begin(connection: Connection[Any], projections: Sequence[Projection]) -> None:
    """Makes empty tables to build in, in the place of what another rebuild has left."""
    _clear(connection)
    with connection.transaction():
        use_schema(connection, "projection_rebuild")
        connection.execute(parking.DDL)
        connection.execute(_BUILDING)
        for projection in projections:
            connection.execute(projection.ddl, prepare=False)
            row = {"name": projection.name, "version": projection.version}
            connection.execute(_BEGIN_BUILDING, row)


def _built_before(connection: Connection[Any], projections: Sequence[Projection]) -> int | None:
    """Up to where a rebuild of just these read models has come that did not end; None: nowhere."""
    with connection.cursor(row_factory=scalar_row) as exists:
        if not exists.execute(_BUILDING_EXISTS).fetchone():
            return None
    with connection.cursor(row_factory=tuple_row) as cursor:
        found = cursor.execute(_READ_BUILDING).fetchall()
    wanted = {(projection.name, projection.version) for projection in projections}
    if {(name, version) for name, version, _ in found} != wanted:
        return None
    return int(found[0][2])


def _build(
    connection: Connection[Any],
    source: Source,
    projections: Sequence[Projection],
    position: int,
    progress: Progress | None,
    events_per_page: int,
) -> int:
    """Folds up to the head, a page a transaction, and returns the position reached."""
    is_at_head = False
    while not is_at_head:
        events = read(source, position, events_per_page)
        is_at_head = len(events) < events_per_page
        if events:
            position += len(events)
            with connection.transaction():
                use_schema(connection, "projection_rebuild")
                parking.fold(connection, projections, events)
                connection.execute(_ADVANCE_BUILDING, {"position": position})
        if progress is not None:
            progress(position)
    for projection in projections:
        if projection.indexes:
            with connection.transaction():
                use_schema(connection, "projection_rebuild")
                connection.execute(projection.indexes, prepare=False)
        for table in projection.tables:
            # A table without statistics is read by bad plans until autovacuum comes round.
            connection.execute(f"ANALYZE projection_rebuild.{table}")
    return position


def _swap(
    connection: Connection[Any],
    source: Source,
    projections: Sequence[Projection],
    position: int,
    events_per_page: int,
) -> None:
    """Folds what has come meanwhile and puts the new tables in the place of the old ones."""
    with connection.transaction():
        use_schema(connection, "projection_rebuild")
        connection.execute(f"SET LOCAL lock_timeout TO '{SWAP_LOCK_TIMEOUT}'")
        lock(connection, projections)
        while events := read(source, position, events_per_page):
            parking.fold(connection, projections, events)
            position += len(events)
            if len(events) < events_per_page:
                break
        for projection in projections:
            for table in projection.tables:
                _replace(connection, table)
            parking.replace_by_rebuilt(connection, projection)
            row = {"name": projection.name, "version": projection.version, "position": position}
            connection.execute(_TRACK, row)


def _compare(
    connection: Connection[Any],
    source: Source,
    projections: Sequence[Projection],
    after: int,
    events_per_page: int,
) -> list[Difference]:
    """Brings each to the position of its live one, which the lock holds there, and compares."""
    differences = []
    with connection.transaction():
        use_schema(connection, "projection_rebuild")
        locked = lock(connection, projections)
        must_be_of_our_version(projections, locked)
        positions = {row.name: row.position for row in locked}
        for projection in projections:
            position, live = after, positions[projection.name]
            while position < live:
                page_end = min(position + events_per_page, live)
                position = _fold_to(connection, source, [projection], position, page_end)
        # From here on all of each table is looked through.
        connection.execute("SET LOCAL enable_seqscan TO on")
        for projection in projections:
            for table in projection.tables:
                query = SQL(_COMPARE).format(table=Identifier(table))
                differences.append(_count(connection, query, projection.name, table))
            differences.append(_count(connection, SQL(_COMPARE_PARKED), projection.name, "parked"))
    return [each for each in differences if each.only_live or each.only_rebuilt]


def _fold_to(
    connection: Connection[Any],
    source: Source,
    projections: Sequence[Projection],
    after: int,
    position: int,
) -> int:
    events = read(source, after, position - after)
    if len(events) < position - after:
        raise ahead(position)
    parking.fold(connection, projections, events)
    return position


def _count(connection: Connection[Any], query: Composed | SQL, name: str, table: str) -> Difference:
    with connection.cursor(row_factory=tuple_row) as cursor:
        counts = cursor.execute(query, {"name": name}).fetchone()
    assert counts is not None
    return Difference(name, table, *counts)


def _replace(connection: Connection[Any], table: str) -> None:
    with connection.cursor(row_factory=scalar_row) as cursor:
        # The rights that were given on the old table, by whomever, hold for the new one.
        for grant in cursor.execute(_GRANTS, {"table": table}).fetchall():
            connection.execute(grant)
    try:
        connection.execute(f"DROP TABLE IF EXISTS projection.{table}")
    except DependentObjectsStillExist as error:
        what = (error.diag.message_detail or "something").splitlines()[0]
        raise ProjectionError(
            f"projection.{table} cannot be replaced ({what}): drop that, rebuild, and make it anew"
        ) from None
    connection.execute(f"ALTER TABLE projection_rebuild.{table} SET SCHEMA projection")


def _clear(connection: Connection[Any]) -> None:
    """Drops what a rebuild did not finish."""
    with connection.transaction(), connection.cursor(row_factory=scalar_row) as cursor:
        for table in cursor.execute(_LEFTOVERS).fetchall():
            name = Identifier("projection_rebuild", table)
            cursor.execute(SQL("DROP TABLE {} CASCADE").format(name))


@contextmanager
def _one_at_a_time(connection: Connection[Any]) -> Iterator[None]:
    """Holds the lock of rebuilds, which ends with the connection where the process is killed."""
    connection.execute("SELECT pg_advisory_lock(%s)", [REBUILD_LOCK])
    try:
        yield
    finally:
        if not connection.closed:
            connection.execute("SELECT pg_advisory_unlock(%s)", [REBUILD_LOCK])
