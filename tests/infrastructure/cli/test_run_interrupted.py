"""`punto run` that is killed, stopped or done twice at once: nothing lost, nothing twice."""

import json
import os
import random
import select
import signal
import subprocess
import sys
import threading
import time

import psycopg
import pytest

from infrastructure.commands import execution
from tests.infrastructure.proxy import Proxy

HUNDRED_AND_FIFTY = 150
_ENDINGS = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGKILL, signal.SIGKILL)


@pytest.fixture
def long_evening(evening, a_script):
    """A file of 150 commands that are all accepted, to be answered in the order that they have."""
    a_script.commands = evening
    for number in range(HUNDRED_AND_FIFTY - len(evening)):
        a_script.add("deposit", account_id="bob", amount_minor=1 + number)
    latest = max(command["at"] for command in evening[:60])
    for command in a_script.commands:
        command["at"] = max(command["at"], latest)
    assert len(a_script.commands) == HUNDRED_AND_FIFTY
    return a_script.commands


@pytest.fixture
def file(long_evening, tmp_path):
    path = tmp_path / "evening.ndjson"
    path.write_text("".join(json.dumps(command) + "\n" for command in long_evening))
    return path


def test_whoever_writes_to_a_pipe_is_answered_at_once_whatever_files_there_are(
    url, evening, tmp_path
):
    (tmp_path / "-").touch()
    with subprocess.Popen(
        [sys.executable, "-m", "infrastructure.cli.main", "run", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=tmp_path,
        env={**os.environ, "PUNTO_DATABASE_URL": url},
    ) as process:
        process.stdin.write(json.dumps(evening[0]).encode() + b"\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], 30)
        process.kill()

    assert ready


def end_after(process, *, answers, seconds, how):
    """Ends a process some moments after it gave so many answers; what it gave in all."""
    given = [process.stdout.readline() for _ in range(answers)]
    time.sleep(seconds)
    process.send_signal(how)
    rest, complaint = process.communicate(timeout=60)
    return [*given, *rest.splitlines(keepends=True)], complaint.decode()


def test_a_file_that_was_killed_at_any_moment_is_run_again_to_the_same_ledger(
    punto, start_punto, punto_process, file, long_evening, make_url, stored_events, sql
):
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    moments = random.Random(seed)
    answered = {}
    done = 0
    for how in _ENDINGS:
        # Whoever is asked to stop has to be there already.
        least = 0 if how is signal.SIGKILL else 1
        done = min(max(done + moments.randrange(35), least), HUNDRED_AND_FIFTY - 1)
        process = start_punto("run", str(file))
        lines, complaint = end_after(process, answers=done, seconds=moments.random() / 50, how=how)
        assert "Traceback" not in complaint
        if lines and not lines[-1].endswith(b"\n"):
            lines.pop()
        for line in lines:
            answer = json.loads(line)
            known = answered.setdefault(answer["key"], answer)
            assert {**answer, "replayed": False} == {**known, "replayed": False}
        done = max(done, len(lines))
    last = punto_process("run", str(file))
    assert (last.code, last.err) == (0, "")

    elsewhere = make_url()
    undisturbed = punto.run(long_evening, url=elsewhere)
    assert [{**answer, "replayed": False} for answer in last.lines] == undisturbed
    for answer in undisturbed:
        known = answered.get(answer["key"], answer)
        assert {**known, "replayed": False} == answer
    assert stored_events(punto.url) == stored_events(elsewhere)
    assert sql("SELECT count(*), count(DISTINCT key) FROM ledger.answers") == [
        (HUNDRED_AND_FIFTY, HUNDRED_AND_FIFTY)
    ]
    assert punto("audit").code == 0


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped_says_so_in_one_line_and_goes_on_later(
    start_punto, punto, evening, how
):
    process = start_punto("run", "-")
    for command in evening[:5]:
        process.stdin.write(json.dumps(command).encode() + b"\n")
    process.stdin.flush()
    lines, complaint = end_after(process, answers=5, seconds=0, how=how)
    assert process.returncode == 130
    assert complaint == (
        "punto: Stopped. What was answered is stored; the same command again goes on.\n"
    )
    assert len(lines) == 5
    answers = punto.run(evening)
    assert [answer["replayed"] for answer in answers] == [True] * 5 + [False] * (len(evening) - 5)
    assert all(answer["ok"] for answer in answers)


def test_two_runs_of_one_file_at_once_store_everything_once(
    start_punto, file, long_evening, make_url, punto, stored_events, sql
):
    processes = [start_punto("run", str(file)) for _ in range(2)]
    outputs = [b"", b""]

    def finish(number):
        outputs[number] = processes[number].communicate(timeout=60)[0]

    threads = [threading.Thread(target=finish, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [process.returncode for process in processes] == [0, 0]
    ones, others = ([json.loads(line) for line in output.splitlines()] for output in outputs)
    for command, one, other in zip(long_evening, ones, others, strict=True):
        assert one["key"] == command["key"]
        assert one["ok"]
        assert one["replayed"] != other["replayed"]
        assert {**one, "replayed": None} == {**other, "replayed": None}
    elsewhere = make_url()
    punto.run(long_evening, url=elsewhere)
    assert stored_events(punto.url) == stored_events(elsewhere)
    (counts,) = sql("SELECT count(*), max(position), count(DISTINCT position) FROM ledger.events")
    assert len(set(counts)) == 1


def test_whoever_reads_the_answers_may_leave_and_the_file_is_run_again(
    start_punto, punto, file, long_evening
):
    process = start_punto("run", str(file))
    process.stdout.readline()
    process.stdout.close()
    complaint = process.stderr.read().decode()
    assert process.wait(60) == 2
    assert complaint == (
        "punto: Nobody reads the answers any more. The same command again goes on.\n"
    )
    answers = punto.run(long_evening)
    assert all(answer["ok"] for answer in answers)
    assert answers[0]["replayed"]
    assert not answers[-1]["replayed"]


def test_a_run_stops_where_the_store_stays_away_and_leaves_no_hole(
    punto, url, tmp_path, monkeypatch
):
    """A later line may rest on one that could not be stored."""
    monkeypatch.setattr(execution, "_PATIENCE_SECONDS", (0.01,))
    lines = [
        json.dumps(
            {"command": "open_account", "key": f"k{n}", "account_id": f"a{n}", "currency": "USD"}
        ).encode()
        + b"\n"
        for n in range(4)
    ]
    pipe = tmp_path / "commands"
    os.mkfifo(pipe)
    with Proxy(tmp_path, url) as proxy:

        def feed():
            with pipe.open("wb", buffering=0) as end:
                end.write(lines[0])
                while not punto_has_stored(url, 1):
                    time.sleep(0.01)
                proxy.down()
                end.write(b"".join(lines[1:]))

        feeding = threading.Thread(target=feed)
        feeding.start()
        ran = punto("run", str(pipe), url=proxy.conninfo)
        feeding.join()

    assert [line["ok"] for line in ran.lines] == [True, False]
    assert ran.lines[1]["error"]["code"] == "store_unavailable"
    assert "Stopped at line 2" in ran.refusal()
    again = punto("run", "-", stdin=b"".join(lines))
    assert [line["replayed"] for line in again.lines] == [True, False, False, False]
    assert all(line["ok"] for line in again.lines)


def test_a_run_whose_commands_are_stored_has_done_them_although_the_store_goes_away_then(
    punto, url, tmp_path
):
    """The read models are brought up to date by whoever asks next."""
    opening = {"command": "open_account", "key": "k", "account_id": "a", "currency": "USD"}
    pipe = tmp_path / "commands"
    os.mkfifo(pipe)
    with Proxy(tmp_path, url) as proxy:

        def feed():
            with pipe.open("wb", buffering=0) as end:
                end.write(json.dumps(opening).encode() + b"\n")
                while not punto_has_stored(url, 1):
                    time.sleep(0.01)
                # The answer, too, is to be through.
                time.sleep(0.2)
                proxy.down()

        feeding = threading.Thread(target=feed)
        feeding.start()
        ran = punto("run", str(pipe), url=proxy.conninfo)
        feeding.join()

    assert ran.code == 0
    assert [line["ok"] for line in ran.lines] == [True]
    assert ran.err.startswith("punto: No connection to the database: "), ran.err
    assert [line["account_id"] for line in punto("accounts", "--json").lines] == ["a"]


def punto_has_stored(url, events):
    with psycopg.connect(url) as connection:
        (count,) = connection.execute("SELECT count(*) FROM ledger.stored_events").fetchone()
    return count == events
