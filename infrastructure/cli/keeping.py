"""The commands that keep the ledger in order: `rebuild` and `db upgrade`."""

from typing import Annotated

import typer

from infrastructure.cli.ledger import asking
from infrastructure.cli.output import Progress
from infrastructure.settings import load_settings
from infrastructure.store.connection import upgrade_database
from infrastructure.store.errors import StoreError
from projections import runner

database = typer.Typer(no_args_is_help=True, help="The database's schema.")


def register(app: typer.Typer) -> None:
    """Adds these commands to the application."""
    app.command("rebuild")(rebuild)
    app.add_typer(database, name="db")


def rebuild(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Which ones; default: all.")
    ] = None,
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
        with Progress("Events folded") as progress:
            runner.rebuild(
                ledger.connection,
                ledger.reader.page,
                names=names or None,
                progress=lambda position: progress(position, head),
            )
    print(f"Rebuilt {', '.join(names or known)}")


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
