"""The commands that add to the ledger: `run`, `simulate`, `import` and `demo`."""

import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from infrastructure.casino import Casino
from infrastructure.cli.demo import demo
from infrastructure.cli.ledger import writing
from infrastructure.cli.output import Progress, print_json
from infrastructure.commands.contract import (
    LINE_BYTES_MAX,
    Command,
    NotACommand,
    read_command,
    read_rules,
)
from infrastructure.commands.execution import (
    Answer,
    Client,
    error_of,
    execute,
    execute_in_batches,
)
from infrastructure.importers.importing import import_rounds
from infrastructure.importers.layouts import LAYOUTS
from infrastructure.importers.reading import read_rounds
from infrastructure.simulation import simulate
from infrastructure.store.errors import StoreUnavailable

REFUSALS = 1
_CLIENT = Client("cli")

_AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


def register(app: typer.Typer) -> None:
    """Adds these commands to the application."""
    app.command("demo")(demo)
    app.command("run")(run)
    app.command("simulate")(simulate_shoes)
    app.command("import")(import_file)


def run(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A file of commands, or - for standard input.")
    ],
    batch: Annotated[
        int, typer.Option(min=1, max=1000, help="How many commands share a transaction.")
    ] = 1,
) -> None:
    """Run commands, one JSON object a line; each is answered by one JSON line, in order.

    A command that was stored is answered again and not repeated, so a file
    that was interrupted is simply run again. Exit code 1 where any was refused.
    Where the store is away for long it stops, for what follows may rest on what
    could not be stored.

    Example: punto run evening.ndjson > answers.ndjson
    """
    refused = False
    with _opened(file) as lines, writing() as casino:
        portions = _portions(_lines(lines), batch)
        # Whoever writes to a pipe may wait for an answer before the next command.
        is_ahead = file != "-" and Path(file).is_file()
        for portion, answers in _execute(casino, portions, is_ahead=is_ahead):
            for answer in portion.answers(answers):
                refused |= not answer["ok"]
                print_json(answer)
            # Whoever reads the other end is to have them at once.
            sys.stdout.flush()
            if any(_found_no_store(answer) for answer in answers):
                raise StoreUnavailable(
                    f"Stopped at line {portion.first_line}, for the store is away: "
                    "run the same file again"
                )
    raise typer.Exit(REFUSALS if refused else 0)


def _opened(file: str) -> BinaryIO:
    if file == "-":
        return sys.stdin.buffer
    return Path(file).open("rb")


def _lines(source: BinaryIO) -> Iterator[bytes]:
    """Lines without their end; of one that is too long only so much that it can be refused."""
    while line := source.readline(LINE_BYTES_MAX + 2):
        rest = line
        while not rest.endswith(b"\n") and len(rest) == LINE_BYTES_MAX + 2:
            rest = source.readline(LINE_BYTES_MAX + 2)
        yield line.rstrip(b"\r\n")


class _Portion(list[Command]):
    """The commands of lines that share a transaction; what cannot be read is refused already."""

    def __init__(self, numbered: Sequence[tuple[int, bytes]]) -> None:
        super().__init__()
        self.first_line = numbered[0][0]
        self._refusals: list[Answer | None] = []
        for number, line in numbered:
            try:
                self.append(read_command(line))
                self._refusals.append(None)
            except NotACommand as refusal:
                error = {**error_of(refusal), "line": number}
                answer = {"key": refusal.key, "ok": False, "replayed": False, "error": error}
                self._refusals.append(answer)

    def answers(self, executed: Sequence[Answer]) -> list[Answer]:
        """An answer for each line, in order, from those that the commands were given."""
        rest = iter(executed)
        return [refusal or next(rest) for refusal in self._refusals]


def _portions(lines: Iterator[bytes], lines_max: int) -> Iterator[_Portion]:
    numbered = enumerate(lines, 1)
    while some := list(islice(numbered, lines_max)):
        yield _Portion(some)


def _execute(
    casino: Casino, portions: Iterator[_Portion], *, is_ahead: bool
) -> Iterator[tuple[_Portion, list[Answer]]]:
    """The answers to the commands of each portion, the next one decided ahead or not."""
    if is_ahead:
        return execute_in_batches(casino, portions, client=_CLIENT)
    return ((portion, execute(casino, portion, client=_CLIENT)) for portion in portions)


def _found_no_store(answer: Answer) -> bool:
    return not answer["ok"] and answer["error"]["code"] == "store_unavailable"


def simulate_shoes(
    tables: Annotated[int, typer.Option(min=1, help="How many tables play.")] = 1,
    shoes: Annotated[int, typer.Option(min=1, help="Whole shoes at each table.")] = 1,
    seats: Annotated[int, typer.Option(min=1, max=100, help="Betting players a table.")] = 7,
    seed: Annotated[int, typer.Option(min=0, help="Decides every card, bet and time.")] = 1,
    currency: Annotated[str, typer.Option(help="ISO 4217.")] = "USD",
    rules: Annotated[
        str | None, typer.Option(help="The tables' rules as JSON, where not the default ones.")
    ] = None,
    as_json: _AsJson = False,
) -> None:
    """Play whole shoes with betting players, table after table; the same seed plays the same.

    Example: punto simulate --tables 4 --shoes 10 --seats 7 --seed 1
    """
    table_rules = None if rules is None else read_rules(rules)
    with writing() as casino, Progress("Rounds played") as progress:
        report = simulate(
            casino,
            tables=tables,
            shoes=shoes,
            seats=seats,
            seed=seed,
            currency=currency,
            rules=table_rules,
            progress=progress,
        )
    if as_json:
        print_json(report.to_json())
    else:
        print(report)
    raise typer.Exit(REFUSALS if report.refused else 0)


def import_file(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A CSV file with the rounds of another system.")
    ],
    table: Annotated[str, typer.Option(help="The table that the rounds are recorded at.")],
    preset: Annotated[
        str, typer.Option(help=f"How the file is laid out: {', '.join(LAYOUTS)}.")
    ] = "points-csv",
    currency: Annotated[
        str | None, typer.Option(help="ISO 4217; of a new table USD where left out.")
    ] = None,
    as_json: _AsJson = False,
) -> None:
    """Record the rounds of another system as they fell; what is wrong with them the audit finds.

    A malformed row refuses the file before anything is stored. The same file
    again adds nothing, and one that has grown adds its new rows.

    Example: punto import recorded_shoes.csv --table T1
    """
    layout = LAYOUTS.get(preset)
    if layout is None:
        raise typer.BadParameter(f"there is no preset {preset!r}: {', '.join(LAYOUTS)}")
    rounds = read_rounds(file, layout)
    with writing() as casino, Progress("Rounds recorded") as progress:
        report = import_rounds(casino, rounds, table_id=table, currency=currency, progress=progress)
    if as_json:
        print_json(report.to_json())
    else:
        print(report)
