"""Judges one round, shoe or table from what the log holds about it."""

from typing import Any

from psycopg import Connection

from infrastructure.audit.audit import Scope, audit
from infrastructure.audit.findings import Report
from infrastructure.audit.source import reading
from infrastructure.store.schema import guard_faults


def audit_scope(connection: Connection[Any], scope: Scope, *, can_read_states: bool) -> Report:
    """What the whole audit would find of a scope; a report of no round where there is none."""
    faults = guard_faults(connection)
    with reading(connection, can_read_states=can_read_states) as source:
        return audit(
            source.about(scope),
            source.reader.naming_rounds,
            source.reader.entries,
            scope=scope,
            history_faults=faults,
            known=source.known(),
        )
