"""A store that goes away: what is asked meanwhile may be asked again, and goes on by itself."""

import time

import pytest

from infrastructure.api import service
from infrastructure.commands import execution
from tests.infrastructure.api.conftest import Api, open_tables


@pytest.fixture(autouse=True)
def _short_patience(monkeypatch):
    monkeypatch.setattr(execution, "_PATIENCE_SECONDS", (0, 0.1))
    monkeypatch.setattr(service, "PATIENCE_SECONDS", 0.5)


@pytest.fixture
def api(behind_the_wire):
    return behind_the_wire


def until_it_answers(ask):
    until = time.monotonic() + 20
    while (answer := ask()).status_code == 503 and time.monotonic() < until:
        time.sleep(0.1)
    return answer


def test_a_write_is_told_to_come_again_and_is_done_once(api, wire):
    open_tables(api)
    body = {"amount_minor": 5}
    wire.down()
    refused = api.post("/v1/accounts/P1/deposits", body, key="again")
    assert (refused.status_code, refused.json()["code"]) == (503, "store_unavailable")
    assert refused.headers["retry-after"] == "1"
    wire.up()
    again = until_it_answers(lambda: api.post("/v1/accounts/P1/deposits", body, key="again"))
    assert (again.status_code, again.json()["replayed"]) == (200, False)
    assert again.json()["result"]["available_minor"] == 1_000_05


def test_a_commit_whose_answer_was_lost_is_answered_once_it_is_known(api, wire):
    open_tables(api)
    wire.cut_at_next_commit = True
    answer = api.post("/v1/accounts/P1/deposits", {"amount_minor": 5}, key="lost")
    assert answer.status_code == 200
    assert api.get("/v1/accounts/P1/balance").json()["available_minor"] == 1_000_05


def test_a_question_is_told_to_come_again_and_is_answered_then(api, wire):
    open_tables(api)
    wire.down()
    refused = api.get("/v1/accounts/P1/balance")
    assert (refused.status_code, refused.json()["code"]) == (503, "store_unavailable")
    wire.up()
    found = until_it_answers(lambda: api.get("/v1/accounts/P1/balance"))
    assert found.status_code == 200


def test_lines_end_where_the_store_is_away(api, wire):
    open_tables(api)
    wire.down()
    deposits = [
        {"command": "deposit", "key": f"d{number}", "account_id": "P1", "amount_minor": 1}
        for number in range(3_000)
    ]
    answers = api.lines(*deposits)
    assert len(answers) < len(deposits)
    assert {answer["error"]["code"] for answer in answers} == {"store_unavailable"}
    wire.up()
    until_it_answers(lambda: api.get("/v1/tables"))
    answers = api.lines(*deposits)
    assert [answer["ok"] for answer in answers] == [True] * 3_000


def test_a_stream_goes_on_when_the_store_is_back(api, wire):
    open_tables(api)
    head = api.get("/v1/status").json()["head"]
    with api.client.stream("GET", f"/v1/events?after={head}") as response:
        lines = response.iter_lines()
        assert next(lines) == "retry: 1000"
        wire.down()
        wire.up()
        other = Api(api.url)
        body = {"amount_minor": 5}
        with other.client:
            until_it_answers(lambda: other.post("/v1/accounts/P1/deposits", body, key="d"))
        assert next(line for line in lines if line.startswith("id: ")) == f"id: {head + 1}"
