"""Feeds the audit from the store."""

from collections.abc import Iterator, Sequence
from contextlib import suppress

from psycopg.errors import UndefinedTable

from domain.event import Entry
from infrastructure.audit.accounts import Tangled
from infrastructure.audit.audit import Scope, audit
from infrastructure.audit.findings import Report
from infrastructure.audit.jobs import AuditIncomplete, audit_with_jobs
from infrastructure.audit.scoped import audit_scope
from infrastructure.audit.source import Source, reading
from infrastructure.cli.ledger import OpenLedger
from infrastructure.cli.output import Progress
from infrastructure.store.schema import guard_faults
from projections.runner import positions

_LAST_ANSWERED = "SELECT coalesce(max(position), 0) FROM ledger.answers"


def audit_ledger(ledger: OpenLedger, scope: Scope, *, jobs: int = 1) -> Report:
    """Judges everything in a scope, in so many processes where it is the whole ledger.

    What the scope names has to be there, or at least something that names it.
    Raises AuditIncomplete where it ends early.
    """
    try:
        report = _audit(ledger, scope, jobs)
    except KeyboardInterrupt:
        raise AuditIncomplete("The audit was stopped, so there is no verdict") from None
    if not report.rounds and not report.findings:
        ledger.must_have(table=scope.table, shoe=scope.shoe, round_id=scope.round)
    return report


def _audit(ledger: OpenLedger, scope: Scope, jobs: int) -> Report:
    if not scope.is_everything:
        return audit_scope(ledger.connection, scope)
    faults = guard_faults(ledger.connection)
    head = _last_known_position(ledger)
    with reading(ledger.connection, can_read_states=ledger.database.can_write) as source:
        if jobs > 1:
            with suppress(Tangled):
                return _audit_with_jobs(ledger, source, jobs, faults, head)
        return _audit_in_one_go(source, faults, head)


def _audit_in_one_go(source: Source, faults: Sequence[str], head: int) -> Report:
    with Progress("Events judged") as progress:
        return audit(
            _watched(source, progress, head),
            source.reader.naming_rounds,
            source.reader.entries,
            history_faults=faults,
            head=head,
            known=source.known(with_states=True),
        )


def _audit_with_jobs(
    ledger: OpenLedger, source: Source, jobs: int, faults: Sequence[str], head: int
) -> Report:
    with Progress("Events judged") as progress:
        return audit_with_jobs(
            source,
            source.known(),
            ledger.database.conninfo,
            jobs=jobs,
            can_read_states=ledger.database.can_write,
            history_faults=faults,
            head=head,
            watch=progress,
        )


def _last_known_position(ledger: OpenLedger) -> int:
    """The latest position that anything speaks of, though its event may be gone."""
    known = [ledger.reader.head(), *(position for _, position in positions(ledger.connection))]
    if ledger.database.can_write:
        # Others may not read the answers.
        with suppress(UndefinedTable):
            row = ledger.connection.execute(_LAST_ANSWERED).fetchone()
            known += [] if row is None else [int(str(row[0]))]
    return max(known)


def _watched(source: Source, progress: Progress, head: int) -> Iterator[list[Entry]]:
    done = 0
    for page in source.reader.pages():
        yield page
        done += len(page)
        progress(done, max(head, done))
