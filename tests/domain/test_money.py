"""Rounding, commission and currencies."""

import json
from fractions import Fraction
from math import ceil, floor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from domain.money import (
    DECIMALS,
    CommissionPolicy,
    CurrencyCode,
    Rounding,
    commission,
    divide,
    format_money,
    win_at,
)

VECTORS = json.loads((Path(__file__).parents[1] / "golden" / "commission.json").read_text())

amounts = st.integers(min_value=0, max_value=10**24)
divisors = st.integers(min_value=1, max_value=10**12)


@pytest.mark.parametrize("row", VECTORS["rows"], ids=lambda row: str(row["stake_minor"]))
@pytest.mark.parametrize("name", VECTORS["policies"])
def test_commission_is_the_golden_one_to_the_minor_unit(name, row):
    policy = CommissionPolicy.model_validate_json(
        json.dumps({"rate_basis_points": VECTORS["rate_basis_points"], **VECTORS["policies"][name]})
    )
    assert commission(row["stake_minor"], policy) == row[name]


@given(amounts, divisors)
def test_down_is_the_floor_and_up_the_ceiling(numerator, denominator):
    exact = Fraction(numerator, denominator)
    assert divide(numerator, denominator, Rounding.DOWN) == floor(exact)
    assert divide(numerator, denominator, Rounding.UP) == ceil(exact)


@given(amounts, divisors)
def test_half_up_goes_to_the_nearest_and_a_half_upwards(numerator, denominator):
    exact = Fraction(numerator, denominator)
    assert divide(numerator, denominator, Rounding.HALF_UP) == floor(exact + Fraction(1, 2))


@given(amounts, divisors)
def test_half_even_goes_to_the_nearest_and_a_half_to_the_even_neighbour(numerator, denominator):
    # Python rounds a Fraction half to even.
    assert divide(numerator, denominator, Rounding.HALF_EVEN) == round(
        Fraction(numerator, denominator)
    )


@given(amounts, st.sampled_from(Rounding))
def test_what_is_whole_is_never_rounded(quotient, rounding):
    assert divide(quotient * 7, 7, rounding) == quotient


@pytest.mark.parametrize(
    ("rounding", "of_halves"),
    [
        (Rounding.DOWN, [0, 1, 2, 3]),
        (Rounding.UP, [1, 2, 3, 4]),
        (Rounding.HALF_UP, [1, 2, 3, 4]),
        (Rounding.HALF_EVEN, [0, 2, 2, 4]),
    ],
)
def test_a_half_is_rounded_by_the_policy(rounding, of_halves):
    assert [divide(numerator, 2, rounding) for numerator in (1, 3, 5, 7)] == of_halves


@given(amounts, st.integers(1, 1000), st.sampled_from(Rounding), st.integers(0, 10_000))
def test_commission_is_a_multiple_of_its_increment(win_minor, increment_minor, rounding, rate):
    policy = CommissionPolicy(
        rate_basis_points=rate, increment_minor=increment_minor, rounding=rounding
    )
    taken = commission(win_minor, policy)
    assert taken % increment_minor == 0
    assert abs(taken - Fraction(win_minor * rate, 10_000)) < increment_minor


def test_commission_is_never_less_than_its_minimum():
    policy = CommissionPolicy(minimum_minor=100)
    assert [commission(win, policy) for win in (1, 1999, 2000, 2020)] == [100, 100, 100, 101]


def test_a_win_that_is_not_whole_is_rounded_by_the_policy():
    assert [win_at(3, (27, 50), rounding) for rounding in Rounding] == [2, 2, 2, 1]


@pytest.mark.parametrize(
    ("amount_minor", "currency", "text"),
    [
        (123450, "USD", "1,234.50 USD"),
        (5, "USD", "0.05 USD"),
        (0, "USD", "0.00 USD"),
        (-5, "USD", "-0.05 USD"),
        (-123456, "EUR", "-1,234.56 EUR"),
        (1234, "JPY", "1,234 JPY"),
        (-1, "JPY", "-1 JPY"),
        (1234567, "KWD", "1,234.567 KWD"),
        (1, "BHD", "0.001 BHD"),
        (10**17, "THB", "1,000,000,000,000,000.00 THB"),
    ],
)
def test_people_see_an_amount_with_its_currencys_decimals(amount_minor, currency, text):
    assert format_money(amount_minor, currency) == text


def test_currencies_have_the_decimals_of_iso_4217():
    assert {code: DECIMALS[code] for code in ("JPY", "USD", "THB", "KWD", "CLF")} == {
        "JPY": 0,
        "USD": 2,
        "THB": 2,
        "KWD": 3,
        "CLF": 4,
    }


@pytest.mark.parametrize("code", ["XAU", "XXX", "XDR", "XTS", "usd", "USDT", "US", "", "ABC", 840])
def test_a_currency_that_is_unknown_or_has_no_minor_units_is_refused(code):
    with pytest.raises(ValidationError):
        TypeAdapter(CurrencyCode).validate_python(code, strict=True)


@pytest.mark.parametrize("code", ["USD", "THB", "JPY", "KWD"])
def test_a_currency_with_minor_units_is_accepted(code):
    assert TypeAdapter(CurrencyCode).validate_python(code, strict=True) == code


def test_a_negative_amount_is_never_divided():
    with pytest.raises(AssertionError):
        divide(-1, 2, Rounding.DOWN)
