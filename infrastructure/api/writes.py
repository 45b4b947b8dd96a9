"""Every write over HTTP: the fields become a command of the contract, and go its way."""

import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
from fastapi import APIRouter, Request
from starlette.responses import Response

from domain.errors import Refused
from infrastructure.api.callers import Caller, Permission, who_is_calling
from infrastructure.api.doors import must_be
from infrastructure.api.observing import observed
from infrastructure.api.problems import STATUS, Problem
from infrastructure.api.roles import Role, name_of
from infrastructure.api.service import Service
from infrastructure.casino import Book
from infrastructure.commands.answers import Answer
from infrastructure.commands.contract import (
    ID_PATTERN,
    Command,
    NotACommand,
    command_of,
    read_fields,
)
from infrastructure.commands.execution import Client

_ID = re.compile(ID_PATTERN)
_KEY_IN_QUOTES = re.compile(r'^"(.*)"$')


@dataclass(frozen=True, slots=True)
class Write:
    """A path that a command is posted to; what stands in the path is not repeated in the body."""

    path: str
    command: str

    @property
    def in_path(self) -> tuple[str, ...]:
        return tuple(re.findall(r"{(\w+)}", self.path))


WRITES = (
    Write("/v1/site/gaming-day", "set_gaming_day"),
    Write("/v1/days/{day}/close", "close_day"),
    Write("/v1/tables", "open_table"),
    Write("/v1/tables/{table_id}/rules", "change_rules"),
    Write("/v1/accounts", "open_account"),
    Write("/v1/accounts/{account_id}/deposits", "deposit"),
    Write("/v1/accounts/{account_id}/withdrawals", "withdraw"),
    Write("/v1/accounts/{account_id}/freeze", "freeze_account"),
    Write("/v1/accounts/{account_id}/unfreeze", "unfreeze_account"),
    Write("/v1/accounts/{account_id}/close", "close_account"),
    Write("/v1/accounts/{account_id}/collect-due", "collect_due"),
    Write("/v1/shoes", "open_shoe"),
    Write("/v1/shoes/{shoe_id}/burn", "burn_cards"),
    Write("/v1/shoes/{shoe_id}/cut-card", "cut_card"),
    Write("/v1/shoes/{shoe_id}/close", "close_shoe"),
    Write("/v1/rounds", "open_round"),
    Write("/v1/rounds/{round_id}/play", "play_round"),
    Write("/v1/rounds/{round_id}/bets", "place_bet"),
    Write("/v1/rounds/{round_id}/bets/{bet_id}/cancel", "cancel_bet"),
    Write("/v1/rounds/{round_id}/close-betting", "close_betting"),
    Write("/v1/rounds/{round_id}/deal", "deal"),
    Write("/v1/rounds/{round_id}/settle", "settle_round"),
    Write("/v1/rounds/{round_id}/void", "void_round"),
    Write("/v1/rounds/{round_id}/corrections", "propose_correction"),
    Write("/v1/corrections/{correction_id}/approve", "approve_correction"),
    Write("/v1/corrections/{correction_id}/reject", "reject_correction"),
)
"""Where each command of the contract is posted to."""


def client_of(caller: Caller, *, traceparent: str | None) -> Client:
    """The client that a caller's commands belong to; a table's key commands its tables alone."""
    if caller.role is not Role.TABLE:
        return Client(caller.owner, traceparent=traceparent)

    def permits(book: Book, command: Command) -> None:
        for table_id in _tables_of(book, command):
            if table_id not in caller.tables:
                raise Refused("not_permitted", f"this key is not for table {table_id}")

    return Client(caller.owner, permits=permits, traceparent=traceparent)


def _tables_of(book: Book, command: Command) -> Iterator[str]:
    """The tables that a command is about; none of a shoe or a round that is not there."""
    table_id: str | None = getattr(command, "table_id", None)
    if table_id is not None:
        yield table_id
    shoe_id: str | None = getattr(command, "shoe_id", None)
    if shoe_id is not None and book.shoe(shoe_id).table_id:
        yield book.shoe(shoe_id).table_id
    round_id: str | None = getattr(command, "round_id", None)
    if round_id is not None and book.round(round_id).table_id:
        yield book.round(round_id).table_id


def command_for(caller: Caller, fields: dict[str, Any]) -> Command:
    """The command of some fields as its caller may give it; the key's owner is its actor.

    Raises NotACommand, and Refused where it is none of the caller's business.
    """
    has_key = caller.role is not Role.OPERATOR
    if has_key and fields.get("actor") is None:
        fields["actor"] = caller.owner
    command = command_of(fields)
    if has_key and command.actor != caller.owner:
        raise Refused("not_permitted", f"the actor of this key is {caller.owner}", field="actor")
    if not caller.may(name_of(command)):
        raise Refused(
            "not_permitted", f"the role {caller.role} may not {name_of(command)}", field="command"
        )
    return command


def writes_router() -> APIRouter:
    """The routes of all writes."""
    router = APIRouter()
    for write in WRITES:
        # Past FastAPI's dependencies, which take as long as all the rest of a request.
        router.add_route(write.path, _endpoint(write), methods=["POST"])
    return router


def _endpoint(write: Write) -> Callable[[Request], Awaitable[Response]]:
    permission = Permission(write.command)

    async def give(request: Request) -> Response:
        caller = await permission(await who_is_calling(request))
        must_be(request, "application/json")
        seen = observed(request)
        seen.command = write.command
        key = seen.key = _idempotency_key(request)
        fields = read_fields(await request.body() or b"{}", what="body")
        for name in ("command", "key", *write.in_path):
            if name in fields:
                raise NotACommand(f"{name}: is not a field of this body", field=name)
        fields |= {"command": write.command, "key": key, **request.path_params}
        command = command_for(caller, fields)
        service: Service = request.app.state.service
        client = client_of(caller, traceparent=seen.traceparent)
        answer = await service.give(command, client=client)
        seen.position = answer.get("position")
        return _response(answer)

    give.permission = permission  # type: ignore[attr-defined]
    give.path = write.path  # type: ignore[attr-defined]
    return give


def _idempotency_key(request: Request) -> str:
    given = request.headers.getlist("idempotency-key")
    if not given:
        raise Problem("idempotency_key_missing", "a write needs a header Idempotency-Key")
    key = _KEY_IN_QUOTES.sub(r"\1", given[0].strip())
    if len(given) > 1 or not _ID.match(key):
        raise NotACommand(
            "Idempotency-Key: must be 1 to 64 of the characters A-Z a-z 0-9 . _ : -", field="key"
        )
    return key


def _response(answer: Answer) -> Response:
    if answer["ok"]:
        return Response(msgspec.json.encode(answer), media_type="application/json")
    error = answer["error"]
    assert error["code"] in STATUS
    details = {name: error[name] for name in error if name not in ("code", "message")}
    raise Problem(
        error["code"],
        error["message"],
        key=answer["key"],
        replayed=answer["replayed"],
        **details,
    )
