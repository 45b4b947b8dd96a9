"""The order of a shuffled shoe, from a seed that is committed to before and shown after.

Scheme `hmac-sha256-fisher-yates-1`, which anyone can recompute:

1. Start from `decks` times the deck of `cards.DECK`.
2. The key stream is HMAC-SHA256(key=seed, message=b"puntobanco/shuffle/1/" +
   counter), the counter an unsigned 64-bit big-endian number from 0 up. It is
   read as unsigned 32-bit big-endian words.
3. For i from the last place down to 1: take words until one lies below the
   greatest multiple of i + 1 that is not above 2**32; swap the cards at places
   i and word modulo (i + 1). Words above it are dropped, so that no place is
   likelier than another.
4. The card at place 0 comes out first.

The commitment is the SHA-256 of the seed.
"""

import hashlib
import hmac
from collections.abc import Iterator
from functools import lru_cache

from domain.cards import DECK, Card

SCHEME = "hmac-sha256-fisher-yates-1"
SEED_BYTES = 32
_LABEL = b"puntobanco/shuffle/1/"
_WORDS = 2**32


def commitment(seed: bytes) -> str:
    """What is published before the first card: the seed's SHA-256 in hexadecimal."""
    return hashlib.sha256(seed).hexdigest()


class NumberStream:
    """Whole numbers of which none is likelier than another, by steps 2 and 3 of the scheme.

    The seed and the label decide them all: another label is another stream.
    """

    def __init__(self, seed: bytes, *, label: bytes) -> None:
        self._words = _words(seed, label)

    def below(self, choices: int) -> int:
        """The next number from 0 up to, and without, `choices`."""
        assert 0 < choices <= _WORDS
        bound = _WORDS - _WORDS % choices
        return next(word for word in self._words if word < bound) % choices


def _words(seed: bytes, label: bytes) -> Iterator[int]:
    counter = 0
    while True:
        block = hmac.digest(seed, label + counter.to_bytes(8, "big"), "sha256")
        for start in range(0, len(block), 4):
            yield int.from_bytes(block[start : start + 4], "big")
        counter += 1


@lru_cache(maxsize=1_000)
def shuffled(seed: bytes, decks: int) -> tuple[Card, ...]:
    """The cards of `decks` decks in the order in which they come out of the shoe."""
    assert len(seed) == SEED_BYTES
    cards = list(DECK) * decks
    numbers = NumberStream(seed, label=_LABEL)
    for place in range(len(cards) - 1, 0, -1):
        other = numbers.below(place + 1)
        cards[place], cards[other] = cards[other], cards[place]
    return tuple(cards)
