"""The OpenAPI document: paths, bodies, answers, errors with their codes, and units."""

from typing import Any, get_args

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

from infrastructure.api.examples import example_of
from infrastructure.api.feed import SOURCE_HEADER
from infrastructure.api.problems import MEDIA_TYPE, STATUS
from infrastructure.api.shapes import ANSWERS, FIELDS, Schema, reference, schemas
from infrastructure.api.writes import WRITES, Write
from infrastructure.commands.contract import COMMANDS, ID_PATTERN, Command
from infrastructure.commands.handlers import HANDLERS

FINAL = frozenset({"show_round", "show_balance", "show_day"})
"""Questions whose answer may be final, and has an ETag then."""
OF_A_SOURCE = frozenset({"follow_events", "list_events"})
"""Questions that are asked again from a position on, and say whose position that is."""

_ABOUT = """\
The commands and questions of a casino baccarat ledger.

- Money is in whole **minor units** of its currency (cents, satang, yen): fields that end in
  `_minor`. Times are ISO 8601 with an offset, cards are rank and suit (`AS`, `TD`, `9H`).
- Every write is a command and carries an `Idempotency-Key`. The same key with the same content
  gets the first answer again, with `replayed: true`, for ever; with other content it is refused.
- Errors are `application/problem+json` with a stable `code`. `store_unavailable` is the one
  that is worth retrying, with the same key.
- Lists go on by `after`, which takes the `next_after` of the page before.
"""
_PARAMETERS = {
    "table": "Only of this table.",
    "shoe": "Only of this shoe.",
    "account": "Only of this account.",
    "round": "Only of this round.",
    "type": "Only events of these types; may be repeated.",
    "after": "A position: what follows it.",
    "limit": "How many at most.",
    "at": "What was true at this time, as known today.",
    "position": "What the ledger knew at this position.",
    "from": "At or after this time.",
    "to": "Before this time.",
    "to_version": "Stop after this version of the round.",
    "day": "A gaming day, as in 2026-01-31.",
    "by": "What is added up by.",
    "source": "The Puntobanco-Source that was read so far: it is refused by another ledger.",
}
_ASKED = ("invalid_question", "unauthenticated", "not_permitted", "host_not_allowed")
_NOT_OF_WRITES = frozenset({"invalid_question", "not_found", "method_not_allowed"}) | {
    "internal_error",
    "too_many_streams",
}
_MODELS = {
    get_args(model.model_fields["command"].annotation)[0]: model
    for model in HANDLERS
    if get_args(model.model_fields["command"].annotation)[0] in COMMANDS
}


def describe(application: FastAPI) -> dict[str, Any]:
    """The document of an application, made once."""
    if application.openapi_schema is None:
        document = get_openapi(
            title=application.title,
            version=application.version,
            openapi_version="3.1.0",
            description=_ABOUT,
            routes=application.routes,
        )
        document["paths"] = {
            path: operations
            for path, operations in document["paths"].items()
            if path.startswith("/v1/")
        }
        shapes = schemas()
        for write in WRITES:
            operation = _describe_write(write, shapes)
            document["paths"].setdefault(write.path, {})["post"] = operation
        for operations in document["paths"].values():
            for operation in operations.values():
                if operation["operationId"] not in COMMANDS:
                    _describe_question(operation)
        own = document.get("components", {}).get("schemas", {})
        for name in ("HTTPValidationError", "ValidationError"):
            own.pop(name, None)
        document["components"] = {
            "schemas": {**own, **shapes},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        }
        document["security"] = [{"key": []}, {}]
        _say_units(document)
        application.openapi_schema = document
    return application.openapi_schema


def _describe_write(write: Write, shapes: dict[str, Schema]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": write.command,
        "summary": write.command.replace("_", " ").capitalize(),
    }
    in_path, example = example_of(write.command)
    operation["parameters"] = [
        {
            "name": "Idempotency-Key",
            "in": "header",
            "required": True,
            "description": "A name of your own for this request, the same when it is repeated.",
            "schema": {"type": "string", "pattern": ID_PATTERN},
        },
        *({**_in_path(name), "example": in_path[name]} for name in write.in_path),
    ]
    body = _body(_MODELS[write.command], write, shapes)
    content = {"schema": body, "example": example}
    operation["requestBody"] = {"required": True, "content": {"application/json": content}}
    operation["responses"] = {
        "200": {
            "description": "It was done, or had been; the answer to the command.",
            "content": {"application/json": {"schema": reference(f"{write.command}_answer")}},
        },
        **_problems([code for code in STATUS if code not in _NOT_OF_WRITES]),
    }
    return operation


def _in_path(name: str) -> dict[str, Any]:
    schema: Schema = (
        {"type": "string", "format": "date"}
        if name == "day"
        else {"type": "string", "pattern": ID_PATTERN}
    )
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": FIELDS[name][1],
        "schema": schema,
    }


def _body(model: type[Command], write: Write, shapes: dict[str, Schema]) -> Schema:
    schema = TypeAdapter(model).json_schema(ref_template="#/components/schemas/{model}")
    for name, definition in schema.pop("$defs", {}).items():
        shapes["PlacedBet" if name == "Bet" else name] = definition
    elsewhere = {"command", "key", *write.in_path}
    return {
        "type": "object",
        "description": schema.get("description", ""),
        "properties": {
            name: _renamed(each)
            for name, each in schema["properties"].items()
            if name not in elsewhere
        },
        # The owner of the key is filled in as the actor.
        "required": [name for name in schema["required"] if name not in {*elsewhere, "actor"}],
        "additionalProperties": False,
    }


def _renamed(schema: Any) -> Any:
    """The schema, with the bet of a command told from the bet of an answer."""
    if isinstance(schema, dict):
        return {
            name: "#/components/schemas/PlacedBet"
            if (name, each) == ("$ref", "#/components/schemas/Bet")
            else _renamed(each)
            for name, each in schema.items()
        }
    return [_renamed(each) for each in schema] if isinstance(schema, list) else schema


def _describe_question(operation: dict[str, Any]) -> None:
    name = operation["operationId"]
    for parameter in operation.get("parameters", ()):
        parameter["description"] = (
            _PARAMETERS.get(parameter["name"]) or FIELDS[parameter["name"]][1]
        )
        parameter["schema"] = _without_null(parameter["schema"])
    codes = [code for code in STATUS if code in _ASKED or code == "store_unavailable"]
    codes += [code for code in STATUS if code.startswith("unknown_")]
    operation["responses"] = {"200": _answer_of(name), **_problems(codes)}
    if name in OF_A_SOURCE:
        about = "The store that the positions are of, a URN."
        operation["responses"]["200"]["headers"] = _header(SOURCE_HEADER, about)
    if name in FINAL:
        operation["responses"]["200"]["headers"] = _header("ETag", "Of what is final.")
        operation["responses"]["304"] = {"description": "It is as it was."}
    if name == "give_commands":
        operation["requestBody"] = {
            "required": True,
            "content": {"application/x-ndjson": {"schema": {"type": "string"}}},
        }
        operation["responses"] |= _problems(["unsupported_media_type"])


def _header(name: str, description: str) -> dict[str, Any]:
    return {name: {"schema": {"type": "string"}, "description": description}}


def _answer_of(name: str) -> dict[str, Any]:
    if name == "follow_events":
        content: dict[str, Any] = {"text/event-stream": {"schema": {"type": "string"}}}
    elif name == "give_commands":
        content = {"application/x-ndjson": {"schema": {"type": "string"}}}
    else:
        content = {"application/json": {"schema": reference(ANSWERS[name])}}
    return {"description": "The answer.", "content": content}


def _problems(codes: list[str]) -> dict[str, Any]:
    by_status: dict[int, list[str]] = {}
    for code in codes:
        by_status.setdefault(STATUS[code], []).append(code)
    return {
        str(status): {
            "description": ", ".join(f"`{code}`" for code in own),
            "content": {
                MEDIA_TYPE: {
                    "schema": {
                        "allOf": [reference("Problem")],
                        "properties": {
                            "code": {"enum": own, "description": FIELDS["code"][1]},
                            "status": {"const": status, "description": FIELDS["status"][1]},
                        },
                    }
                }
            },
        }
        for status, own in sorted(by_status.items())
    }


def _without_null(schema: Schema) -> Schema:
    """A parameter that is left out is not there; null is a text like any other in a query."""
    given = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    return given[0] if len(given) == 1 else schema


def _say_units(part: Any) -> None:
    """Describes every field that is not described yet, by its name."""
    if isinstance(part, list):
        for each in part:
            _say_units(each)
    if not isinstance(part, dict):
        return
    properties = part.get("properties")
    if isinstance(properties, dict):
        for name, schema in properties.items():
            schema.pop("title", None)
            if isinstance(schema, dict) and "description" not in schema and name in FIELDS:
                schema["description"] = FIELDS[name][1]
    for each in part.values():
        _say_units(each)
