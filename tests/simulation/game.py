"""The game once more, from the rules alone: points, tableau, bets, commission.

Nothing here comes from the program under test. Cards are their two characters,
money is `Fraction` until it is rounded, and the tableau is the printed table.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from math import floor
from typing import Any

RANKS = "A23456789TJQK"
SUITS = "SHDC"
KINDS = (
    "player",
    "banker",
    "tie",
    "player_pair",
    "banker_pair",
    "either_pair",
    "perfect_pair",
    "dragon7",
    "panda8",
    "lucky6",
    "small",
    "big",
)
STANDARD_ODDS: dict[str, Any] = {
    "player": [1, 1],
    "banker": [1, 1],
    "tie": [8, 1],
    "player_pair": [11, 1],
    "banker_pair": [11, 1],
}
STANDARD_COMMISSION: dict[str, Any] = {
    "rate_basis_points": 500,
    "increment_minor": 1,
    "rounding": "half_up",
    "minimum_minor": 0,
    "collection": "per_round",
}

# Player's third card, in points, on which the Banker's two cards draw.
BANKER_DRAWS_ON = {
    0: {0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
    1: {0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
    2: {0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
    3: {0, 1, 2, 3, 4, 5, 6, 7, 9},
    4: {2, 3, 4, 5, 6, 7},
    5: {4, 5, 6, 7},
    6: {6, 7},
    7: set(),
}

Hands = tuple[list[str], list[str]]


def points(card: str) -> int:
    """Ace 1, two to nine their face, everything else nothing."""
    return "0A23456789".find(card[0]) if card[0] in "A23456789" else 0


def total(hand: Sequence[str]) -> int:
    """The last digit of the sum."""
    return sum(points(card) for card in hand) % 10


def next_hand(player: Sequence[str], banker: Sequence[str]) -> str | None:
    """Whose the next card is; None where the tableau allows no more."""
    if len(player) + len(banker) < 4:
        return "player" if len(player) == len(banker) else "banker"
    if len(banker) == 3 or total(player[:2]) in (8, 9) or total(banker[:2]) in (8, 9):
        return None
    if len(player) == 2 and total(player) <= 5:
        return "player"
    if len(player) == 2:
        return "banker" if total(banker) <= 5 else None
    return "banker" if points(player[2]) in BANKER_DRAWS_ON[total(banker)] else None


def outcome(player: Sequence[str], banker: Sequence[str]) -> str:
    """The higher total wins."""
    if total(player) == total(banker):
        return "tie"
    return "player" if total(player) > total(banker) else "banker"


def rounded(exact: Fraction, rounding: str) -> int:
    """A whole number from an amount that is not negative."""
    below = floor(exact)
    rest = exact - below
    match rounding:
        case "down":
            return below
        case "up":
            return below + (rest > 0)
        case "half_up":
            return below + (rest >= Fraction(1, 2))
        case "half_even":
            return below + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and below % 2 == 1))
    raise ValueError(rounding)


def commission(win_minor: int, policy: dict[str, Any]) -> int:
    """The commission on an amount won, by the table's policy."""
    increment = policy["increment_minor"]
    exact = Fraction(win_minor * policy["rate_basis_points"], 10_000)
    taken = rounded(exact / increment, policy["rounding"]) * increment
    return max(taken, policy["minimum_minor"])


def price(kind: str, hands: Hands, rules: dict[str, Any]) -> Fraction | str:
    """What a bet pays to one, or `lost`, or `push`."""
    player, banker = hands
    odds = rules["odds"][kind]
    won = outcome(player, banker)
    if kind in ("player", "banker"):
        if won == "tie":
            return "push"
        if won != kind:
            return "lost"
        if kind == "banker" and rules["variant"] == "ez" and _is(banker, 3, 7):
            return "push"
        if kind == "banker" and rules["variant"] == "no_commission" and total(banker) == 6:
            return Fraction(*odds) / 2
        return Fraction(*odds)
    if kind == "perfect_pair":
        perfect = sum(hand[0] == hand[1] for hand in hands)
        return Fraction(*odds["both" if perfect == 2 else "one"]) if perfect else "lost"
    if kind == "lucky6":
        if won != "banker" or total(banker) != 6:
            return "lost"
        return Fraction(*odds["two_cards" if len(banker) == 2 else "three_cards"])
    wins: dict[str, Callable[[], bool]] = {
        "tie": lambda: won == "tie",
        "player_pair": lambda: _is_pair(player),
        "banker_pair": lambda: _is_pair(banker),
        "either_pair": lambda: _is_pair(player) or _is_pair(banker),
        "dragon7": lambda: won == "banker" and _is(banker, 3, 7),
        "panda8": lambda: won == "player" and _is(player, 3, 8),
        "small": lambda: len(player) + len(banker) == 4,
        "big": lambda: len(player) + len(banker) > 4,
    }
    return Fraction(*odds) if wins[kind]() else "lost"


def settled(kind: str, stake_minor: int, hands: Hands, rules: dict[str, Any]) -> dict[str, Any]:
    """A bet's `result`, `win_minor` and `commission_minor`."""
    pays = price(kind, hands, rules)
    if isinstance(pays, str):
        return {"result": pays, "win_minor": 0, "commission_minor": 0}
    win_minor = rounded(stake_minor * pays, rules["win_rounding"])
    takes = kind == "banker" and rules["variant"] == "commission"
    taken = commission(win_minor, rules["commission"]) if takes else 0
    return {"result": "won", "win_minor": win_minor, "commission_minor": taken}


def undecidable(kind: str, player: Sequence[str], banker: Sequence[str]) -> bool:
    """Whether a hand's first two cards lack a rank or suit that the bet needs."""
    hands = {
        "player_pair": player[:2],
        "banker_pair": banker[:2],
        "either_pair": [*player[:2], *banker[:2]],
        "perfect_pair": [*player[:2], *banker[:2]],
    }
    needs_suit = kind == "perfect_pair"
    return any(card[0] == "0" or (needs_suit and card[1] == "?") for card in hands.get(kind, ()))


def fit_in(decks: int, cards: Sequence[str]) -> bool:
    """Whether so many decks can hold all these cards, the partly known ones included."""
    if len(cards) > 52 * decks:
        return False
    known = Counter(card for card in cards if card != "??")
    ranks: Counter[str] = Counter()
    suits_of_tens: Counter[str] = Counter()
    for card, count in known.items():
        ranks[card[0]] += count
        if card[0] in "0TJQK" and card[1] != "?":
            suits_of_tens[card[1]] += count
    return (
        all(count <= decks for card, count in known.items() if card[0] != "0" and card[1] != "?")
        and all(count <= 4 * decks for rank, count in ranks.items() if rank != "0")
        and all(count <= 4 * decks for count in suits_of_tens.values())
        and sum(ranks[rank] for rank in "0TJQK") <= 16 * decks
    )


def _is(hand: Sequence[str], cards: int, points_total: int) -> bool:
    return len(hand) == cards and total(hand) == points_total


def _is_pair(hand: Sequence[str]) -> bool:
    return hand[0][0] == hand[1][0]
