"""The column layouts of other systems' records. Another layout is another entry in `LAYOUTS`."""

from collections.abc import Mapping
from dataclasses import dataclass

from domain.cards import Card, parse_card
from domain.tableau import Outcome


@dataclass(frozen=True, slots=True)
class Layout:
    """Which column of a CSV file says what, and what its words mean.

    A hand's third card may be `no_card`. Columns that are not named here are
    allowed and not looked at.
    """

    name: str
    shoe: str
    round: str
    player: tuple[str, str, str]
    banker: tuple[str, str, str]
    player_total: str
    banker_total: str
    outcome: str
    cards: Mapping[str, Card]
    outcomes: Mapping[str, Outcome]
    no_card: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a file must have."""
        return (
            self.shoe,
            self.round,
            *self.player,
            *self.banker,
            self.player_total,
            self.banker_total,
            self.outcome,
        )


POINTS_CSV = Layout(
    name="points-csv",
    shoe="shoe number",
    round="rounds",
    player=("pcard1", "pcard2", "pcard3"),
    banker=("bcard1", "bcard2", "bcard3"),
    player_total="player total",
    banker_total="b total",
    outcome="outcome",
    cards={str(points): parse_card(f"{'0A23456789'[points]}?") for points in range(10)},
    outcomes={
        "player win": Outcome.PLAYER,
        "banker win": Outcome.BANKER,
        "tie": Outcome.TIE,
    },
)
"""Cards by their points alone: 0 is some ten-valued card, and no suit is known."""

LAYOUTS: dict[str, Layout] = {layout.name: layout for layout in (POINTS_CSV,)}
