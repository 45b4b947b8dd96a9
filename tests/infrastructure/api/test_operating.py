"""Whether the service lives, whether it is ready, and its figures."""

import socket
import threading

import httpx
import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from infrastructure.api import condition
from infrastructure.api.keys import create_key
from infrastructure.api.problems import STATUS
from infrastructure.api.roles import Role
from infrastructure.commands.contract import COMMANDS
from tests.infrastructure.api.conftest import Api, open_tables, play, serving

ALL_WELL = {"database": "ok", "history": "ok", "projections": "ok"}


def until(api, is_ready):
    """What /readyz says as soon as it says so."""
    for _ in range(600):
        answer = api.get("/readyz")
        if answer.json()["ready"] is is_ready:
            return answer
        threading.Event().wait(0.05)
    raise AssertionError(answer.text)


def figures(api, **headers):
    """The samples of /metrics by their names and labels."""
    answer = api.get("/metrics", headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain")
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_a_service_that_is_well_says_so(api):
    open_tables(api)
    assert until(api, is_ready=True).json() == {"ready": True, "checks": ALL_WELL}
    assert api.get("/healthz").json() == {"alive": True}


def test_it_lives_without_its_database_and_is_not_ready(behind_the_wire, wire):
    api = behind_the_wire
    until(api, is_ready=True)
    wire.down()
    answer = api.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["checks"]["database"] == "does not answer"
    assert api.get("/healthz").status_code == 200
    wire.up()
    assert until(api, is_ready=True).status_code == 200


def test_a_database_that_says_nothing_is_not_waited_for(behind_the_wire, wire, monkeypatch):
    api = behind_the_wire
    until(api, is_ready=True)
    monkeypatch.setattr(condition, "LOOK_SECONDS_MAX", 0.1)
    wire.down()
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(wire._path))
        silent.listen()
        answers = [api.get("/readyz") for _ in range(3)]
        assert [answer.status_code for answer in answers] == [503] * 3
        assert answers[0].json()["checks"]["database"] == "does not answer in time"
        assert api.get("/healthz").status_code == 200
        assert figures(api)["punto_ready", ("check", "database")] == 0
    wire._path.unlink()


def test_a_read_model_that_is_far_behind_is_not_ready(api, monkeypatch):
    until(api, is_ready=True)
    monkeypatch.setattr(condition, "LAG_EVENTS_MAX", -1)
    answer = until(api, is_ready=False)
    assert answer.status_code == 503
    faults = {name: told for name, told in answer.json()["checks"].items() if told != "ok"}
    assert faults == {"projections": "tables is 0 events behind"}


def test_a_read_model_that_is_built_anew_is_not_ready(api, database, monkeypatch):
    until(api, is_ready=True)
    monkeypatch.setattr(type(condition.runner.ALL[0]), "version", 99, raising=True)
    answer = until(api, is_ready=False)
    assert answer.json()["checks"]["projections"] == "balances is being built"


@pytest.mark.tampers
def test_a_history_without_its_guard_is_not_ready(api, superuser_url):
    until(api, is_ready=True)
    with psycopg.connect(superuser_url, autocommit=True) as superuser:
        superuser.execute("ALTER TABLE ledger.stored_events DISABLE TRIGGER refuse_update")
        answer = until(api, is_ready=False)
        assert answer.json()["checks"] == {
            **ALL_WELL,
            "history": "is not protected: `punto audit` says why",
        }
        superuser.execute("ALTER TABLE ledger.stored_events ENABLE ALWAYS TRIGGER refuse_update")
    until(api, is_ready=True)


@pytest.mark.tampers
def test_a_database_that_takes_nothing_is_not_ready(api, superuser_url, database_name):
    until(api, is_ready=True)
    with psycopg.connect(superuser_url, autocommit=True) as superuser:
        read_only = f"ALTER DATABASE {database_name} SET default_transaction_read_only"
        superuser.execute(f"{read_only} TO on")
        answer = until(api, is_ready=False)
        superuser.execute("SET default_transaction_read_only TO off")
        superuser.execute(f"{read_only} TO off")
    assert answer.json()["checks"]["history"] == "may only be read from here"


def test_probes_need_no_key_and_no_name(holding, api):
    holding("auditor")
    for path in ("/healthz", "/readyz"):
        answer = api.get(path, headers={"Host": "10.1.2.3:8321"})
        assert answer.status_code in (200, 503)
        assert "code" not in answer.json()
    assert api.get("/metrics", headers={"Host": "10.1.2.3:8321"}).status_code == 421


def test_figures_of_requests_and_commands(api):
    open_tables(api)
    play(api, "R1", key="r")
    play(api, "R1", key="r")
    api.post("/v1/accounts/P1/withdrawals", {"amount_minor": 10**9})
    api.get("/v1/rounds/R1")
    api.get("/v1/nothing/P1")
    api.lines({"command": "deposit", "key": "l", "account_id": "P1", "amount_minor": 1}, "{")
    found = figures(api)

    def requests(method, route, status):
        labels = (("method", method), ("route", route), ("status", status))
        return found["punto_http_requests_total", *labels]

    def commands(command, outcome):
        labels = (("command", command), ("outcome", outcome))
        return found["punto_commands_total", *labels]

    assert requests("GET", "/v1/rounds/{round_id}", "200") == 1
    assert requests("GET", "unmatched", "404") == 1
    assert requests("POST", "/v1/accounts/{account_id}/withdrawals", "409") == 1
    labels = (("method", "POST"), ("route", "/v1/rounds/{round_id}/play"))
    assert found["punto_http_request_seconds_count", *labels] == 2
    assert commands("deposit", "accepted") == 2
    assert commands("withdraw", "insufficient_funds") == 1
    assert commands("play_round", "accepted") == commands("play_round", "replayed") == 1
    assert commands("none", "invalid_command") == 1
    assert found["punto_group_commands_sum",] >= 8
    assert found["punto_head_position",] == api.get("/v1/status").json()["head"]
    assert found["punto_parked_events", ("projection", "balances")] == 0
    assert ("punto_projection_lag_events", ("projection", "journal")) in found
    assert found["punto_ready", ("check", "history")] == 1
    assert found["process_resident_memory_bytes",] > 0


def test_labels_are_few_and_tell_nothing_of_players(api):
    open_tables(api)
    for number in range(20):
        api.get(f"/v1/accounts/P{number}")
        api.client.request(f"ODD{number}", f"/{number}")
        api.lines(json_line(number))
    found = figures(api)
    values = {value for _, *labels in found for name, value in labels if name != "le"}
    allowed = {"none", "accepted", "replayed", "other", "unmatched"} | {*COMMANDS, *STATUS}
    rest = {each for each in values - allowed if not each.startswith("/")}
    assert not [each for each in rest if "P1" in each or "ODD" in each]
    assert {label for _, *labels in found for label, _ in labels} == {
        "route", "method", "status", "command", "outcome", "le", "projection", "check", "version",
    }  # fmt: skip


def json_line(number):
    return {"command": f"c{number}", "key": f"k{number}"}


def test_readers_of_events_are_counted(api):
    assert figures(api)["punto_event_stream_readers",] == 0
    with api.client.stream("GET", "/v1/events?after=0") as response:
        lines = response.iter_lines()
        assert next(lines) == "retry: 1000"
        other = Api(api.url)
        with other.client:
            assert figures(other)["punto_event_stream_readers",] == 1


def test_figures_are_told_without_the_database(behind_the_wire, wire):
    api = behind_the_wire
    until(api, is_ready=True)
    wire.down()
    found = figures(api)
    assert found["punto_ready", ("check", "database")] == 0
    assert ("punto_head_position",) not in found
    wire.up()


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP", "Via"])
def test_figures_are_not_for_those_behind_a_proxy(api, holding, header):
    auditor = holding("auditor")
    answer = api.get("/metrics", headers={header: "198.51.100.7"})
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
    assert auditor.get("/metrics", headers={header: "198.51.100.7"}).status_code == 200


def test_figures_are_for_keys_with_the_right_to_them(database):
    with database.connect() as connection:
        keys = {
            role: create_key(connection, owner=role, role=Role(role))[1]
            for role in ("auditor", "reporting", "cage")
        }
    with serving(database) as (url, _):
        statuses = {
            role: httpx.get(
                f"{url}/metrics", headers={"Authorization": f"Bearer {key}"}, trust_env=False
            ).status_code
            for role, key in keys.items()
        }
    assert statuses == {"auditor": 200, "reporting": 200, "cage": 403}
