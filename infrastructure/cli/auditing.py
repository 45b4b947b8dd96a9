"""Feeds the audit from the store."""

from collections.abc import Iterator
from contextlib import suppress

from psycopg.errors import UndefinedTable

from domain.event import Entry
from infrastructure.audit.audit import Scope, audit
from infrastructure.audit.findings import Report
from infrastructure.cli.ledger import OpenLedger
from infrastructure.cli.output import Progress
from infrastructure.store.schema import guard_faults
from projections.runner import positions

_LAST_ANSWERED = "SELECT coalesce(max(position), 0) FROM ledger.answers"


def audit_ledger(ledger: OpenLedger, scope: Scope) -> Report:
    """Judges everything in a scope. A single round is read alone, the rest in order.

    What the scope names has to be there, or at least something that names it.
    """
    report = _audit(ledger, scope)
    if not report.rounds and not report.findings:
        ledger.must_have(table=scope.table, shoe=scope.shoe, round_id=scope.round)
    return report


def _audit(ledger: OpenLedger, scope: Scope) -> Report:
    faults = guard_faults(ledger.connection)
    if scope.round is not None:
        pages = iter([ledger.reader.naming_round(scope.round)])
        reader = ledger.reader
        return audit(pages, reader.naming_round, reader.entries, scope=scope, history_faults=faults)
    head = _last_known_position(ledger)
    with Progress("Events judged") as progress:
        return audit(
            _watched(ledger, progress, head),
            ledger.reader.naming_round,
            ledger.reader.entries,
            scope=scope,
            history_faults=faults,
            head=head,
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


def _watched(ledger: OpenLedger, progress: Progress, head: int) -> Iterator[list[Entry]]:
    done = 0
    for page in ledger.reader.pages():
        yield page
        done += len(page)
        progress(done, max(head, done))
