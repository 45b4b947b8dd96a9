"""The measures of gaming days, as some events change them.

Everything is kept by the day in whose books it falls. A round's settlement
falls into the day in which it was settled, a correction's difference into that
of the correction, and what comes for a day that is closed into the one that is
open, where it still says which day it belongs to.
"""

from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, NamedTuple, TypeVar, assert_never

from msgspec import Struct

from domain.bets import Result
from domain.gaming_day import GamingCalendar
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
    RoundState,
    RoundVoided,
    ThirdCardDrawn,
)
from domain.rules import Rules
from domain.site import GamingDayClosed, GamingDaySet, SiteEvent
from projections.gaming_days import DaySetting, with_setting

Change = TypeVar("Change", bound="_Change")

_OPEN = Result.OPEN.value
_WON = Result.WON.value
_LOST = Result.LOST.value
_RETURNED = Result.RETURNED.value


class Place(NamedTuple):
    """When and where something was played; `day` is the day of the books, `own_day` its own."""

    day: date
    own_day: date
    table_id: str
    shoe_id: str
    currency: str
    rules_version: int


class _Change(Struct):
    """By how much a row has changed that begins with the columns of a place."""

    day: date
    own_day: date
    table_id: str
    shoe_id: str
    currency: str
    rules_version: int


class Play(_Change):
    """By how much a row of `day_play` has changed: an account's play on a kind of bet.

    `win_minor` is the house's, before commission. `won_minor` and `won_bets` are the
    stakes that the players have won with.
    """

    account_id: str
    bet: str
    turnover_minor: int = 0
    win_minor: int = 0
    commission_minor: int = 0
    bets: int = 0
    won_minor: int = 0
    won_bets: int = 0
    in_play_minor: int = 0


class Pair(_Change):
    """By how much a row of `day_pairs` has changed: two kinds of bets, or a kind with itself.

    `rounds` have both, and `product_minor` sums, round by round, the product of
    what was staked on the one and on the other.
    """

    bet: str
    other_bet: str
    rounds: int = 0
    product_minor: int = 0


class Count(_Change):
    """By how much a row of `day_counts` has changed: the rounds that are settled, and void."""

    rounds: int = 0
    void_rounds: int = 0


class Wager(Struct, array_like=True):
    """A bet of a round, and what it came to; it is stored as an array."""

    account_id: str
    bet: str
    stake_minor: int
    result: str = _OPEN
    win_minor: int = 0
    commission_minor: int = 0


@dataclass(slots=True)
class RoundRow:
    """A row of `day_rounds`: what the fold must know of a round, its bets as they stand."""

    round_id: str
    table_id: str
    shoe_id: str
    currency: str
    rules_version: int
    state: str
    bets: dict[str, Any] = field(default_factory=dict)


class _Changes(dict[tuple[Any, ...], Change]):
    """Changes by place and by what else names the row; one that is not there yet is none so far."""

    def __init__(self, change_type: type[Change]) -> None:
        super().__init__()
        self._change_type = change_type

    def __missing__(self, key: tuple[Any, ...]) -> Change:
        place, *names = key
        change = self[key] = self._change_type(*place, *names)
        return change


class DayMeasures:
    """By how much some events change the measures, from what was known of rounds before them.

    `rounds` become as the events leave them.
    """

    def __init__(self, rounds: dict[str, RoundRow], calendar: GamingCalendar) -> None:
        self.rounds = rounds
        self.settings: list[DaySetting] = []
        self.rules: dict[tuple[str, int], Rules] = {}
        self.play = _Changes(Play)
        self.pairs = _Changes(Pair)
        self.counts = _Changes(Count)
        self._calendar = calendar
        self._staked: dict[str, dict[str, int]] = {}
        self._days: dict[datetime, tuple[date, date]] = {}
        self._latest: tuple[RoundRow, datetime, Place] | None = None

    def take(self, position: int, event: RoundEvent | SiteEvent) -> None:
        """Takes an event in; raises LookupError or ValueError where it does not fit."""
        if isinstance(event, (GamingDaySet, GamingDayClosed)):
            self._take_setting(position, event)
            return
        round_id = event.originator_id.removeprefix("round:")
        if isinstance(event, RoundOpened):
            self._open(round_id, event)
            return
        row = self.rounds.get(round_id)
        if row is None:
            if isinstance(event, BetCancelled):
                # A tombstone. The bet that it forbids will never be placed.
                return
            raise LookupError(f"round {round_id} was never opened")
        self._take_of_round(row, event)

    def _take_of_round(self, row: RoundRow, event: RoundEvent) -> None:
        match event:
            case BetPlaced():
                wager = Wager(event.account_id, event.bet.value, event.stake_minor)
                row.bets[event.bet_id] = wager
                self._play_of(row, wager, event.at).in_play_minor += wager.stake_minor
            case BetSettled():
                wager = row.bets[event.bet_id]
                self._play_of(row, wager, event.at).in_play_minor -= wager.stake_minor
                self._staked_in(row)
                wager.result = event.result.value
                wager.win_minor = event.win_minor
                wager.commission_minor = event.commission_minor
                self._count(row, wager, event.at, sign=1)
            case BetCancelled():
                wager = row.bets.pop(event.bet_id, None)
                if wager is not None:
                    self._play_of(row, wager, event.at).in_play_minor -= wager.stake_minor
            case RoundSettled():
                row.state = RoundState.SETTLED.value
                self._count_of(row, event.at).rounds += 1
            case RoundVoided():
                for wager in row.bets.values():
                    self._play_of(row, wager, event.at).in_play_minor -= wager.stake_minor
                row.bets = {}
                row.state = RoundState.VOID.value
                self._count_of(row, event.at).void_rounds += 1
            case RoundCorrected():
                self._correct(row, event)
            case (
                CardDealt()
                | ThirdCardDrawn()
                | RoundResolved()
                | BettingClosed()
                | RoundOpened()
                | CorrectionProposed()
                | CorrectionRejected()
            ):
                pass
            case _:
                assert_never(event)

    def _open(self, round_id: str, event: RoundOpened) -> None:
        if round_id in self.rounds:
            raise ValueError(f"{round_id} is there already")
        self.rounds[round_id] = RoundRow(
            round_id,
            event.table_id,
            event.shoe_id,
            event.currency,
            event.rules_version,
            RoundState.BETTING.value,
        )
        self.rules[event.table_id, event.rules_version] = event.rules

    def _take_setting(self, position: int, event: SiteEvent) -> None:
        setting = DaySetting.of(position, event)
        self.settings.append(setting)
        self._calendar = with_setting(self._calendar, setting)
        self._days.clear()
        self._latest = None

    def _correct(self, row: RoundRow, event: RoundCorrected) -> None:
        """Takes back what was settled; what holds is settled anew by the events that follow."""
        self._staked_in(row)
        counted = {bet_id: wager for bet_id, wager in row.bets.items() if wager.result != _RETURNED}
        for wager in counted.values():
            self._count(row, wager, event.at, sign=-1)
        held = {
            bet.bet_id: Wager(bet.account_id, bet.bet.value, bet.stake_minor) for bet in event.bets
        }
        gone = {
            bet_id: Wager(wager.account_id, wager.bet, wager.stake_minor)
            for bet_id, wager in counted.items()
            if bet_id not in held
        }
        row.bets = {**gone, **held}
        for wager in row.bets.values():
            self._play_of(row, wager, event.at).in_play_minor += wager.stake_minor
        if event.is_void:
            row.state = RoundState.VOID.value
            count = self._count_of(row, event.at)
            count.rounds -= 1
            count.void_rounds += 1

    def _count(self, row: RoundRow, wager: Wager, at: datetime, *, sign: int) -> None:
        """Counts a settled bet, or no longer."""
        if wager.result == _RETURNED:
            return
        stake_minor = sign * wager.stake_minor
        is_lost = wager.result == _LOST
        play = self._play_of(row, wager, at)
        play.turnover_minor += stake_minor
        play.win_minor += stake_minor if is_lost else -sign * wager.win_minor
        play.commission_minor += sign * wager.commission_minor
        play.bets += sign
        if wager.result == _WON:
            play.won_minor += stake_minor
            play.won_bets += sign
        self._count_pairs(row, wager.bet, stake_minor, self._place(row, at))

    def _count_pairs(self, row: RoundRow, bet: str, change_minor: int, place: Place) -> None:
        staked = self._staked_in(row)
        before = staked.get(bet, 0)
        after = staked[bet] = before + change_minor
        for other, other_minor in staked.items():
            if not other_minor and other != bet:
                # What is left of a kind that was taken back is nothing, as if it had never been.
                continue
            pair = self.pairs[place, min(bet, other), max(bet, other)]
            if other == bet:
                pair.product_minor += after * after - before * before
                pair.rounds += (after > 0) - (before > 0)
            else:
                pair.product_minor += change_minor * other_minor
                pair.rounds += ((after > 0) - (before > 0)) * (other_minor > 0)

    def _staked_in(self, row: RoundRow) -> dict[str, int]:
        """What is staked on each kind in the settled bets of a round.

        It has to be asked for before the first of them changes.
        """
        staked = self._staked.get(row.round_id)
        if staked is None:
            staked = self._staked[row.round_id] = {}
            for wager in row.bets.values():
                if wager.result not in (_OPEN, _RETURNED):
                    staked[wager.bet] = staked.get(wager.bet, 0) + wager.stake_minor
        return staked

    def _play_of(self, row: RoundRow, wager: Wager, at: datetime) -> Play:
        return self.play[self._place(row, at), wager.account_id, wager.bet]

    def _count_of(self, row: RoundRow, at: datetime) -> Count:
        return self.counts[(self._place(row, at),)]

    def _place(self, row: RoundRow, at: datetime) -> Place:
        # What a round does at one time comes in one go.
        if self._latest is not None and self._latest[0] is row and self._latest[1] == at:
            return self._latest[2]
        days = self._days.get(at)
        if days is None:
            days = self._days[at] = (self._calendar.booked_on(at), self._calendar.day_of(at))
        place = Place(*days, row.table_id, row.shoe_id, row.currency, row.rules_version)
        self._latest = (row, at, place)
        return place
