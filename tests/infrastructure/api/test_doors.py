"""What no request gets past: other names, other origins, other content types, and sizes."""

import socket
import time

import pytest

from infrastructure.api import doors
from tests.infrastructure.api.conftest import Api, serving


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "", "127.0.0.2"])
def test_another_host_is_refused(api, host):
    answer = api.get("/v1/tables", headers={"Host": host})
    assert (answer.status_code, answer.json()["code"]) == (421, "host_not_allowed")


@pytest.mark.parametrize("host", ["localhost", "localhost:99", "127.0.0.1", "[::1]:8321"])
def test_the_names_of_this_machine_are_answered(api, host):
    assert api.get("/v1/tables", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost", "file://"])
def test_a_page_of_another_origin_is_refused(api, origin):
    answer = api.post("/v1/tables", {"table_id": "T1", "currency": "USD"}, Origin=origin)
    assert (answer.status_code, answer.json()["code"]) == (403, "origin_not_allowed")


def test_a_page_of_its_own_origin_may_write(api):
    answer = api.post("/v1/tables", {"table_id": "T1", "currency": "USD"}, Origin=api.url)
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "media_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_a_write_that_is_not_json_is_refused(api, media_type):
    body = {"table_id": "T1", "currency": "USD"}
    answer = api.post("/v1/tables", body, Content_Type=media_type)
    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")
    answer = api.client.post("/v1/commands", content="", headers={"Content-Type": media_type})
    assert answer.status_code == 415


def test_a_body_that_is_too_large_is_refused_whether_it_says_so_or_not(api):
    large = b'{"x":"' + b"a" * doors.BODY_BYTES_MAX + b'"}'
    headers = {"Idempotency-Key": "k", "Content-Type": "application/json"}
    for content in (large, iter([large[:1000], large[1000:]])):
        answer = api.client.post("/v1/tables", content=content, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


def send_without_end(connection):
    for _ in range(10_000):
        connection.sendall(b"a" * 1_000)


def test_headers_without_end_close_the_connection(api):
    host, port = api.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(b"GET /v1/tables HTTP/1.1\r\nHost: localhost\r\nX-Long: ")
        with pytest.raises(ConnectionError):
            send_without_end(connection)
    assert api.get("/v1/tables").status_code == 200


def test_whoever_does_not_say_what_they_want_is_not_waited_for(api, monkeypatch):
    monkeypatch.setattr(doors, "HEADER_SECONDS_MAX", 0.2)
    host, port = api.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(b"GET /v1/tab")
        assert connection.recv(100) == b""


def test_headers_that_are_too_long_are_refused_when_they_come_in_one_go_too(api):
    headers = {f"X-Part-{number}": "a" * 1_000 for number in range(40)}
    assert api.client.get("/v1/tables", headers=headers).status_code == 400
    assert api.client.get("/v1/tables", headers={"X-Long": "a" * 40_000}).status_code == 400
    assert api.get("/v1/tables").status_code == 200


def test_a_body_that_does_not_come_is_not_waited_for(api, monkeypatch):
    monkeypatch.setattr(doors, "BODY_SECONDS_MAX", 0.2)
    with connected(api) as connection:
        connection.sendall(
            b"POST /v1/tables HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Idempotency-Key: k\r\nContent-Length: 1000\r\n\r\n{"
        )
        assert connection.recv(1_000) == b""


@pytest.mark.parametrize("path", ["/v1/tables", "/v1/commands"])
def test_what_is_refused_does_not_hold_its_connection_with_a_body(api, monkeypatch, path):
    monkeypatch.setattr(doors, "UNREAD_SECONDS_MAX", 0.2)
    with connected(api) as connection:
        head = f"POST {path} HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 1000\r\n\r\n"
        connection.sendall(head.encode())
        assert b" 421 " in connection.recv(10_000)[:20]
        connection.sendall(b"x")
        assert connection.recv(1_000) == b""


def test_lines_may_be_waited_for(api, monkeypatch):
    monkeypatch.setattr(doors, "BODY_SECONDS_MAX", 0.1)
    monkeypatch.setattr(doors, "UNREAD_SECONDS_MAX", 0.1)
    line = b'{"command":"open_account","key":"k","account_id":"A","currency":"USD"}\n'
    with connected(api) as connection:
        connection.sendall(
            b"POST /v1/commands HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/x-ndjson\r\nContent-Length: %d\r\n\r\n" % (2 * len(line))
        )
        connection.sendall(line)
        received = b""
        while b'"ok":true' not in received:
            received += connection.recv(10_000)
        time.sleep(0.3)
        connection.sendall(line)
        while b'"replayed":true' not in received:
            more = connection.recv(10_000)
            assert more
            received += more


def test_a_reader_that_takes_nothing_is_not_kept(database, monkeypatch):
    monkeypatch.setattr(doors, "SEND_SECONDS_MAX", 0.2)
    with serving(database) as (url, server), connected(Api(url)) as connection:
        # More than all buffers on the way hold.
        connection.sendall(b"GET /v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 500)
        until = time.monotonic() + 60
        while not server.server_state.total_requests or server.server_state.connections:
            assert time.monotonic() < until, "it is kept"
            time.sleep(0.05)


def connected(api):
    host, port = api.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=10)


def test_an_answer_is_not_kept_by_anybody_on_the_way(api):
    headers = api.get("/v1/tables").headers
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"


def test_an_unknown_path_is_a_problem_like_any_other(api):
    answer = api.get("/v1/nothing")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    answer = api.client.request("PATCH", "/v1/tables")
    assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")
    assert answer.headers["allow"]


def test_a_password_of_the_database_is_in_no_answer(api):
    assert "database_url" not in api.get("/v1/status").json()
