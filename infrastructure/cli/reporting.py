"""The reports: commission, its reconciliation, and the gaming day."""

import sys
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import msgspec
import typer
from rich.text import Text

from domain.event import Entry
from infrastructure.audit.reconciliation.ledger import ledger_amounts
from infrastructure.audit.reconciliation.reconciliation import Reconciled, reconcile
from infrastructure.audit.reconciliation.statement import Statement, read_statement
from infrastructure.cli.asking import parse_day
from infrastructure.cli.ledger import OpenLedger, asking, writing
from infrastructure.cli.output import Progress, console, money, print_json, print_rows
from infrastructure.commands.contract import read_command
from infrastructure.commands.execution import Client, execute
from projections.commission import CommissionBy, CommissionLine, commission
from projections.day_report import DayReport, Line, day_calendar, day_report
from projections.projection import ProjectionError
from projections.runner import positions

DIFFERENCES = 1
REFUSED = 1
DIFFERENCES_SHOWN = 20
"""How many differences people are shown; programs get them all."""

reconciling = typer.Typer(no_args_is_help=True, help="Set independent records against each other.")

_AsJson = Annotated[bool, typer.Option("--json", help="JSON on stdout and nothing else there.")]


def register(app: typer.Typer) -> None:
    """Adds these commands to the application."""
    app.command("commission")(list_commission)
    app.add_typer(reconciling, name="reconcile")
    app.command("day")(show_day)
    app.command("close-day")(close_day)


def list_commission(
    by: Annotated[CommissionBy, typer.Option(help="What it is added up by.")] = CommissionBy.TABLE,
    as_json: _AsJson = False,
) -> None:
    """List the commission charged and marked, less what corrections took back.

    Example: punto commission --by day
    """
    with asking() as ledger:
        lines = commission(ledger.connection, by)
    if as_json:
        for line in lines:
            print_json(asdict(line))
        return
    print_rows(
        f"Commission by {by.value}",
        (
            (by.value, lambda line: line.key),
            ("commission", lambda line: money(line.commission_minor, line.currency)),
            ("Banker stakes won", _stakes),
            ("bets", lambda line: line.bets),
        ),
        lines,
    )


def _stakes(line: CommissionLine) -> str:
    return money(line.winning_banker_stakes_minor, line.currency)


@reconciling.command("commission")
def reconcile_commission(
    day: Annotated[
        str | None, typer.Option(metavar="DATE", help="Only this gaming day, as in 2026-01-31.")
    ] = None,
    statement: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A statement from outside, in CSV, to compare as well."),
    ] = None,
    as_json: _AsJson = False,
) -> None:
    """Recompute the commission and compare every record of it; exit code 1 on any difference.

    It is recomputed from the cards, and compared to the minor unit with the
    accounts' events, the ledger's postings and a statement, by table, shoe,
    account and gaming day.

    Example: punto reconcile commission --day 2026-01-31
    """
    only = None if day is None else parse_day(day, "--day")
    stated = None if statement is None else read_statement(statement)
    with asking() as ledger:
        reconciled = reconcile_ledger(ledger, day=only, statement=stated)
    if as_json:
        print_json(reconciled.to_json())
    else:
        _print_reconciled(reconciled)
    raise typer.Exit(0 if reconciled.ok else DIFFERENCES)


def reconcile_ledger(
    ledger: OpenLedger, *, day: date | None = None, statement: Statement | None = None
) -> Reconciled:
    """Reconciles everything up to the position that the journal has come to."""
    until = dict(positions(ledger.connection)).get("journal")
    if until is None:
        raise ProjectionError("the journal is not built yet: ask once as a role that may write")
    with Progress("Events reconciled") as progress:
        return reconcile(
            _pages(ledger, until, progress),
            lambda after, position: ledger_amounts(ledger.connection, after, position),
            ledger.reader.entries,
            day=day,
            statement=statement,
        )


def _pages(ledger: OpenLedger, until: int, progress: Progress) -> Iterator[list[Entry]]:
    for page in ledger.reader.pages():
        # A page of postings is read up to the end of each page of events.
        yield [entry for entry in page if entry.position <= until]
        done = page[-1].position
        if done >= until:
            return
        progress(done, until)


def _print_reconciled(reconciled: Reconciled) -> None:
    rows = [{"currency": currency, **sums} for currency, sums in reconciled.currencies.items()]
    print_rows(
        "Commission",
        (
            ("currency", lambda row: row["currency"]),
            ("recomputed", lambda row: money(row["recomputed_minor"], row["currency"])),
            ("events", lambda row: money(row["events_minor"], row["currency"])),
            ("ledger", lambda row: money(row["ledger_minor"], row["currency"])),
            ("statement", _statement),
        ),
        rows,
        gives_way=(),
    )
    if reconciled.ok:
        console.print("No difference")
        return
    print_rows(
        f"Differences: {len(reconciled.differences):,}",
        (
            ("source", lambda each: each.source),
            ("by", lambda each: each.by),
            ("key", lambda each: each.key),
            ("problem", lambda each: each.problem),
            ("expected", lambda each: _amount(each.expected_minor, each.currency)),
            ("found", lambda each: _amount(each.found_minor, each.currency)),
            ("behind it", lambda each: _rounds(each.rounds)),
        ),
        reconciled.differences[:DIFFERENCES_SHOWN],
    )


def _statement(row: dict[str, Any]) -> str | None:
    minor = row["statement_minor"]
    return None if minor is None else money(minor, row["currency"])


def _amount(amount_minor: int, currency: str | None) -> str:
    return str(amount_minor) if currency is None else money(amount_minor, currency)


def _rounds(rounds: tuple[str, ...]) -> str:
    shown = ", ".join(rounds[:3])
    return shown if len(rounds) <= 3 else f"{shown} and {len(rounds) - 3:,} more"


def show_day(
    day: Annotated[
        str | None,
        typer.Option(metavar="DATE", help="As in 2026-01-31. [default: today]", show_default=False),
    ] = None,
    table: Annotated[str | None, typer.Option(help="Only this table.")] = None,
    as_json: _AsJson = False,
) -> None:
    """Report a gaming day: turnover, win, hold and commission, beside the theoretical win.

    Example: punto day --day 2026-01-31
    """
    asked = None if day is None else parse_day(day, "--day")
    with asking() as ledger:
        ledger.must_have(table=table)
        asked = asked or day_calendar(ledger.connection).day_of(datetime.now(UTC))
        report = day_report(ledger.connection, asked, table=table)
    if as_json:
        print_json(report.to_json())
    else:
        _print_day(report)


def _print_day(report: DayReport) -> None:
    state = "closed" if report.is_closed else "open"
    start, end = (text[:16].replace("T", " ") for text in (report.start, report.end))
    console.print(Text(f"Gaming day {report.day}, {state}: {start} to {end} UTC"))
    if not report.is_played:
        console.print("No play")
    for title, key, lines in (
        ("In all", None, report.totals),
        ("Tables", "table", report.tables),
        ("Shoes", "shoe", report.shoes),
        ("Bets", "bet", report.bets),
        ("Late, of closed days", "day", report.late),
    ):
        if lines:
            _print_lines(title, key, lines)


def _print_lines(title: str, key: str | None, lines: tuple[Line, ...]) -> None:
    columns: tuple[tuple[str, Any], ...] = (
        ("turnover", lambda line: money(line["turnover_minor"], line["currency"])),
        ("win", lambda line: money(line["win_minor"], line["currency"])),
        ("commission", lambda line: money(line["commission_minor"], line["currency"])),
        ("hold %", lambda line: line["hold_percent"]),
        ("in theory", lambda line: money(line["theoretical_minor"], line["currency"])),
        ("deviations", lambda line: line["deviations"]),
        ("bets", lambda line: line["bets"]),
        ("rounds", lambda line: line["rounds"]),
        ("in play", lambda line: money(line["in_play_end_minor"], line["currency"])),
    )
    if key is not None:
        columns = ((key, lambda line: line["key"]), *columns)
    print_rows(
        title, columns, [line.to_json() for line in lines], gives_way=("in play", "deviations")
    )


def close_day(
    day: Annotated[str, typer.Argument(metavar="DATE", help="As in 2026-01-31.")],
    actor: Annotated[str | None, typer.Option(help="Who closes it.")] = None,
    as_json: _AsJson = False,
) -> None:
    """Close a gaming day that is over, and every earlier one: its report never changes again.

    What comes later and happened on it falls into the day that is open.

    Example: punto close-day 2026-01-31
    """
    date_ = parse_day(day, "DATE")
    given = {"command": "close_day", "key": f"close-day-{uuid4()}", "day": date_, "actor": actor}
    command = read_command(msgspec.json.encode(given))
    with writing() as casino:
        [answer] = execute(casino, [command], client=Client("cli"))
    if as_json:
        print_json(answer)
    elif answer["ok"]:
        print(f"Gaming day {day} is closed")
    else:
        print(f"punto: {answer['error']['message']}", file=sys.stderr)
    raise typer.Exit(0 if answer["ok"] else REFUSED)
