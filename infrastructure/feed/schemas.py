"""The JSON Schemas of what the feed sends, made from the models: the envelope, and each event."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

import infrastructure.store.mapper  # noqa: F401 - registers every event
from domain.cards import Card
from domain.event import EVENT_TYPES, DomainEvent
from domain.rules import Rules
from infrastructure.feed.envelope import PRIVATE, SEQUENCE_DIGITS, schema_id

DIALECT = "https://json-schema.org/draft/2020-12/schema"
ENVELOPE_ID = "urn:puntobanco:schema:envelope:v1"

_IN_ENVELOPE = ("topic", "originator_id", "originator_version")
_CARD = {
    "type": "string",
    "description": "A card: rank and suit as in AS or TD; 0 a ten-valued rank, ? what is unknown.",
    "pattern": r"^([A2-9TJQK0][SHDC?]|\?\?)$",
}

Schema = dict[str, Any]


def schemas() -> Iterator[tuple[str, Schema]]:
    """Every schema with the name of its file."""
    yield "envelope.v1.json", _envelope()
    for topic, event_type in sorted(EVENT_TYPES.items()):
        yield f"{topic}.v{event_type.class_version}.json", event_schema(event_type)


def event_schema(event_type: type[DomainEvent]) -> Schema:
    """The schema of an event's data, as the feed sends it.

    More fields may come within a version, so a reader is to let them pass.
    """
    shared: Schema = {}
    (whole,), parts = msgspec.json.schema_components(
        [event_type], schema_hook=lambda kind: _of_type(kind, shared), ref_template="#/$defs/{name}"
    )
    schema: Schema = parts.pop(whole["$ref"].removeprefix("#/$defs/"))
    hidden = (*_IN_ENVELOPE, *PRIVATE.get(event_type.TOPIC, ()))
    for name in hidden:
        del schema["properties"][name]
    # States of a later version say which; those of the first do not.
    if event_type.class_version > 1:
        schema["properties"]["class_version"] = {"const": event_type.class_version}
    schema["required"] = [name for name in schema["required"] if name not in hidden]
    definitions = {name: _open(part) for name, part in sorted({**parts, **shared}.items())}
    return {
        "$schema": DIALECT,
        "$id": schema_id(event_type.TOPIC, event_type.class_version),
        **_open(schema),
        **({"$defs": definitions} if definitions else {}),
    }


def export(folder: Path) -> int:
    """Writes each schema to a file of its own; says how many."""
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    for name, schema in schemas():
        text = msgspec.json.format(msgspec.json.encode(schema), indent=2)
        (folder / name).write_bytes(text + b"\n")
        count += 1
    return count


def _of_type(kind: type, shared: Schema) -> Schema:
    if kind is Card:
        return _CARD
    assert kind is Rules
    schema = Rules.model_json_schema(ref_template="#/$defs/{model}")
    shared.update(schema.pop("$defs", {}))
    shared["Rules"] = schema
    return {"$ref": "#/$defs/Rules"}


def _open(schema: Any) -> Any:
    """The schema with room for fields that are still to come."""
    if isinstance(schema, list):
        return [_open(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: _open(part)
        for name, part in schema.items()
        if not (name == "additionalProperties" and part is False)
    }


def _envelope() -> Schema:
    text = {"type": "string", "minLength": 1}
    time = {"type": "string", "format": "date-time"}
    properties = {
        "specversion": {"const": "1.0"},
        "id": {"type": "string", "pattern": "^[1-9][0-9]*$", "description": "The position."},
        "source": {**text, "description": "The site and the incarnation of its store, a URN."},
        "type": {**text, "description": "The event's topic."},
        "subject": {**text, "description": "The stream, as in round:R1 or account:P1."},
        "time": {**time, "description": "When it happened."},
        "recordedtime": {**time, "description": "When it was recorded."},
        "sequence": {
            "type": "string",
            "pattern": f"^[0-9]{{{SEQUENCE_DIGITS}}}$",
            "description": "The position, which sorts as text.",
        },
        "partitionkey": {**text, "description": "The shoe or the account."},
        "streamversion": {"type": "integer", "minimum": 1},
        "contenthash": {
            "type": "string",
            "pattern": "^[0-9a-f]{64}$",
            "description": "SHA-256 of the type, the subject and the streamversion, a line each,"
            " and the bytes of the data.",
        },
        "traceparent": {**text, "description": "The W3C trace that it belongs to, where known."},
        "datacontenttype": {"enum": ["application/json", "application/octet-stream"]},
        "dataschema": {**text, "description": "Which schema the data has."},
        "data": {"type": "object"},
        "data_base64": {
            "type": "string",
            "description": "In place of data, a state that was altered so that it is no JSON.",
        },
    }
    optional = {"time", "traceparent", "dataschema", "data", "data_base64"}
    return {
        "$schema": DIALECT,
        "$id": ENVELOPE_ID,
        "title": "CloudEvent of the ledger",
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "oneOf": [
            {"required": ["time", "dataschema", "data"]},
            {"required": ["data_base64"]},
        ],
    }
