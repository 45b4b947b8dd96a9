"""A round: its bets, the cards as they fell, the outcome and the settlement of each bet."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Self, assert_never

from msgspec import Struct
from msgspec.structs import replace

from domain.bets import (
    NEED_FACES,
    OPEN,
    RETURNED,
    BetKind,
    Deal,
    Result,
    Settlement,
    is_undecidable,
)
from domain.cards import Card, must_show_face
from domain.errors import Refused
from domain.event import NEVER, Amount, DomainEvent, PositiveAmount, Stamp
from domain.rules import STANDARD_RULES, Rules
from domain.tableau import Hand, Outcome, next_hand


class RoundOpened(DomainEvent):
    """A round opened for bets, with the full rules in force, so that it replays alone.

    `recorded_from` names the other system whose record this round is.
    """

    TOPIC: ClassVar[str] = "round.opened"
    table_id: str
    shoe_id: str
    number: int
    currency: str
    rules_version: int
    rules: Rules
    recorded_from: str | None = None


class BetPlaced(DomainEvent):
    """A bet was accepted."""

    TOPIC: ClassVar[str] = "round.bet_placed"
    bet_id: str
    account_id: str
    bet: BetKind
    stake_minor: PositiveAmount


class BetCancelled(DomainEvent):
    """A bet was taken back; of a bet that was never seen it is a tombstone."""

    TOPIC: ClassVar[str] = "round.bet_cancelled"
    bet_id: str


class BettingClosed(DomainEvent):
    """No more bets."""

    TOPIC: ClassVar[str] = "round.betting_closed"


class _CardOfHand(DomainEvent):
    """A card that a hand got; `irregular` says what was wrong with its deal."""

    hand: Hand
    card: Card
    irregular: str | None = None

    def __post_init__(self) -> None:
        must_show_face(self.card)


class CardDealt(_CardOfHand):
    """One of a hand's first two cards."""

    TOPIC: ClassVar[str] = "round.card_dealt"


class ThirdCardDrawn(_CardOfHand):
    """A hand's third card."""

    TOPIC: ClassVar[str] = "round.third_card_drawn"


class RoundResolved(DomainEvent):
    """The deal is complete: totals and outcome as they were declared."""

    TOPIC: ClassVar[str] = "round.resolved"
    player_total: int
    banker_total: int
    outcome: Outcome


class BetSettled(DomainEvent):
    """What a bet came to: the win alone, without the stake and before commission."""

    TOPIC: ClassVar[str] = "round.bet_settled"
    bet_id: str
    result: Result
    stake_minor: PositiveAmount
    win_minor: Amount
    commission_minor: Amount


class RoundSettled(DomainEvent):
    """Every bet of the round is settled."""

    TOPIC: ClassVar[str] = "round.settled"


class RoundVoided(DomainEvent):
    """The round does not count; every stake goes back."""

    TOPIC: ClassVar[str] = "round.voided"
    reason: str


RoundEvent = (
    RoundOpened
    | BetPlaced
    | BetCancelled
    | BettingClosed
    | CardDealt
    | ThirdCardDrawn
    | RoundResolved
    | BetSettled
    | RoundSettled
    | RoundVoided
)


class RoundState(StrEnum):
    """Where a round stands. `unopened` has nothing but tombstones, if that."""

    UNOPENED = "unopened"
    BETTING = "betting"
    DEALING = "dealing"
    RESOLVED = "resolved"
    SETTLED = "settled"
    VOID = "void"


class Bet(Struct, frozen=True):
    """An accepted bet; `settlement` says what became of it, once that is known."""

    id: str
    account_id: str
    kind: BetKind
    stake_minor: int
    settlement: Settlement = OPEN


@dataclass(frozen=True, slots=True)
class Declared:
    """Totals and outcome as they were recorded."""

    player_total: int
    banker_total: int
    outcome: Outcome


class Round(Struct, frozen=True):
    """One round of punto banco, from its first bet to its settlement."""

    id: str
    version: int = 0
    at: datetime = NEVER
    state: RoundState = RoundState.UNOPENED
    table_id: str = ""
    shoe_id: str = ""
    number: int = 0
    currency: str = ""
    rules_version: int = 0
    rules: Rules = STANDARD_RULES
    bets: Mapping[str, Bet] = {}
    cancelled: frozenset[str] = frozenset()
    player: tuple[Card, ...] = ()
    banker: tuple[Card, ...] = ()
    dealt: tuple[Card, ...] = ()
    declared: Declared | None = None

    @property
    def name(self) -> str:
        """The id that the client chose."""
        return self.id.removeprefix("round:")

    @property
    def is_finished(self) -> bool:
        """Whether no stake can be left in play."""
        return self.state in (RoundState.SETTLED, RoundState.VOID)

    @property
    def open_bets(self) -> tuple[Bet, ...]:
        """The bets that count and are not settled, in the order they were placed."""
        return tuple(bet for bet in self.bets.values() if bet.settlement.result is Result.OPEN)

    def open(
        self,
        *,
        table_id: str,
        shoe_id: str,
        number: int,
        currency: str,
        rules_version: int,
        rules: Rules,
        stamp: Stamp,
        recorded_from: str | None = None,
    ) -> RoundOpened:
        """Opens the round for bets under the rules in force; refuses one that is there."""
        if self.state is not RoundState.UNOPENED:
            raise Refused("already_exists", f"round {self.name} is there", field="round_id")
        return RoundOpened(
            *self._next(stamp),
            table_id=table_id,
            shoe_id=shoe_id,
            number=number,
            currency=currency,
            rules_version=rules_version,
            rules=rules,
            recorded_from=recorded_from,
        )

    def place_bet(
        self, kind: BetKind, *, bet_id: str, account_id: str, stake_minor: int, stamp: Stamp
    ) -> BetPlaced:
        """Accepts a bet while betting is open, within the table's rules and limits."""
        if bet_id in self.cancelled:
            raise Refused("bet_cancelled", f"bet {bet_id} was cancelled", field="bet_id")
        self.must_be_known()
        if bet_id in self.bets:
            raise Refused("already_exists", f"bet {bet_id} is there", field="bet_id")
        self._must_be_betting()
        self.rules.check_stake(kind, stake_minor)
        if kind in _OPPOSITE and not self.rules.allow_opposite_bets:
            for bet in self.open_bets:
                if bet.account_id == account_id and bet.kind is _OPPOSITE[kind]:
                    raise Refused(
                        "opposite_bets",
                        f"account {account_id} has staked on {bet.kind.value} with bet {bet.id}",
                        field="bet",
                    )
        return BetPlaced(
            *self._next(stamp),
            bet_id=bet_id,
            account_id=account_id,
            bet=kind,
            stake_minor=stake_minor,
        )

    def cancel_bet(self, bet_id: str, *, stamp: Stamp) -> BetCancelled:
        """Takes a bet back before betting closes; one not yet seen is refused when it comes."""
        if bet_id in self.cancelled:
            raise Refused("bet_cancelled", f"bet {bet_id} was cancelled", field="bet_id")
        if self.state is not RoundState.UNOPENED:
            self._must_be_betting()
        return BetCancelled(*self._next(stamp), bet_id=bet_id)

    def close_betting(self, *, stamp: Stamp) -> BettingClosed:
        """Ends the betting."""
        self.must_be_known()
        self._must_be_betting()
        return BettingClosed(*self._next(stamp))

    def deal(
        self, cards: tuple[Card, ...], *, irregular: str | None, stamp: Stamp
    ) -> tuple[RoundEvent, ...]:
        """Deals cards to the hands as the tableau demands, and resolves a complete deal.

        A card that the tableau forbids is refused unless the deal is marked
        irregular with a reason, which each of its cards then carries. The
        forbidden card is the Player's third, or the Banker's where the Player
        has three, and does not count. Where an irregular deal brings both third
        cards, the first of them is the Player's, who always acts first.
        """
        self.must_be_dealing()
        player, banker = list(self.player), list(self.banker)
        is_resolved = self.declared is not None
        need_faces = self._bets_that_need_faces()
        brings_both_thirds = (
            irregular is not None and len(self.dealt) <= 4 and len(self.dealt) + len(cards) == 6
        )
        events: list[RoundEvent] = []
        demanded = next_hand(_points(player), _points(banker))
        for card in cards:
            if len(player) + len(banker) < 4:
                assert demanded is not None
                _must_decide(need_faces, demanded, card)
                hand = demanded
            else:
                goes_to = Hand.PLAYER if brings_both_thirds and len(player) < 3 else demanded
                hand = goes_to or _irregular_hand(player, banker, irregular)
            (player if hand is Hand.PLAYER else banker).append(card)
            common = self._next(stamp, len(events))
            if len(player if hand is Hand.PLAYER else banker) <= 2:
                events.append(CardDealt(*common, hand=hand, card=card, irregular=irregular))
            else:
                events.append(ThirdCardDrawn(*common, hand=hand, card=card, irregular=irregular))
            demanded = next_hand(_points(player), _points(banker))
            if not is_resolved and demanded is None:
                deal = Deal.of(tuple(player), tuple(banker))
                events.append(
                    RoundResolved(
                        *self._next(stamp, len(events)),
                        player_total=deal.player_total,
                        banker_total=deal.banker_total,
                        outcome=deal.outcome,
                    )
                )
                is_resolved = True
        return tuple(events)

    def record(
        self,
        *,
        player: tuple[Card, ...],
        banker: tuple[Card, ...],
        declared: Declared,
        stamp: Stamp,
    ) -> tuple[RoundEvent, ...]:
        """Records what another system dealt and declared, as it fell; the audit judges it."""
        assert self.state is RoundState.BETTING
        assert not self.bets
        dealt = [(Hand.PLAYER, player[0]), (Hand.BANKER, banker[0])]
        dealt += [(Hand.PLAYER, player[1]), (Hand.BANKER, banker[1])]
        thirds = [(Hand.PLAYER, card) for card in player[2:]]
        thirds += [(Hand.BANKER, card) for card in banker[2:]]
        events: list[RoundEvent] = [
            CardDealt(*self._next(stamp, ahead), hand=hand, card=card)
            for ahead, (hand, card) in enumerate(dealt)
        ]
        events += [
            ThirdCardDrawn(*self._next(stamp, ahead), hand=hand, card=card)
            for ahead, (hand, card) in enumerate(thirds, len(events))
        ]
        events.append(
            RoundResolved(
                *self._next(stamp, len(events)),
                player_total=declared.player_total,
                banker_total=declared.banker_total,
                outcome=declared.outcome,
            )
        )
        events.append(RoundSettled(*self._next(stamp, len(events))))
        return tuple(events)

    def settle(self, *, stamp: Stamp) -> tuple[RoundEvent, ...]:
        """Settles every bet of a complete deal by the rules recorded with the round."""
        self.must_be_dealing()
        if self.declared is None:
            raise Refused("deal_incomplete", f"the deal of round {self.name} is not complete")
        deal = Deal.of(self.player, self.banker)
        events: list[RoundEvent] = []
        for bet in self.open_bets:
            settlement = self.rules.settle(bet.kind, bet.stake_minor, deal)
            events.append(
                BetSettled(
                    *self._next(stamp, len(events)),
                    bet_id=bet.id,
                    result=settlement.result,
                    stake_minor=bet.stake_minor,
                    win_minor=settlement.win_minor,
                    commission_minor=settlement.commission_minor,
                )
            )
        events.append(RoundSettled(*self._next(stamp, len(events))))
        return tuple(events)

    def void(self, reason: str, *, stamp: Stamp) -> RoundVoided:
        """Calls the round off before it is settled."""
        self.must_be_known()
        self._must_not_be_finished()
        return RoundVoided(*self._next(stamp), reason=reason)

    def must_be_known(self) -> None:
        """Refuses a round that was never opened."""
        if self.state is RoundState.UNOPENED:
            raise Refused("unknown_round", f"there is no round {self.name}", field="round_id")

    def must_be_dealing(self) -> None:
        """Refuses a round that takes bets, or is settled or void."""
        self.must_be_known()
        self._must_not_be_finished()
        if self.state is RoundState.BETTING:
            raise Refused("betting_open", f"round {self.name} still takes bets", field="round_id")

    def _must_be_betting(self) -> None:
        if self.state is not RoundState.BETTING:
            self._must_not_be_finished()
            raise Refused(
                "betting_closed", f"betting on round {self.name} is closed", field="round_id"
            )

    def _must_not_be_finished(self) -> None:
        if self.state is RoundState.SETTLED:
            raise Refused("round_settled", f"round {self.name} is settled", field="round_id")
        if self.state is RoundState.VOID:
            raise Refused("round_void", f"round {self.name} is void", field="round_id")

    def _bets_that_need_faces(self) -> tuple[Bet, ...]:
        return tuple(bet for bet in self.open_bets if bet.kind in NEED_FACES)

    def _next(self, stamp: Stamp, ahead: int = 0) -> tuple[str, int, datetime, str, str]:
        return self.id, self.version + 1 + ahead, stamp.at, stamp.actor, stamp.key

    def apply(self, event: RoundEvent) -> Self:
        # The events that a round has most of come first.
        now = replace(self, version=event.originator_version, at=event.at)
        match event:
            case BetPlaced():
                bet = Bet(event.bet_id, event.account_id, event.bet, event.stake_minor)
                return replace(now, bets={**self.bets, bet.id: bet})
            case BetSettled():
                settlement = Settlement(event.result, event.win_minor, event.commission_minor)
                return replace(now, bets=_settled(self.bets, event.bet_id, settlement))
            case CardDealt() | ThirdCardDrawn():
                dealt = (*self.dealt, event.card)
                if event.hand is Hand.PLAYER:
                    return replace(now, player=(*self.player, event.card), dealt=dealt)
                return replace(now, banker=(*self.banker, event.card), dealt=dealt)
            case RoundOpened():
                return replace(
                    now,
                    state=RoundState.BETTING,
                    table_id=event.table_id,
                    shoe_id=event.shoe_id,
                    number=event.number,
                    currency=event.currency,
                    rules_version=event.rules_version,
                    rules=event.rules,
                )
            case BettingClosed():
                return replace(now, state=RoundState.DEALING)
            case RoundResolved():
                declared = Declared(event.player_total, event.banker_total, event.outcome)
                return replace(now, state=RoundState.RESOLVED, declared=declared)
            case RoundSettled():
                return replace(now, state=RoundState.SETTLED)
            case BetCancelled():
                bets = _settled(self.bets, event.bet_id, RETURNED)
                return replace(now, bets=bets, cancelled=self.cancelled | {event.bet_id})
            case RoundVoided():
                returned = {bet.id: replace(bet, settlement=RETURNED) for bet in self.bets.values()}
                return replace(now, state=RoundState.VOID, bets=returned)
            case _:
                assert_never(event)


_LOOKS_AT = {BetKind.PLAYER_PAIR: Hand.PLAYER, BetKind.BANKER_PAIR: Hand.BANKER}
_OPPOSITE = {BetKind.PLAYER: BetKind.BANKER, BetKind.BANKER: BetKind.PLAYER}


def _must_decide(bets: tuple[Bet, ...], hand: Hand, card: Card) -> None:
    for bet in bets:
        looks_at_it = _LOOKS_AT.get(bet.kind, hand) is hand
        if looks_at_it and is_undecidable(bet.kind, card):
            raise Refused(
                "undecidable_bet",
                f"{card} leaves bet {bet.id} on {bet.kind.value} without an answer",
                field="cards",
            )


def _points(cards: list[Card]) -> list[int]:
    return [card.points for card in cards]


def _irregular_hand(player: list[Card], banker: list[Card], reason: str | None) -> Hand:
    if reason is not None and len(player) < 3:
        return Hand.PLAYER
    if reason is not None and len(banker) < 3:
        return Hand.BANKER
    raise Refused("third_card_not_allowed", "the tableau allows no further card", field="cards")


def _settled(bets: Mapping[str, Bet], bet_id: str, settlement: Settlement) -> Mapping[str, Bet]:
    bet = bets.get(bet_id)
    return bets if bet is None else {**bets, bet_id: replace(bet, settlement=settlement)}
