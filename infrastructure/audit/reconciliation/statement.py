"""A statement of commission from outside, in CSV: read strictly, for what is compared is money.

The header has `currency`, `commission_minor` and what the rows are about: one of
`table shoe account day round bet`, or `round` and `bet` together, for a bet is
only known by its round. Amounts are whole minor units in plain digits.
"""

import csv
import re
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import NamedTuple, TextIO

from domain.money import DECIMALS
from infrastructure.commands.contract import ID_PATTERN

SUBJECTS = ("table", "shoe", "account", "day", "round", "bet")
"""What the rows of a statement can be about."""

_AMOUNT = re.compile(r"(?:0|-?[1-9][0-9]{0,18})\Z")
_ID = re.compile(ID_PATTERN.replace("$", r"\Z"))
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")


class StatementRefused(Exception):  # noqa: N818 - it says what happened, as Refused does
    """A statement that cannot be compared. The message is one line with the line and the field."""


class Row(NamedTuple):
    """A row of a statement: what it is about, how much, and the line that it stands in."""

    key: tuple[str, ...]
    currency: str
    commission_minor: int
    line: int


class Statement(NamedTuple):
    """A statement's rows, each with a key of one part, or of two for `round` and `bet`."""

    subject: tuple[str, ...]
    rows: tuple[Row, ...]


def read_statement(path: Path) -> Statement:
    """Reads a statement; refuses one in which anything is not as it should be."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return _read(file, path.name)
    except UnicodeDecodeError:
        raise StatementRefused(f"{path.name} is not UTF-8") from None
    except csv.Error as error:
        raise StatementRefused(f"{path.name} is not CSV: {error}") from None


def _read(file: TextIO, name: str) -> Statement:
    reader = csv.reader(file, strict=True)
    header = next(reader, [])
    subject = _subject(header, name)
    return Statement(subject, tuple(_rows(reader, header, subject, name)))


def _subject(header: Sequence[str], name: str) -> tuple[str, ...]:
    subject = tuple(each for each in SUBJECTS if each in header)
    columns = sorted(("currency", "commission_minor", *subject))
    if sorted(header) != columns or (len(subject) != 1 and subject != ("round", "bet")):
        raise StatementRefused(
            f"{name} line 1: the header must be currency, commission_minor and one of "
            f"{', '.join(SUBJECTS)} (or round and bet), not {', '.join(header)[:100] or 'empty'}"
        )
    return subject


def _rows(
    reader: Iterator[list[str]], header: Sequence[str], subject: tuple[str, ...], name: str
) -> Iterator[Row]:
    for cells in reader:
        line: int = reader.line_num  # type: ignore[attr-defined]  # a csv reader has it
        if not cells:
            continue
        if len(cells) != len(header):
            raise StatementRefused(
                f"{name} line {line}: {len(cells)} fields where the header has {len(header)}"
            )
        fields = dict(zip(header, cells, strict=True))
        for field, text in fields.items():
            why = _fault(field, text)
            if why is not None:
                raise StatementRefused(f"{name} line {line}: {field} {text[:64]!r} is {why}")
        yield Row(
            tuple(fields[each] for each in subject),
            fields["currency"],
            int(fields["commission_minor"]),
            line,
        )


def _fault(field: str, text: str) -> str | None:
    """What is wrong with a field, or None."""
    if field == "commission_minor":
        return None if _AMOUNT.match(text) else "no whole number of minor units, such as 1250"
    if field == "currency":
        return None if text in DECIMALS else "no ISO 4217 currency"
    if field == "day":
        return None if _is_day(text) else "no date, such as 2026-01-31"
    return None if _ID.match(text) else "no id: 1 to 64 of the characters A-Z a-z 0-9 . _ : -"


def _is_day(text: str) -> bool:
    if not _DAY.match(text):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
