"""The embedded PostgreSQL that is killed, together with those who use it or under them."""

import os
import signal
import time
from pathlib import Path
from random import Random

import psutil
import pytest

from infrastructure.store.embedded import EmbeddedServer
from infrastructure.store.schema import LEDGER_ROLE
from tests.chaos.books import check_finished
from tests.chaos.load import Load, Undisturbed, loads
from tests.chaos.size import EMBEDDED_KILLS, SECONDS_MAX, SERVER_KILLS, TIMES
from tests.chaos.writers import Writer, finish, punto

WRITERS = 4


def kill_server(home: Path) -> None:
    pid = int((home / "postgres/postmaster.pid").read_text().splitlines()[0])
    os.kill(pid, signal.SIGKILL)


def servers_of(home: Path) -> list[psutil.Process]:
    """Every process of PostgreSQL that works in this home."""
    found = []
    for process in psutil.process_iter(["name", "status"]):
        is_one = process.info["name"] == "postgres"
        if not is_one or process.info["status"] == psutil.STATUS_ZOMBIE:
            continue
        try:
            if Path(process.cwd()).is_relative_to(home):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def must_be_left_alone(home: Path) -> None:
    """No server of this home is left, or it is about to go."""
    until = time.monotonic() + 10
    while left := servers_of(home):
        assert time.monotonic() < until, left
        time.sleep(0.02)


def test_a_server_that_is_killed_under_its_writers_comes_back_with_all_that_was_answered(
    initialised_home: Path, tmp_path: Path, random: Random
) -> None:
    files = loads(WRITERS, commands=50 * TIMES, random=random)
    undisturbed = Undisturbed(files)
    home = {"PUNTO_HOME": str(initialised_home)}
    assert punto("tables", "--json", **home).returncode == 0
    writers = [Writer(load, tmp_path, **home) for load in files]
    total = sum(len(load.commands) for load in files)
    for writer in writers:
        writer.start()
    with EmbeddedServer(initialised_home) as user:
        for number in range(SERVER_KILLS):
            moment = total * (number + random.random()) / (SERVER_KILLS + 1)
            until = time.monotonic() + SECONDS_MAX
            while sum(writer.answered for writer in writers) < moment:
                assert time.monotonic() < until, "the writers hang"
                # One that gave up is run again by whoever runs it.
                for writer in writers:
                    if not writer.is_running and writer.answered < len(writer.load.commands):
                        writer.start()
                time.sleep(0.005)
            kill_server(initialised_home)
            time.sleep(random.random() / 2)
            with EmbeddedServer(initialised_home):
                pass
        finish(writers)
        url = user.url(user=LEDGER_ROLE)
        check_finished(url, undisturbed, writers, **home)
    must_be_left_alone(initialised_home)


@pytest.mark.parametrize("who", ["punto", "server", "both"])
def test_after_a_kill_any_command_works_and_the_last_one_stops_the_server(
    initialised_home: Path, tmp_path: Path, random: Random, who: str
) -> None:
    home = {"PUNTO_HOME": str(initialised_home)}
    load = Load("w", commands=40, random=random)
    undisturbed = Undisturbed([load])
    writer = Writer(load, tmp_path, **home)
    for _ in range(EMBEDDED_KILLS):
        writer.start()
        writer.wait_for(random.randrange(1, 20))
        if not writer.is_running:
            break
        if who in ("server", "both"):
            kill_server(initialised_home)
        if who in ("punto", "both"):
            writer.kill()
        asked = punto(*random.choice([("tables", "--json"), ("status", "--json")]), **home)
        assert asked.returncode == 0, asked
        if who == "server":
            writer.finish()
        must_be_left_alone(initialised_home)
    writer.start()
    finish([writer])
    must_be_left_alone(initialised_home)
    with EmbeddedServer(initialised_home) as user:
        check_finished(user.url(user=LEDGER_ROLE), undisturbed, [writer], **home)
    must_be_left_alone(initialised_home)
