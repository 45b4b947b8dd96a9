"""A correction: what it asks for, and the id that it is known by.

What is to hold, and what was decided, stands in the stream of the round that is
corrected. The correction's own stream says which round that is, so that an id
is given once and an approval finds its round.
"""

from datetime import datetime
from typing import ClassVar, Self

from msgspec import Struct
from msgspec.structs import replace

from domain.bets import BetKind
from domain.cards import Card
from domain.errors import Refused
from domain.event import NEVER, DomainEvent, Stamp


class CorrectedBet(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A bet as it is to hold; the stake in minor units."""

    bet_id: str
    account_id: str
    bet: BetKind
    stake_minor: int


class Proposal(Struct, frozen=True, gc=False):
    """What a correction asks of its round: None where it leaves the cards or the bets alone.

    `bets` are all that are to hold; one that was there and is left out goes back.
    """

    proposed_by: str
    cards: tuple[Card, ...] | None
    bets: tuple[CorrectedBet, ...] | None
    is_void: bool
    is_decided: bool = False


class CorrectionFiled(DomainEvent):
    """A correction of a round was filed under an id of its own."""

    TOPIC: ClassVar[str] = "correction.filed"
    round_id: str


class Correction(Struct, frozen=True, gc=False):
    """The round that a correction's id stands for."""

    id: str
    version: int = 0
    at: datetime = NEVER
    round_id: str = ""

    @property
    def name(self) -> str:
        """The id that the client chose."""
        return self.id.removeprefix("correction:")

    def file(self, round_id: str, *, stamp: Stamp) -> CorrectionFiled:
        """Takes the id for a correction of a round; refuses one that is taken."""
        if self.version:
            raise Refused(
                "already_exists", f"correction {self.name} is there", field="correction_id"
            )
        return CorrectionFiled(*stamp.on(self.id, 1), round_id=round_id)

    def must_be_known(self) -> None:
        """Refuses a correction that nobody proposed."""
        if not self.version:
            raise Refused(
                "unknown_correction", f"there is no correction {self.name}", field="correction_id"
            )

    def apply(self, event: CorrectionFiled) -> Self:
        return replace(self, version=event.originator_version, at=event.at, round_id=event.round_id)
