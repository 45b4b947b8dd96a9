"""Audits one round, shoe or table from the store, as it is at one moment."""

from typing import Any

from psycopg import Connection

from infrastructure.audit.audit import Scope, audit
from infrastructure.audit.findings import Report
from infrastructure.audit.source import reading
from infrastructure.store.schema import guard_faults


def audit_scope(connection: Connection[Any], scope: Scope) -> Report:
    """Judges what is within a scope, with all that has to do with it."""
    assert not scope.is_everything, "the whole ledger is not judged in one go"
    faults = guard_faults(connection)
    with reading(connection, can_read_states=False) as source:
        return audit(
            source.about(scope),
            source.reader.naming_rounds,
            source.reader.entries,
            scope=scope,
            history_faults=faults,
            known=source.known(),
        )
