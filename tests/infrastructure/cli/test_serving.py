"""`punto serve` in a process of its own, the keys, and the rights in the database."""

import json
import os
import signal
import socket
import threading
from contextlib import closing, suppress
from datetime import datetime

import httpx
import psutil
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from infrastructure.store.schema import LEDGER_ROLE
from tests.infrastructure.cli.conftest import an_evening, as_file
from tests.infrastructure.proxy import Proxy


@pytest.fixture
def serve(start_punto):
    """Starts `punto serve`, and gives the process, its address and its log as it grows."""

    def start(*options, **environment):
        process = start_punto("serve", "--port", "0", *options, **environment)
        log = Log(process.stderr)
        message = log.wait_for(lambda line: line["message"].startswith("Serving "))["message"]
        return process, message.removeprefix("Serving "), log

    return start


class Log:
    """The log of a service, read all the time, for a pipe that is full would hold it up."""

    def __init__(self, stream):
        self._texts = []
        self._has_grown = threading.Condition()
        threading.Thread(target=self._read, args=(stream,), daemon=True).start()

    def _read(self, stream):
        for line in stream:
            with self._has_grown:
                self._texts.append(line.decode())
                self._has_grown.notify_all()

    @property
    def text(self):
        return "".join(self._texts)

    @property
    def lines(self):
        return [json.loads(text) for text in self._texts]

    def wait_for(self, is_wanted):
        """The first line that is wanted."""
        with self._has_grown:
            assert self._has_grown.wait_for(lambda: any(map(is_wanted, self.lines)), 60), self.text
        return next(filter(is_wanted, self.lines))


def post(url, path, body, key, **headers):
    given = {"Idempotency-Key": key, **headers}
    return httpx.post(f"{url}{path}", json=body, headers=given, timeout=30, trust_env=False)


def test_it_serves_what_run_recorded_and_stops_in_peace(punto, serve):
    punto("run", "-", stdin=as_file(an_evening()))
    process, url, log = serve()
    rounds = httpx.get(f"{url}/v1/rounds?limit=1000", timeout=30, trust_env=False).json()["rounds"]
    assert rounds == punto("rounds", "--json").lines
    process.send_signal(signal.SIGTERM)
    assert (process.wait(30), process.stdout.read()) == (0, b"")
    log.wait_for(lambda line: line["message"].startswith("Finished server process"))
    assert not [line for line in log.lines if line["level"] == "error"]


def test_its_log_is_lines_of_json_without_secrets(punto, start_punto, url):
    key = punto("key", "create", "--owner", "eve", "--role", "auditor", "--json").document["key"]
    with_password = make_conninfo(url, password="hunter2")
    process = start_punto("serve", "--port", "0", PUNTO_DATABASE_URL=with_password)
    log = Log(process.stderr)
    address = log.wait_for(lambda line: line["message"].startswith("Serving "))["message"].split()[
        1
    ]
    headers = {"Authorization": f"Bearer {key}", "X-Request-Id": "r-1"}
    assert (
        httpx.get(f"{address}/v1/tables", headers=headers, timeout=60, trust_env=False).status_code
        == 200
    )
    told = log.wait_for(lambda line: line.get("request_id") == "r-1")
    assert (told["route"], told["status"], told["owner"]) == ("/v1/tables", 200, "eve")
    with closing(
        socket.create_connection(address.removeprefix("http://").split(":"))
    ) as connection:
        connection.sendall(b"\x00\x01 nonsense\r\n\r\n")
        connection.recv(1000)
    log.wait_for(lambda line: "Invalid HTTP request" in line["message"])
    process.send_signal(signal.SIGTERM)
    process.wait(30)
    log.wait_for(lambda line: line["message"].startswith("Finished server process"))
    for line in log.lines:
        assert datetime.fromisoformat(line["time"]).tzinfo
        assert line["level"] in ("info", "warning")
    assert "hunter2" not in log.text
    assert key not in log.text


def test_a_stream_that_is_told_of_the_end_is_told_in_the_log(serve):
    process, url, log = serve()
    with httpx.stream("GET", f"{url}/v1/events", timeout=30, trust_env=False) as response:
        lines = response.iter_lines()
        assert next(lines) == "retry: 1000"
        process.send_signal(signal.SIGTERM)
        assert ": the service stops, come again" in list(lines)
    assert process.wait(30) == 0
    log.wait_for(lambda line: line.get("route") == "/v1/events")


def test_its_page_of_the_ledger_shows_the_feed_that_the_environment_names(serve):
    _, url, _ = serve(PUNTO_NATS_URL="nats://127.0.0.1:1", PUNTO_NATS_STREAM="TOWER")
    page = httpx.get(f"{url}/ledger", timeout=30, trust_env=False).text
    assert "TOWER" in page
    assert "nats://127.0.0.1:1 does not answer" in page


def test_without_a_key_it_says_that_it_listens_on_this_machine_alone(serve):
    _, url, log = serve()
    assert url.startswith("http://127.0.0.1:")
    log.wait_for(lambda line: line["message"].startswith("Nobody has a key"))


def test_without_a_key_it_listens_nowhere_else(punto):
    everywhere = ("serve", "--host", "0.0.0.0", "--port", "0")
    assert "Nobody has a key" in punto(*everywhere, "--name", "punto.example").refusal()
    assert "needs a --name" in punto(*everywhere).refusal()


def test_a_port_that_is_taken_is_said_in_a_line(punto, serve):
    _, url, _ = serve()
    port = url.rsplit(":", 1)[1]
    assert f"Port {port} of 127.0.0.1 is taken" in punto("serve", "--port", port).refusal()


def test_two_processes_behind_one_port_work_on_one_ledger(serve):
    _, first, _ = serve("--shared-port")
    _, second, _ = serve("--shared-port")
    body = {"account_id": "P1", "currency": "USD"}
    assert post(first, "/v1/accounts", body, "a").json()["replayed"] is False
    assert post(second, "/v1/accounts", body, "a").json()["replayed"] is True
    one, two = (
        httpx.get(f"{url}/v1/accounts", timeout=60, trust_env=False).json()
        for url in (first, second)
    )
    assert one == two


def test_a_command_in_flight_is_answered_before_the_end(serve):
    process, url, _ = serve()
    answers = []

    def deposit():
        for number in range(200):
            body = {"account_id": f"P{number}", "currency": "USD"}
            try:
                answers.append(post(url, "/v1/accounts", body, f"k{number}").status_code)
            except httpx.TransportError:
                return

    thread = threading.Thread(target=deposit)
    thread.start()
    while len(answers) < 5:
        thread.join(0.01)
    process.send_signal(signal.SIGTERM)
    process.wait(30)
    thread.join()
    assert set(answers) == {200}


def beside(process):
    """The processes that a service has started."""
    return psutil.Process(process.pid).children(recursive=True)


def test_ctrl_c_at_a_terminal_ends_all_of_it_in_peace(serve):
    process, _, log = serve()
    others = beside(process)
    # Every process of a terminal gets it, also one that has only begun to load its modules.
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(60) == 0
    log.wait_for(lambda line: line["message"].startswith("Finished server process"))
    assert others
    _, alive = psutil.wait_procs(others, timeout=60)
    assert alive == []
    assert {line["level"] for line in log.lines} <= {"info", "warning"}
    assert not [line for line in log.lines if "stand still" in line["message"]]


def test_a_supervisor_that_stops_all_of_its_processes_at_once_stops_it_in_peace(serve):
    process, url, log = serve()
    assert post(url, "/v1/accounts", {"account_id": "P1", "currency": "USD"}, "a").is_success
    assert httpx.get(f"{url}/v1/accounts", timeout=60, trust_env=False).json()["accounts"]
    for each in beside(process):
        each.terminate()
    process.terminate()
    assert process.wait(60) == 0
    log.wait_for(lambda line: line["message"].startswith("Finished server process"))
    assert not [line for line in log.lines if "stand still" in line["message"]]


@pytest.mark.parametrize("is_away", [False, True])
def test_nothing_is_left_of_a_service_that_is_killed(serve, url, tmp_path, is_away):
    with Proxy(tmp_path, url) as wire:
        process, address, log = serve(PUNTO_DATABASE_URL=wire.conninfo)
        assert httpx.get(f"{address}/v1/accounts", timeout=60, trust_env=False).is_success
        if is_away:
            wire.down()
            log.wait_for(lambda line: "stand still" in line["message"])
        others = beside(process)
        process.kill()
        assert others
        _, alive = psutil.wait_procs(others, timeout=60)
        assert alive == []


def give_lines(url, lines):
    headers = {"Content-Type": "application/x-ndjson"}
    content = lines.encode()
    return httpx.post(
        f"{url}/v1/commands", content=content, headers=headers, timeout=30, trust_env=False
    )


def test_a_service_that_is_killed_has_lost_and_doubled_nothing(serve, punto):
    commands = [
        {"command": "open_account", "key": f"k{number}", "account_id": f"P{number}",
         "currency": "USD"}
        for number in range(300)
    ]  # fmt: skip
    lines = "".join(json.dumps(command) + "\n" for command in commands)
    process, url, _ = serve()
    killing = threading.Timer(0.05, process.kill)
    killing.start()
    with suppress(httpx.TransportError):
        give_lines(url, lines)
    process.wait(30)
    _, url, _ = serve()
    again = give_lines(url, lines)
    answers = [json.loads(line) for line in again.text.splitlines()]
    assert [answer["ok"] for answer in answers] == [True] * 300
    assert len(punto("accounts", "--json").lines) == 300


def test_a_key_is_shown_once_and_listed_without_it(punto):
    made = punto("key", "create", "--owner", "pit-1", "--role", "table", "--table", "T1", "--json")
    key = made.document["key"]
    assert key.startswith(f"punto_{made.document['id']}_")
    listed = punto("key", "list", "--json")
    assert listed.document["owner"] == "pit-1"
    assert listed.document["tables"] == ["T1"]
    assert key not in listed.out + punto("key", "list").out


def test_a_key_opens_the_service_until_it_is_revoked(punto, serve):
    made = punto("key", "create", "--owner", "eve", "--role", "auditor", "--json").document
    _, url, _ = serve()
    headers = {"Authorization": f"Bearer {made['key']}"}

    def status():
        answer = httpx.get(f"{url}/v1/tables", headers=headers, timeout=30, trust_env=False)
        return answer.status_code

    assert status() == 200
    assert httpx.get(f"{url}/v1/tables", timeout=60, trust_env=False).status_code == 401
    assert punto("key", "revoke", made["id"]).code == 0
    threading.Event().wait(2.5)
    assert status() == 401


@pytest.mark.parametrize(
    "options",
    [
        ("--owner", "pit", "--role", "table"),
        ("--owner", "pit", "--role", "cage", "--table", "T1"),
        ("--owner", "pit", "--role", "player"),
        ("--owner", "pit", "--role", "operator"),
        ("--owner", "pit", "--role", "king"),
        ("--owner", "cli", "--role", "cage"),
        ("--owner", "a b", "--role", "cage"),
        ("--owner", "pit", "--role", "table", "--table", "a b"),
    ],
)
def test_a_key_that_makes_no_sense_is_not_made(punto, options):
    assert punto("key", "create", *options).code == 2
    assert punto("key", "list", "--json").lines == []


def test_a_key_that_is_not_there_cannot_be_revoked(punto):
    assert "no such key" in punto("key", "revoke", "nothing").refusal()


@pytest.fixture
def granted(punto, superuser_url, make_role, server, database_name):
    """Makes a role that logs in, grants it a kind of access, and connects as it."""
    connections = []

    def grant(access):
        role = make_role()
        ran = punto("db", "grant", role, "--as", access, url=superuser_url)
        assert ran.code == 0, ran
        url = server.url(user=role, database=database_name)
        connections.append(psycopg.connect(url, autocommit=True))
        return connections[-1], url

    yield grant
    for connection in connections:
        connection.close()


CHANGES = (
    "UPDATE ledger.stored_events SET topic = 'x'",
    "DELETE FROM ledger.stored_events",
    "TRUNCATE ledger.stored_events",
    "ALTER TABLE ledger.stored_events DISABLE TRIGGER refuse_update",
    "DROP TRIGGER refuse_update ON ledger.stored_events",
    "DROP TABLE ledger.stored_events",
    "UPDATE ledger.answers SET position = 1",
    "UPDATE ledger.api_keys SET role = 'supervisor'",
    "DELETE FROM ledger.api_keys",
    """CREATE OR REPLACE FUNCTION ledger.refuse_change() RETURNS trigger LANGUAGE plpgsql
       AS 'BEGIN RETURN NULL; END'""",
)


@pytest.mark.parametrize("access", ["service", "auditor", "reporting"])
def test_no_granted_role_changes_the_history_or_its_guard(punto, granted, access):
    punto("run", "-", stdin=as_file(an_evening()[:3]))
    connection, _ = granted(access)
    for as_ledger in (False, True) if access == "service" else (False,):
        if as_ledger:
            connection.execute(f"SET ROLE {LEDGER_ROLE}")
        for statement in CHANGES:
            with pytest.raises(
                (psycopg.errors.InsufficientPrivilege, psycopg.errors.RestrictViolation)
            ):
                connection.execute(statement)


@pytest.mark.parametrize("access", ["auditor", "reporting"])
def test_who_may_read_reads_events_and_sees_no_secret(punto, granted, access):
    punto("key", "create", "--owner", "pit", "--role", "cage")
    punto("run", "-", stdin=as_file(an_evening()[:3]))
    connection, url = granted(access)
    assert connection.execute("SELECT count(*) FROM ledger.events").fetchone()[0] > 0
    for secret in ("api_keys", "seeds"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(f"SELECT * FROM ledger.{secret}")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("INSERT INTO ledger.stored_events SELECT * FROM ledger.stored_events")
    assert punto("tables", "--json", url=url).code == 0


def test_an_auditor_sees_who_holds_keys_and_reporting_does_not(punto, granted):
    punto("key", "create", "--owner", "pit", "--role", "cage")
    auditor, _ = granted("auditor")
    held = auditor.execute("SELECT owner, role FROM ledger.key_holders").fetchall()
    assert held == [("pit", "cage")]
    reporting, _ = granted("reporting")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        reporting.execute("SELECT * FROM ledger.key_holders")


def test_the_service_role_works_and_another_grant_takes_its_place(
    punto, granted, superuser_url, make_role, server, database_name
):
    _, url = granted("service")
    assert punto("run", "-", stdin=as_file(an_evening()[:1]), url=url).code == 0
    role = psycopg.conninfo.conninfo_to_dict(url)["user"]
    assert punto("db", "grant", role, "--as", "reporting", url=superuser_url).code == 0
    assert punto("run", "-", stdin=as_file(an_evening()[:2]), url=url).code == 2


def test_a_superuser_is_not_granted_anything(punto, superuser_url):
    user = psycopg.conninfo.conninfo_to_dict(superuser_url)["user"]
    refusal = punto("db", "grant", user, "--as", "auditor", url=superuser_url).refusal()
    assert "could change the history" in refusal


def test_who_may_not_grant_is_told_so(punto, make_role):
    assert "run it as a superuser" in punto("db", "grant", make_role(), "--as", "service").refusal()
