"""Roles, the schema, settings and rebuilding, at the command line."""

import json

import pytest

from infrastructure.casino import Casino
from infrastructure.commands.contract import read_command
from infrastructure.commands.execution import Client, execute
from infrastructure.store.schema import MIGRATIONS, READER_ROLE, SCHEMA_VERSION

ROWS = {
    "balances": "SELECT * FROM projection.balances ORDER BY account_id",
    "rounds": "SELECT * FROM projection.rounds ORDER BY round_id",
    "shoes": "SELECT * FROM projection.shoes ORDER BY shoe_id",
    "tables": "SELECT * FROM projection.tables ORDER BY table_id",
    "tracking": "SELECT name, version, position FROM projection.tracking ORDER BY name",
}
QUESTIONS = [
    ("tables",),
    ("shoes",),
    ("accounts",),
    ("rounds",),
    ("balance", "alice"),
    ("status",),
]


def casino_at(url):
    return Casino({"PERSISTENCE_MODULE": "infrastructure.store.factory", "PUNTO_CONNINFO": url})


@pytest.fixture
def reader_url(server, database_name, make_role):
    return server.url(user=make_role(f"IN ROLE {READER_ROLE}"), database=database_name)


def test_a_role_that_may_only_read_is_told_as_of_which_position_it_reads(punto, played, reader_url):
    answers = {question: punto(*question, "--json").out for question in QUESTIONS[:-1]}
    position = played[-1]["position"]
    opened = {"command": "open_account", "key": "late", "account_id": "late", "currency": "USD"}
    with casino_at(punto.url) as casino:
        (answer,) = execute(
            casino, [read_command(json.dumps(opened).encode())], client=Client("table system")
        )
    assert answer["ok"]
    for question in QUESTIONS:
        ran = punto(*question, "--json", url=reader_url)
        assert ran.code == 0
        assert ran.err == (
            f"This role may only read: answers are as of position {position} of {position + 1}\n"
        )
        assert ran.out == answers.get(question, ran.out)
    status = punto("status", "--json", url=reader_url).document
    assert {each["lag_events"] for each in status["projections"]} == {1}


def test_a_role_that_may_only_read_replays_and_audits_everything(punto, played, reader_url):
    for question in (("replay", "R1", "--json"), ("events", "round:R1", "--json")):
        ran = punto(*question, url=reader_url)
        assert (ran.code, ran.err) == (0, "")
        assert ran.out == punto(*question).out
    audited = punto("audit", "--json", url=reader_url)
    assert (audited.code, audited.document["rounds"]) == (0, 14)


def test_a_role_that_may_only_read_writes_nothing(punto, played, reader_url, stored_events):
    before = stored_events(punto.url)
    for arguments in (("run", "-"), ("simulate",), ("rebuild",)):
        ran = punto(*arguments, stdin=b"{}\n", url=reader_url)
        assert "may only" in ran.refusal()
        assert ran.out == ""
    assert stored_events(punto.url) == before


def test_a_role_that_may_only_read_is_told_who_builds_what_it_would_read(punto, reader_url):
    refusal = punto("tables", url=reader_url).refusal()
    assert "ask once as a role that may write" in refusal


def test_a_role_without_rights_is_told_which_it_needs(punto, server, database_name, make_role):
    url = server.url(user=make_role(), database=database_name)
    for arguments in (("tables",), ("run", "-"), ("audit",)):
        assert f"GRANT {READER_ROLE} TO it" in punto(*arguments, url=url).refusal()


def test_an_older_schema_is_refused_with_the_command_that_brings_it_up(punto, sql):
    sql("UPDATE ledger.schema_version SET version = version - 1")
    for arguments in (("tables",), ("run", "-"), ("audit",), ("rebuild",), ("simulate",)):
        assert "run `punto db upgrade`" in punto(*arguments).refusal()


def test_a_newer_schema_is_refused(punto, sql):
    sql("INSERT INTO ledger.schema_version VALUES (%s)", SCHEMA_VERSION + 1)
    for arguments in (("tables",), ("run", "-"), ("db", "upgrade")):
        assert punto(*arguments).refusal() == (
            f"The ledger has schema version {SCHEMA_VERSION + 1}, and this program knows"
            f" {SCHEMA_VERSION}: use a newer puntobanco"
        )


def test_an_upgrade_says_what_it_did(punto, server, make_database):
    url = server.url(database=make_database())
    first = punto("db", "upgrade", url=url)
    numbers = ", ".join(str(number) for number in MIGRATIONS)
    assert (first.code, first.out, first.err) == (0, f"Applied migrations {numbers}\n", "")
    again = punto("db", "upgrade", url=url)
    assert (again.code, again.out, again.err) == (0, "The schema is up to date\n", "")


def test_a_database_without_a_ledger_gets_one_with_the_first_command(punto, server, make_database):
    url = server.url(database=make_database())
    ran = punto("tables", "--json", url=url)
    assert (ran.code, ran.out, ran.err) == (0, "", "")


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("POSTGRES_ENABLE_DB_FUNCTIONS", "yes", "unset it"),
        ("CASINO_POSTGRES_ENABLE_DB_FUNCTIONS", "true", "unset it"),
        ("POSTGRES_ENABLE_DB_FUNCTIONS", "maybe", "neither yes nor no"),
        ("PUNTO_HOME", "/dev/null", "is not a directory"),
    ],
)
def test_a_setting_that_cannot_be_worked_with_is_refused(punto, monkeypatch, name, value, why):
    monkeypatch.setenv(name, value)
    for arguments in (("tables",), ("run", "-"), ("db", "upgrade"), ("demo",)):
        assert why in punto(*arguments).refusal()


@pytest.mark.parametrize(
    "address", ["not a url", "postgresql://u:sesame@[", "mysql://u:sesame@h/d"]
)
def test_an_address_that_is_none_is_refused_without_its_password(punto, address):
    refusal = punto("tables", url=address).refusal()
    assert "PUNTO_DATABASE_URL is not a database URL" in refusal
    assert "sesame" not in refusal


@pytest.mark.parametrize("names", [(), ("rounds",), ("balances", "tables")])
def test_a_rebuild_leaves_the_same_rows(punto, played, sql, names):
    assert punto("status").code == 0
    before = {name: sql(query) for name, query in ROWS.items()}
    assert all(before.values())
    ran = punto("rebuild", *names)
    everything = ("balances", "days", "journal", "rounds", "shoes", "tables")
    assert (ran.code, ran.out) == (0, f"Rebuilt {', '.join(names or everything)}\n")
    assert {name: sql(query) for name, query in ROWS.items()} == before


def test_a_rebuild_repairs_what_somebody_wrote_into_a_read_model(punto, played, sql):
    honest = punto("balance", "alice", "--json").out
    sql("UPDATE projection.balances SET available_minor = 1")
    assert punto("balance", "alice", "--json").document["available_minor"] == 1
    assert punto("rebuild", "balances").code == 0
    assert punto("balance", "alice", "--json").out == honest


def test_a_role_that_may_only_read_sees_what_a_run_has_stored(punto, played, reader_url):
    opened = {"command": "open_account", "key": "late", "account_id": "late", "currency": "USD"}
    punto.run([opened])

    assert punto("balance", "late", url=reader_url).code == 0
