"""A table's rules, as they are recorded with each round."""

from fractions import Fraction
from functools import cached_property
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from domain.bets import CASES, BetKind, Deal, Price, Settlement, Variant, settle
from domain.errors import Refused
from domain.event import MAXIMUM_MINOR, MAXIMUM_WIN_MINOR
from domain.money import CommissionPolicy, Rounding, win_at

_Part = Annotated[int, Field(ge=1, le=1000)]
_Price = tuple[_Part, _Part]
_Limit = Annotated[int, Field(ge=1, le=MAXIMUM_MINOR)]

_STANDARD_ODDS: dict[BetKind, Price | dict[str, Price]] = {
    BetKind.PLAYER: (1, 1),
    BetKind.BANKER: (1, 1),
    BetKind.TIE: (8, 1),
    BetKind.PLAYER_PAIR: (11, 1),
    BetKind.BANKER_PAIR: (11, 1),
}


class BetLimits(BaseModel):
    """The least and the most of one bet's stake, in minor units; None: the table's."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    minimum_minor: _Limit | None = None
    maximum_minor: _Limit | None = None


class Limits(BaseModel):
    """The least and the most of a stake, in minor units, and what single bets have of their own."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    minimum_minor: _Limit = 1
    maximum_minor: _Limit = 1_000_000_000
    player: BetLimits | None = None
    banker: BetLimits | None = None
    tie: BetLimits | None = None
    player_pair: BetLimits | None = None
    banker_pair: BetLimits | None = None
    either_pair: BetLimits | None = None
    perfect_pair: BetLimits | None = None
    dragon7: BetLimits | None = None
    panda8: BetLimits | None = None
    lucky6: BetLimits | None = None
    small: BetLimits | None = None
    big: BetLimits | None = None

    def of(self, kind: BetKind) -> tuple[int, int]:
        """The least and the most that may be staked on a bet, in minor units."""
        own: BetLimits | None = getattr(self, kind.value)
        if own is None:
            return self.minimum_minor, self.maximum_minor
        return own.minimum_minor or self.minimum_minor, own.maximum_minor or self.maximum_minor

    @model_validator(mode="after")
    def _leaves_room_to_bet(self) -> Self:
        for kind in BetKind:
            minimum, maximum = self.of(kind)
            if minimum > maximum:
                raise ValueError(f"the minimum of {kind.value} lies above its maximum")
        return self


class Rules(BaseModel):
    """How a table plays and pays. `odds` names the bets that are offered."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    variant: Variant = Variant.COMMISSION
    decks: Annotated[int, Field(ge=6, le=8, multiple_of=2)] = 8
    odds: dict[BetKind, _Price | dict[str, _Price]] = Field(
        default_factory=lambda: dict(_STANDARD_ODDS)
    )
    commission: CommissionPolicy = CommissionPolicy()
    win_rounding: Rounding = Rounding.DOWN
    limits: Limits = Limits()
    after_cut_card: Annotated[int, Field(ge=0, le=1)] = 1
    allow_opposite_bets: bool = False

    @model_validator(mode="after")
    def _prices_fit_their_bets(self) -> Self:
        for kind, price in self.odds.items():
            cases = CASES.get(kind)
            if cases is None and isinstance(price, dict):
                raise ValueError(f"{kind.value} has one price, as in [1, 1]")
            if cases is not None and (not isinstance(price, dict) or set(price) != set(cases)):
                raise ValueError(f"{kind.value} has a price for {cases[0]} and one for {cases[1]}")
        return self

    @cached_property
    def as_json(self) -> bytes:
        """The rules in compact JSON, every part that is set written out."""
        return self.model_dump_json(exclude_none=True).encode()

    def check_stake(self, kind: BetKind, stake_minor: int) -> None:
        """Refuses a bet that the table does not offer, or a stake outside its limits."""
        bounds = self._bounds.get(kind)
        if bounds is None:
            raise Refused("bet_not_offered", f"the table offers no {kind.value} bet", field="bet")
        minimum, maximum, payable = bounds
        if stake_minor < minimum:
            raise Refused(
                "limit_below",
                f"stake {stake_minor} is below the minimum of {minimum}",
                field="stake_minor",
            )
        if stake_minor > maximum:
            raise Refused(
                "limit_above",
                f"stake {stake_minor} is above the maximum of {maximum}",
                field="stake_minor",
            )
        if stake_minor > payable:
            raise Refused(
                "limit_above",
                f"stake {stake_minor} could win more than {MAXIMUM_WIN_MINOR} minor units",
                field="stake_minor",
            )

    @cached_property
    def _bounds(self) -> dict[BetKind, tuple[int, int, int]]:
        """The least and the most that may be staked on each bet, and the most that can be paid."""
        return {
            kind: (*self.limits.of(kind), self._largest_payable(price))
            for kind, price in self.odds.items()
        }

    def _largest_payable(self, price: Price | dict[str, Price]) -> int:
        prices = price.values() if isinstance(price, dict) else (price,)
        numerator, denominator = max(prices, key=lambda each: Fraction(*each))
        largest = min(MAXIMUM_MINOR, (MAXIMUM_WIN_MINOR + 1) * denominator // numerator + 1)
        while win_at(largest, (numerator, denominator), self.win_rounding) > MAXIMUM_WIN_MINOR:
            largest -= 1
        return largest

    def settle(self, kind: BetKind, stake_minor: int, deal: Deal) -> Settlement:
        """What a stake comes to on a complete deal, in minor units."""
        return settle(
            kind,
            stake_minor,
            deal,
            variant=self.variant,
            odds=self.odds,
            policy=self.commission,
            win_rounding=self.win_rounding,
        )


STANDARD_RULES = Rules()
"""What a table plays by where nothing else is said."""
