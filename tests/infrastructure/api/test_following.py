"""The log over HTTP: every reader gets every event once, in order, at its own pace."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from infrastructure.api import live
from infrastructure.feed.source import start_incarnation
from tests.infrastructure.api.conftest import open_tables, play, serving


def events_of(response, count):
    """The first so many server-sent events of a stream, by their ids."""
    found = []
    for line in response.iter_lines():
        if line.startswith("data: "):
            found.append(json.loads(line.removeprefix("data: ")))
            if len(found) == count:
                break
    return found


def follow(api, count, query="after=0", **headers):
    with api.client.stream("GET", f"/v1/events?{query}", headers=headers) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        return events_of(response, count)


def test_a_stream_gives_the_past_and_goes_on_with_what_comes(api):
    open_tables(api)
    play(api, "R1")
    head = api.get("/v1/status").json()["head"]
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(follow, api, head + 5)
        play(api, "R2")
        found = reading.result(20)
    assert [event["position"] for event in found] == list(range(1, head + 6))
    listed = api.get(f"/v1/feed?limit={head + 5}").json()["events"]
    assert found == listed


def test_a_stream_goes_on_after_the_last_event_id(api):
    open_tables(api)
    found = follow(api, 2, "after=0", **{"Last-Event-ID": "3"})
    assert [event["position"] for event in found] == [4, 5]


def test_a_last_event_id_that_is_no_position_is_refused(api):
    for given in ("x", "-1", "9" * 30):
        answer = api.get("/v1/events", headers={"Last-Event-ID": given})
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_question")


@pytest.mark.parametrize(
    ("query", "streams"),
    [
        ("table=T2", {"table:T2", "shoe:S-T2", "round:R2"}),
        ("shoe=S-T1", {"shoe:S-T1", "round:R1", "correction:C1"}),
        ("account=P1", {"account:P1"}),
        ("type=round.settled", {"round:R1", "round:R2"}),
        ("type=round.settled&table=T1", {"round:R1"}),
    ],
)
def test_filters_leave_what_was_asked_for(api, query, streams):
    open_tables(api, "T1", "T2")
    play(api, "R1", "T1")
    play(api, "R2", "T2")
    proposal = {"correction_id": "C1", "reason": "misread", "void": True, "actor": "ann"}
    api.done("/v1/rounds/R1/corrections", proposal)
    listed = api.get(f"/v1/feed?limit=1000&{query}").json()["events"]
    assert {event["stream"] for event in listed} == streams
    assert follow(api, len(listed), f"after=0&{query}") == listed


def test_pages_of_the_feed_follow_each_other(api):
    open_tables(api)
    play(api, "R1")
    found, after = [], 0
    while after is not None:
        page = api.get(f"/v1/feed?limit=4&after={after}").json()
        found += [event["position"] for event in page["events"]]
        after = page["next_after"]
    assert found == list(range(1, page["head"] + 1))


def test_every_one_of_many_readers_sees_every_event_once_in_order(api, monkeypatch):
    # So little is kept that those who come late read from the store.
    monkeypatch.setattr(live, "KEPT_MAX", 20)
    monkeypatch.setattr(live, "PAGE", 7)
    open_tables(api)
    have_started = threading.Barrier(21)

    def read(number):
        with (
            httpx.Client(base_url=api.url, timeout=30, trust_env=False) as client,
            client.stream("GET", "/v1/events?after=0") as response,
        ):
            have_started.wait(30)
            return [event["position"] for event in events_of(response, 150)]

    with ThreadPoolExecutor(20) as pool:
        reading = [pool.submit(read, number) for number in range(20)]
        have_started.wait(30)
        for number in range(12):
            play(api, f"R{number}")
        for each in reading:
            assert each.result(30) == list(range(1, 151))


def test_a_reader_that_reads_nothing_holds_nobody_up(api):
    open_tables(api)
    with api.client.stream("GET", "/v1/events?after=0"):
        for number in range(20):
            play(api, f"R{number}")
        assert len(follow(api, 100)) == 100


def test_a_quiet_stream_is_kept_alive_and_tells_its_position(api, monkeypatch):
    monkeypatch.setattr(live, "KEEP_ALIVE_SECONDS", 0.1)
    open_tables(api)
    with api.client.stream("GET", "/v1/events?after=2&type=round.settled") as response:
        lines = response.iter_lines()
        assert next(line for line in lines if line == ": still here")
        head = api.get("/v1/status").json()["head"]
        assert next(line for line in lines if line == f"id: {head}")


def test_streams_are_told_when_the_service_stops(database):
    with (
        serving(database) as (url, server),
        httpx.stream("GET", f"{url}/v1/events", timeout=30, trust_env=False) as response,
    ):
        lines = response.iter_lines()
        assert next(lines) == "retry: 1000"
        server.should_exit = True
        assert ": the service stops, come again" in list(lines)


@pytest.mark.parametrize("path", ["/v1/events", "/v1/feed"])
def test_a_position_that_the_ledger_has_not_come_to_is_refused(api, path):
    open_tables(api)
    head = api.get("/v1/feed?limit=1").json()["head"]
    answer = api.get(f"{path}?after={head + 1}")
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_question")
    assert f"ends at position {head}" in answer.json()["detail"]


@pytest.mark.parametrize("path", ["/v1/events", "/v1/feed"])
def test_a_reader_of_another_source_is_told(api, database, path):
    open_tables(api)
    before = source_of(api, path)
    assert before == source_of(api, f"{path}?after=2&source={before}")
    with database.connect() as connection:
        now = start_incarnation(connection, site=None)
    answer = api.get(f"{path}?after=2&source={before}")
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_question")
    assert answer.json()["field"] == "source"
    assert now in answer.json()["detail"]
    assert source_of(api, f"{path}?after=2") == now != before


def source_of(api, path):
    with api.client.stream("GET", path) as response:
        assert response.status_code == 200
        return response.headers["Puntobanco-Source"]


@pytest.mark.parametrize("path", ["/v1/rounds", "/v1/feed", "/v1/status", "/v1/journal"])
def test_a_parameter_that_a_question_does_not_have_is_refused(api, path):
    answer = api.get(f"{path}?tabel=T9")
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_question")
    assert answer.json()["field"] == "tabel"


def test_the_journal_of_a_round_that_is_not_there_is_refused(api):
    answer = api.get("/v1/journal?round=nope")
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_round")
