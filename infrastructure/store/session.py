"""The right to append, held from the lock to the commit.

A session is one transaction of the ledger's one writer at a time. What is read
in it is the latest there is, and what is appended in it stands together or not
at all. Positions follow the order of commits, without gaps.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from eventsourcing.persistence import StoredEvent

from infrastructure.store.traces import Trace

REFUSALS_ARE_KEPT = "30 days"


Row = tuple[str, int, str, bytes]
"""An event as it is stored: its stream, its version there, its topic and its state."""

ClientKey = tuple[str, str]
"""A client's name and a key of its own."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """A command's answer, to be given again to the same key with the same content.

    `fields` holds a hash of each field of the command. `position` is that of
    the command's last event; None where the answer is a refusal. `trace` is
    that of the command's events; None where it recorded none or came without.
    """

    client: str
    key: str
    fields: Mapping[str, str]
    answer: Mapping[str, Any]
    position: int | None
    trace: Trace | None = None


class KeptState(NamedTuple):
    """What a stream came to at a version, encoded; read again, it spares the events up to there."""

    stream_id: str
    version: int
    state: bytes


Found = StoredEvent | KeptState
"""What a stream is brought in from: its events, after a state where one was kept."""


@dataclass(frozen=True, slots=True)
class Beside:
    """What is stored in the same transaction as the events.

    `seeds` of shuffled shoes are kept apart while the shoe is open; None
    forgets the seed of a shoe that has closed.
    """

    remembered: Sequence[Remembered] = ()
    states: Sequence[KeptState] = ()
    seeds: Mapping[str, bytes | None] = field(default_factory=dict)


class NotUpToDate(Exception):  # noqa: N818 - it says what is the case, as Refused does
    """What an attempt rests on is not enough or no longer holds; nothing was stored."""


class Session(Protocol):
    """One turn at the ledger's head."""

    @property
    def head(self) -> int:
        """The position of the latest event."""
        ...

    def recall(
        self, keys: Sequence[ClientKey], stream_ids: Collection[str]
    ) -> tuple[dict[ClientKey, Remembered], Sequence[Found]]:
        """The answers that clients' keys were given, and what `load` gives, in one go."""
        ...

    def load(self, stream_ids: Collection[str]) -> Sequence[Found]:
        """All there is of some streams, each stream's in the order of its versions."""
        ...

    def changed_since(self, position: int) -> set[str] | None:
        """The streams that have events after a position; None where they are too many to say."""
        ...

    def seed(self, shoe_id: str) -> bytes:
        """The seed of a shuffled shoe that is open."""
        ...

    def send(self, rows: Sequence[Row]) -> None:
        """Adds events after the head, to be stored while the turn goes on."""
        ...

    def append(self, rows: Sequence[Row], beside: Beside) -> None:
        """Adds the last events of the turn, and what belongs beside all of them."""
        ...


class Sessions(Protocol):
    """A recorder that lets one writer at a time append."""

    def writing(self) -> AbstractContextManager[Session]:
        """Waits for its turn, and commits where the block ends without an exception."""
        ...

    def attempting(self, head: int, *, new_streams: Collection[str]) -> Session:
        """A session that takes no lock before it appends, on what is known as of a head.

        Its append is all of a transaction. It presumes that no key was seen, and
        that `new_streams` are not there. Raises NotUpToDate where it has to ask,
        and, at the append, where any of that does not hold.
        """
        ...


def rows_of(stored_events: Sequence[StoredEvent]) -> list[Row]:
    """The library's events as rows."""
    return [
        (str(each.originator_id), each.originator_version, each.topic, each.state)
        for each in stored_events
    ]
