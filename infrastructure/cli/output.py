"""What people and programs get to see: JSON lines, tables, cards, money and progress."""

import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Self

import orjson
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
    width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else COLUMNS_UNSEEN,
)


def print_json(document: Any) -> None:
    """One JSON document, or one row of several, on a line of its own."""
    sys.stdout.buffer.write(orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE))


def print_answer(answer: Any) -> None:
    """A line of JSON that is there at once for whoever reads the other end."""
    print_json(answer)
    sys.stdout.buffer.flush()


def print_rows(
    title: str, columns: Sequence[tuple[str, Callable[[Any], Any]]], rows: Iterable[Any]
) -> None:
    """A table for people; each column has a heading and takes its cell from a row."""
    table = Table(title=title, title_justify="left", header_style="bold")
    for heading, _ in columns:
        table.add_column(heading, justify="right" if heading in _NUMBERS else "left")
    for row in rows:
        table.add_row(*(_cell(take(row)) for _, take in columns))
    console.print(table)


_NUMBERS = {"number", "rounds", "bets", "total", "lag", "position", "version", "stake", "win"} | {
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
}


def _cell(value: Any) -> str | Text:
    if isinstance(value, Text):
        return value
    return "" if value is None else str(value)


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
