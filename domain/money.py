"""Money in whole minor units, currencies, and the one place that rounds.

A minor unit is a currency's smallest: a cent, a satang, a yen, a fils.
"""

from enum import StrEnum
from typing import Annotated

from iso4217 import Currency
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

DECIMALS: dict[str, int] = {
    currency.code: currency.exponent for currency in Currency if currency.exponent is not None
}
"""Decimals of every ISO 4217 currency that has minor units (JPY 0, USD 2, KWD 3)."""


def _known(code: str) -> str:
    if code not in DECIMALS:
        raise ValueError(f"{code[:20]!r} is not an ISO 4217 currency")
    return code


CurrencyCode = Annotated[str, AfterValidator(_known)]


class Rounding(StrEnum):
    """What becomes of a fraction of a minor unit, or of a commission's increment."""

    HALF_UP = "half_up"
    HALF_EVEN = "half_even"
    UP = "up"
    DOWN = "down"


def divide(numerator: int, denominator: int, rounding: Rounding) -> int:
    """The quotient of two amounts that are not negative, rounded to a whole number."""
    assert numerator >= 0
    assert denominator > 0
    quotient, remainder = divmod(numerator, denominator)
    if not remainder:
        return quotient
    match rounding:
        case Rounding.DOWN:
            return quotient
        case Rounding.UP:
            return quotient + 1
        case Rounding.HALF_UP:
            return quotient + (2 * remainder >= denominator)
        case Rounding.HALF_EVEN:
            half = 2 * remainder - denominator
            return quotient + (half > 0 or (half == 0 and quotient % 2 == 1))


class Collection(StrEnum):
    """When commission leaves the wallet: with the win, or later."""

    PER_ROUND = "per_round"
    DEFERRED = "deferred"


MAXIMUM_STEP_MINOR = 10**9
"""The largest increment and minimum of a commission, in minor units."""


class CommissionPolicy(BaseModel):
    """How commission is taken on what a Banker bet won.

    The rate is in hundredths of a per cent; the result is rounded to a
    multiple of `increment_minor` and is never less than `minimum_minor`.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    rate_basis_points: Annotated[int, Field(ge=0, le=10_000)] = 500
    increment_minor: Annotated[int, Field(ge=1, le=MAXIMUM_STEP_MINOR)] = 1
    rounding: Rounding = Rounding.HALF_UP
    minimum_minor: Annotated[int, Field(ge=0, le=MAXIMUM_STEP_MINOR)] = 0
    collection: Collection = Collection.PER_ROUND


def commission(win_minor: int, policy: CommissionPolicy) -> int:
    """The commission on an amount won by a Banker bet, in minor units."""
    increments = divide(
        win_minor * policy.rate_basis_points, 10_000 * policy.increment_minor, policy.rounding
    )
    return max(increments * policy.increment_minor, policy.minimum_minor)


def win_at(stake_minor: int, price: tuple[int, int], rounding: Rounding) -> int:
    """What a stake wins at odds of `price[0]` to `price[1]`, without the stake itself."""
    return divide(stake_minor * price[0], price[1], rounding)


def format_money(amount_minor: int, currency: str) -> str:
    """An amount for people: `1,234.50 USD`; of a currency that is not known, its minor units."""
    decimals = DECIMALS.get(currency)
    if decimals is None:
        return f"{amount_minor:,} minor units of {currency}"
    whole, fraction = divmod(abs(amount_minor), 10**decimals)
    sign = "-" if amount_minor < 0 else ""
    return f"{sign}{whole:,}{f'.{fraction:0{decimals}}' if decimals else ''} {currency}"
