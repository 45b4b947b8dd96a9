"""The database of the ledger: where it is, as which role we work in it, and how to connect."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import tuple_row

from infrastructure.settings import Settings
from infrastructure.store.errors import (
    NOT_INSTALLED,
    HistoryUnprotected,
    SchemaOutdated,
    SchemaUnknown,
    SetupNotAllowed,
    StoreError,
    StoreUnavailable,
)
from infrastructure.store.schema import (
    LEDGER_ROLE,
    READER_ROLE,
    SCHEMA_VERSION,
    current_version,
    guard_faults,
    unknown_version,
    upgrade,
)

if TYPE_CHECKING:
    from infrastructure.store.embedded import EmbeddedServer

Progress = Callable[[str], None]

# What a user's string does not say itself.
DEFAULTS = {"application_name": "punto", "connect_timeout": "10"}
# What this program relies on, whatever the string or the environment says.
NEEDED = {"client_encoding": "utf8"}
SERVER_VERSION_MIN = 140000
SECRETS = ("password", "sslpassword")


@dataclass(frozen=True, kw_only=True)
class Database:
    """A database that holds a ledger of our schema version, and our rights in it."""

    url: str
    conninfo: str
    role: Literal["ledger", "reader"]
    can_write: bool
    server: "EmbeddedServer | None" = None

    def __repr__(self) -> str:
        # The two strings may hold a password.
        return f"Database({self.masked_url!r}, role={self.role!r})"

    @property
    def masked_url(self) -> str:
        """The address without its passwords, for people and logs."""
        return mask(self.url)

    def connect(self, **kwargs: Any) -> psycopg.Connection:
        """A new connection, with autocommit unless asked otherwise."""
        return _connect(self.conninfo, **kwargs)

    def check_writable(self) -> None:
        """Raise unless this role may write and the guard of the history stands."""
        if not self.can_write:
            raise StoreError(f"The ledger in {self.masked_url} may only be read from here")
        with self.connect() as connection:
            faults = guard_faults(connection)
        if faults:
            raise HistoryUnprotected(f"The history is not protected: {'; '.join(faults)}")

    def close(self) -> None:
        """Leave the embedded server, which stops when nobody else uses it."""
        if self.server is not None:
            self.server.stop()

    def __enter__(self) -> "Database":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_database(
    settings: Settings, *, setup: bool = True, progress: Progress | None = None
) -> Database:
    """The database that the settings name, ready to work with.

    One without a ledger gets it when `setup` is asked and the role may. An older schema is left as
    it is: upgrading is a decision."""
    server, url = _locate(settings, progress)
    try:
        with _connect(_complete(url)) as connection:
            _check_schema(connection, mask(url), setup=setup)
            if server is not None:
                # On the socket everybody is trusted to be whom they say, so we say who we are.
                url = server.url(user=LEDGER_ROLE)
                conninfo = _complete(url)
            elif _may_become_ledger_role(connection):
                conninfo = _complete(url, role=LEDGER_ROLE)
            else:
                conninfo = _complete(url)
        with _connect(conninfo) as connection:
            can_write = may_write(connection)
        role: Literal["ledger", "reader"] = "ledger" if can_write else "reader"
        return Database(url=url, conninfo=conninfo, role=role, can_write=can_write, server=server)
    except BaseException as error:
        if server is not None:
            server.stop()
        if isinstance(error, psycopg.Error):
            raise StoreUnavailable(_interrupted(error)) from None
        raise


def upgrade_database(settings: Settings, *, progress: Progress | None = None) -> list[int]:
    """Apply the migrations that the database lacks and return their numbers."""
    server, url = _locate(settings, progress)
    try:
        with _connect(_complete(url)) as connection:
            return upgrade(connection)
    except psycopg.Error as error:
        raise StoreUnavailable(_interrupted(error)) from None
    finally:
        if server is not None:
            server.stop()


@contextmanager
def administering(settings: Settings) -> Iterator[psycopg.Connection]:
    """A connection as the role that logs in, which may set up what the ledger's own may not."""
    server, url = _locate(settings, None)
    try:
        with _connect(_complete(url)) as connection:
            _check_schema(connection, mask(url), setup=True)
            yield connection
    except psycopg.Error as error:
        raise StoreUnavailable(_interrupted(error)) from None
    finally:
        if server is not None:
            server.stop()


def mask(url: str) -> str:
    """The address with every password in it as `***`."""
    if re.match(r"postgres(ql)?://", url):
        # Greedy up to the last @, for a password with an @ of its own is a common mistake.
        url = re.sub(r"(://[^:@/?#]*):[^?]*@", r"\1:***@", url)
        return re.sub(r"([?&](?:ssl)?password=)[^&]*", r"\1***", url)
    try:
        parts = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        # Nobody knows where in it a password may stand.
        return "(not a database URL)"
    hidden = {name: "***" for name in SECRETS if name in parts}
    return make_conninfo("", **{**parts, **hidden})


def _locate(settings: Settings, progress: Progress | None) -> "tuple[EmbeddedServer | None, str]":
    """The address to log in at, and the embedded server if it is the one."""
    if settings.database_url is not None:
        return None, settings.database_url.get_secret_value().strip()
    try:
        from infrastructure.store.embedded import EmbeddedServer
    except ModuleNotFoundError:
        # What the embedded server needs comes with its extra.
        raise StoreUnavailable(NOT_INSTALLED) from None
    # Variables for libpq would lead to another server than our own.
    for name in [name for name in os.environ if name.startswith("PG")]:
        del os.environ[name]
    server = EmbeddedServer(settings.home, progress=progress)
    return server, server.start()


def _complete(url: str, *, role: str | None = None) -> str:
    """The connection string for an address: with our defaults, and working as the role."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        # The message of the library quotes the text, and with it a password.
        raise StoreUnavailable(
            "PUNTO_DATABASE_URL is not a database URL like postgresql://user@host/database"
        ) from None
    for name, value in DEFAULTS.items():
        parts.setdefault(name, value)
    parts.update(NEEDED)
    if role is not None:
        # Ours would replace the options of the environment, so they are taken along.
        options = parts.get("options") or os.environ.get("PGOPTIONS", "")
        parts["options"] = f"{options} -c role={role}".strip()
    return make_conninfo("", **parts)


def _connect(conninfo: str, **kwargs: Any) -> psycopg.Connection:
    kwargs.setdefault("autocommit", True)
    try:
        return psycopg.connect(conninfo, **kwargs)
    except (psycopg.OperationalError, psycopg.ProgrammingError) as error:
        raise StoreUnavailable(
            f"No connection to the database: {_reason(error, conninfo)}"
        ) from None


def _reason(error: psycopg.Error, conninfo: str) -> str:
    """The telling line of a failed connection, without the password."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # Several hosts give several lines, the first of which says no more than that.
    failures = [line for line in lines if "failed:" in line] or lines or ["no answer"]
    reason = failures[-1].lstrip("- ").removeprefix("connection failed: ")
    reason = reason.removeprefix("connection is bad: ")
    parts = conninfo_to_dict(conninfo)
    if "/" in str(parts.get("password", "")) or "@" in str(parts.get("host", "")):
        # The library took a piece of the password for the host.
        return "write @, : and / in the password of the URL as %40, %3A and %2F"
    for name in SECRETS:
        if secret := parts.get(name):
            reason = reason.replace(str(secret), "***")
    return reason


def _interrupted(error: psycopg.Error) -> str:
    return f"The database could not do its work: {str(error).partition(chr(10))[0]}"


def _check_schema(connection: psycopg.Connection, address: str, *, setup: bool) -> None:
    if connection.info.server_version < SERVER_VERSION_MIN:
        raise StoreError(
            f"{address}: PostgreSQL {connection.info.server_version // 10000} is too old,"
            f" {SERVER_VERSION_MIN // 10000} or later is needed"
        )
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreError(f"{address} has the encoding {encoding}, and the ledger needs UTF8")
    try:
        version = current_version(connection)
    except psycopg.errors.InsufficientPrivilege:
        raise StoreError(
            f"The role {connection.info.user} may not read the ledger in {address}:"
            f" GRANT {READER_ROLE} TO it"
        ) from None
    if version is None:
        if not setup:
            raise SetupNotAllowed(f"There is no ledger in {address}: `punto db upgrade` makes it")
        upgrade(connection)
    elif version < SCHEMA_VERSION:
        raise SchemaOutdated(
            f"The ledger in {address} has schema version {version}, and {SCHEMA_VERSION} is"
            " needed: run `punto db upgrade`"
        )
    elif version > SCHEMA_VERSION:
        raise SchemaUnknown(unknown_version(version))


def _may_become_ledger_role(connection: psycopg.Connection) -> bool:
    # Since PostgreSQL 16 one can be a member without the right to SET ROLE.
    kind = "SET" if connection.info.server_version >= 160000 else "MEMBER"
    with connection.cursor(row_factory=tuple_row) as cursor:
        cursor.execute(
            """
            SELECT current_user <> role.rolname AND pg_has_role(current_user, role.oid, %s)
            FROM pg_catalog.pg_roles AS role WHERE role.rolname = %s
            """,
            [kind, LEDGER_ROLE],
        )
        row = cursor.fetchone()
    return row is not None and bool(row[0])


def may_write(connection: psycopg.Connection) -> bool:
    """Whether events can be added: the role may, and the server is no standby."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        # A standby is read-only whatever the rights.
        cursor.execute("""
            SELECT has_table_privilege('ledger.stored_events', 'INSERT')
                AND current_setting('transaction_read_only') = 'off'
        """)
        row = cursor.fetchone()
    assert row is not None
    return bool(row[0])
