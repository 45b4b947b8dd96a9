"""The page of a gaming day: what was played, what the odds promise, and the commission's proof."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from domain.event import Entry
from domain.gaming_day import Bounds
from infrastructure.audit.reconciliation.ledger import ledger_amounts
from infrastructure.audit.reconciliation.reconciliation import Reconciled, reconcile
from infrastructure.pages.formats import Formats
from infrastructure.pages.ledger import EVENTS_JUDGED_AT_ONCE, AskedLedger
from infrastructure.pages.plots import Bar
from infrastructure.pages.words import spoken
from projections import postings
from projections.day_report import DayReport, Line, day_calendar, day_report

BARS_MAX = 24


@dataclass(frozen=True, slots=True)
class Plot:
    """Bars of one currency under a heading."""

    title: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class DayView:
    """What the page of a gaming day shows; `reconciled` is None where it was not asked for."""

    report: DayReport
    bounds: Bounds
    before: date
    after: date
    parts: tuple[tuple[str, str, tuple[dict[str, Any], ...]], ...]
    plots: tuple[Plot, ...]
    reconciled: Reconciled | None


def day_view(
    ledger: AskedLedger,
    day: date,
    formats: Formats,
    *,
    may_reconcile: bool,
    is_reconciliation_asked: bool = False,
) -> DayView:
    """The report on a gaming day, plotted, and reconciled where that is quick or was asked for."""
    report = day_report(ledger.connection, day)
    until = postings.position(ledger.connection)
    is_quick = until <= EVENTS_JUDGED_AT_ONCE
    is_reconciled = may_reconcile and (is_reconciliation_asked or is_quick)
    parts = (
        ("In all", "", report.totals),
        ("By table", "Table", report.tables),
        ("By shoe", "Shoe", report.shoes),
        ("By bet", "Bet", report.bets),
        ("Late, of closed days", "Day", report.late),
    )
    return DayView(
        report=report,
        bounds=day_calendar(ledger.connection).bounds(day),
        before=day - timedelta(days=1),
        after=day + timedelta(days=1),
        parts=tuple(
            (title, key, tuple(line.to_json() for line in lines))
            for title, key, lines in parts
            if lines
        ),
        plots=tuple(_plots(report, formats)),
        reconciled=_reconciled(ledger, day, until) if is_reconciled else None,
    )


def _reconciled(ledger: AskedLedger, day: date, until: int) -> Reconciled:
    return reconcile(
        _pages(ledger, until),
        lambda after, position: ledger_amounts(ledger.connection, after, position),
        ledger.reader.entries,
        day=day,
    )


def _pages(ledger: AskedLedger, until: int) -> Iterator[list[Entry]]:
    """All events up to the position that the journal has come to."""
    for page in ledger.reader.pages():
        yield [entry for entry in page if entry.position <= until]
        if page[-1].position >= until:
            return


def _plots(report: DayReport, formats: Formats) -> Iterator[Plot]:
    for currency in sorted({line.currency for line in report.totals}):
        for title, lines, measure in (
            ("Win and commission by bet, beside what the odds promise", report.bets, _kept),
            ("Turnover by bet", report.bets, _turnover),
            ("Win and commission by table", report.tables, _kept),
            ("Commission by table", report.tables, _commission),
        ):
            bars = _bars(lines, currency, measure, formats)
            if bars:
                yield Plot(f"{title}, {currency}", bars)


def _bars(
    lines: Sequence[Line],
    currency: str,
    measure: "Callable[[dict[str, Any]], _Measured]",
    formats: Formats,
) -> tuple[Bar, ...]:
    bars = []
    for line in lines:
        if line.currency != currency:
            continue
        value, expected, deviation = measure(line.to_json())
        text = formats.money(value, currency)
        label = spoken(line.key) if line.key.islower() else line.key
        bars.append(Bar(label, value, text, expected, deviation))
    # The largest, where they would not fit.
    return tuple(bars if len(bars) <= BARS_MAX else sorted(bars, key=_size)[-BARS_MAX:])


_Measured = tuple[int, int | None, int | None]


def _kept(line: dict[str, Any]) -> _Measured:
    """What the house kept, what it would have in theory, and the standard deviation."""
    kept_minor = line["win_minor"] + line["commission_minor"]
    return kept_minor, line["theoretical_minor"], line["standard_deviation_minor"]


def _turnover(line: dict[str, Any]) -> _Measured:
    return line["turnover_minor"], None, None


def _commission(line: dict[str, Any]) -> _Measured:
    return line["commission_minor"], None, None


def _size(bar: Bar) -> int:
    return abs(bar.value)
