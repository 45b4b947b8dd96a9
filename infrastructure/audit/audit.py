"""The auditor: sees every event once, in order, and judges what was recorded.

A round is kept until its shoe has closed, then it is judged with its shoe and
dropped, so that memory is bounded by what is open. Of a closed shoe only its
version stays. An event that comes for a round that was dropped makes a record
without an opening; at the end such rounds are loaded whole and judged again.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from domain.account import (
    AccountClosed,
    AccountOpened,
    DueCollected,
    FundsDeposited,
    FundsWithdrawn,
)
from domain.correction import CorrectionFiled
from domain.event import DomainEvent, Entry, Recorded, Unreadable
from domain.round import CorrectionProposed, RoundEvent, RoundOpened
from domain.rules import Rules
from domain.shoe import CardsDrawn, DrawCorrected, RoundStarted, ShoeClosed, ShoeEvent, ShoeOpened
from domain.table import RulesChanged, ShoeRemoved, TableOpened
from infrastructure.audit.findings import Code, Finding, Report, Tally
from infrastructure.audit.judgement import judge_round, judge_rules
from infrastructure.audit.record import (
    RoundRecord,
    StakeMovement,
    describe_gap,
    describe_unreadable,
)
from infrastructure.audit.shoes import (
    ShoeRecord,
    after_closing,
    judge_cards,
    judge_places,
    judge_shoe,
)
from infrastructure.audit.stakes import judge_stakes
from infrastructure.audit.wallets import Wallets

_ROUND_EVENTS = get_args(RoundEvent)
_MOVEMENTS = get_args(StakeMovement)
_SHOE_EVENTS = get_args(ShoeEvent)

EXAMPLES_MAX = 5
"""How many findings of one code a report shows."""

LoadRound = Callable[[str], Sequence[Entry]]
"""Gives every event of a round's stream and every account event that names it, by position.

What else it gives is left aside.
"""

LoadStream = Callable[[str], Sequence[Entry]]
"""Gives every event of a stream, in the order of its versions."""

_OF_OTHER_STREAMS = frozenset(
    {
        Code.STREAM_GAP,
        Code.BET_UNSETTLED,
        Code.BET_SETTLED_TWICE,
        Code.ACCOUNT_MISMATCH,
        Code.IN_PLAY_NOT_ZERO,
    }
)
"""Findings that may come of an event seen before it was known to lie within a scope."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What an audit is limited to: one round, one shoe or one table; with none, everything."""

    round: str | None = None
    shoe: str | None = None
    table: str | None = None

    def __post_init__(self) -> None:
        given = [part for part in (self.round, self.shoe, self.table) if part is not None]
        assert len(given) <= 1, "a scope is one round, one shoe or one table"

    @property
    def is_everything(self) -> bool:
        """Whether nothing is left out."""
        return self.round is None and self.shoe is None and self.table is None


EVERYTHING = Scope()


class Auditor:
    """Judges a ledger event by event; it never stops at a fault.

    Within a scope it may be given all events or only those that matter: the
    positions and the streams of accounts and tables are then not checked.
    """

    def __init__(
        self,
        load_round: LoadRound,
        load_stream: LoadStream,
        *,
        scope: Scope | None = None,
        history_faults: Iterable[str] = (),
        examples_max: int = EXAMPLES_MAX,
    ) -> None:
        self._load_round = load_round
        self._load_stream = load_stream
        self._scope = scope or EVERYTHING
        self._is_whole = self._scope.is_everything
        self._tally = Tally(examples_max=examples_max)
        self._tally.add(Finding(Code.HISTORY_UNPROTECTED, fault) for fault in history_faults)
        self._next_position = 1
        self._rounds: dict[str, RoundRecord] = {}
        self._shoes: dict[str, ShoeRecord] = {}
        self._closed_shoes: dict[str, int] = {}
        self._corrected_late: set[str] = set()
        self._filed: dict[str, str] = {}
        self._removed_shoes: dict[str, str] = {}
        self._streams: dict[str, int] = {}
        self._currencies: dict[str, str] = {}
        self._wallets = Wallets()
        self._rules: dict[str, dict[int, Rules]] = {}
        self._rounds_judged = 0
        self._judged_in_scope: set[str] = set()
        self._doubtful: set[str] = set()
        self._see: dict[type[DomainEvent], Callable[[int, Any], None]] = {
            **dict.fromkeys(_ROUND_EVENTS, self._see_round),
            **dict.fromkeys(_MOVEMENTS, self._see_movement),
            **dict.fromkeys(_SHOE_EVENTS, self._see_shoe),
            AccountOpened: self._see_account_opened,
            FundsDeposited: self._see_funds,
            FundsWithdrawn: self._see_funds,
            DueCollected: self._see_funds,
            AccountClosed: self._see_account_closed,
            CorrectionFiled: self._see_filed,
            TableOpened: self._see_rules,
            RulesChanged: self._see_rules,
            ShoeRemoved: self._see_shoe_removed,
        }

    @property
    def records_kept(self) -> int:
        """How many rounds and shoes are held in memory."""
        return len(self._rounds) + len(self._shoes)

    def see(self, recorded: Recorded) -> None:
        """Takes in the next event of the ledger."""
        position, event = recorded
        if position != self._next_position:
            self._misplaced(position)
        else:
            self._next_position = position + 1
        self._see.get(type(event), self._see_other)(position, event)

    def unreadable(self, position: int, stream: str, version: int, why: str) -> None:
        """Takes in that the next event of the ledger cannot be decoded."""
        if position != self._next_position:
            self._misplaced(position)
        else:
            self._next_position = position + 1
        event = Unreadable(position, stream, version, why)
        kind, _, name = stream.partition(":")
        if kind == "round":
            record = self._rounds.get(name)
            if record is None and (self._is_whole or self._scope.round == name):
                record = self._rounds[name] = RoundRecord(name, first_position=position)
            if record is not None:
                record.see_unreadable(event)
            return
        if kind == "shoe" and name in self._closed_shoes:
            self._closed_shoes[name] = version
            detail = describe_unreadable(event)
            self._tally.add([Finding(Code.STREAM_GAP, detail, shoe_id=name)])
        elif kind == "shoe" and (self._is_whole or name in (self._scope.shoe, *self._shoes)):
            self._shoes.setdefault(name, ShoeRecord(name)).see_unreadable(event)
        elif self._is_whole:
            self._check_stream(stream, version)
            self._tally.add([Finding(Code.STREAM_GAP, describe_unreadable(event))])

    def finish(self, *, head: int | None = None) -> Report:
        """Judges what is still open, and again what changed after it was judged.

        `head` is the last position by the store's own count, where it is known.
        """
        if head is not None and self._is_whole and head >= self._next_position:
            self._missing_positions(self._next_position, head)
        for shoe_id, table in self._removed_shoes.items():
            detail = f"shoe {shoe_id}: removed from {table} and never closed"
            self._tally.add([Finding(Code.SHOE_SEQUENCE_GAP, detail, shoe_id=shoe_id)])
        for correction_id, round_id in self._filed.items():
            detail = f"correction {correction_id} was filed for this round and not proposed"
            self._tally.add([Finding(Code.CORRECTION_MISMATCH, detail, round_id)])
        recounted = self._recall(self._incomplete_rounds())
        for shoe in self._shoes.values():
            self._judge_shoe(shoe)
        for shoe_id in sorted(self._corrected_late):
            self._judge_cards_again(shoe_id)
        self._conclude(list(self._rounds), recounted=recounted)
        if self._doubtful:
            doubtful = sorted(self._doubtful)
            self._recall(doubtful)
            self._conclude(doubtful, recounted=self._doubtful)
        return self._tally.report(rounds=self._rounds_judged)

    # What each kind of event does.

    def _see_round(self, position: int, event: RoundEvent) -> None:
        round_id = event.originator_id.removeprefix("round:")
        record = self._rounds.get(round_id)
        if record is None:
            if not (self._is_whole or self._covers_round(round_id, event)):
                return
            record = self._rounds[round_id] = RoundRecord(round_id, first_position=position)
        record.see(position, event)
        if type(event) is RoundOpened:
            self._claim_shoe(round_id, event.shoe_id)
        elif type(event) is CorrectionProposed and self._is_whole:
            filed_for = self._filed.pop(event.correction_id, None)
            if filed_for != round_id:
                self._misfiled(event.correction_id, round_id, filed_for)

    def _see_movement(self, position: int, event: StakeMovement) -> None:
        if self._is_whole:
            self._check_stream(event.originator_id, event.originator_version)
            self._tally.add(self._wallets.see(event))
        record = self._rounds.get(event.round_id)
        if record is None:
            if not (self._is_whole or self._scope.round == event.round_id):
                return
            record = RoundRecord(event.round_id, first_position=position)
            self._rounds[event.round_id] = record
        record.see_movement(event)

    def _see_shoe(self, position: int, event: ShoeEvent) -> None:
        shoe_id = event.originator_id.removeprefix("shoe:")
        closed_at = self._closed_shoes.get(shoe_id)
        if closed_at is not None:
            self._see_late(shoe_id, event, closed_at)
            return
        shoe = self._shoes.get(shoe_id)
        if shoe is None or not self._is_whole:
            if not (self._is_whole or self._covers_shoe(shoe, shoe_id, event)):
                return
            shoe = self._shoes.setdefault(shoe_id, shoe or ShoeRecord(shoe_id))
        shoe.see(position, event)
        if type(event) is ShoeClosed:
            self._check_collected(shoe)
            self._close(shoe)

    def _check_collected(self, shoe: ShoeRecord) -> None:
        """With a shoe, the commission that its rounds marked is collected from each account."""
        for name in sorted(shoe.marked) if self._is_whole else ():
            left_minor = self._wallets.uncollected(f"account:{name}")
            if left_minor:
                detail = f"account:{name} kept {left_minor} of commission due when the shoe closed"
                self._tally.add([Finding(Code.ACCOUNT_MISMATCH, detail, shoe_id=shoe.shoe_id)])

    def _see_account_opened(self, position: int, event: AccountOpened) -> None:
        self._currencies[event.originator_id] = event.currency
        self._see_other(position, event)

    def _see_account_closed(self, position: int, event: AccountClosed) -> None:
        self._see_other(position, event)
        if self._is_whole:
            self._tally.add(self._wallets.close(event))

    def _see_filed(self, position: int, event: CorrectionFiled) -> None:
        self._see_other(position, event)
        if not self._is_whole:
            return
        correction_id = event.originator_id.removeprefix("correction:")
        if correction_id in self._filed:
            self._misfiled(correction_id, event.round_id, self._filed[correction_id])
        self._filed[correction_id] = event.round_id

    def _misfiled(self, correction_id: str, round_id: str, filed_for: str | None) -> None:
        where = "not filed" if filed_for is None else f"filed for round {filed_for}"
        detail = f"correction {correction_id} names this round and is {where}"
        self._tally.add([Finding(Code.CORRECTION_MISMATCH, detail, round_id)])

    def _see_shoe_removed(self, position: int, event: ShoeRemoved) -> None:
        self._see_other(position, event)
        shoe = self._shoes.get(event.shoe_id)
        is_closed = event.shoe_id in self._closed_shoes or (
            shoe is not None and shoe.closed is not None
        )
        if self._is_whole and not is_closed:
            self._removed_shoes[event.shoe_id] = event.originator_id

    def _see_funds(
        self, _position: int, event: FundsDeposited | FundsWithdrawn | DueCollected
    ) -> None:
        self._see_other(_position, event)
        if self._is_whole:
            self._tally.add(self._wallets.see(event))

    def _see_rules(self, _position: int, event: TableOpened | RulesChanged) -> None:
        table_id = event.originator_id.removeprefix("table:")
        version = 1 if isinstance(event, TableOpened) else event.rules_version
        self._rules.setdefault(table_id, {})[version] = event.rules
        self._see_other(_position, event)

    def _see_other(self, _position: int, event: DomainEvent) -> None:
        if self._is_whole:
            self._check_stream(event.originator_id, event.originator_version)

    def _see_late(self, shoe_id: str, event: ShoeEvent, closed_at: int) -> None:
        if isinstance(event, DrawCorrected):
            self._corrected_late.add(shoe_id)
        else:
            self._tally.add([after_closing(event)])
        version = event.originator_version
        if version != closed_at + 1:
            detail = describe_gap(event.originator_id, version, after=closed_at)
            self._tally.add([Finding(Code.STREAM_GAP, detail, shoe_id=shoe_id)])
        self._closed_shoes[shoe_id] = version

    def _claim_shoe(self, round_id: str, shoe_id: str) -> None:
        if shoe_id in self._closed_shoes:
            detail = f"shoe {shoe_id}, round {round_id}: the round opened after the shoe was closed"
            self._tally.add([Finding(Code.SHOE_SEQUENCE_GAP, detail, round_id, shoe_id)])
            return
        shoe = self._shoes.get(shoe_id)
        if shoe is None:
            shoe = self._shoes[shoe_id] = ShoeRecord(shoe_id)
        shoe.claimed_by.append(round_id)

    # Positions and versions.

    def _check_stream(self, stream: str, version: int) -> None:
        before = self._streams.get(stream, 0)
        if version != before + 1:
            detail = describe_gap(stream, version, after=before)
            self._tally.add([Finding(Code.STREAM_GAP, detail)])
        self._streams[stream] = version

    def _misplaced(self, position: int) -> None:
        if position >= self._next_position:
            if self._is_whole:
                self._missing_positions(self._next_position, position - 1)
            self._next_position = position + 1
        elif self._is_whole:
            detail = f"position {position} comes again, or late"
            self._tally.add([Finding(Code.STREAM_GAP, detail)])

    def _missing_positions(self, first: int, last: int) -> None:
        which = f"position {first} is" if first == last else f"positions {first} to {last} are"
        self._tally.add([Finding(Code.STREAM_GAP, f"{which} missing")])

    # What lies within the scope.

    def _covers_round(self, round_id: str, event: RoundEvent) -> bool:
        scope = self._scope
        if scope.round is not None:
            return scope.round == round_id
        if type(event) is not RoundOpened:
            return False
        return scope.shoe == event.shoe_id or scope.table == event.table_id

    def _covers_shoe(self, shoe: ShoeRecord | None, shoe_id: str, event: ShoeEvent) -> bool:
        scope = self._scope
        if scope.round is not None:
            if isinstance(event, RoundStarted | CardsDrawn | DrawCorrected):
                return event.round_id == scope.round
            return type(event) is ShoeOpened
        if scope.shoe is not None:
            return scope.shoe == shoe_id
        is_known = shoe is not None and shoe.opened is not None
        return is_known or (type(event) is ShoeOpened and scope.table == event.table_id)

    # Judging and dropping.

    def _close(self, shoe: ShoeRecord) -> None:
        """Judges a closed shoe and its rounds, and drops them.

        Where a round is not there whole, everything waits for the end.
        """
        self._removed_shoes.pop(shoe.shoe_id, None)
        if any(self._is_incomplete(start.round_id) for start in shoe.started):
            return
        self._judge_shoe(shoe)
        self._conclude(list({start.round_id: None for start in shoe.started}))
        del self._shoes[shoe.shoe_id]
        self._closed_shoes[shoe.shoe_id] = shoe.version

    def _judge_shoe(self, shoe: ShoeRecord) -> None:
        if self._scope.round is not None:
            self._tally.add(judge_places(shoe, self._rounds))
            return
        self._tally.add(judge_shoe(shoe, self._rounds))
        self._tally.judge_shoe(shoe.shoe_id, judge_cards(shoe, self._rounds))

    def _judge_cards_again(self, shoe_id: str) -> None:
        """Counts the cards of a shoe that was judged before one of its rounds was corrected."""
        shoe = ShoeRecord(shoe_id)
        for entry in self._load_stream(f"shoe:{shoe_id}"):
            if isinstance(entry, Recorded) and isinstance(entry.event, _SHOE_EVENTS):
                shoe.see(entry.position, entry.event)
        rounds: dict[str, RoundRecord] = {}
        for start in shoe.started:
            record = _load(start.round_id, self._load_stream(f"round:{start.round_id}"))
            if record is not None:
                rounds[start.round_id] = record
        self._tally.judge_shoe(shoe_id, judge_cards(shoe, rounds))

    def _conclude(self, round_ids: Iterable[str], *, recounted: Collection[str] = ()) -> None:
        """Judges rounds and drops them; those that were counted before are not counted again."""
        for round_id in round_ids:
            record = self._rounds.pop(round_id, None)
            if record is None:
                continue
            if record.opened is not None and round_id not in recounted:
                self._rounds_judged += 1
            findings = [
                *judge_round(record),
                *judge_rules(record, self._rules),
                *judge_stakes(record, self._currencies),
            ]
            self._tally.judge(round_id, findings)
            if not self._is_whole:
                self._judged_in_scope.add(round_id)
                if any(finding.code in _OF_OTHER_STREAMS for finding in findings):
                    self._doubtful.add(round_id)

    def _is_incomplete(self, round_id: str) -> bool:
        record = self._rounds.get(round_id)
        return record is None or record.opened is None

    def _incomplete_rounds(self) -> list[str]:
        """Rounds of which something may have been seen before: dropped, or never whole."""
        started = {start.round_id for shoe in self._shoes.values() for start in shoe.started}
        rounds = started | set(self._rounds)
        return sorted(
            round_id
            for round_id in rounds
            if self._is_incomplete(round_id) or round_id not in started
        )

    def _recall(self, round_ids: Iterable[str]) -> set[str]:
        """Loads rounds whole; those of them that were judged and counted before."""
        counted: set[str] = set()
        for round_id in round_ids:
            kept = self._rounds.get(round_id)
            record = _load(round_id, self._load_round(round_id))
            if record is None:
                continue
            self._rounds[round_id] = record
            if self._is_whole:
                was_dropped = kept is None or record.opened_position < kept.first_position
            else:
                was_dropped = round_id in self._judged_in_scope
            if was_dropped:
                counted.add(round_id)
        return counted


def _load(round_id: str, entries: Sequence[Entry]) -> RoundRecord | None:
    """The record of a round from all its events; None where there are none."""
    record = RoundRecord(round_id)
    stream = f"round:{round_id}"
    for entry in entries:
        if isinstance(entry, Unreadable):
            if entry.stream == stream:
                record.see_unreadable(entry)
        elif isinstance(entry.event, _ROUND_EVENTS):
            if entry.event.originator_id == stream:
                record.see(entry.position, entry.event)
        elif isinstance(entry.event, _MOVEMENTS) and entry.event.round_id == round_id:
            record.see_movement(entry.event)
    return record if record.version or record.has_movements else None


def audit(
    pages: Iterable[Iterable[Entry]],
    load_round: LoadRound,
    load_stream: LoadStream,
    *,
    scope: Scope | None = None,
    history_faults: Iterable[str] = (),
    head: int | None = None,
) -> Report:
    """Audits pages of events in the order of their positions."""
    auditor = Auditor(load_round, load_stream, scope=scope, history_faults=history_faults)
    see = auditor.see
    for page in pages:
        for entry in page:
            if isinstance(entry, Unreadable):
                auditor.unreadable(*entry)
            else:
                see(entry)
    return auditor.finish(head=head)
