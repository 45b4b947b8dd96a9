"""The tables that come from the log: events, rounds, bets and commission.

Each event is read by the ledger's own model, and a round is folded as its read
model folds it, so that there is one truth. What a correction takes back is a row
of its own with negative amounts, in the day of the correction: the sums of a day
are those of its report, and a row of a log is never changed.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, NamedTuple, cast

from eventsourcing.persistence import JSONTranscoder
from msgspec import json

from domain.account import CommissionCharged, CommissionMarked, SettlementReversed
from domain.bets import Result
from domain.event import DomainEvent, Entry, Recorded, Unreadable
from domain.round import (
    BetCancelled,
    BetPlaced,
    BetSettled,
    BettingClosed,
    CardDealt,
    RoundCorrected,
    RoundOpened,
    RoundResolved,
    RoundSettled,
    RoundVoided,
    ThirdCardDrawn,
)
from domain.site import GamingDayClosed, GamingDaySet
from infrastructure.exports.days import Books, DaysOf
from infrastructure.exports.errors import ExportRefused
from infrastructure.exports.tables import EVENTS, Place, batch_from
from infrastructure.feed.envelope import PRIVATE, public_data
from infrastructure.store.mapper import EventMapper
from projections.day_measures import Wager
from projections.rounds import RoundRow, Rounds

ENDED_ROUNDS_IN_MEMORY = 4_000

_KEY = b',"key":'
_COMMA = ord(",")

Row = tuple[Any, ...]
ReadRound = Callable[[str], Sequence[Recorded]]
"""Reads all that was recorded of a round."""


class Rewritten(NamedTuple):
    """A row that another one takes the place of: where it stood, and where the new one stands."""

    day: date
    row: Row
    new_day: date
    new_row: Row


@dataclass(slots=True)
class _Round:
    """A round as it stands, its bets, and the row of it that was written last."""

    row: RoundRow
    day: date
    position: int
    bets: dict[str, Wager] = field(default_factory=dict)
    correction_id: str | None = None
    is_ended: bool = False
    written: tuple[date, Row] | None = None

    def as_row(self) -> Row:
        row = self.row
        return (
            row.round_id,
            row.table_id,
            row.shoe_id,
            row.number,
            row.currency,
            row.state,
            row.player_cards,
            row.banker_cards,
            row.player_total,
            row.banker_total,
            row.outcome,
            row.bets,
            row.turnover_minor,
            row.opened_at,
            row.settled_at,
            self.position,
        )


class LogTables:
    """Folds the log into rows of tables; `rows` and `rewritten` collect what is new."""

    def __init__(self, books: Books, read_round: ReadRound) -> None:
        self.rows: dict[Place, list[Row]] = defaultdict(list)
        self.rewritten: list[Rewritten] = []
        self._books = books
        self._read_round = read_round
        self._open: dict[str, _Round] = {}
        self._ended: OrderedDict[str, _Round] = OrderedDict()
        self._fold_round = Rounds().apply
        self._mapper = EventMapper(JSONTranscoder())
        # All events of a command have the same key.
        self._key, self._key_length = "", len(_KEY) + 2
        self._take: dict[type[DomainEvent], Callable[[Recorded, DaysOf], None]] = {
            RoundOpened: self._take_opened,
            CommissionCharged: self._take_commission,
            CommissionMarked: self._take_commission,
            SettlementReversed: self._take_reversed,
            **dict.fromkeys((GamingDaySet, GamingDayClosed), self._take_site),
            BetPlaced: self._take_bet_placed,
            BetSettled: self._take_bet_settled,
            **dict.fromkeys(
                (BettingClosed, CardDealt, ThirdCardDrawn, RoundResolved), self._take_play
            ),
            **dict.fromkeys(
                (BetCancelled, RoundSettled, RoundVoided, RoundCorrected), self._take_of_round
            ),
        }

    def take(self, entries: Iterable[Entry]) -> Iterator[tuple[date, Any]]:
        """Takes a page of the log in, and yields its events as record batches by day.

        Raises ExportRefused at an event that no model reads.
        """
        by_day: dict[date, list[Recorded]] = defaultdict(list)
        at: datetime | None = None
        for entry in entries:
            if isinstance(entry, Unreadable):
                raise ExportRefused(
                    f"position {entry.position} cannot be read ({entry.why}):"
                    " `punto audit` says what else is wrong"
                )
            event = entry.event
            if event.at != at:
                at = event.at
                days = self._books.days_of(at)
            by_day[days.day].append(entry)
            take = self._take.get(type(event))
            if take is not None:
                take(entry, days)
                if take == self._take_site:
                    at = None
        for day, recorded in by_day.items():
            yield day, self._events(recorded)

    def take_open_rounds(self) -> None:
        """Writes the rounds that have not ended, as they stand now."""
        for round_ in self._open.values():
            if round_.written is None or round_.written[1] != round_.as_row():
                self._write(round_)

    def _events(self, entries: Sequence[Recorded]) -> Any:
        """Events as a record batch: time, actor and key have columns of their own."""
        events = [event for _, event in entries]
        stored = self._mapper.to_columns(events)
        columns = (
            [position for position, _ in entries],
            stored.streams,
            stored.versions,
            stored.topics,
            [event.at for event in events],
            [event.actor for event in events],
            [event.key for event in events],
            [self._data(state, event) for state, event in zip(stored.states, events, strict=True)],
        )
        return batch_from(EVENTS, columns)

    def _data(self, state: bytes, event: DomainEvent) -> bytes:
        """What of a state comes after time, actor and key, which stand first in it."""
        if event.TOPIC in PRIVATE:
            state = public_data(event.TOPIC, state)
        if event.key != self._key:
            self._key, self._key_length = event.key, len(_KEY) + len(json.encode(event.key))
        start = state.index(_KEY) + self._key_length
        return b"{" + state[start + 1 :] if state[start] == _COMMA else b"{}"

    def _take_site(self, recorded: Recorded, _: DaysOf) -> None:
        self._books.take(recorded.position, cast(GamingDaySet | GamingDayClosed, recorded.event))

    def _take_opened(self, recorded: Recorded, days: DaysOf) -> None:
        rows: dict[str, RoundRow] = {}
        self._fold_round(rows, recorded)
        ((round_id, row),) = rows.items()
        self._open[round_id] = _Round(row, days.day, recorded.position)

    def _take_of_round(self, recorded: Recorded, days: DaysOf) -> None:
        round_ = self._known_of(recorded)
        if round_ is None:
            # A tombstone, before its round was opened.
            return
        event = recorded.event
        self._take_bets(round_, recorded, days)
        _fold(self._fold_round, round_, recorded)
        if isinstance(event, RoundCorrected):
            self._write(round_)
        elif not isinstance(event, BetCancelled):
            round_.day, round_.is_ended = days.day, True
            del self._open[round_.row.round_id]
            self._keep(round_)
            self._write(round_)

    def _take_play(self, recorded: Recorded, _: DaysOf) -> None:
        if (round_ := self._known_of(recorded)) is not None:
            _fold(self._fold_round, round_, recorded)

    def _take_bet_placed(self, recorded: Recorded, _: DaysOf) -> None:
        if (round_ := self._known_of(recorded)) is not None:
            _fold_bets(round_, recorded.event)
            _fold(self._fold_round, round_, recorded)

    def _take_bet_settled(self, recorded: Recorded, days: DaysOf) -> None:
        round_ = self._known_of(recorded)
        if round_ is not None:
            event = cast(BetSettled, recorded.event)
            _fold_bets(round_, event)
            write = _BetWriter(self.rows["bets", days.day], round_, recorded, days)
            write(event.bet_id, round_.bets[event.bet_id], result=event.result.value)
            # It leaves the round's row as it is.
            if not round_.is_ended:
                round_.position = recorded.position

    def _take_bets(self, round_: _Round, recorded: Recorded, days: DaysOf) -> None:
        """Writes the bets that an event resolves, or takes back."""
        event = recorded.event
        write = _BetWriter(self.rows["bets", days.day], round_, recorded, days)
        match event:
            case BetCancelled():
                wager = round_.bets.get(event.bet_id)
                if wager is not None:
                    write(event.bet_id, wager, result=Result.RETURNED.value)
            case RoundVoided():
                for bet_id, wager in round_.bets.items():
                    write(bet_id, wager, result=Result.RETURNED.value)
            case RoundCorrected():
                round_.correction_id = event.correction_id
                for bet_id, wager in round_.bets.items():
                    if wager.result != Result.RETURNED.value:
                        write(bet_id, wager, result=wager.result, sign=-1)
            case _:
                pass
        _fold_bets(round_, event)

    def _take_commission(self, recorded: Recorded, days: DaysOf) -> None:
        event = cast(CommissionCharged | CommissionMarked, recorded.event)
        kind = "charged" if isinstance(event, CommissionCharged) else "marked"
        self._write_commission(recorded, days, [(kind, event.commission_minor)])

    def _take_reversed(self, recorded: Recorded, days: DaysOf) -> None:
        event = cast(SettlementReversed, recorded.event)
        parts = [("refunded", -event.refunded_minor), ("unmarked", -event.unmarked_minor)]
        self._write_commission(recorded, days, [part for part in parts if part[1]])

    def _write_commission(
        self, recorded: Recorded, days: DaysOf, parts: Sequence[tuple[str, int]]
    ) -> None:
        event = cast(CommissionCharged | CommissionMarked | SettlementReversed, recorded.event)
        round_ = self._known(event.round_id, recorded.position)
        if round_ is None:
            raise ExportRefused(
                f"position {recorded.position} is of round {event.round_id}, which was never"
                " opened: `punto audit` says what else is wrong"
            )
        rows = self.rows["commission", days.day]
        for line, (kind, commission_minor) in enumerate(parts, start=1):
            rows.append(
                (
                    recorded.position,
                    line,
                    kind,
                    event.originator_id.removeprefix("account:"),
                    event.round_id,
                    event.bet_id,
                    round_.row.table_id,
                    round_.row.shoe_id,
                    round_.row.currency,
                    commission_minor,
                    event.at,
                    days.own_day,
                )
            )

    def _known_of(self, recorded: Recorded) -> _Round | None:
        round_id = recorded.event.originator_id.removeprefix("round:")
        return self._open.get(round_id) or self._known(round_id, recorded.position)

    def _known(self, round_id: str, position: int) -> _Round | None:
        """A round as it stands before a position; None where it is not open by then."""
        round_ = self._open.get(round_id) or self._ended.get(round_id)
        if round_ is not None:
            return round_
        for recorded in self._read_round(round_id):
            if recorded.position >= position:
                break
            round_ = self._again(round_, recorded)
        if round_ is not None:
            # It was written when these events were exported.
            round_.written = (round_.day, round_.as_row())
            if round_.is_ended:
                self._keep(round_)
            else:
                self._open[round_id] = round_
        return round_

    def _again(self, round_: _Round | None, recorded: Recorded) -> _Round | None:
        """Folds an earlier event of a round without writing anything."""
        position, event = recorded
        if isinstance(event, RoundOpened):
            rows: dict[str, RoundRow] = {}
            self._fold_round(rows, recorded)
            (row,) = rows.values()
            return _Round(row, self._books.booked_on(event.at, position=position), position)
        if round_ is None or type(event) not in self._take:
            return round_
        _fold_bets(round_, event)
        _fold(self._fold_round, round_, recorded)
        if isinstance(event, RoundCorrected):
            round_.correction_id = event.correction_id
        if isinstance(event, RoundSettled | RoundVoided):
            round_.day = self._books.booked_on(event.at, position=position)
            round_.is_ended = True
        return round_

    def _keep(self, round_: _Round) -> None:
        self._ended[round_.row.round_id] = round_
        if len(self._ended) > ENDED_ROUNDS_IN_MEMORY:
            self._ended.popitem(last=False)

    def _write(self, round_: _Round) -> None:
        row = round_.as_row()
        if round_.written is not None:
            self.rewritten.append(Rewritten(*round_.written, round_.day, row))
        self.rows["rounds", round_.day].append(row)
        round_.written = (round_.day, row)


class _BetWriter:
    """Writes rows of one event's bets, one line after another."""

    def __init__(self, rows: list[Row], round_: _Round, recorded: Recorded, days: DaysOf) -> None:
        self._rows = rows
        self._round = round_
        self._recorded = recorded
        self._days = days
        self._line = 0

    def __call__(self, bet_id: str, wager: Wager, *, result: str, sign: int = 1) -> None:
        row = self._round.row
        self._line += 1
        self._rows.append(
            (
                row.round_id,
                bet_id,
                wager.account_id,
                wager.bet,
                sign * wager.stake_minor,
                sign * wager.win_minor,
                sign * wager.commission_minor,
                row.currency,
                result,
                sign < 0,
                self._round.correction_id,
                row.table_id,
                row.shoe_id,
                self._recorded.event.at,
                self._days.own_day,
                self._recorded.position,
                self._line,
            )
        )


def _fold(
    fold: Callable[[dict[str, RoundRow], Recorded], None], round_: _Round, recorded: Recorded
) -> None:
    """Folds an event into a round's row; what is settled anew after its end leaves that alone."""
    fold({round_.row.round_id: round_.row}, recorded)
    if not round_.is_ended or isinstance(recorded.event, RoundCorrected):
        round_.position = recorded.position


def _fold_bets(round_: _Round, event: DomainEvent) -> None:
    """Brings a round's bets up to an event, as the days' read model does."""
    match event:
        case BetPlaced():
            round_.bets[event.bet_id] = Wager(event.account_id, event.bet.value, event.stake_minor)
        case BetCancelled():
            round_.bets.pop(event.bet_id, None)
        case BetSettled():
            wager = round_.bets[event.bet_id]
            wager.result = event.result.value
            wager.win_minor = event.win_minor
            wager.commission_minor = event.commission_minor
        case RoundVoided():
            round_.bets = {}
        case RoundCorrected():
            held = {
                bet.bet_id: Wager(bet.account_id, bet.bet.value, bet.stake_minor)
                for bet in event.bets
            }
            gone = {
                bet_id: Wager(wager.account_id, wager.bet, wager.stake_minor)
                for bet_id, wager in round_.bets.items()
                if wager.result != Result.RETURNED.value and bet_id not in held
            }
            round_.bets = {**gone, **held}
        case _:
            pass
