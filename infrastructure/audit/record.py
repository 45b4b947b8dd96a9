"""The facts of one round, collected from its own stream and from the accounts that name it.

The auditor sees every event of a ledger: it collects raw facts here and leaves
the folding of aggregates, which copies a whole state at each event, to others.
"""

from typing import assert_never

from domain.account import (
    CommissionCharged,
    CommissionMarked,
    StakeLost,
    StakePlaced,
    StakeReturned,
    WinPaid,
)
from domain.cards import Card
from domain.event import Unreadable
from domain.round import (
    BetCancelled,
    BetPlaced,
    BetSettled,
    BettingClosed,
    CardDealt,
    CorrectionProposed,
    CorrectionRejected,
    RoundCorrected,
    RoundEvent,
    RoundOpened,
    RoundResolved,
    RoundSettled,
    RoundVoided,
    ThirdCardDrawn,
)
from domain.tableau import Hand

StakeMovement = (
    StakePlaced | StakeLost | StakeReturned | WinPaid | CommissionCharged | CommissionMarked
)
"""The account events that name a round and a bet."""


class RoundRecord:
    """What was recorded of one round.

    `first_position` is where it was first heard of, `opened_position` where it
    was opened; `gaps` says where its stream is broken.
    """

    __slots__ = (
        "banker",
        "bets",
        "cancelled",
        "dealt",
        "first_position",
        "gaps",
        "is_settled",
        "is_void",
        "movements",
        "opened",
        "opened_position",
        "player",
        "resolved",
        "round_id",
        "settlements",
        "version",
    )

    def __init__(self, round_id: str, *, first_position: int = 0) -> None:
        self.round_id = round_id
        self.first_position = first_position
        self.opened_position = 0
        self.version = 0
        self.gaps: list[str] = []
        self.opened: RoundOpened | None = None
        self.bets: dict[str, BetPlaced] = {}
        self.cancelled: set[str] = set()
        self.player: list[Card] = []
        self.banker: list[Card] = []
        self.dealt: list[Card] = []
        self.resolved: RoundResolved | None = None
        self.settlements: list[BetSettled] = []
        self.movements: list[StakeMovement] = []
        self.is_settled = False
        self.is_void = False

    @property
    def is_finished(self) -> bool:
        """Whether no stake can be left in play."""
        return self.is_settled or self.is_void

    def see(self, position: int, event: RoundEvent) -> None:
        """Takes in the next event of the round's stream."""
        self._advance(event.originator_version)
        # The commonest first: each case that does not match costs time.
        match event:
            case CardDealt() | ThirdCardDrawn():
                (self.player if event.hand is Hand.PLAYER else self.banker).append(event.card)
                self.dealt.append(event.card)
            case BetPlaced():
                self.bets[event.bet_id] = event
            case BetSettled():
                self.settlements.append(event)
            case RoundOpened():
                if self.opened is None:
                    self.opened, self.opened_position = event, position
            case RoundResolved():
                self.resolved = event
            case RoundSettled():
                self.is_settled, self.is_void = True, False
            case BettingClosed():
                pass
            case BetCancelled():
                self.cancelled.add(event.bet_id)
            case RoundVoided():
                self.is_settled, self.is_void = False, True
            case CorrectionProposed() | CorrectionRejected() | RoundCorrected():
                pass
            case _:
                assert_never(event)

    def see_movement(self, event: StakeMovement) -> None:
        """Takes in an account event that names the round."""
        self.movements.append(event)

    def see_unreadable(self, event: Unreadable) -> None:
        """Takes in that an event of the stream cannot be decoded."""
        self._advance(event.version)
        self.gaps.append(describe_unreadable(event))

    def _advance(self, version: int) -> None:
        if version != self.version + 1:
            self.gaps.append(describe_gap(f"round:{self.round_id}", version, after=self.version))
        self.version = version


def describe_gap(stream: str, version: int, *, after: int) -> str:
    """What is wrong with a version that is not the next one."""
    if version <= after:
        return f"version {version} of {stream} comes again after version {after}"
    missing = f"version {after + 1}" if version == after + 2 else f"{after + 1} to {version - 1}"
    return f"{missing} of {stream} is missing before version {version}"


def describe_unreadable(event: Unreadable) -> str:
    """Which stored event cannot be decoded, and why."""
    return (
        f"version {event.version} of {event.stream}, at position {event.position}, "
        f"cannot be read: {event.why}"
    )
