"""The keys of the service: who holds each, and what for. Only a hash of a key is kept."""

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg import Connection
from psycopg.rows import class_row, scalar_row

from domain.errors import Refused
from infrastructure.api.roles import ROLES_OF_KEYS, Role

PREFIX = "punto"
SECRET_BYTES = 32
RESERVED_OWNERS = frozenset({"cli", "import", "simulate", "local", "demo"})
"""Names under which the program itself gives commands."""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as it is listed: `tables` are those of a table's key, `account` that of a player's."""

    id: str
    owner: str
    role: str
    tables: list[str]
    account: str | None
    created_at: datetime
    revoked_at: datetime | None


_INSERT = """
INSERT INTO ledger.api_keys (id, owner, role, tables, account, secret_hash)
VALUES (%(id)s, %(owner)s, %(role)s, %(tables)s, %(account)s, %(secret_hash)s)
RETURNING id, owner, role, tables, account, created_at, revoked_at
"""
_LIST = """
SELECT id, owner, role, tables, account, created_at, revoked_at
  FROM ledger.api_keys
 ORDER BY created_at, id
"""
_REVOKE = """
UPDATE ledger.api_keys
   SET revoked_at = coalesce(revoked_at, clock_timestamp())
 WHERE id = %(id)s
RETURNING id, owner, role, tables, account, created_at, revoked_at
"""
_FIND = """
SELECT id, owner, role, tables, account, created_at, revoked_at
  FROM ledger.api_keys
 WHERE secret_hash = %(secret_hash)s AND revoked_at IS NULL
"""
_ARE_THERE_ANY = "SELECT EXISTS (SELECT FROM ledger.api_keys)"


def create_key(
    connection: Connection[Any],
    *,
    owner: str,
    role: Role,
    tables: Sequence[str] = (),
    account: str | None = None,
) -> tuple[ApiKey, str]:
    """Makes a key. It is in the answer and nowhere else, and cannot be shown again."""
    if owner in RESERVED_OWNERS:
        raise Refused("invalid_command", f"{owner} is a name of the program: choose another owner")
    if role not in ROLES_OF_KEYS:
        raise Refused("invalid_command", f"there are no keys for the role {role}")
    if (role is Role.TABLE) != bool(tables):
        raise Refused("invalid_command", "a table's key names its tables, and no other key does")
    if (role is Role.PLAYER) != (account is not None):
        raise Refused("invalid_command", "a player's key names its account, and no other key does")
    identity = secrets.token_hex(6)
    key = f"{PREFIX}_{identity}_{secrets.token_urlsafe(SECRET_BYTES)}"
    row = {"id": identity, "owner": owner, "role": role.value, "tables": list(tables)}
    with connection.cursor(row_factory=class_row(ApiKey)) as cursor:
        cursor.execute(_INSERT, {**row, "account": account, "secret_hash": _hash(key)})
        created = cursor.fetchone()
    assert created is not None
    return created, key


def list_keys(connection: Connection[Any]) -> list[ApiKey]:
    """Every key there ever was, in the order in which they were made."""
    with connection.cursor(row_factory=class_row(ApiKey)) as cursor:
        return cursor.execute(_LIST).fetchall()


def revoke_key(connection: Connection[Any], identity: str) -> ApiKey | None:
    """Revokes a key for good; None where there is none of this id."""
    with connection.cursor(row_factory=class_row(ApiKey)) as cursor:
        return cursor.execute(_REVOKE, {"id": identity}).fetchone()


def find_key(connection: Connection[Any], key: str) -> ApiKey | None:
    """What is kept of a key; None where it is no key or was revoked."""
    with connection.cursor(row_factory=class_row(ApiKey)) as cursor:
        return cursor.execute(_FIND, {"secret_hash": _hash(key)}).fetchone()


def are_there_keys(connection: Connection[Any]) -> bool:
    """Whether a key was ever made. From then on every caller needs one."""
    with connection.cursor(row_factory=scalar_row) as cursor:
        return bool(cursor.execute(_ARE_THERE_ANY).fetchone())


def _hash(key: str) -> bytes:
    # A key has 256 bits of chance, so there is nothing to guess that a slow hash would protect.
    return hashlib.sha256(key.encode()).digest()
