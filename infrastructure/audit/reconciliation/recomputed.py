"""Commission recomputed: cards, outcome, winning Banker stakes, policy.

It reads the rounds' events alone, and takes from the rest of the program what a
card counts and how commission is rounded, nothing else: who draws and who wins
stands here a second time, so that a mistake in the tableau that settles bets
does not agree with itself.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, assert_never

from domain.bets import BetKind, Variant
from domain.money import commission, win_at
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
from domain.rules import Rules
from domain.tableau import Hand

_BANKER_DRAWS = {
    0: {0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
    1: {0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
    2: {0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
    3: {0, 1, 2, 3, 4, 5, 6, 7, 9},
    4: {2, 3, 4, 5, 6, 7},
    5: {4, 5, 6, 7},
    6: {6, 7},
    7: set(),
}
"""The Banker's two-card total, and the Player's third cards that make the Banker draw."""


class Stake(NamedTuple):
    """A bet as it was accepted; the stake in minor units."""

    account_id: str
    kind: BetKind
    stake_minor: int


class Change(NamedTuple):
    """By how many minor units the commission of a bet has changed, and on whose account."""

    bet_id: str
    account_id: str
    commission_minor: int


class RecomputedRound:
    """A round as its own events have it, and the commission that its cards make due."""

    __slots__ = (
        "_banker",
        "_bets",
        "_booked",
        "_player",
        "_rules",
        "currency",
        "shoe_id",
        "table_id",
    )

    def __init__(self) -> None:
        self.currency: str | None = None
        self.table_id: str | None = None
        self.shoe_id: str | None = None
        self._rules: Rules | None = None
        self._bets: dict[str, Stake] = {}
        self._player: list[int] = []
        self._banker: list[int] = []
        self._booked: dict[tuple[str, str], int] = {}

    def see(self, event: RoundEvent) -> Iterable[Change]:
        """Takes in the round's next event; what that changes of its commission."""
        match event:
            case CardDealt() | ThirdCardDrawn():
                hand = self._player if event.hand is Hand.PLAYER else self._banker
                hand.append(event.card.points)
            case BetPlaced():
                self._bets[event.bet_id] = Stake(event.account_id, event.bet, event.stake_minor)
            case RoundOpened():
                self.currency = event.currency
                self.table_id, self.shoe_id = event.table_id, event.shoe_id
                self._rules = event.rules
            case RoundSettled():
                return self._changes()
            case BetCancelled():
                self._bets.pop(event.bet_id, None)
            case RoundVoided():
                self._bets = {}
            case RoundCorrected():
                self._player = [card.points for card in event.player]
                self._banker = [card.points for card in event.banker]
                self._bets = {
                    bet.bet_id: Stake(bet.account_id, bet.bet, bet.stake_minor)
                    for bet in event.bets
                    if not event.is_void
                }
                return self._changes()
            case (
                BetSettled()
                | BettingClosed()
                | RoundResolved()
                | CorrectionProposed()
                | CorrectionRejected()
            ):
                # What others made of it is what this is compared with.
                pass
            case _:
                assert_never(event)
        return ()

    def _changes(self) -> list[Change]:
        """How the commission of each bet differs from what was booked before."""
        due = self._due()
        changes = [
            Change(bet_id, account_id, due.get((bet_id, account_id), 0) - booked)
            for (bet_id, account_id), booked in self._booked.items()
        ]
        changes += [
            Change(bet_id, account_id, minor)
            for (bet_id, account_id), minor in due.items()
            if (bet_id, account_id) not in self._booked
        ]
        self._booked = due
        return [change for change in changes if change.commission_minor]

    def _due(self) -> dict[tuple[str, str], int]:
        rules = self._rules
        if rules is None or rules.variant is not Variant.COMMISSION or not self._banker_wins():
            return {}
        price = rules.odds.get(BetKind.BANKER)
        if price is None or isinstance(price, Mapping):
            return {}
        return {
            (bet_id, bet.account_id): commission(
                win_at(bet.stake_minor, price, rules.win_rounding), rules.commission
            )
            for bet_id, bet in self._bets.items()
            if bet.kind is BetKind.BANKER
        }

    def _banker_wins(self) -> bool:
        hands = counted_cards(self._player, self._banker)
        return hands is not None and sum(hands[1]) % 10 > sum(hands[0]) % 10


def counted_cards(
    player: Sequence[int], banker: Sequence[int]
) -> tuple[Sequence[int], Sequence[int]] | None:
    """The cards that count, without a third one that is forbidden; None where one is missing."""
    player_two, banker_two = player[:2], banker[:2]
    if len(player_two) < 2 or len(banker_two) < 2:
        return None
    player_has, banker_has = sum(player_two) % 10, sum(banker_two) % 10
    if max(player_has, banker_has) >= 8:
        return player_two, banker_two
    if player_has >= 6:
        counted_player, banker_draws = player_two, banker_has <= 5
    elif len(player) < 3:
        return None
    else:
        counted_player, banker_draws = player[:3], player[2] in _BANKER_DRAWS[banker_has]
    if not banker_draws:
        return counted_player, banker_two
    return None if len(banker) < 3 else (counted_player, banker[:3])
