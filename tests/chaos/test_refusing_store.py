"""A store that is there and refuses: statements that time out, connections that are too many."""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from random import Random

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from infrastructure.casino import Casino
from infrastructure.commands import execution
from infrastructure.commands.contract import read_command
from infrastructure.commands.execution import Client, execute
from infrastructure.store.schema import LEDGER_ROLE
from tests.chaos.books import check_finished, check_whole
from tests.chaos.load import Answer, Load, Undisturbed, loads, same
from tests.chaos.size import COMMANDS_REFUSED_A_WHILE, SECONDS_MAX

WRITERS = 5
_TERMINATE_ALL = """
SELECT pg_terminate_backend(pid)
  FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


class Insistent:
    """Writers that send each command until the store is there for it."""

    def __init__(self, url: str, files: list[Load]) -> None:
        self.answers: dict[str, Answer] = {}
        self.times_away = 0
        self._url = url
        self._pool = ThreadPoolExecutor(len(files))
        self._running: list[Future[None]] = [self._pool.submit(self._run, load) for load in files]

    @property
    def is_running(self) -> bool:
        return not all(each.done() for each in self._running)

    def finish(self) -> None:
        for each in self._running:
            each.result(SECONDS_MAX)
        self._pool.shutdown()

    def _run(self, load: Load) -> None:
        env = {"PERSISTENCE_MODULE": "infrastructure.store.factory", "PUNTO_CONNINFO": self._url}
        with Casino(env) as casino:
            casino.recorder.datastore.pool.timeout = 0.2
            for line in load.lines:
                answer = self._send(casino, line)
                self.answers[answer["key"]] = json.loads(json.dumps(answer))

    def _send(self, casino: Casino, line: bytes) -> Answer:
        until = time.monotonic() + SECONDS_MAX
        while time.monotonic() < until:
            (answer,) = execute(casino, [read_command(line)], client=Client("cli"))
            if answer["ok"] or answer["error"]["code"] != "store_unavailable":
                return answer
            self.times_away += 1
        raise AssertionError(f"it is away for too long: {answer}")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "_PATIENCE_SECONDS", (0,))


@pytest.fixture
def superuser(superuser_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        yield connection


def disturb(
    login: str,
    url: str,
    superuser_url: str,
    *,
    random: Random,
    refuse: Callable[[], None],
    serve: Callable[[], None],
) -> None:
    """Lets writers run their files while the store refuses and serves in turn."""
    files = loads(WRITERS, commands=COMMANDS_REFUSED_A_WHILE, random=random)
    undisturbed = Undisturbed(files)
    writers = Insistent(login, files)
    while writers.is_running:
        time.sleep(random.random() / 5)
        refuse()
        time.sleep(random.random() / 2)
        check_whole(superuser_url, undisturbed)
        serve()
        if writers.times_away > 2 * WRITERS:
            break
    writers.finish()
    assert writers.answers.keys() == undisturbed.answers.keys()
    for key, answer in writers.answers.items():
        assert same(answer, undisturbed.answers[key], but=("replayed", "position"))
    check_finished(url, undisturbed)
    print(f"away for {writers.times_away} commands")


def test_statements_that_time_out_leave_nothing_half_done(
    url: str, superuser_url: str, superuser: psycopg.Connection, database_name: str, random: Random
) -> None:
    def refuse() -> None:
        superuser.execute(
            f"ALTER ROLE {LEDGER_ROLE} IN DATABASE {database_name}"
            f" SET statement_timeout TO {random.randrange(1, 6)}".encode()
        )
        # A setting holds for connections that come.
        superuser.execute(_TERMINATE_ALL)

    def serve() -> None:
        superuser.execute(
            f"ALTER ROLE {LEDGER_ROLE} IN DATABASE {database_name} RESET ALL".encode()
        )

    disturb(url, url, superuser_url, random=random, refuse=refuse, serve=serve)


def test_connections_that_are_too_many_wait_or_are_refused(
    url: str,
    superuser_url: str,
    superuser: psycopg.Connection,
    make_role: Callable[..., str],
    random: Random,
) -> None:
    role = make_role(f"IN ROLE {LEDGER_ROLE}")
    limited = make_conninfo(url, user=role, options=f"-c role={LEDGER_ROLE}")

    def refuse() -> None:
        limit = random.randrange(WRITERS - 1)
        superuser.execute(f"ALTER ROLE {role} CONNECTION LIMIT {limit}".encode())
        superuser.execute(_TERMINATE_ALL)

    def serve() -> None:
        superuser.execute(f"ALTER ROLE {role} CONNECTION LIMIT -1".encode())

    disturb(limited, url, superuser_url, random=random, refuse=refuse, serve=serve)
