"""A server whose disk is full under load, until there is room again."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import psycopg
import pytest

from infrastructure.store.embedded import EmbeddedServer
from infrastructure.store.schema import LEDGER_ROLE, upgrade
from tests.chaos.books import check_finished, check_whole
from tests.chaos.disk import Disk, LimitedFiles, small_disk
from tests.chaos.insistent import Insistent
from tests.chaos.load import Undisturbed, loads
from tests.chaos.size import COMMANDS_WHILE_FULL, DISKS_FILLED, SECONDS_MAX

WRITERS = 4

pytestmark = pytest.mark.usefixtures("impatient")


def wait_until(writers: Insistent, what: Callable[[], bool]) -> None:
    until = time.monotonic() + SECONDS_MAX
    while not what():
        assert writers.is_running, "they were done before the disk was full"
        assert time.monotonic() < until, "it hangs"
        time.sleep(0.005)


def switch_wal(url: str) -> None:
    """Lets the server need a new file of its log, rather than hours of writing."""
    with suppress(psycopg.Error), psycopg.connect(url, autocommit=True) as superuser:
        superuser.execute("SELECT pg_logical_emit_message(FALSE, 'full', 'full')")
        superuser.execute("SELECT pg_switch_wal()")


def fill_under_load(
    home: Path, disk: Disk, random: Random, *, press: Callable[[str], None] = lambda _: None
) -> set[str]:
    """Lets writers run their files while the disk is filled; why they were refused."""
    files = loads(WRITERS, commands=COMMANDS_WHILE_FULL, random=random)
    undisturbed = Undisturbed(files)
    commands = len(undisturbed.answers)
    with EmbeddedServer(home) as server:
        url = server.url(user=LEDGER_ROLE)
        with psycopg.connect(server.url(), autocommit=True) as superuser:
            upgrade(superuser)
        writers = Insistent(url, files)
        for number in range(DISKS_FILLED):
            # With enough left to do that the disk is found full.
            moment = commands * (number + random.random() / 2) / (DISKS_FILLED + 1)
            wait_until(writers, lambda moment=moment: len(writers.answers) >= moment)
            enough = writers.times_away + WRITERS
            disk.fill()

            def is_full(enough: int = enough) -> bool:
                press(server.url())
                return writers.times_away >= enough

            wait_until(writers, is_full)
            # One that stopped says nothing now.
            with suppress(psycopg.OperationalError):
                check_whole(url, undisturbed)
            time.sleep(random.random())
            disk.make_room()
            # A server that gave up is started again by whoever looks after it.
            with EmbeddedServer(home):
                pass
        writers.finish()
        writers.check(undisturbed)
        check_finished(url, undisturbed)
    return writers.reasons


def test_a_full_disk_refuses_commands_until_it_has_room(
    initialised_home: Path, random: Random
) -> None:
    with small_disk(initialised_home / "postgres") as disk:
        reasons = fill_under_load(initialised_home, disk, random)
    assert any("No space left on device" in reason for reason in reasons), reasons


def test_a_log_of_the_server_that_is_full_stops_it_and_loses_nothing(
    initialised_home: Path, random: Random
) -> None:
    with small_disk(initialised_home / "postgres/pg_wal") as disk:
        fill_under_load(initialised_home, disk, random, press=switch_wal)


def test_files_that_may_not_grow_refuse_commands_until_they_may(
    initialised_home: Path, random: Random
) -> None:
    fill_under_load(initialised_home, LimitedFiles(initialised_home), random)
