"""A round: its bets, the cards as they fell, the outcome and the settlement of each bet."""

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, get_args

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
from domain.correction import CorrectedBet, Proposal
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


class CorrectionProposed(DomainEvent):
    """Somebody asked that other cards or other bets hold, or none at all, and said why.

    `cards` are in dealing order; `bets` are all that are to hold. None: as they are.
    """

    TOPIC: ClassVar[str] = "round.correction_proposed"
    correction_id: str
    reason: str
    is_void: bool
    cards: tuple[Card, ...] | None = None
    bets: tuple[CorrectedBet, ...] | None = None

    def __post_init__(self) -> None:
        must_show_face(*(self.cards or ()))


class CorrectionRejected(DomainEvent):
    """A correction was turned down by another actor than its proposer."""

    TOPIC: ClassVar[str] = "round.correction_rejected"
    correction_id: str


class RoundCorrected(DomainEvent):
    """A correction was approved, by the event's actor: this is what holds from now on.

    It takes the place of the settlement, or the correction, that is this
    round's version `replaces_version`. `cards` are in dealing order. The bets
    that hold, and those that no longer do, are settled anew by the events that
    follow; a bet that is not among `bets` goes back.
    """

    TOPIC: ClassVar[str] = "round.corrected"
    correction_id: str
    proposed_by: str
    replaces_version: int
    is_void: bool
    cards: tuple[Card, ...]
    player: tuple[Card, ...]
    banker: tuple[Card, ...]
    player_total: int
    banker_total: int
    outcome: Outcome
    bets: tuple[CorrectedBet, ...]

    def __post_init__(self) -> None:
        must_show_face(*self.cards, *self.player, *self.banker)


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
    | CorrectionProposed
    | CorrectionRejected
    | RoundCorrected
)


class RoundState(StrEnum):
    """Where a round stands. `unopened` has nothing but tombstones, if that."""

    UNOPENED = "unopened"
    BETTING = "betting"
    DEALING = "dealing"
    RESOLVED = "resolved"
    SETTLED = "settled"
    VOID = "void"


# By themselves: Python 3.11 finds a member of an enumeration by a function, each time.
_UNOPENED = RoundState.UNOPENED
_BETTING = RoundState.BETTING
_DEALING = RoundState.DEALING
_RESOLVED = RoundState.RESOLVED
_SETTLED = RoundState.SETTLED
_VOID = RoundState.VOID
_PLAYER, _BANKER = Hand.PLAYER, Hand.BANKER
_RETURNED, _OPEN = Result.RETURNED, Result.OPEN


class Bet(Struct, frozen=True, gc=False):
    """An accepted bet; `settlement` says what became of it, once that is known."""

    id: str
    account_id: str
    kind: BetKind
    stake_minor: int
    settlement: Settlement = OPEN

    @property
    def is_open(self) -> bool:
        """Whether its stake is in play."""
        return self.settlement.result is _OPEN

    @property
    def counts(self) -> bool:
        """Whether it was neither taken back nor returned."""
        return self.settlement.result is not _RETURNED


class BetChange(Struct, frozen=True, gc=False):
    """A bet as it was settled and as a correction settled it; None where it does not count."""

    was: Bet | None
    becomes: Bet | None

    @property
    def keeps_its_stake(self) -> bool:
        """Whether the same account has the same stake on it."""
        if self.was is None or self.becomes is None:
            return False
        was = (self.was.account_id, self.was.stake_minor)
        return was == (self.becomes.account_id, self.becomes.stake_minor)


class Declared(Struct, frozen=True, gc=False):
    """Totals and outcome as they were recorded."""

    player_total: int
    banker_total: int
    outcome: Outcome


class Round(Struct, frozen=True, gc=False):
    """One round of punto banco, from its first bet to its settlement and its corrections.

    `settled_version` is the event that says what holds: the settlement, or the
    latest correction.
    """

    id: str
    version: int = 0
    at: datetime = NEVER
    state: RoundState = _UNOPENED
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
    irregular: str | None = None
    declared: Declared | None = None
    settled_version: int = 0
    corrections: Mapping[str, Proposal] = {}

    @property
    def name(self) -> str:
        """The id that the client chose."""
        return self.id.removeprefix("round:")

    @property
    def is_finished(self) -> bool:
        """Whether no stake can be left in play."""
        return self.state in (_SETTLED, _VOID)

    @property
    def open_bets(self) -> tuple[Bet, ...]:
        """The bets that count and are not settled, in the order they were placed."""
        return tuple([bet for bet in self.bets.values() if bet.is_open])

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
        if self.state is not _UNOPENED:
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
        opposite = _OPPOSITE.get(kind)
        if opposite is not None and not self.rules.allow_opposite_bets:
            for bet in self.bets.values():
                if bet.account_id == account_id and bet.kind is opposite and bet.is_open:
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
        if self.state is not _UNOPENED:
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
        player_points, banker_points = _points(player), _points(banker)
        is_resolved = self.declared is not None
        need_faces = self._bets_that_need_faces()
        brings_both_thirds = (
            irregular is not None and len(self.dealt) <= 4 and len(self.dealt) + len(cards) == 6
        )
        events: list[RoundEvent] = []
        demanded = next_hand(player_points, banker_points)
        for card in cards:
            if len(player) + len(banker) < 4:
                assert demanded is not None
                _must_decide(need_faces, demanded, card)
                hand = demanded
            else:
                goes_to = _PLAYER if brings_both_thirds and len(player) < 3 else demanded
                hand = goes_to or _irregular_hand(player, banker, irregular)
            held, points = (player, player_points) if hand is _PLAYER else (banker, banker_points)
            held.append(card)
            points.append(card.points)
            dealt = CardDealt if len(held) <= 2 else ThirdCardDrawn
            events.append(dealt(*self._next(stamp, len(events)), hand, card, irregular))
            demanded = next_hand(player_points, banker_points)
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
        assert self.state is _BETTING
        assert not self.bets
        dealt = [(_PLAYER, player[0]), (_BANKER, banker[0])]
        dealt += [(_PLAYER, player[1]), (_BANKER, banker[1])]
        thirds = [(_PLAYER, card) for card in player[2:]]
        thirds += [(_BANKER, card) for card in banker[2:]]
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

    def propose_correction(
        self,
        correction_id: str,
        *,
        cards: tuple[Card, ...] | None,
        bets: tuple[CorrectedBet, ...] | None,
        is_void: bool,
        reason: str,
        stamp: Stamp,
    ) -> CorrectionProposed:
        """Asks for other cards, other bets, or a void of a settled round.

        Refused is what the round's own rules would have refused.
        """
        self._must_be_settled()
        self.corrected(Proposal(stamp.actor, cards, bets, is_void))
        return CorrectionProposed(
            *self._next(stamp),
            correction_id=correction_id,
            reason=reason,
            is_void=is_void,
            cards=cards,
            bets=bets,
        )

    def reject_correction(self, correction_id: str, *, stamp: Stamp) -> CorrectionRejected:
        """Turns a correction down; only another actor than its proposer can."""
        self._must_be_undecided(correction_id, stamp.actor)
        return CorrectionRejected(*self._next(stamp), correction_id=correction_id)

    def approve_correction(self, correction_id: str, *, stamp: Stamp) -> tuple[RoundEvent, ...]:
        """Corrects the round as proposed, judged by what holds now, and settles every bet anew."""
        proposal = self._must_be_undecided(correction_id, stamp.actor)
        self._must_be_settled()
        after = self.corrected(proposal)
        assert after.declared is not None
        corrected = RoundCorrected(
            *self._next(stamp),
            correction_id=correction_id,
            proposed_by=proposal.proposed_by,
            replaces_version=self.settled_version,
            is_void=proposal.is_void,
            cards=after.dealt,
            player=after.player,
            banker=after.banker,
            player_total=after.declared.player_total,
            banker_total=after.declared.banker_total,
            outcome=after.declared.outcome,
            bets=tuple(
                CorrectedBet(bet.id, bet.account_id, bet.kind, bet.stake_minor)
                for bet in after.bets.values()
                if bet.counts
            ),
        )
        settled = (bet for bet in after.bets.values() if bet.counts or self._counts(bet.id))
        return (
            corrected,
            *(
                BetSettled(
                    *self._next(stamp, ahead),
                    bet_id=bet.id,
                    result=bet.settlement.result,
                    stake_minor=bet.stake_minor,
                    win_minor=bet.settlement.win_minor,
                    commission_minor=bet.settlement.commission_minor,
                )
                for ahead, bet in enumerate(settled, 1)
            ),
        )

    def corrected(self, proposal: Proposal) -> "Round":
        """The round as it would stand by a proposal; refused where its rules do not allow that."""
        if proposal.is_void:
            return replace(self, state=_VOID, bets=_returned(self.bets))
        placed = self._placed_anew(proposal.bets)
        dealt = (
            placed._kept_deal() if proposal.cards is None else placed._dealt_anew(proposal.cards)
        )
        settled = dealt
        for event in dealt.settle(stamp=_UNSTAMPED):
            settled = settled.apply(event)
        gone = {
            bet.id: replace(bet, settlement=RETURNED)
            for bet in self.bets.values()
            if bet.id not in settled.bets
        }
        return replace(settled, bets={**settled.bets, **gone})

    def changes(self, after: "Round") -> tuple[BetChange, ...]:
        """The bets that a correction changed: what they were, or what they came to."""
        ids = dict.fromkeys((*self.bets, *after.bets))
        both = (
            BetChange(
                self.bets[bet_id] if self._counts(bet_id) else None,
                after.bets[bet_id] if after._counts(bet_id) else None,
            )
            for bet_id in ids
        )
        return tuple(change for change in both if change.was != change.becomes)

    def _counts(self, bet_id: str) -> bool:
        bet = self.bets.get(bet_id)
        return bet is not None and bet.counts

    def _placed_anew(self, bets: tuple[CorrectedBet, ...] | None) -> "Round":
        """The round with the bets that are to hold; those it has are not judged again."""
        if bets is None:
            held = {
                bet.id: replace(bet, settlement=OPEN) for bet in self.bets.values() if bet.counts
            }
            return replace(self, state=_DEALING, bets=held)
        placed = replace(self, state=_BETTING, bets={})
        for bet in bets:
            placed = placed.apply(
                placed.place_bet(
                    bet.bet,
                    bet_id=bet.bet_id,
                    account_id=bet.account_id,
                    stake_minor=bet.stake_minor,
                    stamp=_UNSTAMPED,
                )
            )
        return replace(placed, state=_DEALING)

    def _kept_deal(self) -> "Round":
        """The round complete with its own cards."""
        for hand, cards in ((_PLAYER, self.player), (_BANKER, self.banker)):
            for card in cards[:2]:
                _must_decide(self._bets_that_need_faces(), hand, card)
        self._must_be_complete()
        return replace(self, state=_RESOLVED)

    def _dealt_anew(self, cards: tuple[Card, ...]) -> "Round":
        """The round with other cards; a forbidden one only where its deal was irregular."""
        dealt = replace(self, player=(), banker=(), dealt=(), declared=None)
        for event in dealt.deal(cards, irregular=self.irregular, stamp=_UNSTAMPED):
            dealt = dealt.apply(event)
        dealt._must_be_complete()
        return dealt

    def void(self, reason: str, *, stamp: Stamp) -> RoundVoided:
        """Calls the round off before it is settled."""
        self.must_be_known()
        self._must_not_be_finished()
        return RoundVoided(*self._next(stamp), reason=reason)

    def must_be_known(self) -> None:
        """Refuses a round that was never opened."""
        if self.state is _UNOPENED:
            raise Refused("unknown_round", f"there is no round {self.name}", field="round_id")

    def must_be_dealing(self) -> None:
        """Refuses a round that takes bets, or is settled or void."""
        self.must_be_known()
        self._must_not_be_finished()
        if self.state is _BETTING:
            raise Refused("betting_open", f"round {self.name} still takes bets", field="round_id")

    def _must_be_betting(self) -> None:
        if self.state is not _BETTING:
            self._must_not_be_finished()
            raise Refused(
                "betting_closed", f"betting on round {self.name} is closed", field="round_id"
            )

    def _must_not_be_finished(self) -> None:
        if self.state is _SETTLED:
            raise Refused("round_settled", f"round {self.name} is settled", field="round_id")
        if self.state is _VOID:
            raise Refused("round_void", f"round {self.name} is void", field="round_id")

    def _bets_that_need_faces(self) -> tuple[Bet, ...]:
        return tuple([bet for bet in self.bets.values() if bet.kind in NEED_FACES and bet.is_open])

    def _must_be_settled(self) -> None:
        self.must_be_known()
        if self.state is _VOID:
            raise Refused("round_void", f"round {self.name} is void", field="round_id")
        if self.state is not _SETTLED:
            raise Refused("round_open", f"round {self.name} is not settled", field="round_id")

    def _must_be_complete(self) -> None:
        player, banker = _points([*self.player]), _points([*self.banker])
        if next_hand(player, banker) is not None:
            raise Refused("deal_incomplete", "the tableau demands another card", field="cards")

    def _must_be_undecided(self, correction_id: str, actor: str) -> Proposal:
        proposal = self.corrections[correction_id]
        if proposal.is_decided:
            raise Refused(
                "already_decided", f"correction {correction_id} is decided", field="correction_id"
            )
        if proposal.proposed_by == actor:
            raise Refused(
                "same_actor", f"{actor} proposed correction {correction_id}", field="actor"
            )
        return proposal

    def _next(self, stamp: Stamp, ahead: int = 0) -> tuple[str, int, datetime, str, str]:
        return self.id, self.version + 1 + ahead, stamp.at, stamp.actor, stamp.key

    def apply(self, event: RoundEvent) -> "Round":
        """The round after the next event of its stream."""
        now = replace(self, version=event.originator_version, at=event.at)
        return _CHANGES[type(event)](now, event)


def _opened(now: Round, event: RoundOpened) -> Round:
    return replace(
        now,
        state=_BETTING,
        table_id=event.table_id,
        shoe_id=event.shoe_id,
        number=event.number,
        currency=event.currency,
        rules_version=event.rules_version,
        rules=event.rules,
    )


def _bet_placed(now: Round, event: BetPlaced) -> Round:
    bet = Bet(event.bet_id, event.account_id, event.bet, event.stake_minor)
    return replace(now, bets={**now.bets, bet.id: bet})


def _bet_cancelled(now: Round, event: BetCancelled) -> Round:
    bets = _settled(now.bets, event.bet_id, RETURNED)
    return replace(now, bets=bets, cancelled=now.cancelled | {event.bet_id})


def _betting_closed(now: Round, _: BettingClosed) -> Round:
    return replace(now, state=_DEALING)


def _dealt(now: Round, event: CardDealt | ThirdCardDrawn) -> Round:
    dealt = (*now.dealt, event.card)
    irregular = now.irregular or event.irregular
    if event.hand is _PLAYER:
        return replace(now, player=(*now.player, event.card), dealt=dealt, irregular=irregular)
    return replace(now, banker=(*now.banker, event.card), dealt=dealt, irregular=irregular)


def _resolved(now: Round, event: RoundResolved) -> Round:
    declared = Declared(event.player_total, event.banker_total, event.outcome)
    return replace(now, state=_RESOLVED, declared=declared)


def _bet_settled(now: Round, event: BetSettled) -> Round:
    settlement = Settlement(event.result, event.win_minor, event.commission_minor)
    return replace(now, bets=_settled(now.bets, event.bet_id, settlement))


def _round_settled(now: Round, _: RoundSettled) -> Round:
    return replace(now, state=_SETTLED, settled_version=now.version)


def _voided(now: Round, _: RoundVoided) -> Round:
    return replace(now, state=_VOID, bets=_returned(now.bets))


def _proposed(now: Round, event: CorrectionProposed) -> Round:
    proposal = Proposal(event.actor, event.cards, event.bets, event.is_void)
    return replace(now, corrections={**now.corrections, event.correction_id: proposal})


def _rejected(now: Round, event: CorrectionRejected) -> Round:
    return replace(now, corrections=_decided(now.corrections, event.correction_id))


def _corrected(now: Round, event: RoundCorrected) -> Round:
    held = {
        bet.bet_id: Bet(bet.bet_id, bet.account_id, bet.bet, bet.stake_minor) for bet in event.bets
    }
    return replace(
        now,
        state=_VOID if event.is_void else _SETTLED,
        player=event.player,
        banker=event.banker,
        dealt=event.cards,
        declared=Declared(event.player_total, event.banker_total, event.outcome),
        # As they hold they are to be settled anew; the others stay or become returned.
        bets={**_returned(now.bets), **held},
        settled_version=now.version,
        corrections=_decided(now.corrections, event.correction_id),
    )


# A table, for each case of a match that is not met costs as much as most of these changes.
_CHANGES: dict[type, Callable[[Round, Any], Round]] = {
    RoundOpened: _opened,
    BetPlaced: _bet_placed,
    BetCancelled: _bet_cancelled,
    BettingClosed: _betting_closed,
    CardDealt: _dealt,
    ThirdCardDrawn: _dealt,
    RoundResolved: _resolved,
    BetSettled: _bet_settled,
    RoundSettled: _round_settled,
    RoundVoided: _voided,
    CorrectionProposed: _proposed,
    CorrectionRejected: _rejected,
    RoundCorrected: _corrected,
}
assert _CHANGES.keys() == set(get_args(RoundEvent))


_UNSTAMPED = Stamp(at=NEVER, actor="", key="")
"""For events that are only tried, and never recorded."""

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
        return _PLAYER
    if reason is not None and len(banker) < 3:
        return _BANKER
    raise Refused("third_card_not_allowed", "the tableau allows no further card", field="cards")


def _settled(bets: Mapping[str, Bet], bet_id: str, settlement: Settlement) -> Mapping[str, Bet]:
    bet = bets.get(bet_id)
    return bets if bet is None else {**bets, bet_id: replace(bet, settlement=settlement)}


def _returned(bets: Mapping[str, Bet]) -> dict[str, Bet]:
    return {bet.id: replace(bet, settlement=RETURNED) for bet in bets.values()}


def _decided(proposals: Mapping[str, Proposal], correction_id: str) -> Mapping[str, Proposal]:
    return {
        other: replace(proposal, is_decided=True) if other == correction_id else proposal
        for other, proposal in proposals.items()
    }
