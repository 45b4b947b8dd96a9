"""Who may what: each role tries everything, and the table of rights says what comes of it."""

import json
import time

import httpx
import psycopg
import pytest
from fastapi.routing import APIRoute
from starlette.routing import Route

from infrastructure.api.application import make_application
from infrastructure.api.callers import Permission
from infrastructure.api.keys import list_keys, revoke_key
from infrastructure.api.operating import OPEN_TO_ALL
from infrastructure.api.roles import RIGHTS, ROLES_OF_KEYS, Role
from infrastructure.api.service import Service
from infrastructure.api.writes import WRITES
from infrastructure.cli.ledger import casino_on
from infrastructure.store.reader import LogReader
from tests.infrastructure.api.conftest import open_tables, play

ROLES = [role.value for role in ROLES_OF_KEYS]


def routes_of(application):
    """Every route that the application has, however deep it is mounted."""
    found, waiting = [], list(application.routes)
    while waiting:
        route = waiting.pop()
        if isinstance(route, Route):
            found.append(route)
        nested = getattr(route, "original_router", None)
        waiting += [] if nested is None else nested.routes
    return [route for route in found if route.path not in OPEN_TO_ALL | {"/v1/openapi.json"}]


def rights(route):
    """The rights that a route asks for."""
    if isinstance(route, APIRoute):
        return rights_of(route.dependant)
    permission = getattr(route.endpoint, "permission", None)
    return [] if permission is None else [permission.right]


def rights_of(dependant):
    own = [dependant.call.right] if isinstance(dependant.call, Permission) else []
    return own + [right for each in dependant.dependencies for right in rights_of(each)]


@pytest.fixture
def routes(database):
    with casino_on(database) as casino:
        yield routes_of(make_application(Service(database, casino)))


def test_every_route_asks_for_exactly_one_right(routes):
    assert len(routes) > len(WRITES)
    for route in routes:
        assert len(rights(route)) == 1, route.path


@pytest.mark.parametrize("role", ROLES)
def test_a_role_is_refused_everything_that_is_not_its_own(holding, routes, role):
    api = holding(role)
    named = {"table_id": "T1", "shoe_id": "S1", "round_id": "R1", "account_id": "P1"}
    named |= {"bet_id": "B1", "correction_id": "C1", "day": "2026-01-01"}
    for route in routes:
        (right,) = rights(route)
        path = route.path.format(**{name: named[name] for name in route.param_convertors})
        if path == "/v1/events" and right in RIGHTS[role]:
            continue
        if path == "/v1/commands":
            given = {"Content-Type": "application/x-ndjson"}
            answer = api.client.post(path, content="", headers=given)
        else:
            answer = api.post(path, {}) if "POST" in route.methods else api.get(path)
        is_refused = answer.status_code == 403 and answer.json()["code"] == "not_permitted"
        assert is_refused is (right not in RIGHTS[role]), (role, path, answer.text)


@pytest.mark.parametrize("role", sorted({"table", "cage", "supervisor"}))
def test_a_role_is_refused_the_same_by_the_line(holding, role):
    api = holding(role)
    fields = {
        "deposit": {"account_id": "P1", "amount_minor": 1},
        "open_round": {"round_id": "R1", "shoe_id": "S1"},
        "void_round": {"round_id": "R1", "reason": "x"},
    }
    for command, given in fields.items():
        [answer] = api.lines({"command": command, "key": f"l-{command}", **given})
        is_refused = answer["error"]["code"] == "not_permitted"
        assert is_refused is (command not in RIGHTS[role]), (role, command, answer)


def test_a_tables_key_commands_and_sees_its_tables_alone(api, holding):
    open_tables(api, "T1", "T2")
    play(api, "R2", "T2")
    table = holding("table", tables=["T1"])
    assert play(table, "R1", "T1")["state"] == "settled"
    for path, body in (
        ("/v1/rounds", {"round_id": "R3", "shoe_id": "S-T2"}),
        ("/v1/rounds/R2/settle", {}),
        ("/v1/shoes/S-T2/close", {}),
        ("/v1/shoes", {"shoe_id": "S3", "table_id": "T2", "source": "physical"}),
    ):
        answer = table.post(path, body)
        assert (answer.status_code, answer.json()["code"]) == (403, "not_permitted"), path
    for path in ("tables/T2", "shoes/S-T2", "rounds/R2", "rounds?table=T2", "feed?table=T2"):
        assert table.get(f"/v1/{path}").status_code == 403, path
    assert [line["table_id"] for line in table.get("/v1/tables").json()["tables"]] == ["T1"]
    assert [line["round_id"] for line in table.get("/v1/rounds").json()["rounds"]] == ["R1"]
    streams = {event["stream"] for event in table.get("/v1/feed?limit=1000").json()["events"]}
    assert streams == {"table:T1", "shoe:S-T1", "round:R1"}


def test_a_refusal_for_want_of_a_right_is_not_remembered(api, holding):
    open_tables(api, "T1", "T2")
    body = {"round_id": "R3", "shoe_id": "S-T2"}
    assert holding("table", owner="pit").post("/v1/rounds", body, key="k").status_code == 403
    both = holding("table", owner="pit", tables=["T1", "T2"])
    assert both.post("/v1/rounds", body, key="k").status_code == 200


def test_a_players_key_sees_its_account_alone(api, holding):
    open_tables(api)
    api.done("/v1/accounts", {"account_id": "P2", "currency": "USD"})
    player = holding("player", account="P1")
    assert player.get("/v1/accounts/P1/balance").json()["available_minor"] == 1_000_00
    for path in ("accounts/P2", "accounts/P2/balance", "accounts/P2/statement", "feed?account=P2"):
        assert player.get(f"/v1/{path}").status_code == 403, path
    accounts = player.get("/v1/accounts").json()["accounts"]
    assert [line["account_id"] for line in accounts] == ["P1"]
    events = player.get("/v1/feed").json()["events"]
    assert {event["stream"] for event in events} == {"account:P1"}


def test_a_correction_needs_a_second_supervisor(api, holding):
    open_tables(api)
    play(api, "R1")
    ann, bob = (holding("supervisor", owner=owner) for owner in ("ann", "bob"))
    proposal = {"correction_id": "C1", "reason": "misread", "void": True}
    ann.done("/v1/rounds/R1/corrections", proposal)
    own = ann.post("/v1/corrections/C1/approve")
    assert (own.status_code, own.json()["code"]) == (403, "same_actor")
    posing = ann.post("/v1/corrections/C1/approve", {"actor": "bob"})
    assert (posing.status_code, posing.json()["code"]) == (403, "not_permitted")
    bob.done("/v1/corrections/C1/approve")
    [correction] = ann.get("/v1/rounds/R1").json()["corrections"]
    assert (correction["proposed_by"], correction["decided_by"]) == ("ann", "bob")


def test_every_event_carries_the_keys_owner(database, holding):
    holding("cage", owner="cage-7").done("/v1/accounts", {"account_id": "P1", "currency": "USD"})
    with database.connect() as connection:
        [recorded] = LogReader(connection).stream("account:P1")
    assert recorded.event.actor == "cage-7"


def test_two_owners_may_use_the_same_idempotency_key(holding):
    for owner in ("a", "b"):
        body = {"account_id": f"P-{owner}", "currency": "USD"}
        assert holding("cage", owner=owner).post("/v1/accounts", body, key="k").status_code == 200


def test_once_there_is_a_key_every_caller_needs_one(api, holding, monkeypatch):
    assert api.get("/v1/tables").status_code == 200
    monkeypatch.setattr("infrastructure.api.callers.KEY_SECONDS_MAX", 0)
    holding("auditor")
    time.sleep(2.1)
    refused = api.get("/v1/tables")
    assert (refused.status_code, refused.json()["code"]) == (401, "unauthenticated")
    assert refused.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("given", ["Bearer nonsense", "Basic eDp5", "Bearer " + "x" * 999])
def test_what_is_no_key_is_refused(url, holding, given):
    holding("auditor")
    answer = httpx.get(f"{url}/v1/tables", headers={"Authorization": given}, trust_env=False)
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
    assert given.removeprefix("Bearer ") not in answer.text


def test_a_revoked_key_is_refused(database, holding, monkeypatch):
    monkeypatch.setattr("infrastructure.api.callers.KEY_SECONDS_MAX", 0)
    auditor = holding("auditor")
    assert auditor.get("/v1/tables").status_code == 200
    with database.connect() as connection:
        revoke_key(connection, list_keys(connection)[0].id)
    assert auditor.get("/v1/tables").status_code == 401


def test_a_stream_ends_when_its_key_is_revoked(database, holding, monkeypatch):
    monkeypatch.setattr("infrastructure.api.callers.KEY_SECONDS_MAX", 0)
    monkeypatch.setattr("infrastructure.api.live.KEEP_ALIVE_SECONDS", 0.1)
    auditor = holding("auditor")
    with auditor.client.stream("GET", "/v1/events?after=0") as response:
        lines = response.iter_lines()
        assert next(lines) == "retry: 1000"
        with database.connect() as connection:
            revoke_key(connection, list_keys(connection)[0].id)
        assert response.status_code == 200
        assert all(not line.startswith("data") for line in lines)


def test_a_cookie_asks_and_does_not_write(url, holding):
    key = holding("supervisor").client.headers["authorization"].removeprefix("Bearer ")
    with httpx.Client(base_url=url, cookies={"punto_key": key}, trust_env=False) as browser:
        assert browser.get("/v1/tables").status_code == 200
        headers = {"Idempotency-Key": "k", "Content-Type": "application/json"}
        body = json.dumps({"table_id": "T1", "currency": "USD"})
        assert browser.post("/v1/tables", content=body, headers=headers).status_code == 401


@pytest.mark.tampers
def test_only_a_hash_of_a_key_is_stored(database, holding, superuser_url):
    key = holding("auditor").client.headers["authorization"].removeprefix("Bearer ")
    with psycopg.connect(superuser_url) as connection:
        [(row,)] = connection.execute("SELECT api_keys::text FROM ledger.api_keys").fetchall()
    assert key not in row
    assert key.split("_", 2)[2] not in row


def test_a_supervisors_rights_are_not_a_tables():
    assert not RIGHTS[Role.SUPERVISOR] & {"place_bet", "deal", "deposit", "withdraw"}
    assert not {right for right in RIGHTS[Role.AUDITOR] if "_" in right}
