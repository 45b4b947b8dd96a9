"""What is told of a request: its id, its trace, and a line in the log."""

import json
import logging
import socket
import threading

import pytest

from infrastructure.api.logs import JsonLines
from infrastructure.api.observing import request_id, traceparent
from tests.infrastructure.api.conftest import open_tables, play

TRACE_ID, PARENT_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACE = f"00-{TRACE_ID}-{PARENT_ID}-01"


class Lines(logging.Handler):
    """The lines that are logged, read again."""

    def __init__(self):
        super().__init__()
        self.setFormatter(JsonLines())
        self.texts = []
        self._has_grown = threading.Condition()

    def emit(self, record):
        with self._has_grown:
            self.texts.append(self.format(record))
            self._has_grown.notify_all()

    def of(self, request):
        """The line of a request, which is written just after its answer."""

        def found():
            lines = [json.loads(text) for text in self.texts]
            return [line for line in lines if line.get("request_id") == request]

        with self._has_grown:
            assert self._has_grown.wait_for(found, 30), self.texts
        [line] = found()
        return line


@pytest.fixture
def log():
    lines = Lines()
    logger = logging.getLogger("punto")
    level = logger.level
    logger.addHandler(lines)
    logger.setLevel(logging.INFO)
    yield lines
    logger.removeHandler(lines)
    logger.setLevel(level)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ([], None),
        ([TRACE], TRACE),
        ([f"00-{TRACE_ID}-{PARENT_ID}-00"], f"00-{TRACE_ID}-{PARENT_ID}-00"),
        ([f"00-{TRACE_ID}-{PARENT_ID}-03"], f"00-{TRACE_ID}-{PARENT_ID}-03"),
        ([f"cc-{TRACE_ID}-{PARENT_ID}-ff"], TRACE),
        ([f"cc-{TRACE_ID}-{PARENT_ID}-00-what-comes"], f"00-{TRACE_ID}-{PARENT_ID}-00"),
        ([f"cc-{TRACE_ID}-{PARENT_ID}-01."], None),
        ([f"ff-{TRACE_ID}-{PARENT_ID}-01"], None),
        ([f"{TRACE}-more"], None),
        ([f"{TRACE}-"], None),
        ([f"00-{TRACE_ID.upper()}-{PARENT_ID}-01"], None),
        ([f"00-{'0' * 32}-{PARENT_ID}-01"], None),
        ([f"00-{TRACE_ID}-{'0' * 16}-01"], None),
        ([f"00-{TRACE_ID[1:]}-{PARENT_ID}-01"], None),
        ([f"00-{TRACE_ID}-{PARENT_ID}-1"], None),
        ([f"00-{TRACE_ID}-{PARENT_ID}-0g"], None),
        ([f"00_{TRACE_ID}_{PARENT_ID}_01"], None),
        ([f" {TRACE}"], None),
        ([f"{TRACE}\n"], None),
        ([f"00-{'٤' * 32}-{PARENT_ID}-01"], None),
        ([""], None),
        (["x" * 30_000], None),
        ([TRACE, TRACE], None),
    ],
)
def test_a_trace_is_taken_as_the_specification_says(given, kept):
    assert traceparent(given) == kept


@pytest.mark.parametrize("given", ["a", "7f0c:1/2+3=4@x-._", "x" * 128])
def test_a_well_formed_request_id_is_taken_over(given):
    assert request_id([given]) == given


@pytest.mark.parametrize(
    "given",
    [[], [""], ["x" * 129], ["x" * 30_000], ["a\nb"], ["a\n"], ["a b"], ['a"b'], ["é"], ["a", "b"]],
)
def test_any_other_request_id_is_replaced(given):
    made = request_id(given)
    assert len(made) == 32
    assert made not in given
    assert made != request_id(given)


def test_an_answer_carries_the_id_of_its_request(api):
    for path in ("/v1/tables", "/v1/nothing", "/healthz"):
        assert api.get(path, headers={"X-Request-Id": "r-1"}).headers["x-request-id"] == "r-1"
    refused = api.get("/v1/tables", headers={"Host": "evil.example", "X-Request-Id": "r-2"})
    assert (refused.status_code, refused.headers["x-request-id"]) == (421, "r-2")


def test_a_line_break_in_a_header_reaches_neither_log_nor_answer(api, log):
    host, port = api.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(
            b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: a\n b\x1b[2J"
            b"\r\nConnection: close\r\n\r\n"
        )
        answer = b""
        while some := connection.recv(10_000):
            answer += some
    assert b"\x1b" not in answer
    assert b"a\n b" not in answer
    assert api.get("/healthz", headers={"X-Request-Id": "after"}).status_code == 200
    log.of("after")
    assert not any("\x1b" in text or "\n" in text for text in log.texts)


def test_a_write_is_told_with_its_key_its_position_and_its_trace(api, log):
    headers = {"X_Request_Id": "w-1", "traceparent": TRACE}
    body = {"account_id": "P1", "currency": "USD"}
    answer = api.post("/v1/accounts", body, key="open-1", **headers)
    line = log.of("w-1")
    assert line.pop("ms") > 0
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info",
        "message": "request",
        "request_id": "w-1",
        "method": "POST",
        "route": "/v1/accounts",
        "status": 200,
        "owner": "local",
        "key": "open-1",
        "command": "open_account",
        "position": answer.json()["position"],
        "trace_id": TRACE_ID,
    }


def test_a_question_is_told_by_its_route_and_not_by_what_was_asked(api, log):
    open_tables(api)
    api.get("/v1/accounts/P1/balance?position=2", headers={"X-Request-Id": "q-1"})
    line = log.of("q-1")
    assert (line["route"], line["status"]) == ("/v1/accounts/{account_id}/balance", 200)
    assert "P1" not in json.dumps(line)


def test_commands_by_the_line_are_told_together(api, log):
    api.client.headers["X-Request-Id"] = "l-1"
    api.lines(
        {"command": "open_account", "key": "a", "account_id": "P1", "currency": "USD"},
        {"command": "deposit", "key": "b", "account_id": "P1", "amount_minor": 5},
        {"command": "withdraw", "key": "c", "account_id": "P1", "amount_minor": 50},
    )
    line = log.of("l-1")
    assert (line["commands"], line["position"]) == (3, 2)


def test_the_owner_of_the_key_is_told_and_the_key_is_not(api, holding, log):
    auditor = holding("auditor", owner="eve")
    key = auditor.client.headers["authorization"].removeprefix("Bearer ")
    auditor.get("/v1/tables", headers={"X-Request-Id": "k-1"})
    assert log.of("k-1")["owner"] == "eve"
    # A key in every place that is told: as the request's id, the idempotency key and the path.
    auditor.client.post(
        f"/v1/accounts/{key}/deposits",
        content="{}",
        headers={"X-Request-Id": key, "Idempotency-Key": key, "Content-Type": "application/json"},
    )
    api.get("/v1/tables", headers={"Authorization": f"Bearer {key}x", "X-Request-Id": "k-2"})
    log.of("k-2")
    assert not [text for text in log.texts if key in text or key.split("_", 2)[2] in text]


def test_a_bug_is_told_with_its_traceback_to_the_log_alone(api, log, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("at postgresql://pit:hunter2@db/x with punto_5f1c0a9be2d4_secret")

    monkeypatch.setattr("infrastructure.api.service.GroupCommit.execute", fail)
    body = {"account_id": "P1", "currency": "USD"}
    answer = api.post("/v1/accounts", body, X_Request_Id="b-1")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal_error")
    assert answer.headers["x-request-id"] == "b-1"
    assert "hunter2" not in answer.text
    assert "Traceback" not in answer.text
    line = log.of("b-1")
    assert (line["level"], line["status"]) == ("error", 500)
    assert line["traceback"].startswith("Traceback")
    assert "RuntimeError: at postgresql://pit:***@db/x with ***" in line["traceback"]
    assert "hunter2" not in log.texts[-1]


def test_a_line_is_ascii_whatever_it_tells():
    record = logging.LogRecord("punto", logging.INFO, "", 0, "a\nb\u2028\x9b\ud800 é", None, None)
    line = JsonLines().format(record)
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["message"] == "a\nb\u2028\x9b\ud800 é"


def test_events_have_the_trace_of_their_request_on_the_stream_and_by_the_page(api):
    open_tables(api)
    head = api.get("/v1/status").json()["head"]
    api.client.headers["traceparent"] = TRACE
    play(api, "R1")
    api.lines({"command": "deposit", "key": "l", "account_id": "P1", "amount_minor": 1})
    api.client.headers["traceparent"] = TRACE.upper()
    api.done("/v1/accounts/P1/deposits", {"amount_minor": 1})
    listed = api.get("/v1/feed?limit=1000").json()["events"]
    assert {event.get("traceparent") for event in listed[:head]} == {None}
    assert {event.get("traceparent") for event in listed[head:-1]} == {TRACE}
    assert "traceparent" not in listed[-1]
    with api.client.stream("GET", "/v1/events?after=0") as response:
        data = (line for line in response.iter_lines() if line.startswith("data: "))
        streamed = [json.loads(next(data).removeprefix("data: ")) for _ in listed]
    assert streamed == listed
