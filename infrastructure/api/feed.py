"""The events over HTTP: as a stream that goes on, and by the page."""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Query, Request
from psycopg import Connection
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from domain.event import EVENT_TYPES
from infrastructure.api.asking import (
    LIST_DEFAULT,
    POSITION_MAX,
    After,
    IdAsked,
    Limit,
    answer,
    service_of,
)
from infrastructure.api.callers import Caller, Permission, is_still_calling
from infrastructure.api.live import Live, Places, Wanted, page_of
from infrastructure.api.problems import Problem
from infrastructure.api.service import Service
from infrastructure.feed.source import source
from infrastructure.store.reader import LogReader

EVENT_STREAM = "text/event-stream"
SCANNED_MAX = 5_000
"""A page of the feed looks at so many events at most, whatever its filters leave of them."""
SOURCE_HEADER = "Puntobanco-Source"
"""The store that the positions are of: a ledger that was restored gives them out again."""

_Events = Annotated[Caller, Depends(Permission("events"))]
_Types = Annotated[list[str] | None, Query(alias="type", max_length=100)]
_Source = Annotated[str | None, Query(alias="source", max_length=200)]


def feed_router() -> APIRouter:
    """The routes of the events."""
    router = APIRouter()
    for path, endpoint in (("/v1/events", follow_events), ("/v1/feed", list_events)):
        router.add_api_route(path, endpoint, methods=["GET"], operation_id=endpoint.__name__)
    return router


async def follow_events(
    request: Request,
    caller: _Events,
    table: IdAsked = None,
    shoe: IdAsked = None,
    account: IdAsked = None,
    types: _Types = None,
    after: Annotated[int | None, Query(ge=0, le=POSITION_MAX)] = None,
    read_from: _Source = None,
) -> Response:
    """The events as they are stored, as server-sent events; `id` is the position.

    It goes on after `Last-Event-ID`, else after `after`, else with what comes
    from now on. `table` takes the events of the table, its shoes, its rounds and
    their corrections; `account` those of the account. `source` is the
    `Puntobanco-Source` of the answer that the position is from: it is refused
    where the ledger is another one by now, or was restored.
    """
    live: Live = request.app.state.live
    wanted = _wanted(caller, table, shoe, account, types)
    seen = _last_event_id(request, after)
    here = await run_in_threadpool(_checked_source, service_of(request), read_from, seen)
    stream = await live.follow(
        seen,
        wanted,
        may_go_on=lambda: is_still_calling(request, caller),
    )
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", SOURCE_HEADER: here}
    return StreamingResponse(stream, media_type=EVENT_STREAM, headers=headers)


def list_events(
    request: Request,
    caller: _Events,
    table: IdAsked = None,
    shoe: IdAsked = None,
    account: IdAsked = None,
    types: _Types = None,
    after: After = 0,
    limit: Limit = LIST_DEFAULT,
    read_from: _Source = None,
) -> Response:
    """The same events by the page, oldest first.

    A page may be empty where its filters leave nothing of the many events
    looked at: `next_after` leads on, and is null at the head. `source` is the
    `Puntobanco-Source` of the page before, as for the stream.
    """
    wanted = _wanted(caller, table, shoe, account, types)
    found: list[bytes] = []
    seen = after
    with service_of(request).reading() as connection:
        here = _check_source(connection, read_from)
        head = LogReader(connection).head()
        _check_position(seen, head=head)
        places = Places()
        while len(found) < limit and seen < head and seen - after < SCANNED_MAX:
            for said in page_of(connection, places, seen, limit):
                seen = said.position
                if wanted.takes(said):
                    found.append(said.data)
                if len(found) == limit:
                    break
    document = {
        "events": [msgspec.Raw(data) for data in found],
        "next_after": seen if seen < head else None,
        "head": head,
    }
    return answer(document, **{SOURCE_HEADER: here})


def _checked_source(service: Service, read_from: str | None, seen: int | None) -> str:
    with service.reading() as connection:
        here = _check_source(connection, read_from)
        if seen is not None:
            _check_position(seen, head=LogReader(connection).head())
        return here


def _check_source(connection: Connection[Any], read_from: str | None) -> str:
    here = source(connection)
    if read_from not in (None, here):
        raise Problem(
            "invalid_question",
            f"the ledger is {here} now: it is another one, or one that was restored",
            field="source",
        )
    return here


def _check_position(position: int, *, head: int) -> None:
    if position > head:
        raise Problem(
            "invalid_question",
            f"the ledger ends at position {head}, before {position}:"
            " it is another one, or one that was restored",
            field="after",
        )


def _wanted(
    caller: Caller,
    table: str | None,
    shoe: str | None,
    account: str | None,
    types: list[str] | None,
) -> Wanted:
    if table is not None:
        caller.must_see_table(table)
    if account is not None:
        caller.must_see_account(account)
    for name in types or ():
        if name not in EVENT_TYPES:
            raise Problem("invalid_question", f"type: there is no event {name[:64]}", field="type")
    return Wanted(
        tables=frozenset({table}) if table is not None else caller.tables or None,
        shoe=shoe,
        account=account or caller.account_id,
        types=frozenset(types) if types else None,
    )


def _last_event_id(request: Request, after: int | None) -> int | None:
    given = request.headers.get("last-event-id")
    if given is None:
        return after
    if not given.isascii() or not given.isdigit() or int(given[:20]) > POSITION_MAX:
        raise Problem("invalid_question", "Last-Event-ID is a position", field="Last-Event-ID")
    return int(given)
