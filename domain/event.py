"""What every event has in common, and the register of their topics."""

from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, NamedTuple, dataclass_transform

from msgspec import Meta, Struct, StructMeta

from domain.errors import Refused

MAXIMUM_MINOR = 10**15
"""The largest single amount, in minor units."""

MAXIMUM_WIN_MINOR = 10**16
"""No bet may win more than this, in minor units."""

EVENT_TYPES: dict[str, "type[DomainEvent]"] = {}
"""Every event type by its topic."""

UtcTime = Annotated[datetime, Meta(tz=True)]
Amount = Annotated[int, Meta(ge=0)]
PositiveAmount = Annotated[int, Meta(gt=0)]


@dataclass_transform(frozen_default=True)
class _Topics(StructMeta):
    """Stores each event under its `TOPIC`, whatever its class is called."""

    def __new__(
        mcls, name: str, bases: tuple[type, ...], body: dict[str, Any], **config: Any
    ) -> Any:
        topic = body.get("TOPIC")
        if topic is None:
            return super().__new__(mcls, name, bases, body, **config)
        assert topic not in EVENT_TYPES, f"two events share the topic {topic}"
        event_type: Any = super().__new__(mcls, name, bases, body, tag=topic, **config)
        EVENT_TYPES[topic] = event_type
        return event_type


class DomainEvent(
    Struct,
    metaclass=_Topics,
    tag_field="topic",
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    gc=False,
):
    """An immutable fact in the past tense.

    `at` is when it happened, by the caller's clock in UTC; `actor` who did it;
    `key` the idempotency key of the command behind it. A subclass names the
    `TOPIC` that it is stored under, which no rename of the class changes. When
    the shape of a released event changes, `class_version` goes up and a static
    method `upcast_vN_vM(state)` brings an older state to the newer shape.

    What is read is checked against the types of the fields; what is written
    comes from commands that were. Events are structs and not pydantic models
    because a ledger is folded event by event: they are read ten times as fast.
    """

    TOPIC: ClassVar[str]
    class_version: ClassVar[int] = 1

    originator_id: str
    originator_version: int
    at: UtcTime
    actor: str
    key: str


NEVER = datetime.min.replace(tzinfo=UTC)
"""When nothing has happened yet."""


class Recorded(NamedTuple):
    """An event with its place in the ledger: positions are 1, 2, 3 … in the order of commits."""

    position: int
    event: DomainEvent


class Unreadable(NamedTuple):
    """A stored event that no model reads, and why."""

    position: int
    stream: str
    version: int
    why: str


Entry = Recorded | Unreadable
"""What stands at a position of the ledger."""


class Stamp(Struct, frozen=True, gc=False):
    """Who does a command, when, and under which idempotency key."""

    at: datetime
    actor: str
    key: str

    def on(self, stream_id: str, version: int) -> tuple[str, int, datetime, str, str]:
        """The common fields, in their order, of the event that becomes `version` of a stream."""
        return stream_id, version, self.at, self.actor, self.key


class OutOfOrder(Refused):
    """A command's time lies before the latest event of a stream that it adds to."""

    def __init__(self, at: datetime, latest: datetime) -> None:
        super().__init__(
            "time_out_of_bounds",
            f"at {at.isoformat()} lies before the stream's latest event, {latest.isoformat()}",
            field="at",
        )
        self.latest = latest


def check_order(at: datetime, *, latest: datetime) -> None:
    """Refuses a time that lies before the latest event of a stream."""
    if at < latest:
        raise OutOfOrder(at, latest)
