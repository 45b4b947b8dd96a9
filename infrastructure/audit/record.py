"""The facts of one round, collected from its own stream and from the accounts that name it.

The auditor sees every event of a ledger: it collects raw facts here and leaves
the folding of aggregates, which copies a whole state at each event, to others.
"""

from collections.abc import Callable
from typing import Any, get_args

from domain.account import (
    CommissionCharged,
    CommissionMarked,
    SettlementReversed,
    StakeLost,
    StakePlaced,
    StakeReturned,
    WinPaid,
)
from domain.cards import Card
from domain.correction import CorrectedBet
from domain.event import Unreadable
from domain.money import Collection
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
from domain.tableau import Hand, Ruling

StakeMovement = (
    StakePlaced
    | StakeLost
    | StakeReturned
    | WinPaid
    | CommissionCharged
    | CommissionMarked
    | SettlementReversed
)
"""The account events that name a round and a bet."""

# By themselves: Python 3.11 finds a member of an enumeration by a function, each time.
_PLAYER = Hand.PLAYER

HeldBet = BetPlaced | CorrectedBet
"""A bet as it was placed, or as a correction says that it holds."""


class Chapter:
    """What held of a round for a time: as it was played, or after one of its corrections.

    `correction` is the one that opened the chapter, and `reversals` are what the
    accounts undid for it. `gone` are the bets that it took out.
    """

    __slots__ = (
        "banker",
        "bets",
        "cancelled",
        "correction",
        "dealt",
        "gone",
        "is_settled",
        "is_void",
        "movements",
        "player",
        "position",
        "resolved",
        "reversals",
        "ruled",
        "ruling",
        "settlements",
        "version",
    )

    def __init__(self) -> None:
        self.correction: RoundCorrected | None = None
        self.version = 0
        self.position = 0
        self.bets: dict[str, HeldBet] = {}
        self.gone: dict[str, HeldBet] = {}
        self.cancelled: set[str] = set()
        self.player: list[Card] = []
        self.banker: list[Card] = []
        self.dealt: list[Card] = []
        # What the tableau says, kept with the numbers of cards that it was asked about.
        self.ruling: Ruling | None = None
        self.ruled = (0, 0)
        self.resolved: RoundResolved | RoundCorrected | None = None
        self.settlements: list[BetSettled] = []
        self.reversals: list[SettlementReversed] = []
        self.movements: list[StakeMovement] = []
        self.is_settled = False
        self.is_void = False

    @property
    def is_finished(self) -> bool:
        """Whether no stake can be left in play."""
        return self.is_settled or self.is_void

    @property
    def in_force(self) -> dict[str, HeldBet]:
        """The bets that were neither cancelled nor returned."""
        if self.is_void:
            return {}
        return {bet_id: bet for bet_id, bet in self.bets.items() if bet_id not in self.cancelled}

    def corrected_by(
        self, position: int, event: RoundCorrected, reversals: list[SettlementReversed]
    ) -> "Chapter":
        """The chapter that a correction opens after this one."""
        chapter = Chapter()
        chapter.correction = chapter.resolved = event
        chapter.version, chapter.position = event.originator_version, position
        chapter.bets = {bet.bet_id: bet for bet in event.bets}
        chapter.gone = {
            bet_id: bet for bet_id, bet in self.in_force.items() if bet_id not in chapter.bets
        }
        chapter.player, chapter.banker = list(event.player), list(event.banker)
        chapter.dealt = list(event.cards)
        chapter.reversals = reversals
        chapter.is_settled, chapter.is_void = not event.is_void, event.is_void
        return chapter


class RoundRecord:
    """What was recorded of one round, chapter by chapter; the last one, `now`, holds.

    `first_position` is where it was first heard of, `opened_position` where it
    was opened; `gaps` says where its stream is broken. `reversals` are those
    that no correction has followed yet.
    """

    __slots__ = (
        "chapters",
        "first_position",
        "gaps",
        "now",
        "opened",
        "opened_position",
        "proposals",
        "rejections",
        "reversals",
        "round_id",
        "stream",
        "version",
    )

    def __init__(self, round_id: str, *, first_position: int = 0) -> None:
        self.round_id = round_id
        self.stream = f"round:{round_id}"
        self.first_position = first_position
        self.opened_position = 0
        self.version = 0
        self.gaps: list[str] = []
        self.opened: RoundOpened | None = None
        self.now = Chapter()
        self.chapters = [self.now]
        self.proposals: list[CorrectionProposed] = []
        self.rejections: list[CorrectionRejected] = []
        self.reversals: list[SettlementReversed] = []

    @property
    def played(self) -> Chapter:
        """What held before any correction."""
        return self.chapters[0]

    @property
    def is_finished(self) -> bool:
        """Whether no stake can be left in play."""
        return self.now.is_finished

    @property
    def is_deferred(self) -> bool:
        """Whether the rules that it was opened with defer commission."""
        opened = self.opened
        return opened is not None and opened.rules.commission.collection is Collection.DEFERRED

    @property
    def has_movements(self) -> bool:
        """Whether any account event names the round."""
        return bool(self.reversals) or any(
            chapter.movements or chapter.reversals for chapter in self.chapters
        )

    def see(self, position: int, event: RoundEvent) -> None:
        """Takes in the next event of the round's stream."""
        version = event.originator_version
        if version != self.version + 1:
            self._add_gap(version)
        self.version = version
        _CHANGES[type(event)](self, position, event)

    def see_movement(self, event: StakeMovement) -> None:
        """Takes in an account event that names the round."""
        if type(event) is SettlementReversed:
            self.reversals.append(event)
        else:
            self.now.movements.append(event)

    def see_unreadable(self, event: Unreadable) -> None:
        """Takes in that an event of the stream cannot be decoded."""
        if event.version != self.version + 1:
            self._add_gap(event.version)
        self.version = event.version
        self.gaps.append(describe_unreadable(event))

    def _add_gap(self, version: int) -> None:
        self.gaps.append(describe_gap(self.stream, version, after=self.version))


def _opened(record: RoundRecord, position: int, event: RoundOpened) -> None:
    if record.opened is None:
        record.opened, record.opened_position = event, position


def _bet_placed(record: RoundRecord, _: int, event: BetPlaced) -> None:
    record.now.bets[event.bet_id] = event


def _bet_cancelled(record: RoundRecord, _: int, event: BetCancelled) -> None:
    record.now.cancelled.add(event.bet_id)


def _betting_closed(_record: RoundRecord, _position: int, _event: BettingClosed) -> None:
    pass


def _dealt(record: RoundRecord, _: int, event: CardDealt | ThirdCardDrawn) -> None:
    now = record.now
    (now.player if event.hand is _PLAYER else now.banker).append(event.card)
    now.dealt.append(event.card)


def _resolved(record: RoundRecord, _: int, event: RoundResolved) -> None:
    record.now.resolved = event


def _bet_settled(record: RoundRecord, _: int, event: BetSettled) -> None:
    record.now.settlements.append(event)


def _settled(record: RoundRecord, _: int, event: RoundSettled) -> None:
    now = record.now
    now.is_settled, now.is_void = True, False
    now.version = event.originator_version


def _voided(record: RoundRecord, _: int, __: RoundVoided) -> None:
    record.now.is_settled, record.now.is_void = False, True


def _proposed(record: RoundRecord, _: int, event: CorrectionProposed) -> None:
    record.proposals.append(event)


def _rejected(record: RoundRecord, _: int, event: CorrectionRejected) -> None:
    record.rejections.append(event)


def _corrected(record: RoundRecord, position: int, event: RoundCorrected) -> None:
    record.now = record.now.corrected_by(position, event, record.reversals)
    record.chapters.append(record.now)
    record.reversals = []


# A table, for each case of a match that is not met costs as much as all that is done here.
_CHANGES: dict[type, Callable[[RoundRecord, int, Any], None]] = {
    RoundOpened: _opened,
    BetPlaced: _bet_placed,
    BetCancelled: _bet_cancelled,
    BettingClosed: _betting_closed,
    CardDealt: _dealt,
    ThirdCardDrawn: _dealt,
    RoundResolved: _resolved,
    BetSettled: _bet_settled,
    RoundSettled: _settled,
    RoundVoided: _voided,
    CorrectionProposed: _proposed,
    CorrectionRejected: _rejected,
    RoundCorrected: _corrected,
}
assert _CHANGES.keys() == set(get_args(RoundEvent))


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
