"""`POST /v1/commands`: commands a line each, answered a line each while they come."""

from collections.abc import AsyncIterator, Sequence
from typing import Annotated

import msgspec
from anyio.to_thread import run_sync
from fastapi import APIRouter, Depends, Request
from starlette.requests import ClientDisconnect
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from domain.errors import Refused
from infrastructure.api.callers import Caller, Permission, is_still_calling
from infrastructure.api.doors import COMMANDS_PATH, must_be
from infrastructure.api.observing import observed
from infrastructure.api.service import Service
from infrastructure.api.writes import client_of, command_for
from infrastructure.commands.answers import Answer
from infrastructure.commands.contract import LINE_BYTES_MAX, Command, read_fields
from infrastructure.commands.execution import Client, error_of
from infrastructure.commands.group_commit import COMMANDS_A_COMMIT_MAX

MEDIA_TYPES = ("application/x-ndjson", "application/jsonl")
TAKEN_TOGETHER_MAX = COMMANDS_A_COMMIT_MAX // 2
"""So many lines of one request share a commit, which leaves room for those of others."""


def lines_router() -> APIRouter:
    """The route that takes commands by the line."""
    router = APIRouter()
    router.add_api_route(
        COMMANDS_PATH, give_commands, methods=["POST"], operation_id="give_commands"
    )
    return router


async def give_commands(
    request: Request, caller: Annotated[Caller, Depends(Permission("commands"))]
) -> Response:
    """Runs commands, one JSON object a line, and answers one JSON line each, in order.

    Whoever sends many reads the answers meanwhile: what is not read holds up
    what is sent. Where the store is away the answers end; the same lines
    again go on.
    """
    must_be(request, *MEDIA_TYPES)
    return _Streamed(_answers(request, caller), media_type=MEDIA_TYPES[0])


class _Streamed(StreamingResponse):
    """Sends while the request is still read, which the library takes for watching the client."""

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        await self.stream_response(send)


class Splitter:
    """Splits what comes into lines; of one that is too long it keeps enough to be refused."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that have come to their end."""
        *lines, rest = (self._rest + data).split(b"\n")
        # Of one that is far too long the first bytes say as much as all of them.
        self._rest = rest[: LINE_BYTES_MAX + 2]
        return [line.rstrip(b"\r") for line in lines]

    def end(self) -> list[bytes]:
        """The last line, where nothing ended it."""
        return [self._rest] if self._rest else []


async def _answers(request: Request, caller: Caller) -> AsyncIterator[bytes]:
    service: Service = request.app.state.service
    seen = observed(request)
    client = client_of(caller, traceparent=seen.traceparent)
    splitter = Splitter()
    seen.commands = 0
    try:
        async for data in request.stream():
            lines = splitter.feed(data) if data else splitter.end()
            for start in range(0, len(lines), TAKEN_TOGETHER_MAX):
                if not await is_still_calling(request, caller):
                    return
                some = lines[start : start + TAKEN_TOGETHER_MAX]
                answers = await run_sync(_run, service, caller, client, seen.commands, some)
                seen.commands += len(some)
                seen.position = _last_position(answers) or seen.position
                yield b"".join(msgspec.json.encode(answer) + b"\n" for answer in answers)
                if any(_found_no_store(answer) for answer in answers):
                    return
    except ClientDisconnect:
        return


def _run(
    service: Service, caller: Caller, client: Client, before: int, lines: Sequence[bytes]
) -> list[Answer]:
    """The answers to some lines."""
    answers: list[Answer | None] = []
    commands: list[Command] = []
    for number, line in enumerate(lines, before + 1):
        key = None
        try:
            fields = read_fields(line)
            key = fields.get("key")
            commands.append(command_for(caller, fields))
            answers.append(None)
        except Refused as refusal:
            error = {**error_of(refusal), "line": number}
            key = getattr(refusal, "key", key)
            answers.append({"key": key, "ok": False, "replayed": False, "error": error})
            service.metrics.count_refused(refusal.code)
    executed = iter(service.execute(commands, client=client) if commands else ())
    return [next(executed) if answer is None else answer for answer in answers]


def _last_position(answers: Sequence[Answer]) -> int | None:
    return max((answer["position"] for answer in answers if answer["ok"]), default=None)


def _found_no_store(answer: Answer) -> bool:
    return not answer["ok"] and answer["error"]["code"] == "store_unavailable"
