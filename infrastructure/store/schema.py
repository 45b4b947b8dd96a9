"""The schema of the ledger: its numbered migrations, its version, and whether its guard stands."""

import re
from importlib.resources import files

import psycopg
from psycopg.rows import tuple_row

from infrastructure.store.errors import SchemaUnknown, SetupNotAllowed

OWNER_ROLE = "puntobanco_owner"
LEDGER_ROLE = "puntobanco_ledger"
READER_ROLE = "puntobanco_reader"

# "punto" in ASCII: two upgraders of one database wait for each other.
UPGRADE_LOCK = 0x70756E746F

GUARDED_TABLES = {
    "stored_events": ("originator_id, originator_version", "notification_id"),
    "answers": ("client, key",),
    "traces": ("first_position",),
}
"""The tables that only grow, each with the columns of its unique indexes."""
# The bits of pg_trigger.tgtype: BEFORE is 2, for each ROW (which ours are not) is 1.
GUARD_TYPES = {"delete": 2 | 8, "truncate": 2 | 32, "update": 2 | 16}


def _read_migrations() -> dict[int, str]:
    folder = files("infrastructure.store") / "migrations"
    return {
        int(file.name.split("_")[0]): file.read_text(encoding="utf-8")
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if file.name.endswith(".sql")
    }


MIGRATIONS = _read_migrations()
SCHEMA_VERSION = max(MIGRATIONS)


def current_version(connection: psycopg.Connection) -> int | None:
    """The version of the schema in this database; None where there is no ledger."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        # By the catalog, which a role without any rights can read as well.
        cursor.execute("""
            SELECT FROM pg_catalog.pg_class AS class
            JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace
            WHERE namespace.nspname = 'ledger' AND class.relname = 'schema_version'
        """)
        if cursor.fetchone() is None:
            return None
        cursor.execute("SELECT max(version) FROM ledger.schema_version")
        row = cursor.fetchone()
        assert row is not None
        version: int | None = row[0]
        return version


def upgrade(connection: psycopg.Connection) -> list[int]:
    """Apply the migrations that are missing and return their numbers.

    Each is one transaction together with the row that says so."""
    assert connection.autocommit, "a migration is a transaction of its own"
    applied = []
    try:
        for number, statements in MIGRATIONS.items():
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", [UPGRADE_LOCK])
                # Looked at under the lock, for another upgrader may just have been here.
                version = current_version(connection) or 0
                if version > SCHEMA_VERSION:
                    raise SchemaUnknown(unknown_version(version))
                if version >= number:
                    continue
                connection.execute(statements.encode())
                _as_owner(connection)
                connection.execute("INSERT INTO ledger.schema_version VALUES (%s)", [number])
                connection.execute("RESET ROLE")
                _leave_owner(connection)
                applied.append(number)
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction) as error:
        raise SetupNotAllowed(
            f"The role {connection.info.user} may not set up a ledger in"
            f" {connection.info.dbname} ({error.diag.message_primary}): run `punto db upgrade`"
            " once as a superuser, or as a role with CREATEROLE and CREATE on the database"
        ) from None
    return applied


def unknown_version(version: int) -> str:
    """The sentence about a schema from the future."""
    return (
        f"The ledger has schema version {version}, and this program knows {SCHEMA_VERSION}:"
        " use a newer puntobanco"
    )


def _as_owner(connection: psycopg.Connection) -> None:
    connection.execute(f"SET LOCAL ROLE {OWNER_ROLE}")


def _leave_owner(connection: psycopg.Connection) -> None:
    """End the membership that a migration gave to a role that is no superuser.

    The role that logs in must not be able to switch the guard off in passing. It keeps the right to
    grant it again, which the next upgrade needs."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        cursor.execute("SELECT FROM pg_catalog.pg_roles WHERE rolname = current_user AND rolsuper")
        if cursor.fetchone() is None:
            cursor.execute(f"REVOKE {OWNER_ROLE} FROM CURRENT_USER")


def guard_faults(connection: psycopg.Connection) -> list[str]:
    """Everything that is wrong with the guard of the events and what stands beside them, in words.

    Read from the catalog, so that a role that may only read can ask."""
    faults = []
    with connection.cursor(row_factory=tuple_row) as cursor:
        for table, unique in GUARDED_TABLES.items():
            cursor.execute(_OWNER, {"table": table})
            row = cursor.fetchone()
            if row is None:
                faults.append(f"the table ledger.{table} is missing")
                continue
            user, is_superuser, owner, is_owner = row
            if is_superuser:
                faults.append(f"{user}, who works on it, is a superuser and could switch it off")
            elif is_owner:
                faults.append(f"{user}, who works on ledger.{table}, owns it (as {owner})")
            cursor.execute(_TRIGGERS, {"table": table})
            found = {name: rest for name, *rest in cursor.fetchall()}
            for operation, kind in GUARD_TYPES.items():
                name = f"refuse_{operation}"
                fault = _trigger_fault(found.pop(name, None), kind)
                if fault is not None:
                    faults.append(f"the trigger {name} of ledger.{table} {fault}")
            faults += [f"ledger.{table} has a foreign trigger {name}" for name in found]
            cursor.execute(_KEYS, {"table": table})
            keys = {columns for (columns,) in cursor.fetchall()}
            faults += [
                f"ledger.{table} has no unique index of {columns}"
                for columns in unique
                if columns not in keys
            ]
            cursor.execute(_BESIDE, {"table": table})
            faults += [f"ledger.{table} has {what}" for (what,) in cursor.fetchall()]
    # Superuser is said once, not for each table.
    return list(dict.fromkeys(faults))


# The role is the one that statements are run as, after SET ROLE.
_OWNER = """
    SELECT current_user, me.rolsuper, owner.rolname, pg_has_role(current_user, owner.oid, 'MEMBER')
    FROM pg_catalog.pg_class AS class
    JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace
    JOIN pg_catalog.pg_roles AS owner ON owner.oid = class.relowner
    JOIN pg_catalog.pg_roles AS me ON me.rolname = current_user
    WHERE namespace.nspname = 'ledger' AND class.relname = %(table)s
"""
_TRIGGERS = """
    SELECT
        trigger.tgname, trigger.tgenabled::text, trigger.tgtype::integer,
        trigger.tgqual IS NULL AND cardinality(trigger.tgattr::int2[]) = 0 AS unconditional,
        language.lanname, function.prosrc
    FROM pg_catalog.pg_trigger AS trigger
    JOIN pg_catalog.pg_class AS class ON class.oid = trigger.tgrelid
    JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace
    JOIN pg_catalog.pg_proc AS function ON function.oid = trigger.tgfoid
    JOIN pg_catalog.pg_language AS language ON language.oid = function.prolang
    WHERE namespace.nspname = 'ledger' AND class.relname = %(table)s AND NOT trigger.tgisinternal
"""
# Unique indexes that are whole and at work, by their columns.
_KEYS = """
    SELECT (
        SELECT string_agg(attribute.attname, ', ' ORDER BY place)
        FROM unnest(index.indkey) WITH ORDINALITY AS key (number, place)
        JOIN pg_catalog.pg_attribute AS attribute
          ON attribute.attrelid = index.indrelid AND attribute.attnum = key.number
    )
    FROM pg_catalog.pg_index AS index
    JOIN pg_catalog.pg_class AS class ON class.oid = index.indrelid
    JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace
    WHERE namespace.nspname = 'ledger' AND class.relname = %(table)s
      AND index.indisunique AND index.indisvalid AND index.indimmediate
      AND index.indpred IS NULL AND index.indexprs IS NULL
"""
# What else can change what a statement does or shows.
_BESIDE = """
    WITH guarded AS (
        SELECT class.oid, class.relkind, class.relrowsecurity, class.relforcerowsecurity
        FROM pg_catalog.pg_class AS class
        JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace
        WHERE namespace.nspname = 'ledger' AND class.relname = %(table)s
    )
    SELECT 'a rule ' || rulename
    FROM guarded JOIN pg_catalog.pg_rewrite AS rewrite ON rewrite.ev_class = guarded.oid
    UNION ALL
    SELECT 'an inheriting table ' || inhrelid::regclass
    FROM guarded JOIN pg_catalog.pg_inherits ON inhparent = guarded.oid
    UNION ALL
    SELECT 'row security' FROM guarded WHERE relrowsecurity OR relforcerowsecurity
    UNION ALL
    SELECT 'another kind' FROM guarded WHERE relkind <> 'r'
"""


def _trigger_fault(found: list[object] | None, kind: int) -> str | None:
    if found is None:
        return "is missing"
    enabled, type_bits, unconditional, language, body = found
    if enabled == "D":
        return "is disabled"
    if enabled != "A":
        return "is not ENABLE ALWAYS"
    if type_bits != kind or not unconditional:
        return "has been replaced by another"
    if language != "plpgsql" or str(body).split() != _shipped_guard().split():
        return "calls a function that was changed"
    return None


def _shipped_guard() -> str:
    """The body of the guard in the latest migration that has it."""
    bodies = re.findall(r"\$guard\$(.*?)\$guard\$", "\n".join(MIGRATIONS.values()), re.DOTALL)
    return str(bodies[-1])
