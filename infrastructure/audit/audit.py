"""The auditor: sees every event once, in order, and judges what was recorded.

A round is kept until its shoe has closed, then it is judged with its shoe and
dropped, so that memory is bounded by what is open. Of a closed shoe only its
version stays. An event that comes for a round that was dropped makes a record
without an opening; at the end such rounds are loaded whole and judged again.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, get_args

from domain.account import AccountEvent, AccountOpened
from domain.correction import CorrectionFiled
from domain.event import DomainEvent, Entry, Recorded, Unreadable
from domain.round import CorrectionProposed, RoundEvent, RoundOpened
from domain.rules import Rules
from domain.shoe import CardsDrawn, DrawCorrected, RoundStarted, ShoeClosed, ShoeEvent, ShoeOpened
from domain.table import RulesChanged, ShoeRemoved, TableOpened
from infrastructure.audit.findings import Code, Finding, Report, Tally
from infrastructure.audit.judgement import judge_round, judge_rules
from infrastructure.audit.order import Positions, Streams
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
from infrastructure.audit.wallets import ACCOUNT_EVENTS, Wallets
from infrastructure.store.session import KeptState

_ROUND_EVENTS = get_args(RoundEvent)
_MOVEMENTS = get_args(StakeMovement)
_SHOE_EVENTS = get_args(ShoeEvent)

EXAMPLES_MAX = 5
"""How many findings of one code a report shows."""

LoadRounds = Callable[[Collection[str]], Iterable[Entry]]
"""Gives every event of some rounds' streams and every account event that names one of them.

They come by position. What else it gives is left aside.
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


@dataclass(frozen=True, slots=True)
class Known:
    """What a store can say of a whole ledger beforehand.

    `rules` are those of each table by their version, `currencies` those of the
    accounts' streams, and `kept` the states that the store keeps of accounts.
    """

    rules: Mapping[str, Mapping[int, Rules]] = field(default_factory=dict)
    currencies: Mapping[str, str] = field(default_factory=dict)
    kept: Mapping[str, KeptState] = field(default_factory=dict)


class ClosedShoe(NamedTuple):
    """What stays of a shoe that was judged: its version, and when it was opened and closed."""

    version: int
    opened_position: int
    closed_position: int


class Auditor:
    """Judges a ledger event by event; it never stops at a fault.

    Within a scope it may be given all events or only those that matter: the
    positions and the streams of accounts and tables are then not checked.
    What is `known` need not be learned from the events.
    """

    def __init__(
        self,
        load_rounds: LoadRounds,
        load_stream: LoadStream,
        *,
        scope: Scope | None = None,
        history_faults: Iterable[str] = (),
        examples_max: int = EXAMPLES_MAX,
        known: Known | None = None,
    ) -> None:
        self._load_rounds = load_rounds
        self._load_stream = load_stream
        self._scope = scope or EVERYTHING
        self._is_whole = self._scope.is_everything
        self._tally = Tally(examples_max=examples_max)
        self._tally.add(Finding(Code.HISTORY_UNPROTECTED, fault) for fault in history_faults)
        self._positions = Positions(Tally(examples_max=1) if not self._is_whole else self._tally)
        self._streams = Streams(self._tally)
        self._wallets = Wallets(self._tally, kept=known.kept if known else {})
        self._follow: Callable[[int, AccountEvent], None] = self._wallets.see
        self._rounds: dict[str, RoundRecord] = {}
        # Most events are of the round that the one before was of.
        self._latest: RoundRecord | None = None
        self._shoes: dict[str, ShoeRecord] = {}
        self._closed_shoes: dict[str, ClosedShoe] = {}
        self._corrected_late: set[str] = set()
        self._filed: dict[str, tuple[int, str]] = {}
        self._removed_shoes: dict[str, tuple[int, str]] = {}
        self._rules: dict[str, dict[int, Rules]] = {}
        self._currencies: dict[str, str] = {}
        self._known = known or Known(self._rules, self._currencies)
        self._rounds_judged = 0
        self._judged_in_scope: set[str] = set()
        self._doubtful: set[str] = set()
        ways: dict[type[DomainEvent], Callable[[int, Any], None]] = {
            **dict.fromkeys(_ROUND_EVENTS, self._see_round),
            **dict.fromkeys(ACCOUNT_EVENTS, self._see_account),
            **dict.fromkeys(_MOVEMENTS, self._see_movement),
            **dict.fromkeys(_SHOE_EVENTS, self._see_shoe),
            RoundOpened: self._see_opened,
            CorrectionProposed: self._see_proposed,
            CorrectionFiled: self._see_filed,
            TableOpened: self._see_rules,
            RulesChanged: self._see_rules,
            ShoeRemoved: self._see_shoe_removed,
        }
        self._see = defaultdict(lambda: self._see_other, ways)

    @property
    def records_kept(self) -> int:
        """How many rounds and shoes are held in memory."""
        return len(self._rounds) + len(self._shoes)

    def see(self, recorded: Recorded) -> None:
        """Takes in the next event of the ledger."""
        self.see_all((recorded,))

    def see_all(self, entries: Iterable[Entry]) -> None:
        """Takes in the next events of the ledger, and those that cannot be decoded."""
        positions, see = self._positions, self._see
        following = positions.next
        for entry in entries:
            position = entry[0]
            if position != following:
                positions.next = following
                positions.misplaced(position)
                following = positions.next - 1
            following += 1
            if type(entry) is Recorded:
                event = entry[1]
                see[type(event)](position, event)
            else:
                assert isinstance(entry, Unreadable)
                self._see_unreadable(entry)
        positions.next = following

    def unreadable(self, position: int, stream: str, version: int, why: str) -> None:
        """Takes in that the next event of the ledger cannot be decoded."""
        self.see_all((Unreadable(position, stream, version, why),))

    def finish(self, *, head: int | None = None) -> Report:
        """Judges what is still open, and again what changed after it was judged.

        `head` is the last position by the store's own count, where it is known.
        """
        if head is not None and self._is_whole and head >= self._positions.next:
            self._positions.missing(self._positions.next, head)
        if self._is_whole:
            self._wallets.finish()
        self._finish_filed_and_removed()
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

    def _finish_filed_and_removed(self) -> None:
        for shoe_id, (position, table) in self._removed_shoes.items():
            shoe = self._shoes.get(shoe_id)
            if shoe_id not in self._closed_shoes and (shoe is None or shoe.closed is None):
                detail = f"shoe {shoe_id}: removed from {table} and never closed"
                finding = Finding(Code.SHOE_SEQUENCE_GAP, detail, shoe_id=shoe_id)
                self._tally.add([finding], place=position)
        for correction_id, (position, round_id) in self._filed.items():
            detail = f"correction {correction_id} was filed for this round and not proposed"
            finding = Finding(Code.CORRECTION_MISMATCH, detail, round_id)
            self._tally.add([finding], place=position)

    # What each kind of event does.

    def _see_unreadable(self, event: Unreadable) -> None:
        kind, _, name = event.stream.partition(":")
        if kind == "round":
            record = self._rounds.get(name)
            if record is None and (self._is_whole or self._scope.round == name):
                record = self._rounds[name] = RoundRecord(name, first_position=event.position)
            if record is not None:
                record.see_unreadable(event)
        elif kind == "shoe" and name in self._closed_shoes:
            self._closed_shoes[name] = self._closed_shoes[name]._replace(version=event.version)
            finding = Finding(Code.STREAM_GAP, describe_unreadable(event), shoe_id=name)
            self._tally.add([finding], place=event.position)
        elif kind == "shoe" and (self._is_whole or name in (self._scope.shoe, *self._shoes)):
            self._shoes.setdefault(name, ShoeRecord(name)).see_unreadable(event)
        elif kind == "account" and self._is_whole:
            self._wallets.see_unreadable(event)
        elif self._is_whole and kind not in ("shoe", "account"):
            self._streams.see(event.position, event.stream, event.version)
            finding = Finding(Code.STREAM_GAP, describe_unreadable(event))
            self._tally.add([finding], place=event.position)

    def _see_round(self, position: int, event: RoundEvent) -> None:
        record = self._latest
        if record is None or event.originator_id != record.stream:
            round_id = event.originator_id.removeprefix("round:")
            record = self._rounds.get(round_id)
            if record is None:
                if not (self._is_whole or self._covers_round(round_id, event)):
                    return
                record = self._rounds[round_id] = RoundRecord(round_id, first_position=position)
            self._latest = record
        record.see(position, event)

    def _see_opened(self, position: int, event: RoundOpened) -> None:
        self._see_round(position, event)
        round_id = event.originator_id.removeprefix("round:")
        if round_id in self._rounds:
            self._claim_shoe(position, round_id, event.shoe_id)

    def _see_proposed(self, position: int, event: CorrectionProposed) -> None:
        self._see_round(position, event)
        if self._is_whole:
            round_id = event.originator_id.removeprefix("round:")
            self._propose(position, event.correction_id, round_id)

    def _see_account(self, position: int, event: AccountEvent) -> None:
        if type(event) is AccountOpened:
            self._currencies[event.originator_id] = event.currency
        if self._is_whole:
            self._follow(position, event)

    def _see_movement(self, position: int, event: StakeMovement) -> None:
        if self._is_whole:
            self._follow(position, event)
        record = self._latest
        if record is None or event.round_id != record.round_id:
            record = self._rounds.get(event.round_id)
            if record is None:
                if not (self._is_whole or self._scope.round == event.round_id):
                    return
                record = RoundRecord(event.round_id, first_position=position)
                self._rounds[event.round_id] = record
            self._latest = record
        record.see_movement(event)

    def _see_shoe(self, position: int, event: ShoeEvent) -> None:
        shoe_id = event.originator_id.removeprefix("shoe:")
        closed = self._closed_shoes.get(shoe_id)
        if closed is not None:
            self._see_late(position, shoe_id, event, closed)
            return
        shoe = self._shoes.get(shoe_id)
        if shoe is None or not self._is_whole:
            if not (self._is_whole or self._covers_shoe(shoe, shoe_id, event)):
                return
            shoe = self._shoes.setdefault(shoe_id, shoe or ShoeRecord(shoe_id))
        shoe.see(position, event)
        if type(event) is ShoeClosed:
            if self._is_whole and (marked := shoe.marked):
                self._check_collected(position, shoe_id, sorted(marked))
            self._close(shoe)

    def _see_filed(self, position: int, event: CorrectionFiled) -> None:
        self._see_other(position, event)
        if self._is_whole:
            self._file(position, event.originator_id.removeprefix("correction:"), event.round_id)

    def _see_shoe_removed(self, position: int, event: ShoeRemoved) -> None:
        self._see_other(position, event)
        if self._is_whole and event.shoe_id not in self._closed_shoes:
            self._removed_shoes[event.shoe_id] = (position, event.originator_id)

    def _see_rules(self, position: int, event: TableOpened | RulesChanged) -> None:
        learn_rules(self._rules, event)
        self._see_other(position, event)

    def _see_other(self, position: int, event: DomainEvent) -> None:
        if self._is_whole:
            self._streams.see(position, event.originator_id, event.originator_version)

    def _see_late(self, position: int, shoe_id: str, event: ShoeEvent, closed: ClosedShoe) -> None:
        if isinstance(event, DrawCorrected):
            self._corrected_late.add(shoe_id)
        else:
            self._tally.add([after_closing(event)], place=position)
        version = event.originator_version
        if version != closed.version + 1:
            detail = describe_gap(event.originator_id, version, after=closed.version)
            finding = Finding(Code.STREAM_GAP, detail, shoe_id=shoe_id)
            self._tally.add([finding], place=position)
        self._closed_shoes[shoe_id] = closed._replace(version=version)

    def _claim_shoe(self, position: int, round_id: str, shoe_id: str) -> None:
        if shoe_id in self._closed_shoes:
            detail = f"shoe {shoe_id}, round {round_id}: the round opened after the shoe was closed"
            finding = Finding(Code.SHOE_SEQUENCE_GAP, detail, round_id, shoe_id)
            self._tally.add([finding], place=position)
            return
        shoe = self._shoes.get(shoe_id)
        if shoe is None:
            shoe = self._shoes[shoe_id] = ShoeRecord(shoe_id)
        shoe.claimed_by.append(round_id)

    def _check_collected(self, position: int, shoe_id: str, names: list[str]) -> None:
        self._wallets.check_collected(position, shoe_id, names)

    # Corrections stand in a stream of their own as well.

    def _file(self, position: int, correction_id: str, round_id: str) -> None:
        filed = self._filed.get(correction_id)
        if filed is not None:
            self._misfiled(position, correction_id, round_id, filed[1])
        self._filed[correction_id] = (position, round_id)

    def _propose(self, position: int, correction_id: str, round_id: str) -> None:
        _, filed_for = self._filed.pop(correction_id, (0, None))
        if filed_for != round_id:
            self._misfiled(position, correction_id, round_id, filed_for)

    def _misfiled(
        self, position: int, correction_id: str, round_id: str, filed_for: str | None
    ) -> None:
        where = "not filed" if filed_for is None else f"filed for round {filed_for}"
        detail = f"correction {correction_id} names this round and is {where}"
        finding = Finding(Code.CORRECTION_MISMATCH, detail, round_id)
        self._tally.add([finding], place=position)

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
        if any(self._is_incomplete(start.round_id) for start in shoe.started):
            return
        self._judge_shoe(shoe)
        self._conclude(list({start.round_id: None for start in shoe.started}))
        del self._shoes[shoe.shoe_id]
        self._closed_shoes[shoe.shoe_id] = ClosedShoe(
            shoe.version, shoe.opened_position, shoe.closed_position
        )

    def _judge_shoe(self, shoe: ShoeRecord) -> None:
        place = shoe.opened_position
        if self._scope.round is not None:
            self._tally.add(judge_places(shoe, self._rounds), place=place)
            return
        self._tally.add(judge_shoe(shoe, self._rounds), place=place)
        self._tally.judge_shoe(shoe.shoe_id, judge_cards(shoe, self._rounds), place=place)

    def _judge_cards_again(self, shoe_id: str) -> None:
        """Counts the cards of a shoe that was judged before one of its rounds was corrected."""
        shoe = ShoeRecord(shoe_id)
        for entry in self._load_stream(f"shoe:{shoe_id}"):
            if isinstance(entry, Recorded) and isinstance(entry.event, _SHOE_EVENTS):
                shoe.see(entry.position, entry.event)
        rounds: dict[str, RoundRecord] = {}
        for start in shoe.started:
            stream = self._load_stream(f"round:{start.round_id}")
            rounds |= _load_all([start.round_id], stream)
        place = shoe.opened_position
        self._tally.judge_shoe(shoe_id, judge_cards(shoe, rounds), place=place)

    def _conclude(self, round_ids: Iterable[str], *, recounted: Collection[str] = ()) -> None:
        """Judges rounds and drops them; those that were counted before are not counted again."""
        self._latest = None
        for round_id in round_ids:
            record = self._rounds.pop(round_id, None)
            if record is None:
                continue
            if record.opened is not None and round_id not in recounted:
                self._rounds_judged += 1
            findings = [
                *judge_round(record),
                *judge_rules(record, self._known.rules),
                *judge_stakes(record, self._known.currencies),
            ]
            self._tally.judge(round_id, findings, place=record.opened_position)
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

    def _recall(self, round_ids: Collection[str]) -> set[str]:
        """Loads rounds whole; those of them that were judged and counted before."""
        counted: set[str] = set()
        loaded = _load_all(round_ids, self._load_rounds(round_ids)) if round_ids else {}
        for round_id, record in loaded.items():
            kept = self._rounds.get(round_id)
            self._rounds[round_id] = record
            if self._is_whole:
                was_dropped = self._was_dropped(record, kept)
            else:
                was_dropped = round_id in self._judged_in_scope
            if was_dropped:
                counted.add(round_id)
        return counted

    def _was_dropped(self, record: RoundRecord, kept: RoundRecord | None) -> bool:
        return kept is None or record.opened_position < kept.first_position


def learn_rules(rules: dict[str, dict[int, Rules]], event: TableOpened | RulesChanged) -> None:
    """Takes in which rules a table has from now on."""
    table_id = event.originator_id.removeprefix("table:")
    version = 1 if isinstance(event, TableOpened) else event.rules_version
    rules.setdefault(table_id, {})[version] = event.rules


def _load_all(round_ids: Collection[str], entries: Iterable[Entry]) -> dict[str, RoundRecord]:
    """The records of rounds from all their events; those that have none are left out."""
    records = {round_id: RoundRecord(round_id) for round_id in round_ids}
    for entry in entries:
        if isinstance(entry, Unreadable):
            record = records.get(entry.stream.removeprefix("round:"))
            if record is not None and entry.stream.startswith("round:"):
                record.see_unreadable(entry)
        elif isinstance(entry.event, _ROUND_EVENTS):
            record = records.get(entry.event.originator_id.removeprefix("round:"))
            if record is not None:
                record.see(entry.position, entry.event)
        elif isinstance(entry.event, _MOVEMENTS):
            record = records.get(entry.event.round_id)
            if record is not None:
                record.see_movement(entry.event)
    return {
        round_id: record
        for round_id, record in records.items()
        if record.version or record.has_movements
    }


def audit(
    pages: Iterable[Iterable[Entry]],
    load_rounds: LoadRounds,
    load_stream: LoadStream,
    *,
    scope: Scope | None = None,
    history_faults: Iterable[str] = (),
    head: int | None = None,
    known: Known | None = None,
) -> Report:
    """Audits pages of events in the order of their positions."""
    auditor = Auditor(
        load_rounds, load_stream, scope=scope, history_faults=history_faults, known=known
    )
    for page in pages:
        auditor.see_all(page)
    return auditor.finish(head=head)
