"""Turns domain events into stored ones and back.

A state is compact UTF-8 JSON. The topic, the stream's id and the version stand
in columns of their own and are left out of it, as is every optional part that
is not set.
"""

import re
from collections.abc import Sequence
from datetime import UTC
from functools import cache
from typing import Any, Union, cast

import msgspec
from eventsourcing.persistence import Mapper, MapperDeserialisationError, StoredEvent
from eventsourcing.utils import register_topic
from pydantic import ValidationError

import domain.account
import domain.correction
import domain.round
import domain.shoe
import domain.site
import domain.table  # noqa: F401 - importing the aggregates registers their events
from domain.cards import Card, parse_burned_card
from domain.event import EVENT_TYPES, DomainEvent
from domain.rules import Rules
from infrastructure.store.session import Columns

for _topic, _event_type in EVENT_TYPES.items():
    register_topic(_topic, _event_type)

_IN_COLUMNS = ("topic", "originator_id", "originator_version")
_FROM_AT_ON = re.compile(rb'"at":.*').findall
_MALFORMED = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
RULES_IN_MEMORY = 1_000


def facts(event: DomainEvent) -> dict[str, Any]:
    """What an event says, as it stands in its state: plain values that JSON has."""
    plain = cast(dict[str, Any], msgspec.json.decode(_ENCODER.encode(event)))
    for name in _IN_COLUMNS:
        del plain[name]
    return plain


def line_of(row: tuple[int, str, int, str, bytes]) -> bytes:
    """The line that `read_lines` reads, from a position and the columns that go with it."""
    _, stream_id, version, topic, state = row
    if not state.startswith(b"{"):
        return b"broken"
    return b'{"topic":%b,"originator_id":%b,"originator_version":%d,%b' % (
        msgspec.json.encode(topic),
        msgspec.json.encode(stream_id),
        version,
        state[1:],
    )


def read_lines(lines: bytes, count: int) -> list[DomainEvent] | None:
    """Reads events in bulk, each a line that begins an object with what stands in columns.

    None where one of them is not just as this version of the program writes
    it: the mapper, one event at a time, says which, and why, or upcasts it.
    """
    # The decoder takes any white space for the end of a line, and the last of two equal names;
    # only a second topic it refuses unless it is the same. Every line begins with the columns'
    # names, and no event can do without one of them. Where there are no more of them than that,
    # in letters that are not escaped, each line is an event.
    if lines.count(b'"originator_') != 2 * count:
        return None
    if b"\\" in lines and b"\\u" in lines:
        return None
    try:
        events = _DECODER.decode_lines(lines)
    except _MALFORMED:
        return None
    if len(events) != count:
        return None
    if any(event.at.tzinfo is not UTC or event.class_version > 1 for event in events):
        return None
    return events


class EventMapper(Mapper[str]):
    """The library's default mapper knows neither explicit topics nor strict types."""

    def to_columns(self, events: Sequence[DomainEvent]) -> Columns:
        """The columns that events are stored in."""
        # No string has a line's end or a quotation mark in it that is not escaped, so
        # what is found first in each line is the field behind those that columns hold.
        states = [b"{" + rest for rest in _FROM_AT_ON(_ENCODER.encode_lines(events))]
        for place, event in enumerate(events):
            if event.class_version > 1:
                states[place] = states[place][:-1] + b',"class_version":%d}' % event.class_version
        return Columns(
            [event.originator_id for event in events],
            [event.originator_version for event in events],
            [event.TOPIC for event in events],
            states,
        )

    def to_stored_event(self, domain_event: Any) -> StoredEvent:
        columns = self.to_columns([domain_event])
        return StoredEvent(
            columns.streams[0], columns.versions[0], columns.topics[0], columns.states[0]
        )

    def to_domain_event(self, stored_event: StoredEvent) -> DomainEvent:
        """The event as it was stored, brought to the newest shape of its type.

        Raises MapperDeserialisationError for a topic or a state that no event has.
        """
        event_type = EVENT_TYPES.get(stored_event.topic)
        if event_type is None:
            raise MapperDeserialisationError(_named(stored_event, "has an unknown topic"))
        state = stored_event.state
        if b'"class_version"' in state or event_type.class_version > 1:
            state = _upcast(stored_event, event_type)
        if not state.startswith(b"{"):
            raise MapperDeserialisationError(_named(stored_event, "is not a JSON object"))
        columns = b'{"topic":"%b","originator_id":%b,"originator_version":%d,' % (
            stored_event.topic.encode(),
            msgspec.json.encode(stored_event.originator_id),
            stored_event.originator_version,
        )
        try:
            event = _in_utc(_decoder(event_type).decode(columns + state[1:]))
        except _MALFORMED as error:
            raise MapperDeserialisationError(
                _named(stored_event, f"cannot be read: {error}")
            ) from None
        if (event.TOPIC, event.originator_id, event.originator_version) != (
            stored_event.topic,
            stored_event.originator_id,
            stored_event.originator_version,
        ):
            raise MapperDeserialisationError(_named(stored_event, "says that it is another one"))
        return event


def _upcast(stored_event: StoredEvent, event_type: type[DomainEvent]) -> bytes:
    try:
        state = msgspec.json.decode(stored_event.state)
        version = state.pop("class_version", 1)
        if version > event_type.class_version:
            raise TypeError(f"version {version} of it is newer than this program")
        while version < event_type.class_version:
            getattr(event_type, f"upcast_v{version}_v{version + 1}")(state)
            version += 1
    except (*_MALFORMED, AttributeError, LookupError, TypeError, ValueError) as error:
        reason = f"cannot be read: {error}"
        raise MapperDeserialisationError(_named(stored_event, reason)) from None
    return msgspec.json.encode(state)


def _in_utc(event: DomainEvent) -> DomainEvent:
    if event.at.tzinfo is UTC:
        return event
    try:
        return msgspec.structs.replace(event, at=event.at.astimezone(UTC))
    except OverflowError:
        raise msgspec.ValidationError("lies outside the calendar in UTC - at `$.at`") from None


def _named(stored_event: StoredEvent, reason: str) -> str:
    return (
        f"event {stored_event.originator_version} of {stored_event.originator_id} "
        f"({stored_event.topic}) {reason}"
    )


def _to_json(value: object) -> object:
    if isinstance(value, Card):
        return str(value)
    assert isinstance(value, Rules)
    return msgspec.Raw(value.as_json)


def _from_json(wanted: type, value: Any) -> object:
    if wanted is Card:
        return parse_burned_card(value)
    assert wanted is Rules
    text = msgspec.json.encode(value)
    rules = _rules.get(text)
    if rules is None:
        if len(_rules) == RULES_IN_MEMORY:
            _rules.clear()
        rules = _rules[text] = _read_rules(text)
    return rules


def _read_rules(text: bytes) -> Rules:
    try:
        return Rules.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{place + ': ' if place else ''}{first['msg']}") from None


_rules: dict[bytes, Rules] = {}
# Every round carries its rules in full, and few tables differ in them.

_ENCODER = msgspec.json.Encoder(enc_hook=_to_json)
_DECODER: msgspec.json.Decoder[DomainEvent] = msgspec.json.Decoder(
    Union[tuple(EVENT_TYPES.values())],  # noqa: UP007 - made of a tuple
    dec_hook=_from_json,
)


@cache
def _decoder(event_type: type[DomainEvent]) -> msgspec.json.Decoder[DomainEvent]:
    return msgspec.json.Decoder(event_type, dec_hook=_from_json)
