"""Whether positions and versions are 1, 2, 3 …, also where a part of them was seen elsewhere."""

from collections.abc import Mapping
from typing import NamedTuple

from infrastructure.audit.findings import Code, Finding, Tally
from infrastructure.audit.record import describe_gap


class Positions:
    """The positions of a ledger; with a `first` of None they may begin anywhere."""

    def __init__(self, tally: Tally, *, first: int | None = 1) -> None:
        self._tally = tally
        self.first = first
        self.next = 0 if first is None else first

    @property
    def last(self) -> int:
        """The latest one seen; 0 where there was none."""
        return self.next - 1 if self.first is not None else 0

    def misplaced(self, position: int) -> None:
        """Takes in a position that is not the next one."""
        if self.first is None:
            self.first, self.next = position, position + 1
        elif position >= self.next:
            self.missing(self.next, position - 1)
            self.next = position + 1
        else:
            detail = f"position {position} comes again, or late"
            self._tally.add([Finding(Code.STREAM_GAP, detail)], place=position)

    def go_on(self, first: int, last: int) -> None:
        """Takes in positions that were checked elsewhere."""
        if first > self.next:
            self.missing(self.next, first - 1)
        self.next = last + 1

    def missing(self, first: int, last: int) -> None:
        """Adds that no event stands at some positions."""
        which = f"position {first} is" if first == last else f"positions {first} to {last} are"
        self._tally.add([Finding(Code.STREAM_GAP, f"{which} missing")], place=first)


class Ends(NamedTuple):
    """The first and the last version of a stream in a part of a ledger."""

    first: int
    first_position: int
    last: int


class Streams:
    """The versions of streams of which nothing else is kept.

    `begin` says whether what is seen begins with each stream's first event.
    """

    def __init__(self, tally: Tally, *, begin: bool = True) -> None:
        self._tally = tally
        self._begin = begin
        self.ends: dict[str, Ends] = {}

    def see(self, position: int, stream: str, version: int) -> None:
        """Takes in the next version of a stream; a finding where it is another."""
        ends = self.ends.get(stream)
        if ends is None:
            ends = Ends(version, position, version)
            if self._begin:
                self._check(position, stream, version, after=0)
        else:
            self._check(position, stream, version, after=ends.last)
        self.ends[stream] = ends._replace(last=version)

    def go_on(self, others: Mapping[str, Ends]) -> None:
        """Takes in versions that were checked among themselves elsewhere."""
        for stream, ends in others.items():
            before = self.ends.get(stream)
            after = 0 if before is None else before.last
            self._check(ends.first_position, stream, ends.first, after=after)
            self.ends[stream] = ends

    def _check(self, position: int, stream: str, version: int, *, after: int) -> None:
        if version != after + 1:
            detail = describe_gap(stream, version, after=after)
            self._tally.add([Finding(Code.STREAM_GAP, detail)], place=position)
