"""Reads another system's CSV file: every row is checked before anything is recorded."""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NoReturn

from domain.cards import Card
from domain.tableau import Outcome
from infrastructure.importers.layouts import Layout

_NUMBER = re.compile(r"[0-9]{1,9}")
_TOTALS = {str(total): total for total in range(10)}
_UTF8_BOM = b"\xef\xbb\xbf"


class ImportRefused(Exception):  # noqa: N818 - a refusal is an answer, not an error
    """A file that cannot be recorded: nothing of it was. The message names the line."""


@dataclass(frozen=True, slots=True)
class RecordedRound:
    """One round as another system recorded it, right or wrong; `line` is its place in the file."""

    line: int
    recorded_from: str
    shoe: int
    number: int
    player: tuple[Card, ...]
    banker: tuple[Card, ...]
    player_total: int
    banker_total: int
    outcome: Outcome


def read_rounds(source: str | Path | BinaryIO, layout: Layout) -> list[RecordedRound]:
    """Reads the whole file; raises ImportRefused, which names the line, for a malformed row.

    Each shoe's rows stand together, for a table has one shoe at a time.
    """
    if isinstance(source, (str, Path)):
        with open(source, "rb") as stream:
            return _read(stream, layout)
    return _read(source, layout)


def refuse(line: int, why: str) -> NoReturn:
    """Refuses the file because of one of its lines."""
    raise ImportRefused(f"line {line}: {why}")


def _read(stream: BinaryIO, layout: Layout) -> list[RecordedRound]:
    rows = _rows(stream)
    _, header = next(rows, (1, []))
    if not header:
        refuse(1, "there is no header")
    reader = _RowReader(header, layout)
    rounds: list[RecordedRound] = []
    numbers: set[int] = set()
    shoes: set[int] = set()
    for line, row in rows:
        each = reader.read(line, row)
        if not rounds or each.shoe != rounds[-1].shoe:
            if each.shoe in shoes:
                refuse(line, f"shoe {each.shoe} is there again after another shoe")
            shoes.add(each.shoe)
            numbers.clear()
        if each.number in numbers:
            refuse(line, f"shoe {each.shoe} has a round {each.number} already")
        numbers.add(each.number)
        rounds.append(each)
    return rounds


def _rows(stream: BinaryIO) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not blank, each with the number of its first line."""
    reader = csv.reader(_lines(stream), strict=True)
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            refuse(line, f"is not CSV: {error}")
        if row:
            yield line, row


def _lines(stream: BinaryIO) -> Iterator[str]:
    for number, line in enumerate(stream, 1):
        if number == 1:
            line = line.removeprefix(_UTF8_BOM)
        if b"\0" in line:
            refuse(number, "holds a NUL byte")
        try:
            yield line.decode()
        except UnicodeDecodeError:
            refuse(number, "is not UTF-8")


class _RowReader:
    """Reads rows by a layout, with its columns found in the header once."""

    def __init__(self, header: list[str], layout: Layout) -> None:
        for name in layout.columns:
            if header.count(name) != 1:
                refuse(1, f"column {name!r} {'is missing' if name not in header else 'is doubled'}")
        self._header = header
        self._layout = layout
        self._shoe = header.index(layout.shoe)
        self._round = header.index(layout.round)
        self._player = tuple(header.index(name) for name in layout.player)
        self._banker = tuple(header.index(name) for name in layout.banker)
        self._player_total = header.index(layout.player_total)
        self._banker_total = header.index(layout.banker_total)
        self._outcome = header.index(layout.outcome)

    def read(self, line: int, row: list[str]) -> RecordedRound:
        if len(row) != len(self._header):
            refuse(line, f"has {len(row)} fields, the header has {len(self._header)}")
        number = self._whole_number(line, row, self._round)
        if number == 0:
            refuse(line, f"{self._header[self._round]!r} is 0, rounds are numbered from 1")
        return RecordedRound(
            line,
            self._layout.name,
            self._whole_number(line, row, self._shoe),
            number,
            self._hand(line, row, self._player),
            self._hand(line, row, self._banker),
            self._total(line, row, self._player_total),
            self._total(line, row, self._banker_total),
            self._outcome_of(line, row),
        )

    def _whole_number(self, line: int, row: list[str], column: int) -> int:
        text = row[column]
        if _NUMBER.fullmatch(text) is None:
            self._refuse_value(line, column, text, "a whole number of at most 9 digits")
        return int(text)

    def _total(self, line: int, row: list[str], column: int) -> int:
        total = _TOTALS.get(row[column])
        if total is None:
            self._refuse_value(line, column, row[column], "a total, 0 to 9")
        return total

    def _outcome_of(self, line: int, row: list[str]) -> Outcome:
        text = row[self._outcome]
        outcome = self._layout.outcomes.get(text)
        if outcome is None:
            known = ", ".join(repr(word) for word in self._layout.outcomes)
            self._refuse_value(line, self._outcome, text, f"one of {known}")
        return outcome

    def _hand(self, line: int, row: list[str], columns: tuple[int, ...]) -> tuple[Card, ...]:
        cards = self._layout.cards
        first, second, third = columns
        if row[third] == self._layout.no_card:
            columns = (first, second)
        try:
            return tuple([cards[row[column]] for column in columns])
        except KeyError:
            column = next(column for column in columns if row[column] not in cards)
            self._refuse_value(line, column, row[column], "a card")

    def _refuse_value(self, line: int, column: int, text: str, wanted: str) -> NoReturn:
        name = self._header[column]
        if text in ("", self._layout.no_card):
            refuse(line, f"{name!r} is missing, it must be {wanted}")
        refuse(line, f"{name!r} is {text[:20]!r}, not {wanted}")
