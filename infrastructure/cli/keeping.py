"""The commands that keep the ledger in order: `rebuild`, `parked` and `db upgrade`."""

from collections.abc import Sequence
from typing import Annotated

import typer

from infrastructure.cli.ledger import asking, say
from infrastructure.cli.output import Progress, print_json, print_rows
from infrastructure.settings import load_settings
from infrastructure.store.connection import upgrade_database
from infrastructure.store.errors import StoreError
from infrastructure.store.reader import LogReader
from projections import runner
from projections.parking import Parked

FINDINGS = 1

database = typer.Typer(no_args_is_help=True, help="The database's schema.")
parked = typer.Typer()

_AsJson = Annotated[bool, typer.Option("--json", help="JSON on stdout and nothing else there.")]


def register(app: typer.Typer) -> None:
    """Adds these commands to the application."""
    app.command("rebuild")(rebuild)
    app.add_typer(parked, name="parked")
    app.add_typer(database, name="db")


def rebuild(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Which ones; default: all.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Compare them with the live ones and swap nothing.")
    ] = False,
) -> None:
    """Rebuild projections from the events, beside the live ones, and swap them in.

    Example: punto rebuild balances rounds
    """
    known = [projection.name for projection in runner.ALL]
    for name in names or ():
        if name not in known:
            raise typer.BadParameter(f"there is no projection {name!r}: {', '.join(known)}")
    with asking(caught_up=False) as ledger:
        if not ledger.database.can_write:
            raise StoreError("This role may only read, and a rebuild writes")
        head = ledger.reader.head()
        with (
            Progress("Events folded") as progress,
            ledger.database.connect() as beside,
            LogReader(beside).reading_ahead() as page,
        ):
            differences = (runner.check if check else runner.rebuild)(
                ledger.connection,
                page,
                names=names or None,
                progress=lambda position: progress(position, head),
            )
        ledger.say_what_is_parked()
    for name, table, only_live, only_rebuilt in differences or ():
        what = "parked events differ" if table == "parked" else f"rows of {table} differ"
        print(f"{name}: {what}, {only_live} only live, {only_rebuilt} only rebuilt")
    if differences:
        raise typer.Exit(FINDINGS)
    print(f"{'No difference in' if check else 'Rebuilt'} {', '.join(names or known)}")


@parked.callback(invoke_without_command=True)
def list_parked(context: typer.Context, as_json: _AsJson = False) -> None:
    """List the events that a projection cannot fold, and those behind them, a line each.

    Everything else goes on without them. Once the cause is repaired, `punto parked retry`
    folds them.

    Example: punto parked
    """
    if context.invoked_subcommand is not None:
        return
    with asking(caught_up=False) as ledger:
        ledger.bring_up_to_date()
        lines = runner.parked(ledger.connection)
    _print_parked(lines, as_json=as_json)


@parked.command("retry")
def retry_parked(as_json: _AsJson = False) -> None:
    """Fold the parked events again; what still cannot be folded is listed.

    Example: punto parked retry
    """
    with asking(caught_up=False) as ledger:
        if not ledger.database.can_write:
            raise StoreError("This role may only read, and folding writes")
        count = runner.retry(ledger.connection, ledger.reader.page)
        lines = runner.parked(ledger.connection)
    say(f"Folded: {count}, still parked: {len(lines)}")
    if lines:
        _print_parked(lines, as_json=as_json)
        raise typer.Exit(FINDINGS)


def _print_parked(lines: Sequence[Parked], *, as_json: bool) -> None:
    if as_json:
        for line in lines:
            print_json(line._asdict())
        return
    print_rows(
        "Parked events",
        (
            ("projection", lambda line: line.name),
            ("position", lambda line: line.position),
            ("stream", lambda line: line.stream),
            ("version", lambda line: line.version),
            ("why", lambda line: line.why),
        ),
        lines,
    )


@database.command("upgrade")
def upgrade() -> None:
    """Bring the schema to this version of the program.

    Example: punto db upgrade
    """
    applied = upgrade_database(load_settings())
    if applied:
        print(f"Applied migrations {', '.join(str(number) for number in applied)}")
    else:
        print("The schema is up to date")
