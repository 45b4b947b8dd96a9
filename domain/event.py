"""What every event has in common, and the register of their topics."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints

from domain.errors import Refused

ID_PATTERN = r"^[A-Za-z0-9._:-]{1,64}$"
"""Ids are chosen by the client."""

TEXT_PATTERN = r"^[^\x00-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]{1,500}$"
"""Reasons are written for people; nothing in them moves a cursor or turns the text around."""

MAXIMUM_MINOR = 10**15
"""The largest single amount, in minor units."""

MAXIMUM_WIN_MINOR = 10**16
"""No bet may win more than this, in minor units."""

Id = Annotated[str, StringConstraints(pattern=ID_PATTERN)]
Text = Annotated[str, StringConstraints(pattern=TEXT_PATTERN)]
Amount = Annotated[int, Field(ge=0)]
PositiveAmount = Annotated[int, Field(gt=0)]


def _in_utc(at: datetime) -> datetime:
    try:
        return at.astimezone(UTC)
    except OverflowError:
        raise ValueError("lies outside the calendar in UTC") from None


UtcTime = Annotated[AwareDatetime, AfterValidator(_in_utc)]


class DomainEvent(BaseModel):
    """An immutable fact in the past tense.

    `at` is when it happened, by the caller's clock; `actor` who did it; `key`
    the idempotency key of the command behind it. A subclass names the `TOPIC`
    that it is stored under, which no rename of the class changes. When the
    shape of a released event changes, `class_version` goes up and a static
    method `upcast_vN_vM(state)` brings an older state to the newer shape.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    TOPIC: ClassVar[str]
    class_version: ClassVar[int] = 1

    originator_id: str
    originator_version: int
    at: UtcTime
    actor: str
    key: str

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        topic = cls.__dict__.get("TOPIC")
        if topic is not None:
            assert topic not in EVENT_TYPES, f"two events share the topic {topic}"
            EVENT_TYPES[topic] = cls


if TYPE_CHECKING:
    from dataclasses import replace as replace
else:

    def replace(state, /, **changes):
        """As `dataclasses.replace`, for a state with plain fields and no slots.

        Several times as fast, which counts where every event makes a new state.
        """
        fresh = object.__new__(type(state))
        fresh.__dict__.update(state.__dict__, **changes)
        return fresh


NEVER = datetime.min.replace(tzinfo=UTC)
"""When nothing has happened yet."""

EVENT_TYPES: dict[str, type[DomainEvent]] = {}
"""Every event type by its topic."""


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


@dataclass(frozen=True, slots=True)
class Stamp:
    """Who does a command, when, and under which idempotency key."""

    at: datetime
    actor: str
    key: str

    def on(self, stream_id: str, version: int) -> dict[str, Any]:
        """The common fields of the event that becomes `version` of a stream."""
        return {
            "originator_id": stream_id,
            "originator_version": version,
            "at": self.at,
            "actor": self.actor,
            "key": self.key,
        }


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
