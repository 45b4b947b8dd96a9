"""The entry of `punto`: its commands, and the one place where errors become exit codes.

0 as asked; 1 findings, refusals or differences; 2 bad usage, bad input or could
not check, with one line that says what to do.
"""

import gc
import io
import logging
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Sequence
from importlib import metadata
from types import FrameType, TracebackType
from typing import Annotated

import psycopg
import typer
from eventsourcing.persistence import MapperDeserialisationError, PersistenceError
from typer.exceptions import TyperException

from domain.errors import Refused
from infrastructure.audit.jobs import AuditIncomplete
from infrastructure.audit.reconciliation.statement import StatementRefused
from infrastructure.cli import (
    asking,
    books,
    exporting,
    feeding,
    keeping,
    reporting,
    serving,
    writing,
)
from infrastructure.cli.ledger import NotFoundError
from infrastructure.exports.errors import ExportRefused
from infrastructure.feed.errors import FeedError
from infrastructure.importers.reading import ImportRefused
from infrastructure.settings import SettingsError
from infrastructure.store.errors import StoreError, first_line
from projections.projection import ProjectionError

COULD_NOT = 2
INTERRUPTED = 128 + signal.SIGINT
_ONE_LINE = (
    SettingsError,
    StoreError,
    NotFoundError,
    Refused,
    ExportRefused,
    ImportRefused,
    StatementRefused,
    ProjectionError,
    AuditIncomplete,
    FeedError,
)
"""Errors whose message is one line for the user."""

app = typer.Typer(
    name="punto",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="An event-sourced ledger for casino baccarat: record, replay and audit any round.",
)


def _show_version(asked: bool) -> None:  # noqa: FBT001 - called by typer
    if asked:
        print(f"punto {metadata.version('puntobanco')}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and exit.", is_eager=True, callback=_show_version
        ),
    ] = False,
) -> None:
    pass


writing.register(app)
asking.register(app)
books.register(app)
reporting.register(app)
exporting.register(app)
feeding.register(app)
keeping.register(app)
serving.register(app)


def main() -> None:
    """Runs `punto` with the arguments of this process."""
    sys.excepthook = _report_a_bug
    # What the driver warns of in passing, an exception says as well where it matters.
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    signal.signal(signal.SIGTERM, _stop)
    # What is loaded by now stays, and is not looked through for garbage again and again.
    gc.freeze()
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Runs one command of `punto`; its exit code."""
    if any("\ud800" <= character <= "\udfff" for each in arguments for character in each):
        return _could_not("An argument holds a character that cannot be printed")
    try:
        return _invoke(arguments)
    except TyperException as error:
        return _could_not(_usage(error))
    except _ONE_LINE as error:
        return _could_not(str(error))
    except MapperDeserialisationError as error:
        return _could_not(f"{first_line(error)}: `punto audit` says what else is wrong")
    except (PersistenceError, psycopg.Error) as error:
        return _could_not(f"The store failed: {first_line(error)}")
    except (BrokenPipeError, SystemExit):
        # Whoever read our output has gone, for which rich ends the program; Python
        # would complain once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if arguments[:1] == ["run"]:
            # Unlike a question, whose first lines may be all that was wanted.
            return _could_not("Nobody reads the answers any more. The same command again goes on.")
        return 0
    except OSError as error:
        return _could_not(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except KeyboardInterrupt:
        _could_not("Stopped. What was answered is stored; the same command again goes on.")
        return INTERRUPTED


def _invoke(arguments: Sequence[str]) -> int:
    # Called as `app()`, typer would show a traceback of its own for a bug, and
    # make exit codes of its own of an interrupt and of a pipe that was closed.
    command = typer.main.get_command(app)
    code = 0
    try:
        with command.make_context("punto", list(arguments)) as context:
            command.invoke(context)
    except typer.Exit as ending:
        code = ending.exit_code
    sys.stdout.flush()
    return code


def _usage(error: TyperException) -> str:
    """What is wrong with the arguments, and where it says what they are."""
    context: typer.Context | None = getattr(error, "ctx", None)
    hint = "" if context is None else f" (`{context.command_path} --help` says how it is used)"
    # Without a command the help is shown already, and the library has no more to say.
    reason = error.format_message().rstrip(".") or "Which command? They are listed above"
    return f"{reason}{hint}"


def _could_not(reason: str) -> int:
    print(f"punto: {' '.join(reason.split())}", file=sys.stderr)
    return COULD_NOT


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _report_a_bug(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    with tempfile.NamedTemporaryFile("w", prefix="punto-", suffix=".txt", delete=False) as report:
        report.writelines(traceback.format_exception(kind, error, trace))
    _could_not(
        f"This is a bug in punto ({kind.__name__}: {first_line(error)}); "
        f"please report it with {report.name}"
    )
    os._exit(COULD_NOT)


if __name__ == "__main__":
    main()
