"""The bets of punto banco and how one of them is settled.

Odds are *to* one: a winning stake comes back and the win is paid on top.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import assert_never

from msgspec import Struct

from domain.cards import Card
from domain.money import CommissionPolicy, Rounding, commission, divide, win_at
from domain.tableau import Outcome, Ruling, judge

Price = tuple[int, int]
"""Odds of the first to the second: (8, 1) is eight to one."""


class BetKind(StrEnum):
    """What can be staked on."""

    PLAYER = "player"
    BANKER = "banker"
    TIE = "tie"
    PLAYER_PAIR = "player_pair"
    BANKER_PAIR = "banker_pair"
    EITHER_PAIR = "either_pair"
    PERFECT_PAIR = "perfect_pair"
    DRAGON7 = "dragon7"
    PANDA8 = "panda8"
    LUCKY6 = "lucky6"
    SMALL = "small"
    BIG = "big"


class Variant(StrEnum):
    """How a winning Banker bet is treated.

    `commission`: paid in full, less commission. `no_commission`: half on a
    Banker win with 6. `ez`: pushed on a Banker win with a three-card 7.
    """

    COMMISSION = "commission"
    NO_COMMISSION = "no_commission"
    EZ = "ez"


class Result(StrEnum):
    """What became of a stake."""

    WON = "won"
    LOST = "lost"
    PUSH = "push"
    RETURNED = "returned"
    OPEN = "open"


# By themselves: Python 3.11 finds a member of an enumeration by a function, each time.
_PLAYER, _BANKER = BetKind.PLAYER, BetKind.BANKER
_PLAYER_WINS, _BANKER_WINS, _TIE = Outcome.PLAYER, Outcome.BANKER, Outcome.TIE
_WON = Result.WON

CASES: dict[BetKind, tuple[str, str]] = {
    BetKind.LUCKY6: ("two_cards", "three_cards"),
    BetKind.PERFECT_PAIR: ("one", "both"),
}
"""The bets that have two prices, and what each price is for."""

_NEED_RANK = frozenset({BetKind.PLAYER_PAIR, BetKind.BANKER_PAIR, BetKind.EITHER_PAIR})
NEED_FACES = _NEED_RANK | {BetKind.PERFECT_PAIR}
"""The bets that points alone do not decide."""


class Deal(Struct, frozen=True, gc=False):
    """Everything that bets are settled by, of a deal that is complete."""

    outcome: Outcome
    player_total: int
    banker_total: int
    player_cards: tuple[Card, ...]
    banker_cards: tuple[Card, ...]

    @classmethod
    def of(cls, player: tuple[Card, ...], banker: tuple[Card, ...]) -> "Deal":
        """The deal by the tableau: third cards that it forbids do not count."""
        ruling = judge([card.points for card in player], [card.points for card in banker])
        return cls.ruled(ruling, player, banker)

    @classmethod
    def ruled(cls, ruling: Ruling, player: Sequence[Card], banker: Sequence[Card]) -> "Deal":
        """As `of`, where the tableau has been asked already."""
        assert ruling.missing is None, "a deal that is not complete settles nothing"
        return cls(
            ruling.outcome,
            ruling.player_total,
            ruling.banker_total,
            tuple(player[: len(ruling.player)]),
            tuple(banker[: len(ruling.banker)]),
        )


class Settlement(Struct, frozen=True, gc=False):
    """What a stake comes to: the win alone, without the stake and before commission."""

    result: Result
    win_minor: int = 0
    commission_minor: int = 0


OPEN = Settlement(Result.OPEN)
RETURNED = Settlement(Result.RETURNED)
LOST = Settlement(Result.LOST)
PUSH = Settlement(Result.PUSH)


def is_undecidable(kind: BetKind, card: Card) -> bool:
    """Whether one of a hand's first two cards leaves a bet without an answer."""
    if kind in _NEED_RANK:
        return not card.has_known_rank
    if kind is BetKind.PERFECT_PAIR:
        return not (card.has_known_rank and card.has_known_suit)
    return False


def settle(
    kind: BetKind,
    stake_minor: int,
    deal: Deal,
    *,
    variant: Variant,
    odds: Mapping[BetKind, Price | Mapping[str, Price]],
    policy: CommissionPolicy,
    win_rounding: Rounding,
) -> Settlement:
    """Settles one bet on a complete deal by a table's rules; amounts in minor units."""
    if kind is _BANKER:
        return _settle_banker(stake_minor, deal, variant, odds, policy, win_rounding)
    if kind is _PLAYER and deal.outcome is _TIE:
        return PUSH
    case = _winning_case(kind, deal)
    if case is None:
        return LOST
    price = odds[kind]
    paid = price if isinstance(price, tuple) else price[case]
    return Settlement(_WON, win_at(stake_minor, paid, win_rounding))


def _settle_banker(
    stake_minor: int,
    deal: Deal,
    variant: Variant,
    odds: Mapping[BetKind, Price | Mapping[str, Price]],
    policy: CommissionPolicy,
    win_rounding: Rounding,
) -> Settlement:
    if deal.outcome is _TIE:
        return PUSH
    if deal.outcome is _PLAYER_WINS:
        return LOST
    price = odds[_BANKER]
    assert isinstance(price, tuple)
    match variant:
        case Variant.COMMISSION:
            win_minor = win_at(stake_minor, price, win_rounding)
            return Settlement(_WON, win_minor, commission(win_minor, policy))
        case Variant.NO_COMMISSION:
            half = 2 if deal.banker_total == 6 else 1
            return Settlement(_WON, divide(stake_minor * price[0], price[1] * half, win_rounding))
        case Variant.EZ:
            if _is_dragon7(deal):
                return PUSH
            return Settlement(_WON, win_at(stake_minor, price, win_rounding))
        case _:
            assert_never(variant)


def _winning_case(kind: BetKind, deal: Deal) -> str | None:
    """The case that a bet wins in ("" where it has one price only), or None where it lost."""
    match kind:
        case BetKind.PLAYER:
            won = deal.outcome is _PLAYER_WINS
        case BetKind.TIE:
            won = deal.outcome is _TIE
        case BetKind.PLAYER_PAIR:
            won = _is_pair(deal.player_cards)
        case BetKind.BANKER_PAIR:
            won = _is_pair(deal.banker_cards)
        case BetKind.EITHER_PAIR:
            won = _is_pair(deal.player_cards) or _is_pair(deal.banker_cards)
        case BetKind.PERFECT_PAIR:
            pairs = _is_perfect_pair(deal.player_cards) + _is_perfect_pair(deal.banker_cards)
            return (None, "one", "both")[pairs]
        case BetKind.DRAGON7:
            won = _is_dragon7(deal)
        case BetKind.PANDA8:
            won = (
                deal.outcome is _PLAYER_WINS
                and deal.player_total == 8
                and len(deal.player_cards) == 3
            )
        case BetKind.LUCKY6:
            if deal.outcome is not _BANKER_WINS or deal.banker_total != 6:
                return None
            return "two_cards" if len(deal.banker_cards) == 2 else "three_cards"
        case BetKind.SMALL:
            won = len(deal.player_cards) + len(deal.banker_cards) == 4
        case BetKind.BIG:
            won = len(deal.player_cards) + len(deal.banker_cards) > 4
        case BetKind.BANKER:
            raise AssertionError("a banker bet is settled by its variant")
        case _:
            assert_never(kind)
    return "" if won else None


def _is_pair(cards: tuple[Card, ...]) -> bool:
    return cards[0].rank == cards[1].rank


def _is_perfect_pair(cards: tuple[Card, ...]) -> bool:
    return cards[0] == cards[1]


def _is_dragon7(deal: Deal) -> bool:
    return deal.outcome is _BANKER_WINS and deal.banker_total == 7 and len(deal.banker_cards) == 3
