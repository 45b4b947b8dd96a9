"""Audits a range of a ledger by itself, and puts the ranges together.

What begins and ends within a range is judged there: shoes that were opened and
closed in it, with their rounds. Everything else is left over, by its position,
and seen again by the one who gathers the parts, in the order of the ledger. So
are what streams say of each other across ranges: their versions, filings of
corrections, commission to collect. Accounts are not followed here but each by
its own stream, as their events lie all over the ledger.
"""

from array import array
from collections.abc import Iterable
from typing import NamedTuple, NoReturn

from domain.account import AccountEvent
from domain.event import Entry, Recorded, Unreadable
from domain.round import RoundEvent
from domain.shoe import ShoeEvent
from infrastructure.audit.accounts import Tangled, ToCollect
from infrastructure.audit.audit import Auditor, ClosedShoe, Known, LoadRounds, LoadStream
from infrastructure.audit.findings import Tally
from infrastructure.audit.order import Ends, Positions, Streams
from infrastructure.audit.record import RoundRecord, StakeMovement
from infrastructure.audit.shoes import ShoeRecord


class Filing(NamedTuple):
    """A correction as it was filed in a stream of its own, or as a round says."""

    position: int
    is_proposal: bool
    correction_id: str
    round_id: str


class Part(NamedTuple):
    """What a range came to; `first` and `last` are positions, None and 0 where it was empty."""

    first: int | None
    last: int
    tally: Tally
    rounds: int
    leftovers: "array[int]"
    closed_shoes: dict[str, ClosedShoe]
    ends: dict[str, Ends]
    filings: list[Filing]
    removed_shoes: dict[str, tuple[int, str]]
    to_collect: list[ToCollect]


class RangeAuditor(Auditor):
    """Judges what lies wholly within a range, given its events in order."""

    def __init__(self, known: Known, *, examples_max: int) -> None:
        super().__init__(_not_here, _not_here, known=known, examples_max=examples_max)
        self._positions = Positions(self._tally, first=None)
        self._streams = Streams(self._tally, begin=False)
        self._follow = _must_be_an_account
        self._round_places: dict[str, list[int]] = {}
        self._shoe_places: dict[str, list[int]] = {}
        self._late: list[int] = []
        self._filings: list[Filing] = []
        self._to_collect: list[ToCollect] = []

    def part(self) -> Part:
        """What the range came to, when all of it was seen."""
        leftovers = array("q", self._late)
        for places in (*self._round_places.values(), *self._shoe_places.values()):
            leftovers.extend(places)
        return Part(
            first=self._positions.first,
            last=self._positions.last,
            tally=self._tally,
            rounds=self._rounds_judged,
            leftovers=array("q", sorted(leftovers)),
            closed_shoes=self._closed_shoes,
            ends=self._streams.ends,
            filings=self._filings,
            removed_shoes=self._removed_shoes,
            to_collect=self._to_collect,
        )

    def _see_unreadable(self, event: Unreadable) -> None:
        kind, _, name = event.stream.partition(":")
        if kind == "account":
            return
        if kind == "shoe" and name in self._closed_shoes:
            self._late.append(event.position)
            return
        super()._see_unreadable(event)
        if kind == "round":
            self._round_places.setdefault(name, []).append(event.position)
        elif kind == "shoe":
            self._shoe_places.setdefault(name, []).append(event.position)

    def _see_round(self, position: int, event: RoundEvent) -> None:
        super()._see_round(position, event)
        round_id = event.originator_id.removeprefix("round:")
        self._round_places.setdefault(round_id, []).append(position)

    def _see_movement(self, position: int, event: StakeMovement) -> None:
        super()._see_movement(position, event)
        self._round_places.setdefault(event.round_id, []).append(position)

    def _see_shoe(self, position: int, event: ShoeEvent) -> None:
        shoe_id = event.originator_id.removeprefix("shoe:")
        if shoe_id in self._closed_shoes:
            self._late.append(position)
            return
        self._shoe_places.setdefault(shoe_id, []).append(position)
        super()._see_shoe(position, event)

    def _claim_shoe(self, position: int, round_id: str, shoe_id: str) -> None:
        # A claim of a shoe that is closed is left over with its round.
        if shoe_id not in self._closed_shoes:
            super()._claim_shoe(position, round_id, shoe_id)

    def _check_collected(self, position: int, shoe_id: str, names: list[str]) -> None:
        pass

    def _file(self, position: int, correction_id: str, round_id: str) -> None:
        self._filings.append(Filing(position, False, correction_id, round_id))  # noqa: FBT003

    def _propose(self, position: int, correction_id: str, round_id: str) -> None:
        self._filings.append(Filing(position, True, correction_id, round_id))  # noqa: FBT003

    def _close(self, shoe: ShoeRecord) -> None:
        if not self._lies_within(shoe):
            return
        super()._close(shoe)
        del self._shoe_places[shoe.shoe_id]
        for start in shoe.started:
            del self._round_places[start.round_id]
        if shoe.marked:
            names = sorted(shoe.marked)
            self._to_collect.append(ToCollect(shoe.closed_position, shoe.shoe_id, names))

    def _lies_within(self, shoe: ShoeRecord) -> bool:
        """Whether the shoe and its rounds are here from their first event, and name each other."""
        started = [start.round_id for start in shoe.started]
        if shoe.opened is None or shoe.gaps or shoe.late:
            return False
        if sorted(started) != sorted(shoe.claimed_by) or len(set(started)) != len(started):
            return False
        records = [self._rounds.get(round_id) for round_id in started]
        return all(
            record is not None
            and record.opened is not None
            and record.opened.shoe_id == shoe.shoe_id
            and not record.gaps
            for record in records
        )


class Gatherer(Auditor):
    """Puts parts together in their order, and judges what is left over of them."""

    def __init__(
        self,
        load_rounds: LoadRounds,
        load_stream: LoadStream,
        *,
        history_faults: Iterable[str],
        examples_max: int,
        known: Known,
    ) -> None:
        super().__init__(
            load_rounds,
            load_stream,
            history_faults=history_faults,
            examples_max=examples_max,
            known=Known(known.rules, known.currencies),
        )
        self._follow = _must_be_an_account
        self._judged_elsewhere: dict[str, ClosedShoe] = {}
        self.to_collect: list[ToCollect] = []

    def take_in(self, part: Part, leftovers: Iterable[Iterable[Entry]]) -> None:
        """Adds the next part, and sees the events that it left over."""
        if part.first is not None:
            self._positions.go_on(part.first, part.last)
        if any(shoe in self._shoes or shoe in self._closed_shoes for shoe in part.closed_shoes):
            raise Tangled
        self._tally.take_in(part.tally)
        self._rounds_judged += part.rounds
        self._streams.go_on(part.ends)
        self._judged_elsewhere |= part.closed_shoes
        self._closed_shoes |= part.closed_shoes
        self._removed_shoes |= part.removed_shoes
        self.to_collect += part.to_collect
        for position, is_proposal, correction_id, round_id in part.filings:
            file = super()._propose if is_proposal else super()._file
            file(position, correction_id, round_id)
        for page in leftovers:
            for entry in page:
                if isinstance(entry, Recorded):
                    self._see[type(entry.event)](*entry)
                else:
                    self._see_unreadable(entry)

    def take_in_accounts(self, tally: Tally) -> None:
        """Adds what was found in accounts."""
        self._tally.take_in(tally)

    def must_be_whole(self) -> None:
        """Raises Tangled where a shoe that is left over shares a round with one that is not."""
        for shoe in self._shoes.values():
            if any(self._is_incomplete(start.round_id) for start in shoe.started):
                raise Tangled

    def _check_collected(self, position: int, shoe_id: str, names: list[str]) -> None:
        self.to_collect.append(ToCollect(position, shoe_id, names))

    def _propose(self, position: int, correction_id: str, round_id: str) -> None:
        pass  # The part has it among its filings.

    def _was_dropped(self, record: RoundRecord, kept: RoundRecord | None) -> bool:
        if super()._was_dropped(record, kept):
            return True
        # Heard of before it was opened: did a later range, which had not heard of it, judge it?
        opened = record.opened
        shoe = None if opened is None else self._judged_elsewhere.get(opened.shoe_id)
        if shoe and shoe.opened_position <= record.opened_position <= shoe.closed_position:
            raise Tangled
        return False


def _must_be_an_account(_: int, event: AccountEvent) -> None:
    """Accounts are followed by others, who read nothing but their streams."""
    if not event.originator_id.startswith("account:"):
        raise Tangled


def _not_here(_: object) -> NoReturn:
    raise AssertionError("a range is judged by itself")
