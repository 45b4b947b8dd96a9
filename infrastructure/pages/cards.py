"""Cards drawn as SVG. Everything is in the markup, so that nothing has to be loaded for them."""

from markupsafe import Markup

from domain.cards import TEN_VALUED, UNKNOWN

WIDTH, HEIGHT = 50, 70

_RANKS = {
    "A": "Ace",
    "2": "Two",
    "3": "Three",
    "4": "Four",
    "5": "Five",
    "6": "Six",
    "7": "Seven",
    "8": "Eight",
    "9": "Nine",
    "T": "Ten",
    "J": "Jack",
    "Q": "Queen",
    "K": "King",
    TEN_VALUED: "Ten-valued card",
}
_SUITS = {"S": "spades", "H": "hearts", "D": "diamonds", "C": "clubs"}
_RED = "HD"

# Each in a square of 20 by 20.
_SHAPES = {
    "S": "M10 1C7 6 2 8 2 12a4 4 0 0 0 7 3l-2 4h6l-2-4a4 4 0 0 0 7-3C18 8 13 6 10 1Z",
    "H": "M10 19C7 14 1 11 1 6a4 4 0 0 1 9-2 4 4 0 0 1 9 2C19 11 13 14 10 19Z",
    "D": "M10 1 17 10 10 19 3 10Z",
    "C": "M10 1a4 4 0 0 1 3 6 4 4 0 1 1-2 7l2 5H7l2-5a4 4 0 1 1-2-7 4 4 0 0 1 3-6Z",
}


def card_name(card: str) -> str:
    """A card in words: `Nine of hearts`."""
    rank, suit = card[0], card[1]
    if rank == UNKNOWN:
        return "Card face down"
    name = _RANKS[rank]
    return f"{name} of {_SUITS[suit]}" if suit in _SUITS else f"{name}, suit unknown"


def card_drawing(card: str, *, note: str | None = None) -> Markup:
    """A card as a picture with its name; a `note`, such as why it does not count, marks it."""
    rank, suit = card[0], card[1]
    name = card_name(card) if note is None else f"{card_name(card)}, {note}"
    colour = "red" if suit in _RED else "black"
    classes = f"card {colour}" + ("" if note is None else " marked")
    inside = _back() if rank == UNKNOWN else _face(rank, suit)
    return Markup(
        '<svg class="{}" viewBox="0 0 {} {}" role="img" aria-label="{}">{}{}</svg>'
    ).format(classes, WIDTH, HEIGHT, name, _OUTLINE, inside)


_OUTLINE = Markup('<rect class="paper" x="1" y="1" width="48" height="68" rx="5"/>')


def _face(rank: str, suit: str) -> Markup:
    text = {"T": "10", TEN_VALUED: "10?"}.get(rank, rank)
    corner = Markup('<text class="rank" x="6" y="21">{}</text>').format(text)
    if suit not in _SHAPES:
        unknown = Markup('<text class="unknown" x="25" y="56" text-anchor="middle">?</text>')
        return corner + unknown
    shape = Markup('<path class="suit" transform="translate(13 32) scale(1.4)" d="{}"/>')
    return corner + shape.format(_SHAPES[suit])


def _back() -> Markup:
    lines = "".join(f"M6 {y}h38" for y in range(10, 64, 6))
    return Markup('<path class="back" d="{}"/>').format(lines)
