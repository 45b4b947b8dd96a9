"""What the forms of the pages send, read from the text that it is."""

import re
from datetime import UTC, date, datetime

from infrastructure.commands.contract import read_day
from infrastructure.pages.ledger import NotUnderstood

_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_DIGITS_MAX = 18


def asked_id(text: str) -> str:
    """An id as clients choose them."""
    if not _ID.fullmatch(text):
        raise NotUnderstood(f"{text[:64]!r} is not an id: 1 to 64 of A-Z a-z 0-9 . _ : -")
    return text


def asked_whole(text: str | None, name: str) -> int | None:
    """A whole number; None for an empty field."""
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX):
        raise NotUnderstood(f"{name} {text[:30]!r} is not a whole number.")
    return int(text)


def asked_time(text: str | None, name: str) -> datetime | None:
    """A time, or a date for its beginning, in UTC where it has no offset; None for an empty field.

    The plus sign of an offset is a space where a link was written by hand.
    """
    if not text:
        return None
    try:
        time = datetime.fromisoformat(text.replace(" ", "+", text.count(":") > 2))
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise NotUnderstood(f"{name} {text[:40]!r} is not a time: 2026-01-31T20:15") from None


def asked_day(text: str) -> date:
    """A gaming day by its date, with whole days around it."""
    try:
        return read_day(text)
    except ValueError:
        raise NotUnderstood(f"{text[:40]!r} is not a date: 2026-01-31") from None
