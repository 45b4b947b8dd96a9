"""Runs commands: each is answered once, for ever, whatever happens in between.

A key belongs to its client. A command whose key was seen with the same content
gets its first answer again; one with other content is refused by name of the
field that differs. Answers stand in the same transaction as the events.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, TypeVar

from eventsourcing.persistence import (
    IntegrityError,
    InterfaceError,
    InternalError,
    OperationalError,
)

from domain.errors import Refused
from domain.event import OutOfOrder, Stamp
from domain.site import check_clock
from infrastructure.casino import Attempt, Book, Casino
from infrastructure.commands.contract import Command
from infrastructure.commands.handlers import HANDLERS
from infrastructure.store.errors import first_line
from infrastructure.store.session import ClientKey, NotUpToDate, Remembered
from infrastructure.store.traces import Trace

Answer = dict[str, Any]
Commands = TypeVar("Commands", bound=Sequence[Command])

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


class Batch:
    """Commands that share a transaction, in the steps from a decision to the answers.

    `decide` and `send_off` may be left out. Where the next batch is decided
    between the two of this one and `answers`, it is so while this one is being
    stored. With `is_whole` the commands stand or fall together: the first refusal
    is raised, and nothing is stored or remembered.
    """

    def __init__(
        self, casino: Casino, requests: Sequence[Request], *, is_whole: bool = False
    ) -> None:
        self._casino = casino
        self._requests = requests
        self._is_whole = is_whole
        self._attempt: Attempt | None = None
        self._after: Batch | None = None
        self._decided: list[Answer] = []
        self._is_stored_as_decided = False

    def decide(self, *, after: "Batch | None" = None) -> None:
        """Decides the commands, on what a batch that was sent off is to come to.

        What cannot be decided ahead, and whatever is refused, is left to `answers`,
        which also meets again, and tells, whatever breaks here or in `send_off`.
        """
        before = None if after is None else after._attempt
        if not self._requests or (after is not None and before is None):
            return
        new_streams = {
            stream_id
            for request in self._requests
            for stream_id in request.command.new_stream_ids()
        }
        try:
            with self._casino.attempt(new_streams=new_streams, after=before) as attempt:
                self._decided = _answer_all(attempt.book, self._requests)
                # Only a turn knows whether a key that is refused was answered before.
                if not all(answer["ok"] for answer in self._decided):
                    return
                # Made ready here, while the server is still busy with the batch before.
                attempt.bring()
        except Exception:
            return
        self._attempt, self._after = attempt, after

    def send_off(self) -> None:
        """Sends off what was decided, if anything was, without waiting until it is stored.

        It holds only where the batch that it was decided after has been stored
        as it was decided; that one is to have its answers.
        """
        after, self._after = self._after, None
        if after is not None and not after._is_stored_as_decided:
            self._attempt = None
        if self._attempt is not None:
            try:
                self._casino.send_off(self._attempt)
            except Exception:
                self._attempt = None

    def answers(self) -> list[Answer]:
        """Answers each command, in order, once all are stored.

        A refused command stores nothing but its refusal, and the others go on.
        A store that is away is tried again for some seconds; then every command
        is refused as `store_unavailable`, and the same commands may be sent again.
        """
        if not self._requests:
            return []
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            try:
                self._casino.confirm(attempt)
            except (NotUpToDate, *_AWAY):
                pass
            else:
                self._casino.store_answered = True
                self._is_stored_as_decided = True
                return self._decided
        waits = iter(
            _PATIENCE_SECONDS if self._casino.store_answered else _PATIENCE_WHILE_AWAY_SECONDS
        )
        while True:
            try:
                answers = self._in_a_turn()
            except _AWAY as error:
                # A lost reply to the commit looks like a failure too. The next try
                # tells, by the keys, whether the commands were stored.
                wait = next(waits, None)
                if wait is not None:
                    time.sleep(wait)
                    continue
                self._casino.store_answered = False
                answers = [_unavailable(request.command, error) for request in self._requests]
                if self._is_whole:
                    _raise_refusal(answers)
                return answers
            self._casino.store_answered = True
            return answers

    def _in_a_turn(self) -> list[Answer]:
        with self._casino.turn() as book:
            answers = _answer_all(book, self._requests)
            if self._is_whole:
                # Raised within the turn, which is thereby given up.
                _raise_refusal(answers)
            return answers


def execute(
    casino: Casino, commands: Sequence[Command], *, client: Client, is_whole: bool = False
) -> list[Answer]:
    """Runs a client's commands in one transaction and answers each, in order."""
    batch = Batch(casino, [Request(client, command) for command in commands], is_whole=is_whole)
    batch.decide()
    batch.send_off()
    return batch.answers()


def execute_in_batches(
    casino: Casino,
    batches: Iterable[Commands],
    *,
    client: Client,
    is_whole: bool = False,
) -> Iterator[tuple[Commands, list[Answer]]]:
    """Runs a client's commands a transaction at a time: the next is decided while one is stored.

    Each is given back with its answers. The next is sent off when the caller comes
    back for it: whoever minds an answer stops there.
    """
    being_stored: tuple[Commands, Batch] | None = None
    try:
        for commands in batches:
            requests = [Request(client, command) for command in commands]
            batch = Batch(casino, requests, is_whole=is_whole)
            batch.decide(after=None if being_stored is None else being_stored[1])
            if being_stored is not None:
                (stored, before), being_stored = being_stored, None
                yield stored, before.answers()
            batch.send_off()
            being_stored = commands, batch
    except Exception:
        # The next ones could not be had, and this one is stored all the same.
        if being_stored is not None:
            yield being_stored[0], being_stored[1].answers()
        raise
    if being_stored is not None:
        yield being_stored[0], being_stored[1].answers()


def _answer_all(book: Book, requests: Sequence[Request]) -> list[Answer]:
    remembered = book.recall(
        [request.client_key for request in requests],
        {stream for request in requests for stream in request.command.stream_ids()},
    )
    return [_answer(book, request, remembered) for request in requests]


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
