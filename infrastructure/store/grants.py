"""Who may do what in the database itself: `punto db grant`."""

from enum import StrEnum

import psycopg
from psycopg import sql
from psycopg.rows import tuple_row

from infrastructure.settings import Settings
from infrastructure.store.connection import administering
from infrastructure.store.errors import SetupNotAllowed, StoreError
from infrastructure.store.schema import LEDGER_ROLE, OWNER_ROLE


class Access(StrEnum):
    """What a role that logs in works as."""

    SERVICE = "service"
    AUDITOR = "auditor"
    REPORTING = "reporting"


GROUPS = {
    Access.SERVICE: LEDGER_ROLE,
    Access.AUDITOR: "puntobanco_auditor",
    Access.REPORTING: "puntobanco_reporting",
}

_FIND = """
SELECT rolsuper OR rolreplication OR rolbypassrls,
       EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = %(owner)s)
       AND pg_has_role(rolname, %(owner)s, 'MEMBER')
  FROM pg_catalog.pg_roles
 WHERE rolname = %(role)s
"""
_IS_MEMBER = """
SELECT EXISTS (
    SELECT
      FROM pg_catalog.pg_auth_members AS member
     WHERE member.roleid = %(group)s::regrole AND member.member = %(role)s::regrole
)
"""


def grant(settings: Settings, role: str, access: Access) -> bool:
    """Makes a role one of a kind of access and of no other; whether the role was made just now.

    Refuses one that could change the history whatever it is granted.
    """
    if role.startswith("puntobanco_"):
        raise StoreError(f"{role} is a role of the ledger: name one that logs in")
    with administering(settings) as connection, connection.cursor(row_factory=tuple_row) as cursor:
        try:
            with connection.transaction():
                cursor.execute(_FIND, {"role": role, "owner": OWNER_ROLE})
                found = cursor.fetchone()
                if found is None:
                    cursor.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(role)))
                elif any(found):
                    raise StoreError(
                        f"The role {role} could change the history whatever it is granted: it is a"
                        " superuser, replicates, bypasses row security, or owns the ledger"
                    )
                for each, group in GROUPS.items():
                    _set_member(cursor, role, group, is_to_be=each is access)
        except psycopg.errors.InsufficientPrivilege as error:
            raise SetupNotAllowed(
                f"The role {connection.info.user} may not grant that"
                f" ({error.diag.message_primary}): run it as a superuser"
            ) from None
    return found is None


def _set_member(
    cursor: "psycopg.Cursor[tuple[object, ...]]", role: str, group: str, *, is_to_be: bool
) -> None:
    names = {"role": sql.Identifier(role), "of": sql.Identifier(group)}
    if is_to_be:
        cursor.execute(sql.SQL("GRANT {of} TO {role}").format(**names))
        return
    cursor.execute(_IS_MEMBER, {"role": sql.Identifier(role).as_string(), "group": group})
    row = cursor.fetchone()
    if row is not None and row[0]:
        cursor.execute(sql.SQL("REVOKE {of} FROM {role}").format(**names))
