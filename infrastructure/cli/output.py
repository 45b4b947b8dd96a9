"""What people and programs get to see: JSON lines, tables, cards, money and progress."""

import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Self

import msgspec
from rich import box
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

from domain.money import format_money

PATIENCE_SECONDS = 2.0
RED_SUITS = "HD"

COLUMNS_UNSEEN = 160
"""How wide output is that goes to no terminal, where COLUMNS does not say."""

console = Console(
    highlight=False,
    emoji=False,  # an id such as A:bell:B stays what it is
    width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else COLUMNS_UNSEEN,
)


def print_json(document: Any) -> None:
    """One JSON document, or one row of several, on a line of its own."""
    sys.stdout.buffer.write(msgspec.json.encode(document) + b"\n")


def print_rows(
    title: str,
    columns: Sequence[tuple[str, Callable[[Any], Any]]],
    rows: Iterable[Any],
    *,
    gives_way: Sequence[str] = (),
) -> None:
    """A table for people; each column has a heading and takes its cell from a row.

    Columns that give way are left out, one after another, where a narrow
    terminal would have to break the lines of the others, and the last line
    says which. No number is ever cut: a terminal that is narrower still breaks
    the lines.
    """
    rows = list(rows)
    left_out: list[str] = []
    table = _table(title, columns, rows)
    for name in gives_way:
        if table.__rich_measure__(console, _AS_WIDE_AS_IT_TAKES).maximum <= console.width:
            break
        left_out.append(name)
        columns = [column for column in columns if column[0] != name]
        table = _table(title, columns, rows)
    least = table.__rich_measure__(console, _AS_WIDE_AS_IT_TAKES).minimum
    if least > console.width:
        table.width = least
    console.print(table, crop=False)
    if left_out:
        console.print(f"Too narrow for: {', '.join(left_out)}", style="dim")


def _table(
    title: str, columns: Sequence[tuple[str, Callable[[Any], Any]]], rows: Iterable[Any]
) -> Table:
    table = Table(
        title=Text(title, style="table.title"),
        title_justify="left",
        header_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        show_edge=False,
        pad_edge=False,
    )
    cells = [[_cell(take(row)) for _, take in columns] for row in rows]
    for place, (heading, _) in enumerate(columns):
        is_number = heading in _NUMBERS
        whole = [row[place].cell_len for row in cells] if is_number else []
        # An id that was cut off could not be copied, and a number would be another.
        table.add_column(
            heading,
            justify="right" if is_number else "left",
            no_wrap=is_number,
            min_width=max(len(heading), *whole, 0),
            overflow="fold",
        )
    for row in cells:
        table.add_row(*row)
    return table


_AS_WIDE_AS_IT_TAKES = console.options.update(width=100_000)
_NUMBERS = (
    {
        "number",
        "rounds",
        "bets",
        "total",
        "lag",
        "parked",
        "position",
        "version",
        "stake",
        "win",
    }
    | {
        "available",
        "in play",
        "due",
        "owed",
        "commission",
        "turnover",
        "drawn",
        "burned",
        "transactions",
        "count",
        "amount",
        "balance",
        "debit",
        "credit",
    }
    | {
        "recomputed",
        "events",
        "ledger",
        "statement",
        "expected",
        "found",
        "Banker stakes won",
        "hold %",
        "in theory",
        "deviations",
    }
)


def _cell(value: Any) -> Text:
    # As text, for the brackets of a reason are no markup.
    return value if isinstance(value, Text) else Text("" if value is None else str(value))


def cards(texts: Iterable[str] | None) -> Text:
    """Cards with the red suits in red, where the terminal has colour."""
    line = Text()
    for place, card in enumerate(texts or ()):
        line.append(" " if place else "")
        line.append(card, style="red" if card[-1] in RED_SUITS else "")
    return line


def money(amount_minor: int, currency: str) -> str:
    """An amount as people read it."""
    return format_money(amount_minor, currency)


def moment(at: str) -> str:
    """A time as people read it, to the second."""
    return at[:19].replace("T", " ")


class Progress:
    """A bar with an ETA on stderr, for anything that takes longer than two seconds.

    Called with what is done and what there is to do. It stays silent where
    nobody sees it.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._bar: Bar | None = None
        self._visible_from = time.monotonic() + PATIENCE_SECONDS

    def __enter__(self) -> Self:
        return self

    def __call__(self, done: int, total: int) -> None:
        if self._bar is None:
            if time.monotonic() < self._visible_from or not sys.stderr.isatty():
                return
            self._bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.add_task(self._what, total=total)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], completed=done, total=total)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
