"""How often each round occurs and what each bet keeps for the house, exactly.

Counted, not simulated: every round that the tableau allows is visited by the
points of its cards and weighed by how many ordered sequences of cards from a
full shoe, none burned, deal it. The tableau and the settlement of bets are the
ones that the table plays by; there is no second copy of the rules here.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations_with_replacement, product
from math import perm, prod

from domain.bets import BetKind, Deal, Result, settle
from domain.cards import DECK, Card, parse_card
from domain.money import CommissionPolicy
from domain.rules import Rules
from domain.shoe import MOST_CARDS_A_ROUND
from domain.tableau import Hand, Outcome, next_hand, total

PAIR_BETS = frozenset(
    {BetKind.PLAYER_PAIR, BetKind.BANKER_PAIR, BetKind.EITHER_PAIR, BetKind.PERFECT_PAIR}
)
"""The bets that look at ranks and suits, and at nothing but the first two cards of a hand."""

_CARD_OF_POINTS = tuple(parse_card(rank + "?") for rank in "0A23456789")


@dataclass(frozen=True, slots=True)
class Census:
    """Deals, each with the number of ordered sequences of cards that it stands for."""

    sequences: int
    deals: tuple[tuple[Deal, int], ...]

    def count(self, holds: Callable[[Deal], bool]) -> int:
        """How many ordered sequences come to a deal of which something holds."""
        return sum(count for deal, count in self.deals if holds(deal))

    def probability(self, holds: Callable[[Deal], bool]) -> Fraction:
        """The share of all ordered sequences that come to such a deal."""
        return Fraction(self.count(holds), self.sequences)


@lru_cache
def round_counts(decks: int) -> Census:
    """Every round by its totals and numbers of cards, over all ordered sequences of six cards.

    A round of four or five cards stands for every continuation of it. Only the
    points of the cards are right, so pairs are in `pair_counts`.
    """
    left = [16 * decks, *[4 * decks] * 9]
    counts: Counter[tuple[int, int, int, int]] = Counter()
    examples: dict[tuple[int, int, int, int], tuple[tuple[int, ...], tuple[int, ...]]] = {}

    def draw(points: int) -> int:
        left[points] -= 1
        return left[points] + 1

    def put_back(cards: Iterable[int]) -> None:
        for points in cards:
            left[points] += 1

    def deal_thirds(player: tuple[int, ...], banker: tuple[int, ...], weight: int) -> None:
        hand = next_hand(player, banker)
        if hand is None:
            ending = (total(player), total(banker), len(player), len(banker))
            dealt = len(player) + len(banker)
            counts[ending] += weight * perm(52 * decks - dealt, MOST_CARDS_A_ROUND - dealt)
            examples.setdefault(ending, (player, banker))
            return
        for third in range(10):
            ways = weight * draw(third)
            if hand is Hand.PLAYER:
                deal_thirds((*player, third), banker, ways)
            else:
                deal_thirds(player, (*banker, third), ways)
            put_back([third])

    # A hand's first two cards count the same in either order, so one order stands for both.
    hands = list(combinations_with_replacement(range(10), 2))
    for player, banker in product(hands, hands):
        orders = (1 + (player[0] != player[1])) * (1 + (banker[0] != banker[1]))
        deal_thirds(player, banker, orders * prod([draw(points) for points in player + banker]))
        put_back(player + banker)

    return Census(
        perm(52 * decks, MOST_CARDS_A_ROUND),
        tuple((Deal.of(*map(_cards, examples[ending])), count) for ending, count in counts.items()),
    )


@lru_cache
def pair_counts(decks: int) -> Census:
    """What the two hands' first two cards can be, over all ordered sequences of four cards.

    Every card stands for every other as the Player's first, so that it is an
    ace here; the second is the same card, the same rank in one of three other
    suits, or one of twelve other ranks. Totals and outcome are blank: no pair
    bet asks for them.
    """
    ace, other_ace, two = parse_card("AS"), parse_card("AH"), parse_card("2S")
    deals: list[tuple[Deal, int]] = []
    for second, seconds in ((ace, decks - 1), (other_ace, 3 * decks), (two, 48 * decks)):
        player = (ace, second)
        for banker in product(DECK, DECK):
            thirds = decks - player.count(banker[0])
            fourths = decks - (*player, banker[0]).count(banker[1])
            weight = 52 * decks * seconds * thirds * fourths
            deals.append((Deal(Outcome.TIE, 0, 0, player, banker), weight))
    return Census(perm(52 * decks, 4), tuple(deals))


def house_edge(kind: BetKind, rules: Rules) -> Fraction:
    """The share of a stake that the house keeps on average, pushes counted as stakes.

    Commission is taken at its rate alone, without increment, minimum or
    rounding, so the theoretical win of a day is turnover times this.
    """
    census, unit = _census(kind, rules), _unit(kind, rules)
    kept = sum(kept * count for kept, count in _kept(kind, rules, unit, census))
    return Fraction(kept, census.sequences * unit)


def covariance(kind: BetKind, other: BetKind, rules: Rules) -> Fraction:
    """How what the house keeps of one bet goes with what it keeps of another in the same round.

    Of stakes of one unit each; of a bet with itself it is the variance. A pair
    looks at ranks and suits and every other bet at points: between those two
    it is taken as none, for who wins says next to nothing of a pair.
    """
    census = _census(kind, rules)
    if _census(other, rules) is not census:
        return Fraction(0)
    unit, other_unit = _unit(kind, rules), _unit(other, rules)
    both = zip(
        _kept(kind, rules, unit, census), _kept(other, rules, other_unit, census), strict=True
    )
    together = sum(kept * other_kept * count for (kept, count), (other_kept, _) in both)
    mean = house_edge(kind, rules) * house_edge(other, rules)
    return Fraction(together, census.sequences * unit * other_unit) - mean


def _census(kind: BetKind, rules: Rules) -> Census:
    return pair_counts(rules.decks) if kind in PAIR_BETS else round_counts(rules.decks)


def _unit(kind: BetKind, rules: Rules) -> int:
    """A stake that every price, a half and a rate divide, so that nothing is rounded."""
    price = rules.odds[kind]
    prices = price.values() if isinstance(price, Mapping) else [price]
    return 2 * 10_000 * prod(denominator for _, denominator in prices)


def _kept(kind: BetKind, rules: Rules, unit: int, census: Census) -> Iterator[tuple[int, int]]:
    """By deal, what the house keeps of a stake, and how many sequences deal it."""
    for deal, count in census.deals:
        settlement = settle(
            kind,
            unit,
            deal,
            variant=rules.variant,
            odds=rules.odds,
            policy=CommissionPolicy(rate_basis_points=rules.commission.rate_basis_points),
            win_rounding=rules.win_rounding,
        )
        if settlement.result is Result.LOST:
            yield unit, count
        else:
            yield settlement.commission_minor - settlement.win_minor, count


def _cards(hand: tuple[int, ...]) -> tuple[Card, ...]:
    return tuple(_CARD_OF_POINTS[points] for points in hand)
