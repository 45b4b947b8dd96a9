"""The journal for spreadsheets and scripts: a row a posting, amounts in minor units."""

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import astuple, fields

from infrastructure.books.names import book_name
from projections.postings import Posting


def comma_separated(postings: Iterable[Posting]) -> Iterator[str]:
    """The lines of a CSV file with a header; `book_account` is what the other formats call it."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="")

    def line(cells: Iterable[object]) -> str:
        buffer.seek(0)
        buffer.truncate()
        writer.writerow(cells)
        return buffer.getvalue()

    yield line([*(column.name for column in fields(Posting)), "book_account"])
    for posting in postings:
        yield line([*map(_cell, astuple(posting)), book_name(posting.account)])


def _cell(value: object) -> object:
    return value.isoformat() if hasattr(value, "isoformat") else value
