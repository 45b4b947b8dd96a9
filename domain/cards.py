"""Cards, their points and their notation.

A card is written as rank and suit: `AS`, `TD`, `9H`, `KC`. A ten-valued card of
unknown rank has the rank `0`, an unknown suit is `?` (`9?`, `0?`), and a card
that was burned face down is `??`.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Annotated

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

RANKS = "A23456789TJQK"
SUITS = "SHDC"
TEN_VALUED = "0"
UNKNOWN = "?"


_CARDS: dict[str, "Card"] = {}


class Card:
    """A card as it was seen; `points` is its value in punto banco, 0 to 9.

    There is one object for each notation, so that cards are equal where they
    are the same object.
    """

    __slots__ = ("_text", "points", "rank", "suit")

    rank: str
    suit: str
    points: int

    def __init__(self, rank: str, suit: str, points: int) -> None:
        assert rank + suit not in _CARDS, "parse_card gives the card that is there"
        self.rank, self.suit, self.points = rank, suit, points
        self._text = rank + suit
        _CARDS[self._text] = self

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<{self._text}>"

    def __reduce__(self) -> tuple[Callable[[str], "Card"], tuple[str]]:
        return _CARDS.__getitem__, (self._text,)

    @property
    def has_known_rank(self) -> bool:
        return self.rank in RANKS

    @property
    def has_known_suit(self) -> bool:
        return self.suit in SUITS


def _points(rank: str) -> int:
    if rank == "A":
        return 1
    return int(rank) if rank in "23456789" else 0


for _rank in RANKS + TEN_VALUED:
    for _suit in SUITS + UNKNOWN:
        Card(_rank, _suit, _points(_rank))
FACE_DOWN = Card(UNKNOWN, UNKNOWN, 0)

DECK: tuple[Card, ...] = tuple(_CARDS[rank + suit] for suit in SUITS for rank in RANKS)
"""The 52 cards in the order that a shuffle starts from: spades, hearts, diamonds, clubs."""


def parse_card(text: object) -> Card:
    """The card that a notation names; raises ValueError for anything else."""
    card = _CARDS.get(text) if isinstance(text, str) else None
    if card is None or card is FACE_DOWN:
        raise ValueError(
            f"{str(text)[:20]!r} is not a card: write rank and suit, as in 9H, TD or 0?"
        )
    return card


def parse_burned_card(text: object) -> Card:
    """As `parse_card`, and `??` for a card that was burned face down."""
    return FACE_DOWN if text == "??" else parse_card(text)


def must_show_face(*cards: Card) -> None:
    """Raises ValueError where a card was face down: only burned ones are."""
    if FACE_DOWN in cards:
        raise ValueError("a card that was dealt shows its face")


def _read_card(value: object) -> Card:
    return value if isinstance(value, Card) else parse_card(value)


def _read_burned_card(value: object) -> Card:
    return value if isinstance(value, Card) else parse_burned_card(value)


_AS_TEXT = PlainSerializer(str, return_type=str)
_SCHEMA = WithJsonSchema({"type": "string", "pattern": "^[A2-9TJQK0?][SHDC?]$"})

CardField = Annotated[Card, PlainValidator(_read_card), _AS_TEXT, _SCHEMA]
BurnedCardField = Annotated[Card, PlainValidator(_read_burned_card), _AS_TEXT, _SCHEMA]


def burn_count(card: Card) -> int:
    """How many cards are burned after `card` was turned up: its points, or ten."""
    return card.points or 10


def excess_cards(cards: Iterable[Card], *, decks: int) -> dict[str, int]:
    """Which cards occur more often than `decks` decks hold, and how often.

    A card of unknown suit is counted by its rank and one of unknown rank by
    its value, so that each key is as exact as the cards that were seen allow.
    """
    seen = Counter(cards)
    seen.pop(FACE_DOWN, None)
    excess = {
        str(card): count
        for card, count in seen.items()
        if card.has_known_rank and card.has_known_suit and count > decks
    }
    by_rank: Counter[str] = Counter()
    for card, count in seen.items():
        by_rank[card.rank] += count
    for rank, count in by_rank.items():
        has_unknown_suit = _CARDS[rank + UNKNOWN] in seen
        if rank in RANKS and has_unknown_suit and count > 4 * decks:
            excess[rank + UNKNOWN] = count
    for suit in SUITS:
        ten_valued = sum(seen[_CARDS[rank + suit]] for rank in "TJQK" + TEN_VALUED)
        if _CARDS[TEN_VALUED + suit] in seen and ten_valued > 4 * decks:
            excess[TEN_VALUED + suit] = ten_valued
    ten_valued = sum(by_rank[rank] for rank in "TJQK" + TEN_VALUED)
    if by_rank[TEN_VALUED] and ten_valued > 16 * decks:
        excess[TEN_VALUED + UNKNOWN] = ten_valued
    return excess
