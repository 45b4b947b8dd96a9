"""The routes of the pages. Each shows what a right to ask allows, and none of them writes."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.resources import files
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from infrastructure.api.callers import Caller, Calling, Permission
from infrastructure.api.problems import Problem
from infrastructure.pages import sign_in
from infrastructure.pages.account_page import ACCOUNTS_SHOWN, account_view, newest_accounts
from infrastructure.pages.asked import asked_day, asked_id, asked_time, asked_whole
from infrastructure.pages.day_page import day_view
from infrastructure.pages.formats import Formats, formats_for
from infrastructure.pages.ledger import AskedLedger, NotThere
from infrastructure.pages.ledger_page import Follower, ReadFeeds, ledger_view, no_feeds
from infrastructure.pages.rendering import render
from infrastructure.pages.round_page import round_view
from infrastructure.pages.route import HEADERS, SIGN_IN, PageRoute
from infrastructure.pages.shoe_page import shoe_view
from infrastructure.pages.tables_page import latest_rounds, latest_shoes, tables_view
from infrastructure.store.reader import LogReader
from projections.day_report import day_calendar

_STATIC = {"pages.css": "text/css", "pages.js": "text/javascript", "icon.svg": "image/svg+xml"}
OPEN_TO_ALL = frozenset({"/", "/find", "/pages/{name}", SIGN_IN, "/sign-out"})
"""The routes that show nothing of the ledger. Every other one takes a right."""

_KINDS = {"round": "rounds", "shoe": "shoes", "account": "accounts", "table": "tables"}

MENU: tuple[tuple[str, str, str], ...] = (
    ("/tables", "Tables", "tables"),
    ("/accounts", "Accounts", "accounts"),
    ("/days", "Days", "days"),
    ("/ledger", "Ledger", "status"),
)
"""What the menu leads to, what it is called, and the right that it takes."""


def may(right: str) -> Any:
    """Who calls, where that is somebody who has a right."""
    return Depends(Permission(right))


def pages_router(*, read_feeds: ReadFeeds = no_feeds) -> APIRouter:
    """The pages, to be mounted into the service's application."""
    router = APIRouter(route_class=PageRoute, include_in_schema=False)
    router.include_router(sign_in.router)
    router.get("/")(_home)
    router.get("/pages/{name}")(_static)
    router.get("/find")(_find)
    router.get("/tables")(_tables)
    router.get("/tables/{table_id}")(_table)
    router.get("/rounds/{round_id}")(_round)
    router.get("/shoes/{shoe_id}")(_shoe)
    router.get("/accounts")(_accounts)
    router.get("/accounts/{account_id}")(_account)
    router.get("/days", dependencies=[may("days")])(_today)
    router.get("/days/{day}")(_day)

    @router.get("/ledger")
    def ledger_page(request: Request, caller: Annotated[Caller, may("status")]) -> Response:
        with _asked(request) as ledger:
            view = ledger_view(ledger)
        # They are asked elsewhere, which may take its time; nobody waits for the connection.
        feeds = [Follower(**feed) for feed in read_feeds(view.head)]
        return _page(request, caller, "ledger.html", "/ledger", view=view, feeds=feeds)

    return router


def _home(caller: Calling) -> Response:
    for path, _, right in MENU:
        if caller.may(right):
            return RedirectResponse(path)
    raise Problem("not_permitted", f"there is no page for the role {caller.role}")


def _static(name: str) -> Response:
    if name not in _STATIC:
        raise NotThere(f"There is no file {name[:40]}.")
    content = files("infrastructure.pages").joinpath("static", name).read_bytes()
    headers = {**HEADERS, "Cache-Control": "no-cache"}
    return Response(content, media_type=_STATIC[name], headers=headers)


def _find(kind: str = "", id: str = "") -> Response:  # noqa: A002 - the name of the field
    if kind not in _KINDS:
        raise NotThere("There are rounds, shoes, accounts and tables to be found.")
    return RedirectResponse(f"/{_KINDS[kind]}/{asked_id(id.strip())}")


def _tables(request: Request, caller: Annotated[Caller, may("tables")], part: str = "") -> Response:
    with _asked(request) as ledger:
        view = tables_view(ledger, sees=caller.sees_table)
    template = "tables_live.html" if part else "tables.html"
    return _page(request, caller, template, "/tables", view=view, events="/v1/events")


def _table(
    request: Request, table_id: str, caller: Annotated[Caller, may("tables")], part: str = ""
) -> Response:
    caller.must_see_table(asked_id(table_id))
    with _asked(request) as ledger:
        view = tables_view(ledger, sees=lambda each: each == table_id)
        if not view.tables:
            raise NotThere(f"There is no table {table_id}.")
        rounds, shoes = latest_rounds(ledger, table_id), latest_shoes(ledger, table_id)
    events = f"/v1/events?table={table_id}"
    template = "tables_live.html" if part else "table.html"
    return _page(
        request, caller, template, "/tables", view=view, rounds=rounds, shoes=shoes, events=events
    )


def _round(
    request: Request,
    round_id: str,
    caller: Annotated[Caller, may("rounds")],
    version: str = "",
    audit: str = "",
) -> Response:
    formats = _formats(request)
    with _asked(request) as ledger:
        view = round_view(
            ledger,
            asked_id(round_id),
            formats,
            version=asked_whole(version, "Version"),
            may_audit=caller.may("audit"),
            is_audit_asked=bool(audit),
        )
    caller.must_see_table(view.round["table_id"])
    link = f"{request.base_url}rounds/{round_id}?version={view.version}"
    return _page(request, caller, "round.html", "", view=view, link=link)


def _shoe(request: Request, shoe_id: str, caller: Annotated[Caller, may("shoes")]) -> Response:
    with _asked(request) as ledger:
        view = shoe_view(ledger, asked_id(shoe_id))
    caller.must_see_table(view.shoe.table_id)
    return _page(request, caller, "shoe.html", "", view=view)


def _accounts(request: Request, caller: Annotated[Caller, may("accounts")]) -> Response:
    with _asked(request) as ledger:
        lines = [line for line in newest_accounts(ledger) if caller.sees_account(line.account_id)]
    return _page(
        request, caller, "accounts.html", "/accounts", lines=lines, shown_max=ACCOUNTS_SHOWN
    )


def _account(
    request: Request,
    account_id: str,
    caller: Annotated[Caller, may("accounts")],
    from_: str = "",
    to: str = "",
    at: str = "",
    position: str = "",
) -> Response:
    caller.must_see_account(asked_id(account_id))
    with _asked(request) as ledger:
        view = account_view(
            ledger,
            account_id,
            from_=asked_time(from_, "From"),
            to=asked_time(to, "To"),
            at=asked_time(at, "Time"),
            position=asked_whole(position, "Position"),
        )
    asked = {"from_": from_, "to": to, "at": at, "position": position}
    return _page(request, caller, "account.html", "/accounts", view=view, asked=asked)


def _today(request: Request, day: str = "") -> Response:
    if day:
        return RedirectResponse(f"/days/{asked_day(day)}")
    with _asked(request) as ledger:
        today = day_calendar(ledger.connection).day_of(datetime.now(UTC))
    return RedirectResponse(f"/days/{today}")


def _day(
    request: Request, day: str, caller: Annotated[Caller, may("days")], reconcile: str = ""
) -> Response:
    with _asked(request) as ledger:
        view = day_view(
            ledger,
            asked_day(day),
            _formats(request),
            may_reconcile=caller.may("reconciliation"),
            is_reconciliation_asked=bool(reconcile),
        )
    return _page(request, caller, "day.html", "/days", view=view)


@contextmanager
def _asked(request: Request) -> Iterator[AskedLedger]:
    """The service's ledger, with the read models brought up to what is stored now."""
    with request.app.state.service.asking() as connection:
        yield AskedLedger(connection, LogReader(connection))


def _formats(request: Request) -> Formats:
    return formats_for(request.headers.get("accept-language"))


def _page(request: Request, caller: Caller, template: str, here: str, **context: Any) -> Response:
    menu = [(path, name) for path, name, right in MENU if caller.may(right)]
    text = render(
        template,
        f=_formats(request),
        caller=caller,
        menu=menu,
        here=here,
        is_signed_in=sign_in.is_signed_in(request),
        sign_in=SIGN_IN,
        **context,
    )
    return HTMLResponse(text)
