"""Turns domain events into stored ones and back.

A state is compact UTF-8 JSON. The stream's id and the version stand in columns
of their own and are left out of it, as is every optional part that is not set.
"""

from typing import Any

import orjson
from eventsourcing.persistence import Mapper, MapperDeserialisationError, StoredEvent
from eventsourcing.utils import register_topic
from pydantic import ValidationError

import domain.account
import domain.correction
import domain.round
import domain.shoe
import domain.site
import domain.table  # noqa: F401 - importing the aggregates registers their events
from domain.event import EVENT_TYPES, DomainEvent

for _topic, _event_type in EVENT_TYPES.items():
    register_topic(_topic, _event_type)

_IN_COLUMNS = {"originator_id", "originator_version"}


class PydanticMapper(Mapper[str]):
    """The library's default mapper builds pydantic objects without validating them."""

    def to_stored_event(self, domain_event: Any) -> StoredEvent:
        event_type = type(domain_event)
        state = domain_event.__pydantic_serializer__.to_json(
            domain_event, exclude=_IN_COLUMNS, exclude_none=True
        )
        if event_type.class_version > 1:
            state = state[:-1] + b',"class_version":%d}' % event_type.class_version
        return StoredEvent(
            domain_event.originator_id, domain_event.originator_version, event_type.TOPIC, state
        )

    def to_domain_event(self, stored_event: StoredEvent) -> DomainEvent:
        """The event as it was stored, brought to the newest shape of its type.

        Raises MapperDeserialisationError for a topic or a state that no event has.
        """
        event_type = EVENT_TYPES.get(stored_event.topic)
        if event_type is None:
            raise MapperDeserialisationError(_named(stored_event, "has an unknown topic"))
        state = stored_event.state
        if b'"class_version":' in state or event_type.class_version > 1:
            state = _upcast(stored_event, event_type)
        if not state.startswith(b"{"):
            raise MapperDeserialisationError(_named(stored_event, "is not a JSON object"))
        columns = b'{"originator_id":%b,"originator_version":%d,' % (
            orjson.dumps(stored_event.originator_id),
            stored_event.originator_version,
        )
        try:
            event: DomainEvent = event_type.__pydantic_validator__.validate_json(
                columns + state[1:]
            )
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            reason = f"cannot be read: {place + ': ' if place else ''}{first['msg']}"
            raise MapperDeserialisationError(_named(stored_event, reason)) from None
        if (event.originator_id, event.originator_version) != (
            stored_event.originator_id,
            stored_event.originator_version,
        ):
            raise MapperDeserialisationError(_named(stored_event, "says that it is another one"))
        return event


def _upcast(stored_event: StoredEvent, event_type: type[DomainEvent]) -> bytes:
    try:
        state = orjson.loads(stored_event.state)
        version = state.pop("class_version", 1)
        if version > event_type.class_version:
            raise TypeError(f"version {version} of it is newer than this program")
        while version < event_type.class_version:
            getattr(event_type, f"upcast_v{version}_v{version + 1}")(state)
            version += 1
    except (orjson.JSONDecodeError, AttributeError, TypeError) as error:
        reason = f"cannot be read: {error}"
        raise MapperDeserialisationError(_named(stored_event, reason)) from None
    return orjson.dumps(state)


def _named(stored_event: StoredEvent, reason: str) -> str:
    return (
        f"event {stored_event.originator_version} of {stored_event.originator_id} "
        f"({stored_event.topic}) {reason}"
    )
