"""The process that folds the read models: it ends, the store goes away, and it goes on."""

import logging
import multiprocessing
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from infrastructure.api import following
from infrastructure.api.logs import JsonLines
from projections import runner
from tests.infrastructure.api.conftest import Api, open_tables, serving

SECONDS_MAX = 60


def until(is_so):
    """Waits until something is so, for as long as a machine that is busy may take."""
    end = time.monotonic() + SECONDS_MAX
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture(autouse=True)
def in_a_thread():
    """Here they follow in a process, as they do at work."""


@pytest.fixture
def told(caplog):
    """What was told of the read models so far."""
    caplog.set_level(logging.INFO, "punto.serve")
    return lambda: [text for text in caplog.messages if "read models" in text]


def kill_it():
    [process] = multiprocessing.active_children()
    process.kill()


def balance(api):
    answer = api.get("/v1/accounts/P1/balance")
    assert answer.status_code == 200, answer.text
    return answer.json()["available_minor"]


def test_one_that_is_killed_is_started_again_and_nothing_is_missed(api, told):
    open_tables(api)
    assert balance(api) == 1_000_00
    kill_it()
    api.done("/v1/accounts/P1/deposits", {"amount_minor": 5})
    until(lambda: balance(api) == 1_000_05)
    until(lambda: len(told()) == 2)
    assert told() == [
        "the read models stand still: the process that folds them has ended (-9)",
        "the read models go on",
    ]


def test_without_it_questions_are_answered_as_of_where_it_was(database, told, monkeypatch):
    monkeypatch.setattr(following, "AGAIN_SECONDS", 3_600.0)
    with serving(database) as (url, _):
        api = Api(url)
        with api.client:
            open_tables(api)
            assert balance(api) == 1_000_00
            kill_it()
            until(told)
            api.done("/v1/accounts/P1/deposits", {"amount_minor": 5})
            assert balance(api) == 1_000_00


def test_questions_that_wait_for_it_hold_no_others_up(api):
    open_tables(api)
    assert balance(api) == 1_000_00
    [process] = multiprocessing.active_children()
    os.kill(process.pid, signal.SIGSTOP)
    try:
        api.done("/v1/accounts/P1/deposits", {"amount_minor": 5})
        with ThreadPoolExecutor(30) as pool:
            assert set(pool.map(lambda _: balance(api), range(60))) == {1_000_00}
    finally:
        os.kill(process.pid, signal.SIGCONT)
    until(lambda: balance(api) == 1_000_05)


def test_it_ends_with_its_service(database):
    with serving(database):
        until(multiprocessing.active_children)
    assert multiprocessing.active_children() == []


def test_a_store_that_is_away_is_told_once_and_so_is_its_return(behind_the_wire, wire, told):
    api = behind_the_wire
    open_tables(api)
    assert balance(api) == 1_000_00
    wire.down()
    until(told)
    time.sleep(3 * following.AGAIN_SECONDS)
    while_away = told()
    wire.up()
    until(lambda: "the read models go on" in told())
    until(lambda: api.get("/v1/accounts/P1/balance").status_code == 200)
    api.done("/v1/accounts/P1/deposits", {"amount_minor": 5})
    until(lambda: balance(api) == 1_000_05)
    # The connection is lost, and then there is none to be had.
    assert 1 <= len(while_away) <= 2
    assert len(set(while_away)) == len(while_away)
    assert told() == [*while_away, "the read models go on"]


def work_with_a_bug(pipe, database):
    def follow(*_, **__):
        raise RuntimeError("at postgresql://pit:hunter2@db/x")

    runner.follow = follow
    following._work(pipe, database)


def test_a_bug_in_it_is_told_with_its_traceback_and_it_is_tried_again(
    database, told, caplog, monkeypatch
):
    work = following._work
    monkeypatch.setattr(following, "_work", work_with_a_bug)
    with serving(database) as (url, _):
        api = Api(url)
        with api.client:
            until(told)
            monkeypatch.setattr(following, "_work", work)
            open_tables(api)
            until(lambda: len(told()) == 2)
            until(lambda: balance(api) == 1_000_00)
    assert told()[1] == "the read models go on"
    [line] = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert line.getMessage() == (
        "the read models stand still: RuntimeError: at postgresql://pit:hunter2@db/x"
    )
    assert line.fields["traceback"].startswith("Traceback")
    assert "hunter2" not in JsonLines().format(line)
