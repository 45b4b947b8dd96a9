"""Feeds the audit from the store."""

from collections.abc import Iterator

from infrastructure.audit.audit import Scope, audit
from infrastructure.audit.findings import Report
from infrastructure.cli.ledger import OpenLedger
from infrastructure.cli.output import Progress
from infrastructure.store.reader import Entry
from infrastructure.store.schema import guard_faults


def audit_ledger(ledger: OpenLedger, scope: Scope) -> Report:
    """Judges everything in a scope. A single round is read alone, the rest in order."""
    faults = guard_faults(ledger.connection)
    if scope.round is not None:
        pages = iter([ledger.reader.naming_round(scope.round)])
        return audit(pages, ledger.reader.naming_round, scope=scope, history_faults=faults)
    with Progress("Events judged") as progress:
        return audit(
            _watched(ledger, progress),
            ledger.reader.naming_round,
            scope=scope,
            history_faults=faults,
        )


def _watched(ledger: OpenLedger, progress: Progress) -> Iterator[list[Entry]]:
    head = ledger.reader.head()
    done = 0
    for page in ledger.reader.pages():
        yield page
        done += len(page)
        progress(done, max(head, done))
