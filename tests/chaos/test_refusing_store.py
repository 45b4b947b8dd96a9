"""A store that is there and refuses: statements that time out, connections that are too many."""

import time
from collections.abc import Callable, Iterator
from random import Random

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from infrastructure.store.schema import LEDGER_ROLE
from tests.chaos.books import check_finished, check_whole
from tests.chaos.insistent import Insistent
from tests.chaos.load import Undisturbed, loads
from tests.chaos.size import COMMANDS_REFUSED_A_WHILE

WRITERS = 5
_TERMINATE_ALL = """
SELECT pg_terminate_backend(pid)
  FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


pytestmark = pytest.mark.usefixtures("impatient")


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
    writers.check(undisturbed)
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
