"""The page of a shoe: its roads, what it counts, its burn and its cut card."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from domain.cards import parse_card
from domain.roads import Result
from domain.shoe import CutCardReached, Shoe, ShoeClosed, ShoeEvent, ShoeOpened
from domain.tableau import Outcome, is_natural, total
from infrastructure.pages.ledger import AskedLedger, NotThere
from projections.rounds import RoundLine, rounds


@dataclass(frozen=True, slots=True)
class ShoeView:
    """What the page of a shoe shows.

    `results` are those of the rounds that count, in their order; a void round
    is among the `rounds` and on no road. `commitment` was published when a
    shuffled shoe opened, and the `seed` when it closed.
    """

    shoe: Shoe
    opened_at: datetime
    closed_at: datetime | None
    cut_card_at: datetime | None
    commitment: str | None
    seed: str | None
    rounds: tuple[RoundLine, ...]
    results: tuple[Result, ...]

    @property
    def cards_out(self) -> int:
        """Cards that were burned or dealt in rounds that have ended."""
        return len(self.shoe.burned) + len(self.shoe.drawn)

    @property
    def cards(self) -> int:
        """All the cards of the shoe's decks."""
        return 52 * self.shoe.decks

    @property
    def counts(self) -> dict[str, int]:
        """How many rounds came out which way."""
        outcomes = Counter(result.outcome for result in self.results)
        played = [line for line in self.rounds if _counts(line)]
        return {
            "Banker wins": outcomes[Outcome.BANKER],
            "Player wins": outcomes[Outcome.PLAYER],
            "Ties": outcomes[Outcome.TIE],
            "Banker pairs": sum(result.has_banker_pair for result in self.results),
            "Player pairs": sum(result.has_player_pair for result in self.results),
            "Naturals": sum(_has_natural(line) for line in played),
            "Void rounds": sum(line.state == "void" for line in self.rounds),
        }


def shoe_view(ledger: AskedLedger, shoe_id: str) -> ShoeView:
    """The shoe by its own events, and its rounds as they are listed."""
    events = [cast(ShoeEvent, each.event) for each in ledger.reader.stream(f"shoe:{shoe_id}")]
    opened = next((event for event in events if isinstance(event, ShoeOpened)), None)
    if opened is None:
        raise NotThere(f"There is no shoe {shoe_id}.")
    shoe = Shoe(opened.originator_id)
    for event in events:
        shoe = shoe.apply(event)
    closed = next((event for event in events if isinstance(event, ShoeClosed)), None)
    cut = next((event for event in events if isinstance(event, CutCardReached)), None)
    lines = tuple(rounds(ledger.connection, shoe=shoe_id))
    return ShoeView(
        shoe=shoe,
        opened_at=opened.at,
        closed_at=None if closed is None else closed.at,
        cut_card_at=None if cut is None else cut.at,
        commitment=opened.commitment,
        seed=None if closed is None else closed.seed,
        rounds=lines,
        results=results_of(lines),
    )


def results_of(lines: Sequence[RoundLine]) -> tuple[Result, ...]:
    """What the roads show of rounds: the declared outcome of each that is not void."""
    return tuple(
        Result(
            Outcome(line.outcome),
            has_player_pair=_is_pair(line.player_cards),
            has_banker_pair=_is_pair(line.banker_cards),
        )
        for line in lines
        if line.outcome is not None and _counts(line)
    )


def _counts(line: RoundLine) -> bool:
    return line.outcome is not None and line.state != "void"


def _is_pair(cards: Sequence[str]) -> bool:
    """Whether a hand's first two cards are seen to have the same rank."""
    first_two = [parse_card(card) for card in cards[:2]]
    ranks = {card.rank for card in first_two}
    return len(first_two) == 2 and len(ranks) == 1 and first_two[0].has_known_rank


def _has_natural(line: RoundLine) -> bool:
    hands = (line.player_cards, line.banker_cards)
    return any(is_natural(total([parse_card(card).points for card in hand[:2]])) for hand in hands)
