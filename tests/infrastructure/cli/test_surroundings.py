"""Nothing in the environment, the terminal or the database's settings changes what is stored."""

import json
import subprocess
import sys
import time

import pytest

from tests.infrastructure.cli.conftest import REPOSITORY

OPEN = {"command": "open_account", "key": "k", "account_id": "carl", "currency": "USD"}
LINE = json.dumps(OPEN).encode() + b"\n"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MAPPER_TOPIC", "eventsourcing.persistence:Mapper"),
        ("TRANSCODER_TOPIC", "no:where"),
        ("COMPRESSOR_TOPIC", "zlib"),
        ("CIPHER_TOPIC", "eventsourcing.cipher:AESCipher"),
        ("PERSISTENCE_MODULE", "eventsourcing.popo"),
        ("IS_SNAPSHOTTING_ENABLED", "y"),
        ("PGCLIENTENCODING", "SQL_ASCII"),
        ("PYTHONIOENCODING", "ascii"),
    ],
)
def test_a_variable_of_somebody_elses_changes_nothing(punto_process, punto, name, value):
    ran = punto_process("run", "-", stdin=LINE, **{name: value})

    assert (ran.code, ran.document["ok"]) == (0, True)
    assert punto("balance", "carl", "--json").document["available_minor"] == 0
    assert punto("audit").code == 0


def test_the_embedded_server_is_used_whatever_the_environment_says_of_others(
    punto_process, initialised_home
):
    elsewhere = {
        "PUNTO_DATABASE_URL": "",
        "PUNTO_HOME": str(initialised_home),
        "PGHOSTADDR": "127.0.0.1",
        "PGSERVICE": "nowhere",
        "PGTARGETSESSIONATTRS": "standby",
    }
    ran = punto_process("run", "-", stdin=LINE, **elsewhere)

    assert (ran.code, ran.document["ok"]) == (0, True)
    assert punto_process("balance", "carl", **elsewhere).code == 0


@pytest.mark.parametrize("closed", [">&-", "<&-", "2>&-", ">&- 2>&- <&-"])
def test_a_stream_that_the_shell_closed_is_no_bug(url, closed):
    script = f"{sys.executable} -c 'from infrastructure.cli import main; main()' tables {closed}"
    ran = subprocess.run(
        ["bash", "-c", script],
        cwd=REPOSITORY,
        env={"PUNTO_DATABASE_URL": url, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (ran.returncode, ran.stderr) == (0, b"")


def test_an_argument_that_is_no_text_is_refused(punto):
    assert "cannot be printed" in punto("balance", "a\udcff").refusal()


def test_an_argument_may_have_several_lines(punto):
    rules = '{\n  "variant": "ez",\n  "decks": 6\n}'
    assert punto("simulate", "--seats", "1", "--rules", rules).code == 0
    assert punto("tables", "--json").document["variant"] == "ez"


def test_a_line_with_very_many_fields_is_refused_at_once(punto):
    fields = ",".join(f'"k{number}":0' for number in range(70_000))
    started = time.monotonic()
    ran = punto("run", "-", stdin=f'{{{fields},"k69999":0}}\n'.encode())

    assert "'k69999' is there twice" in ran.document["error"]["message"]
    assert time.monotonic() - started < 30


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_that_does_not_keep_every_text_is_refused(punto, sql, server, encoding):
    name = f"other_{encoding.lower()}"
    sql(
        f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0"
        " LC_COLLATE 'C' LC_CTYPE 'C'"
    )
    try:
        assert "the ledger needs UTF8" in punto("tables", url=server.url(database=name)).refusal()
    finally:
        sql(f"DROP DATABASE {name}")


def test_projections_ahead_of_the_ledger_are_noticed(punto, sql):
    punto.run([OPEN])
    punto("balance", "carl")
    sql("UPDATE projection.tracking SET position = position + 3")

    assert "run `punto rebuild`" in punto("balance", "carl").refusal()
    assert punto("rebuild").code == 0
    assert punto("balance", "carl").code == 0


def test_somebodys_view_on_a_projection_is_named_when_it_is_in_the_way(punto, sql):
    punto.run([OPEN])
    punto("balance", "carl")
    sql("CREATE VIEW public.mine AS SELECT * FROM projection.balances")

    assert "mine depends on table projection.balances" in punto("rebuild").refusal()
    assert punto("balance", "carl").code == 0
