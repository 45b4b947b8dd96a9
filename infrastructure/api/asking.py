"""The questions over HTTP, which the command line asks as well, in the same shapes."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Path, Query, Request
from psycopg import Connection
from pydantic import AwareDatetime
from starlette.responses import Response

from infrastructure.api.callers import Caller, Permission
from infrastructure.api.problems import Problem
from infrastructure.api.service import Service
from infrastructure.audit.audit import Scope
from infrastructure.audit.replay import replay
from infrastructure.audit.scoped import audit_scope
from infrastructure.books.statement import statement
from infrastructure.commands.contract import ID_PATTERN
from infrastructure.store.reader import LogReader
from projections import balances, postings, rounds, shoes, tables

LIST_MAX = 1_000
LIST_DEFAULT = 100
POSITION_MAX = 2**63 - 1
FINAL_STATES = frozenset({"settled", "void"})

Id = Annotated[str, Path(pattern=ID_PATTERN)]
IdAsked = Annotated[str | None, Query(pattern=ID_PATTERN)]
After = Annotated[int, Query(ge=0, le=POSITION_MAX)]
Limit = Annotated[int, Query(ge=1, le=LIST_MAX)]
Time = Annotated[AwareDatetime | None, Query()]


def answer(document: Any, **headers: str) -> Response:
    """A document as JSON."""
    return Response(
        msgspec.json.encode(document), media_type="application/json", headers=headers or None
    )


def final_answer(request: Request, document: Any, *, tag: str) -> Response:
    """A document that stays as it is, with its ETag; nothing more of it where that is known."""
    headers = {"ETag": f'"{tag}"', "Cache-Control": "private, no-cache"}
    known = {each.strip() for each in request.headers.get("if-none-match", "").split(",")}
    if known & {headers["ETag"], f"W/{headers['ETag']}", "*"}:
        return Response(status_code=304, headers=headers)
    return answer(document, **headers)


def service_of(request: Request) -> Service:
    """The ledger behind the application."""
    service: Service = request.app.state.service
    return service


def asking_router() -> APIRouter:
    """The routes of tables, shoes, rounds and accounts."""
    router = APIRouter()
    for path, endpoint in (
        ("/v1/tables", list_tables),
        ("/v1/tables/{table_id}", show_table),
        ("/v1/shoes", list_shoes),
        ("/v1/shoes/{shoe_id}", show_shoe),
        ("/v1/rounds", list_rounds),
        ("/v1/rounds/{round_id}", show_round),
        ("/v1/accounts", list_accounts),
        ("/v1/accounts/{account_id}", show_account),
        ("/v1/accounts/{account_id}/balance", show_balance),
        ("/v1/accounts/{account_id}/statement", show_statement),
    ):
        router.add_api_route(path, endpoint, methods=["GET"], operation_id=endpoint.__name__)
    router.add_api_route(
        "/v1/rounds/{round_id}/audit",
        audit_round,
        methods=["GET"],
        operation_id="audit_round",
        dependencies=[Depends(Permission("audit"))],
    )
    return router


_Tables = Annotated[Caller, Depends(Permission("tables"))]
_Shoes = Annotated[Caller, Depends(Permission("shoes"))]
_Rounds = Annotated[Caller, Depends(Permission("rounds"))]
_Accounts = Annotated[Caller, Depends(Permission("accounts"))]


def list_tables(
    request: Request, caller: _Tables, after: After = 0, limit: Limit = LIST_DEFAULT
) -> Response:
    """The tables in the order in which they were opened."""
    with service_of(request).asking() as connection:
        lines = tables.next_tables(connection, after=after, limit=limit, ids=_own(caller))
        return _page(
            connection, "tables", lines, limit, tables.opened_position, lambda line: line.table_id
        )


def show_table(request: Request, caller: _Tables, table_id: Id) -> Response:
    """One table."""
    caller.must_see_table(table_id)
    with service_of(request).asking() as connection:
        return _one(tables.next_tables(connection, limit=1, ids=[table_id]), "table", table_id)


def list_shoes(
    request: Request,
    caller: _Shoes,
    table: IdAsked = None,
    after: After = 0,
    limit: Limit = LIST_DEFAULT,
) -> Response:
    """The shoes, of all tables or of one, in the order in which they were opened."""
    with service_of(request).asking() as connection:
        wanted = _tables(connection, caller, table)
        lines = shoes.next_shoes(connection, after=after, limit=limit, tables=wanted)
        return _page(
            connection, "shoes", lines, limit, shoes.opened_position, lambda line: line.shoe_id
        )


def show_shoe(request: Request, caller: _Shoes, shoe_id: Id) -> Response:
    """One shoe."""
    with service_of(request).asking() as connection:
        found = shoes.next_shoes(connection, limit=1, ids=[shoe_id])
    for line in found:
        caller.must_see_table(line.table_id)
    return _one(found, "shoe", shoe_id)


def list_rounds(
    request: Request,
    caller: _Rounds,
    table: IdAsked = None,
    shoe: IdAsked = None,
    after: After = 0,
    limit: Limit = LIST_DEFAULT,
) -> Response:
    """The rounds, of a table, of a shoe or of all, in the order in which they were opened."""
    with service_of(request).asking() as connection:
        wanted = _tables(connection, caller, table)
        if shoe is not None and shoes.opened_position(connection, shoe) is None:
            raise Problem("unknown_shoe", f"there is no shoe {shoe}", field="shoe")
        lines = rounds.next_rounds(connection, after=after, limit=limit, tables=wanted, shoe=shoe)
        return _page(
            connection, "rounds", lines, limit, rounds.opened_position, lambda line: line.round_id
        )


def show_round(
    request: Request,
    caller: _Rounds,
    round_id: Id,
    to_version: Annotated[int | None, Query(ge=1, le=POSITION_MAX)] = None,
) -> Response:
    """A round from its events alone, step by step, with the rule behind each draw.

    A settled or void round has an ETag, which a correction changes.
    """
    with service_of(request).reading() as connection:
        events = LogReader(connection).round(round_id)
    if to_version is not None and to_version > len(events):
        raise Problem(
            "unknown_round", f"round {round_id} has {len(events)} versions, not {to_version}"
        )
    replayed = replay(events, to_version=to_version)
    if replayed is None:
        raise Problem("unknown_round", f"there is no round {round_id}")
    caller.must_see_table(replayed["table_id"])
    if replayed["state"] not in FINAL_STATES and to_version is None:
        return answer(replayed)
    return final_answer(request, replayed, tag=f"version-{replayed['version']}")


def audit_round(request: Request, round_id: Id) -> Response:
    """What the audit finds in a round, its accounts and its shoe's order."""
    with service_of(request).reading() as connection:
        report = audit_scope(connection, Scope(round=round_id))
        if not report.rounds and not report.findings:
            raise Problem("unknown_round", f"there is no round {round_id}")
    return answer(report.to_json())


def list_accounts(
    request: Request, caller: _Accounts, after: After = 0, limit: Limit = LIST_DEFAULT
) -> Response:
    """The accounts with their balances, in the order in which they were opened."""
    own = None if caller.account_id is None else [caller.account_id]
    with service_of(request).asking() as connection:
        lines = balances.next_accounts(connection, after=after, limit=limit, ids=own)
        return _page(
            connection,
            "accounts",
            lines,
            limit,
            balances.opened_position,
            lambda line: line.account_id,
        )


def show_account(request: Request, caller: _Accounts, account_id: Id) -> Response:
    """One account with its balance."""
    caller.must_see_account(account_id)
    with service_of(request).asking() as connection:
        found = balances.next_accounts(connection, limit=1, ids=[account_id])
    return _one(found, "account", account_id)


def show_balance(
    request: Request,
    caller: _Accounts,
    account_id: Id,
    at: Time = None,
    position: Annotated[int | None, Query(ge=0, le=POSITION_MAX)] = None,
) -> Response:
    """What an account has available, in play, due and owed: now, at a time, or at a position.

    What the ledger knew at a position never changes, and has an ETag.
    """
    caller.must_see_account(account_id)
    if at is not None and position is not None:
        raise Problem("invalid_question", "at and position exclude each other", field="position")
    with service_of(request).asking() as connection:
        if position is not None:
            head = postings.position(connection)
            if position > head:
                raise Problem(
                    "invalid_question",
                    f"the ledger has come to position {head}, not to {position}",
                    field="position",
                )
            found = postings.balance_as_of(connection, account_id, position)
        elif at is not None:
            found = postings.balance_at(connection, account_id, _utc(at))
        else:
            found = balances.balance(connection, account_id)
    if found is None:
        raise Problem("unknown_account", f"there is no account {account_id}, or was none then")
    if position is None:
        return answer(asdict(found))
    return final_answer(request, asdict(found), tag=f"position-{position}")


def show_statement(
    request: Request,
    caller: _Accounts,
    account_id: Id,
    from_: Annotated[AwareDatetime | None, Query(alias="from")] = None,
    to: Time = None,
) -> Response:
    """An account's transactions of a period, each with the balance before and after it."""
    caller.must_see_account(account_id)
    with service_of(request).reading() as connection:
        events = LogReader(connection).stream(f"account:{account_id}")
    if not events:
        raise Problem("unknown_account", f"there is no account {account_id}")
    period = {
        name: None if time is None else _utc(time) for name, time in (("from_", from_), ("to", to))
    }
    return answer(statement(events, **period).to_json())


def _utc(time: datetime) -> datetime:
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise Problem("invalid_question", "the time lies outside the calendar in UTC") from None


def _own(caller: Caller) -> list[str] | None:
    return sorted(caller.tables) if caller.tables else None


def _tables(connection: Connection[Any], caller: Caller, table: str | None) -> list[str] | None:
    """The tables whose lines are asked for; None for all."""
    if table is None:
        return _own(caller)
    caller.must_see_table(table)
    if tables.opened_position(connection, table) is None:
        raise Problem("unknown_table", f"there is no table {table}", field="table")
    return [table]


def _page(
    connection: Connection[Any],
    name: str,
    lines: Sequence[Any],
    limit: int,
    opened_position: Callable[[Connection[Any], str], int | None],
    identity: Callable[[Any], str],
) -> Response:
    """A part of a list, and `next_after`, to be given as `after` for what follows."""
    is_last = len(lines) < limit
    next_after = None if is_last else opened_position(connection, identity(lines[-1]))
    return answer({name: [asdict(line) for line in lines], "next_after": next_after})


def _one(found: Sequence[Any], kind: str, name: str) -> Response:
    if not found:
        raise Problem(f"unknown_{kind}", f"there is no {kind} {name}")
    return answer(asdict(found[0]))
