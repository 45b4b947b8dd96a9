"""Writers that are killed, or lose their connections, at any moment under load."""

import threading
import time
from pathlib import Path
from random import Random

import psycopg

from tests.chaos.books import check_finished, check_whole
from tests.chaos.load import Undisturbed, loads
from tests.chaos.size import BACKEND_KILLS, TIMES, WRITER_KILLS
from tests.chaos.writers import Writer, finish, run_and_kill

WRITERS = 4
_TERMINATE_ONE = """
SELECT pg_terminate_backend(pid)
  FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
 ORDER BY random()
 LIMIT 1
"""


def test_writers_that_are_killed_at_any_moment_lose_nothing_and_do_nothing_twice(
    url: str, tmp_path: Path, random: Random
) -> None:
    files = loads(WRITERS, commands=60 * TIMES, random=random)
    undisturbed = Undisturbed(files)
    writers = [Writer(load, tmp_path, PUNTO_DATABASE_URL=url) for load in files]
    kills = [WRITER_KILLS // WRITERS + (n < WRITER_KILLS % WRITERS) for n in range(WRITERS)]
    threads = [
        threading.Thread(
            target=run_and_kill,
            args=(writer,),
            kwargs={"kills": kills[number], "random": Random(random.random())},
        )
        for number, writer in enumerate(writers)
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        check_whole(url, undisturbed)
        time.sleep(0.2)
    finish(writers)

    assert sum(writer.starts for writer in writers) == WRITER_KILLS + WRITERS
    check_finished(url, undisturbed, writers)


def test_writers_whose_connections_are_ended_at_random_go_on_by_themselves(
    url: str, superuser_url: str, tmp_path: Path, random: Random
) -> None:
    files = loads(WRITERS, commands=60 * TIMES, random=random)
    undisturbed = Undisturbed(files)
    writers = [Writer(load, tmp_path, PUNTO_DATABASE_URL=url) for load in files]
    for writer in writers:
        writer.start()
    ended = 0
    with psycopg.connect(superuser_url, autocommit=True) as superuser:
        while ended < BACKEND_KILLS and any(writer.is_running for writer in writers):
            ended += superuser.execute(_TERMINATE_ONE).rowcount
            time.sleep(random.random() / 10)
    finish(writers)

    assert ended > 0
    check_finished(url, undisturbed, writers)
