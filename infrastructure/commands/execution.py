"""Runs commands: each is answered once, for ever, whatever happens in between.

A key belongs to its client. A command whose key was seen with the same content
gets its first answer again; one with other content is refused by name of the
field that differs. Answers stand in the same transaction as the events.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from eventsourcing.persistence import (
    IntegrityError,
    InterfaceError,
    InternalError,
    OperationalError,
)

from domain.errors import Refused
from domain.event import OutOfOrder, Stamp
from domain.site import check_clock
from infrastructure.casino import Book, Casino
from infrastructure.commands.contract import Command
from infrastructure.commands.handlers import HANDLERS
from infrastructure.store.errors import first_line
from infrastructure.store.session import ClientKey, NotUpToDate, Remembered
from infrastructure.store.traces import Trace

Answer = dict[str, Any]

COMMANDS_ATTEMPTED_MAX = 3
"""So few commands are decided without a lock at first. With more of them it pays to
send the first on their way while the rest are decided, which a turn does."""

COMMANDS_OF_A_GROUP_ATTEMPTED_MAX = 50
"""The same, where the next commands are decided while these are on their way."""

_NOT_REMEMBERED = {"invalid_command", "store_unavailable", "key_reused", "not_permitted"}
_PATIENCE_SECONDS = (0, 0.1, 0, 0.3, 0, 1.0, 0, 2.0, 0, 4.0, 0)
"""How long to wait before each new try: each wait and then, as the connection
may have been lost meanwhile, a second try at once."""

_PATIENCE_WHILE_AWAY_SECONDS = (0,)
"""The same, where the store was away for the last command already."""

_AWAY = (InterfaceError, OperationalError, InternalError, IntegrityError)
"""What a store raises that goes away, is read-only for now, or was written to by another way."""


def system_clock() -> datetime:
    """The time now, in UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Client:
    """Who gives the commands. Keys are its own, and it is the actor where none is named.

    `is_bound_to_clock` is False for imports and simulations, which record other times.
    `traceparent` is the W3C trace that they belong to, and is kept with their events.
    `permits` refuses a command that is none of the client's business, by the
    ledger as it stands when the command is decided.
    """

    name: str
    is_bound_to_clock: bool = True
    clock: Callable[[], datetime] = field(default=system_clock)
    permits: Callable[[Book, Command], None] | None = None
    traceparent: str | None = None


class Request:
    """A command, and who gives it. The clock is asked once, however often it is decided."""

    def __init__(self, client: Client, command: Command) -> None:
        self.client = client
        self.command = command

    @cached_property
    def now(self) -> datetime:
        return self.client.clock()

    @property
    def client_key(self) -> ClientKey:
        return self.client.name, self.command.key


def execute(
    casino: Casino, commands: Sequence[Command], *, client: Client, is_whole: bool = False
) -> list[Answer]:
    """Runs a client's commands in one transaction and answers each, in order.

    A refused command stores nothing but its refusal, and the others go on. A
    store that is away is tried again for some seconds; then every command is
    refused as `store_unavailable`, and the same commands may be sent again.

    With `is_whole` the commands stand or fall together: the first refusal is
    raised, and nothing is stored or remembered.
    """
    requests = [Request(client, command) for command in commands]
    return execute_requests(casino, requests, is_whole=is_whole)


def execute_requests(
    casino: Casino,
    requests: Sequence[Request],
    *,
    is_whole: bool = False,
    when_decided: Callable[[], None] | None = None,
) -> list[Answer]:
    """As `execute`, for commands of several clients.

    `when_decided` is called once others may have theirs decided, while these
    are being stored.
    """
    waits = iter(_PATIENCE_SECONDS if casino.store_answered else _PATIENCE_WHILE_AWAY_SECONDS)
    while True:
        try:
            answers = _execute_once(casino, requests, is_whole=is_whole, when_decided=when_decided)
        except _AWAY as error:
            # A lost reply to the commit looks like a failure too. The next try
            # tells, by the keys, whether the commands were stored.
            wait = next(waits, None)
            if wait is not None:
                time.sleep(wait)
                continue
            casino.store_answered = False
            answers = [_unavailable(request.command, error) for request in requests]
            if is_whole:
                _raise_refusal(answers)
            return answers
        casino.store_answered = True
        return answers


def _execute_once(
    casino: Casino,
    requests: Sequence[Request],
    *,
    is_whole: bool,
    when_decided: Callable[[], None] | None,
) -> list[Answer]:
    attempted_max = COMMANDS_ATTEMPTED_MAX
    if when_decided is not None:
        attempted_max = COMMANDS_OF_A_GROUP_ATTEMPTED_MAX
    if len(requests) <= attempted_max and not is_whole:
        try:
            new_streams = {
                stream_id for request in requests for stream_id in request.command.new_stream_ids()
            }
            with casino.attempt(new_streams=new_streams, when_decided=when_decided) as book:
                answers = _answer_all(book, requests)
                if not all(answer["ok"] for answer in answers):
                    # Only a turn knows whether the key was answered before.
                    raise NotUpToDate
                return answers
        except NotUpToDate:
            pass
    with casino.turn() as book:
        answers = _answer_all(book, requests)
        if is_whole:
            # Raised within the turn, which is thereby given up.
            _raise_refusal(answers)
        return answers


def _answer_all(book: Book, requests: Sequence[Request]) -> list[Answer]:
    remembered = book.recall(
        [request.client_key for request in requests],
        {stream for request in requests for stream in request.command.stream_ids()},
    )
    answers = []
    for request in requests:
        answers.append(_answer(book, request, remembered))
        book.send()
    return answers


def _raise_refusal(answers: Sequence[Answer]) -> None:
    for answer in answers:
        if not answer["ok"]:
            error = answer["error"]
            raise Refused(error["code"], error["message"], field=error.get("field"))


def _answer(book: Book, request: Request, remembered: dict[ClientKey, Remembered]) -> Answer:
    command = request.command
    fields = command.field_hashes()
    earlier = remembered.get(request.client_key)
    if earlier is not None:
        return _again(command, fields, earlier)
    book.begin()
    before = book.position
    try:
        result = _decide(book, request)
    except Refused as refusal:
        book.undo()
        error = error_of(refusal)
        answer = {"key": command.key, "ok": False, "replayed": False, "error": error}
        if refusal.code in _NOT_REMEMBERED:
            return answer
        entry = Remembered(*request.client_key, fields, error, None)
    else:
        position = book.position
        answer = {
            "key": command.key,
            "ok": True,
            "replayed": False,
            "position": position,
            "result": result,
        }
        trace = _trace(request.client, before, position)
        entry = Remembered(*request.client_key, fields, result, position, trace)
    remembered[request.client_key] = entry
    book.remembered.append(entry)
    return answer


def _decide(book: Book, request: Request) -> dict[str, Any]:
    client, command, now = request.client, request.command, request.now
    if command.at is not None and client.is_bound_to_clock:
        check_clock(command.at, now=now)
    if client.permits is not None:
        client.permits(book, command)
    at = command.at or now
    handler = HANDLERS[type(command)]
    while True:
        stamp = Stamp(at, command.actor or client.name, command.key)
        try:
            return handler(book, command, stamp)
        except OutOfOrder as late:
            # A time that was filled in gives way to what others have recorded.
            if command.at is not None:
                raise
            book.undo()
            at = late.latest


def _trace(client: Client, before: int, position: int) -> Trace | None:
    if client.traceparent is None or position == before:
        return None
    return Trace(before + 1, position, client.traceparent)


def _again(command: Command, fields: dict[str, str], earlier: Remembered) -> Answer:
    differing = sorted(
        name
        for name in fields.keys() | earlier.fields.keys()
        if fields.get(name) != earlier.fields.get(name)
    )
    if differing:
        reused = Refused(
            "key_reused",
            f"key {command.key} was used for a command with another {differing[0]}",
            field=differing[0],
        )
        return {"key": command.key, "ok": False, "replayed": False, "error": error_of(reused)}
    if earlier.position is None:
        return {"key": command.key, "ok": False, "replayed": True, "error": dict(earlier.answer)}
    return {
        "key": command.key,
        "ok": True,
        "replayed": True,
        "position": earlier.position,
        "result": dict(earlier.answer),
    }


def error_of(refusal: Refused) -> dict[str, Any]:
    """The refusal as an answer's `error`."""
    error = {"code": refusal.code, "message": refusal.message}
    return error if refusal.field is None else {**error, "field": refusal.field}


def _unavailable(command: Command, error: Exception) -> Answer:
    refusal = Refused("store_unavailable", f"the store is away, try again: {first_line(error)}")
    return {"key": command.key, "ok": False, "replayed": False, "error": error_of(refusal)}
