"""Who may look at what: the pages follow the same table of rights as the API."""

import httpx
import pytest
from fastapi.routing import APIRoute

from infrastructure.api.callers import COOKIE, Permission
from infrastructure.api.keys import create_key
from infrastructure.api.roles import RIGHTS, ROLES_OF_KEYS, Role
from infrastructure.pages.router import MENU, OPEN_TO_ALL, pages_router
from tests.infrastructure.pages.conftest import serving_pages
from tests.infrastructure.pages.html import check, parse

PATHS = {
    "/tables": "tables",
    "/tables/T1": "tables",
    "/rounds/R1": "rounds",
    "/shoes/S1": "shoes",
    "/accounts": "accounts",
    "/accounts/alice": "accounts",
    "/days": "days",
    "/days/2026-01-02": "days",
    "/ledger": "status",
}
"""A page of each kind and the right that it takes, for the table T1 and the account alice."""


@pytest.fixture(scope="module")
def guarded(make_ledger):
    """The service where keys are kept: its address and a key of each role."""
    database = make_ledger()
    keys = {}
    with database.connect() as connection:
        for role in ROLES_OF_KEYS:
            _, keys[role] = create_key(
                connection,
                owner=f"{role}-1",
                role=role,
                tables=["T1"] if role is Role.TABLE else (),
                account="alice" if role is Role.PLAYER else None,
            )
    with serving_pages(database) as address:
        yield address, keys


@pytest.fixture
def visit(guarded):
    """Opens a page with the key of a role in the browser's cookie, or without any."""
    address, keys = guarded

    def open_page(path, role=None):
        cookies = {} if role is None else {COOKIE: keys[role]}
        with httpx.Client(base_url=address, cookies=cookies, trust_env=False) as browser:
            return browser.get(path, timeout=30)

    return open_page


def test_every_page_but_those_that_show_nothing_takes_a_right():
    def rights(dependant):
        own = [dependant.call.right] if isinstance(dependant.call, Permission) else []
        return own + [right for each in dependant.dependencies for right in rights(each)]

    found = {}
    waiting = list(pages_router().routes)
    while waiting:
        route = waiting.pop()
        if isinstance(route, APIRoute):
            found[route.path] = rights(route.dependant)
        else:
            waiting += route.original_router.routes
    assert {path for path, taken in found.items() if not taken} == OPEN_TO_ALL
    assert all(len(taken) == 1 for path, taken in found.items() if path not in OPEN_TO_ALL)


@pytest.mark.parametrize("role", ROLES_OF_KEYS)
@pytest.mark.parametrize("path", PATHS)
def test_a_role_sees_what_it_has_a_right_to_and_nothing_else(visit, role, path):
    answer = visit(path, role)
    if PATHS[path] in RIGHTS[role]:
        assert answer.status_code == (307 if path == "/days" else 200)
    else:
        assert answer.status_code == 403
        check(parse(answer.text))


@pytest.mark.parametrize("path", ["/tables/sim7-T1", "/rounds/sim7-T1-S1-R1", "/shoes/sim7-T1-S1"])
def test_a_tables_key_sees_no_other_table(visit, path):
    answer = visit(path, Role.TABLE)
    assert answer.status_code == 403
    assert "this key is not for table sim7-T1" in answer.text
    assert "sim7-T1" not in visit("/tables", Role.TABLE).text


def test_a_tables_key_sees_neither_postings_nor_accounts_audited(visit):
    text = visit("/rounds/R1?audit=1", Role.TABLE).text
    assert "Postings" not in text
    assert "with the accounts, the shoe and the table" not in text
    assert "No finding in the round's own record." in text


def test_a_player_sees_no_other_account(visit):
    assert visit("/accounts/bob", Role.PLAYER).status_code == 403
    listed = visit("/accounts", Role.PLAYER).text
    assert "alice" in listed
    assert "bob" not in listed


@pytest.mark.parametrize("role", ROLES_OF_KEYS)
def test_the_menu_leads_to_what_may_be_seen(visit, role):
    start = visit("/", role).headers["location"]
    allowed = [path for path, _, right in MENU if right in RIGHTS[role]]
    page = parse(visit(allowed[-1], role).text)
    (menu,) = (each for each in page.all("nav") if each.get("aria-label") == "Pages")
    assert [each.get("href") for each in menu.all("a")] == allowed
    assert start == allowed[0]


@pytest.mark.parametrize("path", ["/", *PATHS])
def test_who_has_not_signed_in_is_asked_to(visit, path):
    answer = visit(path)
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")


def test_a_key_is_kept_in_a_cookie_that_no_script_and_no_other_site_sees(guarded):
    address, keys = guarded
    with httpx.Client(base_url=address, trust_env=False) as browser:
        answer = browser.post("/sign-in", data={"key": keys[Role.AUDITOR]})
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        page = parse(browser.get("/tables").text)
        check(page)
        assert "Seen as auditor-1, auditor." in page.text
        browser.post("/sign-out")
        assert browser.get("/tables").status_code == 303


@pytest.mark.parametrize(
    "body", [b"", b"key=", b"key=punto_no", b"key=" + b"x" * 100_000, b"\xff=\xfe"]
)
def test_what_is_no_key_is_refused_and_not_shown(guarded, body):
    address, _ = guarded
    with httpx.Client(base_url=address, trust_env=False) as browser:
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = browser.post("/sign-in", content=body, headers=headers)
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers
    assert "punto_no" not in answer.text
    page = parse(answer.text)
    check(page)
    assert "This is not a key of this service." in page.text


def test_no_other_site_can_sign_a_browser_in(guarded):
    address, keys = guarded
    with httpx.Client(base_url=address, trust_env=False) as browser:
        headers = {"Origin": "https://elsewhere.example"}
        answer = browser.post("/sign-in", data={"key": keys[Role.AUDITOR]}, headers=headers)
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


def test_the_cookie_gives_no_command(guarded):
    address, keys = guarded
    with httpx.Client(base_url=address, trust_env=False) as browser:
        browser.cookies.set(COOKIE, keys[Role.SUPERVISOR])
        answer = browser.post(
            "/v1/tables",
            json={"table_id": "T9", "currency": "USD"},
            headers={"Idempotency-Key": "k1"},
        )
    assert answer.status_code == 401
