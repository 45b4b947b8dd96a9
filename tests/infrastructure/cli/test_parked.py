"""What is parked, at the command line, and what a check of the projections finds."""

import json

import pytest

from infrastructure.store.schema import READER_ROLE
from tests.infrastructure.cli.test_audit_command import Tampering

SPOIL = "UPDATE ledger.stored_events SET topic = 'cheated' WHERE originator_id = 'account:bob'"
REPAIR = """
    UPDATE ledger.stored_events SET topic = 'account.opened'
     WHERE originator_id = 'account:bob' AND originator_version = 1
"""
SAME = "No difference in balances, days, journal, rounds, shoes, tables\n"
NAMES = {"name", "position", "stream", "version", "topic", "why", "parked_at"}


@pytest.fixture
def tamper(sql):
    return Tampering(sql)


@pytest.fixture
def spoiled(punto, played, tamper, sql):
    """One event of an account has an unknown topic; what is parked for it."""
    tamper(f"{SPOIL} AND originator_version = 1")
    sql("UPDATE projection.tracking SET version = 0")
    return punto("parked", "--json").lines


def events_in(parked):
    """How many events are parked, by however many projections."""
    return len({line["position"] for line in parked})


def test_nothing_is_parked_in_a_ledger_that_is_whole(punto, played):
    ran = punto("parked", "--json")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    ran = punto("parked", "retry", "--json")
    assert (ran.code, ran.out, ran.err) == (0, "", "Folded: 0, still parked: 0\n")


def test_what_is_parked_is_a_line_for_each_with_these_names(punto, spoiled):
    ran = punto("parked", "--json")
    assert (ran.code, ran.err) == (0, "")
    assert ran.lines == spoiled
    assert len(spoiled) > 3
    assert all(line.keys() == NAMES for line in ran.lines)
    first, second, *_ = [line for line in ran.lines if line["name"] == "balances"]
    assert (first["name"], first["stream"], first["version"]) == ("balances", "account:bob", 1)
    assert first["topic"] is None
    assert "cheated" in first["why"]
    assert second["why"] == f"it follows position {first['position']}"
    shown = punto("parked")
    assert shown.out.count("account:bob") >= len(spoiled)


def test_a_retry_folds_what_was_repaired(punto, spoiled, tamper, sql):
    ran = punto("parked", "retry", "--json")
    assert (ran.code, len(ran.lines)) == (1, len(spoiled))
    assert ran.err == f"Folded: 0, still parked: {len(spoiled)}\n"
    assert "There is no account bob" in punto("balance", "bob").err
    tamper(REPAIR)
    assert punto("rebuild", "--check").code == 1
    ran = punto("parked", "retry")
    assert (ran.code, ran.err) == (0, f"Folded: {len(spoiled)}, still parked: 0\n")
    checked = punto("rebuild", "--check")
    assert (checked.code, checked.out, checked.err) == (0, SAME, "")
    assert punto("balance", "bob", "--json").document["account_id"] == "bob"


def test_a_rebuild_says_what_it_had_to_park(punto, spoiled):
    ran = punto("rebuild")
    assert ran.code == 0
    assert ran.err.startswith(f"{events_in(spoiled)} events are parked")


def test_a_role_that_may_only_read_sees_what_is_parked_and_folds_nothing(
    punto, spoiled, server, database_name, make_role
):
    url = server.url(user=make_role(f"IN ROLE {READER_ROLE}"), database=database_name)
    assert punto("parked", "--json", url=url).out == punto("parked", "--json").out
    assert f"{events_in(spoiled)} events are parked" in punto("tables", url=url).err
    assert "may only read" in punto("parked", "retry", url=url).refusal()
    assert "may only read" in punto("rebuild", "--check", url=url).refusal()


def test_commands_are_taken_while_something_is_parked(punto, spoiled):
    opened = {"command": "open_account", "key": "late", "account_id": "late", "currency": "USD"}
    ran = punto("run", "-", stdin=json.dumps(opened).encode())
    assert (ran.code, ran.document["ok"]) == (0, True)
    assert f"{events_in(spoiled)} events are parked" in ran.err
    assert punto("balance", "late").code == 0


def test_a_check_names_the_projection_that_was_altered_and_leaves_it(punto, played, sql):
    punto("tables")
    checked = punto("rebuild", "--check")
    assert (checked.code, checked.out, checked.err) == (0, SAME, "")
    sql("UPDATE projection.balances SET available_minor = 1 WHERE account_id = 'alice'")
    for names in ((), ("balances",)):
        checked = punto("rebuild", "--check", *names)
        assert checked.code == 1
        assert checked.out == "balances: rows of balances differ, 1 only live, 1 only rebuilt\n"
    checked = punto("rebuild", "--check", "rounds")
    assert (checked.code, checked.out) == (0, "No difference in rounds\n")
    assert punto("balance", "alice", "--json").document["available_minor"] == 1
    assert sql("SELECT FROM pg_tables WHERE schemaname = 'projection_rebuild'") == []
