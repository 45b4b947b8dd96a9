"""Numbers, dates and amounts as the reader's language writes them. The texts are English."""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal

from babel import Locale, UnknownLocaleError
from babel.dates import format_date, format_datetime
from babel.numbers import parse_pattern

from domain.money import DECIMALS, format_money

DEFAULT_LANGUAGE = "en-GB"
HEADER_LENGTH_MAX = 200
LANGUAGES_MAX = 10
DECIMALS_MAX = 4
"""What a currency has at most."""


class Formats:
    """How one language writes numbers, dates and amounts; times are in UTC and say so."""

    def __init__(self, locale: Locale) -> None:
        self._locale = locale
        self._patterns = {}
        for decimals in range(DECIMALS_MAX + 1):
            pattern = parse_pattern(locale.decimal_formats[None].pattern)
            pattern.frac_prec = (decimals, decimals)
            self._patterns[decimals] = pattern

    @property
    def language(self) -> str:
        """The language's tag, as HTML has it."""
        return str(self._locale).replace("_", "-")

    def number(self, value: int) -> str:
        """A whole number, its digits in groups."""
        return self._decimal(Decimal(value), 0)

    def percent(self, text: str | None) -> str:
        """A percentage that a report gives as a decimal with two digits; empty for None."""
        return "" if text is None else f"{self.decimal(text)}\u00a0%"

    def decimal(self, text: str | None) -> str:
        """A decimal with two digits that a report gives as text; empty for None."""
        return "" if text is None else self._decimal(Decimal(text), 2)

    def money(self, amount_minor: int, currency: str | None) -> str:
        """An amount with its currency's decimals and code, exact to the minor unit."""
        if currency not in DECIMALS:
            return format_money(amount_minor, currency or "an unknown currency")
        decimals = DECIMALS[currency]
        amount = Decimal(amount_minor).scaleb(-decimals)
        return f"{self._decimal(amount, decimals)}\u00a0{currency}"

    def day(self, day: date) -> str:
        """A date, the month in letters so that nobody takes it for the day."""
        return format_date(day, "medium", locale=self._locale)

    def moment(self, at: datetime) -> str:
        """A time to the second, in UTC."""
        text = format_datetime(at.astimezone(UTC), "medium", tzinfo=UTC, locale=self._locale)
        return f"{text} UTC"

    def _decimal(self, value: Decimal, decimals: int) -> str:
        return str(self._patterns[decimals].apply(value, self._locale))


def formats_for(accept_language: str | None) -> Formats:
    """The formats of the first language that a browser's `Accept-Language` prefers and we know."""
    for tag in _preferred((accept_language or "")[:HEADER_LENGTH_MAX]):
        try:
            locale = Locale.parse(tag, sep="-")
        except (UnknownLocaleError, ValueError, TypeError):
            continue
        if locale.text_direction == "ltr":
            # The texts around the numbers are English and run from left to right.
            return Formats(locale)
    return Formats(Locale.parse(DEFAULT_LANGUAGE, sep="-"))


def _preferred(header: str) -> Iterator[str]:
    """The languages of the header, the most wanted first."""
    wanted = []
    for part in header.split(",")[:LANGUAGES_MAX]:
        tag, _, quality = part.strip().partition(";")
        try:
            weight = float(quality.strip().removeprefix("q=") or 1)
        except ValueError:
            continue
        if tag and tag != "*" and weight > 0:
            wanted.append((weight, tag.strip()))
    return (tag for _, tag in sorted(wanted, key=lambda each: -each[0]))
