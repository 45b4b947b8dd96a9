"""The tableau: naturals, who draws a third card, and who wins.

Everything here works on points (0 to 9), because the rules do.
"""

from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct


class Hand(StrEnum):
    """The two hands that are dealt; bettors stake on either."""

    PLAYER = "player"
    BANKER = "banker"


class Outcome(StrEnum):
    """What a round ends in."""

    PLAYER = "player"
    BANKER = "banker"
    TIE = "tie"


# By themselves: Python 3.11 finds a member of an enumeration by a function, each time.
_PLAYER, _BANKER = Hand.PLAYER, Hand.BANKER
_PLAYER_WINS, _BANKER_WINS, _TIE = Outcome.PLAYER, Outcome.BANKER, Outcome.TIE

_BANKER_DRAWS_ON: tuple[frozenset[int], ...] = (
    frozenset(range(10)),
    frozenset(range(10)),
    frozenset(range(10)),
    frozenset(range(10)) - {8},
    frozenset({2, 3, 4, 5, 6, 7}),
    frozenset({4, 5, 6, 7}),
    frozenset({6, 7}),
    frozenset(),
)
"""By the Banker's two-card total 0 to 7: the Player's third cards that make the Banker draw."""


def total(points: Sequence[int]) -> int:
    """A hand's total: the last digit of the sum of its cards' points."""
    return sum(points) % 10


def is_natural(two_card_total: int) -> bool:
    """An 8 or 9 with the first two cards ends the deal for both hands."""
    return two_card_total >= 8


def player_draws(player_total: int, banker_total: int) -> bool:
    """Whether the Player hand draws, given both two-card totals."""
    return player_total <= 5 and not is_natural(banker_total)


def banker_draws(player_total: int, banker_total: int, player_third: int | None) -> bool:
    """Whether the Banker hand draws, given both two-card totals and the Player's third card.

    `player_third` is the points of that card, never the Player's final total;
    None where the Player stood.
    """
    if is_natural(player_total) or is_natural(banker_total):
        return False
    if player_third is None:
        return banker_total <= 5
    return player_third in _BANKER_DRAWS_ON[banker_total]


def outcome(player_total: int, banker_total: int) -> Outcome:
    """The higher total wins; equal totals are a tie."""
    if player_total == banker_total:
        return _TIE
    return _PLAYER_WINS if player_total > banker_total else _BANKER_WINS


def next_hand(player: Sequence[int], banker: Sequence[int]) -> Hand | None:
    """Which hand gets the next card, or None where the deal is complete.

    The first four cards go to Player, Banker, Player, Banker.
    """
    if len(player) < 2 or len(banker) < 2:
        return _PLAYER if len(player) == len(banker) else _BANKER
    return judge(player, banker).missing


def cards_of_deal(points: Sequence[int]) -> int:
    """How many cards a deal takes from six or more that come out in this order: 4, 5 or 6."""
    player, banker = [points[0], points[2]], [points[1], points[3]]
    player_two, banker_two = total(player), total(banker)
    if player_draws(player_two, banker_two):
        return 5 + banker_draws(player_two, banker_two, points[4])
    return 4 + banker_draws(player_two, banker_two, None)


class Ruling(Struct, frozen=True, gc=False):
    """What the tableau says of two hands of two or three cards.

    `missing` is the hand whose third card is demanded and not there: the rest
    is then not final. `unexpected` are the hands that hold a third card which
    the tableau forbids; totals and outcome are those without it.
    """

    player: tuple[int, ...]
    banker: tuple[int, ...]
    missing: Hand | None
    unexpected: tuple[Hand, ...]

    @property
    def player_total(self) -> int:
        return total(self.player)

    @property
    def banker_total(self) -> int:
        return total(self.banker)

    @property
    def outcome(self) -> Outcome:
        return outcome(self.player_total, self.banker_total)


def judge(player: Sequence[int], banker: Sequence[int]) -> Ruling:
    """Judges two hands as they were dealt, each of two or three cards, against the tableau."""
    player_cards, banker_cards = tuple(player), tuple(banker)
    assert 2 <= len(player_cards) <= 3
    assert 2 <= len(banker_cards) <= 3
    player_two, banker_two = total(player_cards[:2]), total(banker_cards[:2])
    third: int | None = None
    unexpected: tuple[Hand, ...] = ()

    if player_draws(player_two, banker_two):
        if len(player_cards) == 2:
            return Ruling(player_cards, banker_cards[:2], _PLAYER, ())
        third = player_cards[2]
    elif len(player_cards) == 3:
        player_cards = player_cards[:2]
        unexpected = (_PLAYER,)

    if banker_draws(player_two, banker_two, third):
        if len(banker_cards) == 2:
            return Ruling(player_cards, banker_cards, _BANKER, unexpected)
    elif len(banker_cards) == 3:
        banker_cards = banker_cards[:2]
        unexpected += (_BANKER,)

    return Ruling(player_cards, banker_cards, None, unexpected)
