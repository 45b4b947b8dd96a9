"""The command that exports the tables for reporting."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from infrastructure.cli.ledger import asking
from infrastructure.cli.output import Progress, print_json
from infrastructure.commands.contract import read_day

if TYPE_CHECKING:
    from infrastructure.exports.days import Days

_FORMATS = ("parquet", "csv")


def register(app: typer.Typer) -> None:
    """Adds this command to the application."""
    app.command("export")(export_tables)


def export_tables(
    to: Annotated[
        Path, typer.Option("--to", metavar="DIR", help="The folder; made where it is not there.")
    ],
    how: Annotated[
        str, typer.Option("--format", metavar="parquet|csv", help="How the tables are written.")
    ] = "parquet",
    days: Annotated[
        str | None,
        typer.Option(metavar="D..D", help="Only these gaming days (2026-01-01..2026-01-31)."),
    ] = None,
    anew: Annotated[
        bool, typer.Option("--anew", help="Write everything again, whatever is there.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="JSON on stdout and nothing else there.")
    ] = False,
) -> None:
    """Export events, rounds, bets, postings, commission and accounts as tables by gaming day.

    The same command again adds what is new, and replaces a day whole.

    Example: punto export --to reports
    """
    if how not in _FORMATS:
        raise typer.BadParameter(f"--format {how!r} is none of {', '.join(_FORMATS)}")
    # They load Arrow, which no other command has to wait for.
    from infrastructure.exports.exporting import export
    from infrastructure.exports.files import Format

    wanted = parse_days(days)
    with asking() as ledger, Progress("Exporting") as progress:
        report = export(
            ledger.connection,
            to,
            format_=Format(how),
            days=wanted,
            anew=anew,
            progress=progress,
        ).to_json()
    if as_json:
        print_json(report)
        return
    rows = ", ".join(f"{table['rows']:,} {name}" for name, table in report["tables"].items())
    print(f"{to}: {rows}, as of position {report['position']}")
    print(f"{report['written']} of {report['files']} files were written")


def parse_days(text: str | None) -> "Days":
    """The days that a text such as 2026-01-01..2026-01-31 names; all where it is None."""
    from infrastructure.exports.days import Days

    if text is None:
        return Days()
    first, dots, last = text.partition("..")
    try:
        days = Days(read_day(first), read_day(last if dots else first))
    except ValueError:
        raise typer.BadParameter(
            f"--days {text!r} are no days, such as 2026-01-01..2026-01-31"
        ) from None
    if days.first > days.last:
        raise typer.BadParameter(f"--days {text!r} ends before it starts")
    return days
