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
from msgspec import Struct

from infrastructure.store.traces import Trace

REFUSALS_ARE_KEPT = "30 days"


@dataclass(frozen=True, slots=True)
class Columns:
    """Events as they are stored: their streams, their versions there, their topics and states."""

    streams: Sequence[str]
    versions: Sequence[int]
    topics: Sequence[str]
    states: Sequence[bytes]

    def __len__(self) -> int:
        return len(self.streams)


ClientKey = tuple[str, str]
"""A client's name and a key of its own."""


class Remembered(Struct, frozen=True):
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
    """What a turn at the ledger's head is decided on."""

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

    def seed(self, shoe_id: str) -> bytes:
        """The seed of a shuffled shoe that is open."""
        ...


class TurnSession(Session, Protocol):
    """A turn that has the right to append, from its start to the commit."""

    def changed_since(self, position: int) -> set[str] | None:
        """The streams that have events after a position; None where they are too many to say."""
        ...

    def append(self, events: Columns, beside: Beside) -> None:
        """Adds events after the head, and what belongs beside them."""
        ...


class AttemptSession(Session, Protocol):
    """A turn on what is known as of a head, checked where it is stored.

    It presumes that no key was seen. Each of its steps raises NotUpToDate where
    it has to ask, or where what it presumes does not hold; nothing was stored then.
    """

    def bring(self, events: Columns, beside: Beside) -> None:
        """Takes events after the head, which moves on with them, and what belongs beside them."""
        ...

    def send_off(self) -> None:
        """Sends off what was brought, without waiting until it is stored."""
        ...

    def arrive(self) -> None:
        """Waits until what was sent off is stored, as a transaction of its own.

        Where it fails it is not to be known whether it is stored, unless it raises NotUpToDate.
        """
        ...


class Sessions(Protocol):
    """A recorder that lets one writer at a time append."""

    def writing(self) -> AbstractContextManager[TurnSession]:
        """Waits for its turn, and commits where the block ends without an exception."""
        ...

    def attempting(self, head: int, *, new_streams: Collection[str]) -> AttemptSession:
        """A session that takes no lock before it is stored; `new_streams` are not to be there."""
        ...


def columns_of(stored_events: Sequence[StoredEvent]) -> Columns:
    """The library's events as columns."""
    return Columns(
        [str(each.originator_id) for each in stored_events],
        [each.originator_version for each in stored_events],
        [each.topic for each in stored_events],
        [each.state for each in stored_events],
    )
