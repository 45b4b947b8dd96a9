"""The embedded server: started once, shared, stopped by the last living user, and hard to lose."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from infrastructure.store.binaries import _everybody_can_read
from infrastructure.store.embedded import EmbeddedServer
from infrastructure.store.errors import StoreUnavailable

REPOSITORY = Path(__file__).parents[3]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root hands the server to another")


def server_pid(home: Path) -> int:
    return int((home / "postgres/postmaster.pid").read_text().splitlines()[0])


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def is_running(home: Path) -> bool:
    try:
        return is_alive(server_pid(home))
    except FileNotFoundError:
        return False


@pytest.fixture
def new_home(tmp_path: Path) -> Iterator[Path]:
    """A home that is not there yet."""
    yield tmp_path / "new" / "home"
    shutil.rmtree(tmp_path / "new", ignore_errors=True)


def wait_until_gone(pid: int) -> None:
    until = time.monotonic() + 10
    while is_alive(pid) and time.monotonic() < until:
        time.sleep(0.01)


def ask(url: str, question: str = "SELECT 'answer'") -> object:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(question.encode()).fetchone()
        assert row is not None
        return row[0]


@contextmanager
def another_user(home: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that uses the server of this home until its input ends."""
    program = (
        "import sys; from pathlib import Path\n"
        "from infrastructure.store.embedded import EmbeddedServer\n"
        "EmbeddedServer(Path(sys.argv[1])).start()\n"
        "print('started', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(home)],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        yield process
        process.kill()


def test_the_superuser_url_leads_to_the_database(resting_home: Path) -> None:
    server = EmbeddedServer(resting_home)
    url = server.start()
    assert ask(url, "SELECT current_user || ' in ' || current_database()") == (
        "postgres in puntobanco"
    )
    assert ask(url, "SELECT version()").startswith("PostgreSQL 18")  # type: ignore[attr-defined]
    assert ask(url, "SHOW fsync") == "on"
    assert ask(url, "SHOW listen_addresses") == ""
    assert ask(url, "SHOW server_encoding") == "UTF8"
    assert ask(url, "SELECT datcollate FROM pg_database WHERE datname = 'puntobanco'") == "C"
    server.stop()
    assert not is_running(resting_home)


def test_only_the_owner_can_enter_what_is_made(new_home: Path) -> None:
    with EmbeddedServer(new_home):
        pass
    assert new_home.stat().st_mode & 0o777 == 0o700
    assert (new_home / "postgres").stat().st_mode & 0o777 == 0o700


def test_directories_above_the_home_keep_their_permissions(initialised_home: Path) -> None:
    closed = initialised_home / "closed"
    closed.mkdir(mode=0o700)
    for part in ("postgres", "lock", "users"):
        (initialised_home / part).rename(closed / part)
    with EmbeddedServer(closed) as server:
        assert ask(server.url()) == "answer"
    assert closed.stat().st_mode & 0o777 == 0o700


@needs_root
def test_the_server_does_not_run_as_root(resting_home: Path) -> None:
    with EmbeddedServer(resting_home):
        assert psutil.Process(server_pid(resting_home)).username() == "puntobanco"


@needs_root
def test_data_that_root_restored_from_a_copy_is_given_to_the_server(initialised_home: Path) -> None:
    data = initialised_home / "postgres"
    for path in (data, *data.rglob("*")):
        os.lchown(path, 0, 0)
    with EmbeddedServer(initialised_home) as server:
        assert ask(server.url()) == "answer"


@needs_root
def test_programs_that_only_root_can_reach_are_copied(
    new_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("infrastructure.store.binaries._everybody_can_read", readable_copies_only)
    # Below the usual temporary directory, for that of the test is itself closed to others.
    copies = Path(f"/tmp/puntobanco-copies-{os.getpid()}")
    monkeypatch.setattr("infrastructure.store.binaries.COPIES", copies)
    umask = os.umask(0o077)
    try:
        with EmbeddedServer(new_home) as server:
            program = psutil.Process(server_pid(new_home)).exe()
            assert program.startswith(str(copies))
            assert ask(server.url()) == "answer"
    finally:
        os.umask(umask)
        shutil.rmtree(copies)


def readable_copies_only(install: Path) -> bool:
    return "puntobanco-copies" in str(install) and _everybody_can_read(install)


def test_a_long_home_works(initialised_home: Path) -> None:
    home = initialised_home / ("long" * 20) / ("longer" * 20)
    home.mkdir(parents=True)
    (initialised_home / "postgres").rename(home / "postgres")
    with EmbeddedServer(home) as server:
        assert ask(server.url()) == "answer"
    assert not is_running(home)


def test_a_second_user_joins_and_the_last_one_stops_it(resting_home: Path) -> None:
    first, second = EmbeddedServer(resting_home), EmbeddedServer(resting_home)
    first.start()
    pid = server_pid(resting_home)
    second.start()
    assert server_pid(resting_home) == pid
    first.stop()
    assert ask(second.url()) == "answer"
    second.stop()
    assert not is_alive(pid)


def test_a_process_that_ends_leaves_the_server(resting_home: Path) -> None:
    with another_user(resting_home) as process:
        pid = server_pid(resting_home)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait() == 0
        assert not is_alive(pid)


def test_after_a_user_was_killed_the_next_one_stops_the_server(resting_home: Path) -> None:
    with another_user(resting_home) as process:
        process.kill()
        process.wait()
        assert is_running(resting_home)
    with EmbeddedServer(resting_home):
        pass
    assert not is_running(resting_home)


def test_a_killed_server_is_started_again(resting_home: Path) -> None:
    with EmbeddedServer(resting_home) as server:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS number")
        os.kill(server_pid(resting_home), signal.SIGKILL)
        with EmbeddedServer(resting_home) as again:
            assert ask(again.url(), "SELECT number FROM kept") == 7
    assert not is_running(resting_home)


def test_a_long_query_does_not_outlive_a_killed_server(resting_home: Path) -> None:
    with EmbeddedServer(resting_home) as server:
        busy = psycopg.connect(server.url(), autocommit=True)
        busy.pgconn.send_query(b"SELECT count(*) FROM generate_series(1, 2000000000)")
        os.kill(server_pid(resting_home), signal.SIGKILL)
        with EmbeddedServer(resting_home) as again:
            assert ask(again.url()) == "answer"
        busy.close()


def test_a_process_with_the_id_of_a_dead_server_does_not_matter(resting_home: Path) -> None:
    locks = ("postmaster.pid", ".s.PGSQL.5432.lock")
    data = resting_home / "postgres"
    with EmbeddedServer(resting_home):
        left = {name: (data / name).read_text().splitlines() for name in locks}
    # The process is alive, belongs to the account of the server and is none.
    with subprocess.Popen(["sleep", "60"], **as_owner_of(data)) as other:
        for name, lines in left.items():
            (data / name).write_text("\n".join([str(other.pid), *lines[1:], ""]))
        with EmbeddedServer(resting_home) as server:
            assert ask(server.url()) == "answer"
        other.kill()


def as_owner_of(data: Path) -> dict[str, Any]:
    return {"user": data.stat().st_uid} if os.geteuid() == 0 else {}


def test_processes_that_start_at_the_same_moment_share_one_server(new_home: Path) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from infrastructure.store.embedded import EmbeddedServer\n"
        "with EmbeddedServer(Path(sys.argv[1])) as server:\n"
        "    import psycopg; psycopg.connect(server.url()).close()"
    )
    command = [sys.executable, "-c", program, str(new_home)]
    processes = [subprocess.Popen(command, cwd=REPOSITORY) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert not is_running(new_home)


def test_an_interrupted_setup_is_done_again(new_home: Path) -> None:
    half_made = new_home / ".postgres-abcdefgh"
    half_made.mkdir(parents=True)
    (half_made / "PG_VERSION").write_text("18\n")
    with EmbeddedServer(new_home) as server:
        assert ask(server.url()) == "answer"
    assert not half_made.exists()


def test_ctrl_c_at_the_terminal_does_not_reach_the_server(resting_home: Path) -> None:
    with EmbeddedServer(resting_home) as server, another_user(resting_home) as process:
        pid = server_pid(resting_home)
        assert os.getsid(pid) not in (os.getsid(0), os.getsid(process.pid))
        os.killpg(process.pid, signal.SIGINT)
        process.wait()
        assert ask(server.url()) == "answer"


def test_a_forked_child_does_not_leave_for_its_parent(resting_home: Path) -> None:
    with EmbeddedServer(resting_home) as server:
        child = os.fork()
        if child == 0:
            server.stop()
            os._exit(0)
        os.waitpid(child, 0)
        assert ask(server.url()) == "answer"


def test_a_deleted_home_does_not_keep_the_server(initialised_home: Path) -> None:
    server = EmbeddedServer(initialised_home)
    server.start()
    pid = server_pid(initialised_home)
    subprocess.run(["rm", "-r", str(initialised_home)], check=True)
    server.stop()
    wait_until_gone(pid)
    assert not is_alive(pid)


def test_a_server_that_cannot_start_says_why_in_one_line(initialised_home: Path) -> None:
    with (initialised_home / "postgres/postgresql.conf").open("a") as settings:
        settings.write("shared_buffers = 'plenty'\n")
    with pytest.raises(StoreUnavailable, match=r"did not start: .*FATAL") as failed:
        EmbeddedServer(initialised_home).start()
    assert "\n" not in str(failed.value)


def test_data_of_another_release_is_refused(initialised_home: Path) -> None:
    (initialised_home / "postgres/PG_VERSION").write_text("17\n")
    with pytest.raises(StoreUnavailable, match="was made by PostgreSQL 17"):
        EmbeddedServer(initialised_home).start()


def test_a_home_below_a_file_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match="set PUNTO_HOME"):
        EmbeddedServer(tmp_path / "file" / "home").start()


def test_the_log_of_the_server_does_not_grow_for_ever(initialised_home: Path) -> None:
    log = initialised_home / "postgres.log"
    log.write_bytes(b"x" * 1_000_001)
    with EmbeddedServer(initialised_home):
        pass
    assert log.stat().st_size < 100_000
