"""What a feed needs of the place that it publishes to."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol, Self

from infrastructure.feed.envelope import Sent


class Held(NamedTuple):
    """The last item that is downstream. `is_own`: this run of the feed has put it there."""

    position: int
    hash: str
    source: str
    is_own: bool


class Kept(NamedTuple):
    """An item as it is downstream: its place there, counted from 1, and its bytes."""

    place: int
    line: bytes


class Sink(Protocol):
    """Where events are published to, in order and each once; one session of it.

    Every method raises SinkAway where it does not answer.
    """

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def last(self) -> Held | None:
        """The last item that is there. There is no other record of how far the feed has come."""
        ...

    def publish(self, items: Sequence[Sent], *, after: int) -> None:
        """Adds items behind the one at a position, all of them or none.

        Raises Outrun, and adds nothing, where that one is not the last.
        """
        ...

    def kept(self) -> Iterator[Kept]:
        """Everything that is there at this moment, in its order."""
        ...


OpenSink = Callable[[], Sink]
