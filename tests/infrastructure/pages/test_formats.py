"""Numbers, amounts and dates in the browser's language."""

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from infrastructure.pages.formats import formats_for

NARROW = "\u202f"
SPACE = "\u00a0"


@pytest.mark.parametrize(
    ("header", "language"),
    [
        (None, "en-GB"),
        ("", "en-GB"),
        ("de-CH", "de-CH"),
        ("fr;q=0.5, pt-BR;q=0.9, *;q=0.1", "pt-BR"),
        ("xx-YY, nonsense;q=, de;q=0", "en-GB"),
        ("th", "th"),
        ("zh-Hant-TW", "zh-Hant-TW"),
        ("he, ar;q=0.9", "en-GB"),
        ("../../etc/passwd", "en-GB"),
        ("e" * 100_000, "en-GB"),
        ("de;q=nan", "en-GB"),
    ],
)
def test_the_most_wanted_language_that_is_known_is_taken(header, language):
    assert formats_for(header).language == language


@pytest.mark.parametrize(
    ("header", "amount_minor", "currency", "text"),
    [
        ("en-US", 123_456_789, "USD", f"1,234,567.89{SPACE}USD"),
        ("de-DE", -5, "EUR", f"-0,05{SPACE}EUR"),
        ("fr-FR", 123_456_789, "EUR", f"1{NARROW}234{NARROW}567,89{SPACE}EUR"),
        ("en-IN", 123_456_789, "INR", f"12,34,567.89{SPACE}INR"),
        ("ja", 1_234, "JPY", f"1,234{SPACE}JPY"),
        ("en", 1_234, "KWD", f"1.234{SPACE}KWD"),
        ("en", 10**18 + 1, "USD", f"10,000,000,000,000,000.01{SPACE}USD"),
        ("en", 5, None, "5 minor units of an unknown currency"),
    ],
)
def test_an_amount_is_exact_in_the_decimals_of_its_currency(header, amount_minor, currency, text):
    assert formats_for(header).money(amount_minor, currency) == text


def test_times_are_shown_in_utc_and_say_so():
    at = datetime(2026, 3, 1, 0, 30, tzinfo=timezone(timedelta(hours=2)))
    assert formats_for("en-GB").moment(at) == "28 Feb 2026, 22:30:00 UTC"
    assert formats_for("de").moment(at.astimezone(UTC)) == "28.02.2026, 22:30:00 UTC"


def test_the_month_of_a_date_is_not_taken_for_its_day():
    assert formats_for("en-GB").day(date(2026, 2, 1)) == "1 Feb 2026"


def test_what_a_report_does_not_know_is_left_empty():
    formats = formats_for("de")
    assert (formats.percent(None), formats.decimal(None)) == ("", "")
    assert formats.percent("-3.69") == f"-3,69{SPACE}%"
