"""`punto audit --jobs N` says what one process says, or that it could not."""

import os
import signal
import time
from pathlib import Path

import msgspec
import psycopg
import pytest

from infrastructure.audit.audit import Scope, audit
from infrastructure.audit.source import reading
from infrastructure.store.session import KeptState
from infrastructure.store.states import STATE_LOGIC, keep, restore
from tests.infrastructure.cli.test_audit_command import CHANGE, Tampering

RECORDED = Path(__file__).parents[3].parent / "shared" / "data" / "recorded_shoes.csv"
JOBS = ("2", "3", "5")
SHUFFLED = ("--tables", "2", "--shoes", "3", "--seats", "2", "--seed", "7")


@pytest.fixture
def tamper(sql):
    return Tampering(sql)


@pytest.fixture
def simulated(punto):
    """Six shoes, and accounts with so many events that states of them are kept."""
    assert punto("simulate", *SHUFFLED).code == 0


def verdicts(punto, *jobs):
    """What the audit prints, by one process and by several."""
    whole = punto("audit", "--json")
    return whole, [punto("audit", "--json", "--jobs", number) for number in jobs]


def alter(tamper, sql, where, old, new):
    """Changes a text within each state that holds it; how many events that were."""
    rows = sql(
        "SELECT originator_id, originator_version, state FROM ledger.stored_events"
        f" WHERE {where} AND position(%s IN state) > 0",
        old,
    )
    for stream, version, state in rows:
        tamper(CHANGE, state.replace(old, new), stream, version)
    return len(rows)


def test_an_honest_evening_is_found_so_by_any_number_of_processes(punto, played):
    whole, others = verdicts(punto, *JOBS)
    assert whole.code == 0
    assert others == [whole] * len(JOBS)


def test_a_tampered_ledger_has_the_same_findings_whatever_the_number_of_processes(
    punto, simulated, tamper, sql
):
    assert alter(tamper, sql, "topic = 'round.resolved'", b'"outcome":"tie"', b'"outcome":"player"')
    assert alter(tamper, sql, "topic = 'account.win_paid'", b'"win_minor":1', b'"win_minor":9')
    tamper(
        "DELETE FROM ledger.stored_events"
        " WHERE originator_id LIKE 'round:%%0%%' AND topic = 'round.settled'"
    )
    whole, others = verdicts(punto, *JOBS)

    assert whole.code == 1
    assert {"outcome_mismatch", "account_mismatch", "stream_gap"} <= set(whole.document["findings"])
    assert others == [whole] * len(JOBS)


def test_a_ledger_that_only_one_process_can_judge_is_judged_by_one(punto, played, tamper):
    tamper("UPDATE ledger.stored_events SET originator_id = 'alice' WHERE originator_id = %s", "S1")
    tamper(
        "UPDATE ledger.stored_events SET originator_id = 'purse:alice' WHERE originator_id = %s",
        "account:alice",
    )
    whole, others = verdicts(punto, "2")
    assert whole.code == 1
    assert others == [whole]


@pytest.mark.skipif(not RECORDED.exists(), reason="../shared/data/recorded_shoes.csv is not here")
@pytest.mark.usefixtures("unmeasured")
def test_two_processes_find_exactly_what_is_known_of_the_recorded_shoes(punto):
    assert punto("import", str(RECORDED), "--table", "T1").code == 0
    ran = punto("audit", "--json", "--jobs", "2")

    assert (ran.document["rounds"], ran.document["rounds_with_findings"]) == (39_989, 14_408)
    assert ran.document["findings"] == {
        "banker_third_card_missing": 539,
        "player_third_card_unexpected": 7_313,
        "banker_third_card_unexpected": 6_963,
        "banker_total_mismatch": 2_333,
        "outcome_mismatch": 950,
        "shoe_card_excess": 101,
    }


# States that the store keeps of accounts.


@pytest.fixture
def kept(simulated, sql):
    """One of the states kept."""
    rows = sql("SELECT stream, version, state FROM ledger.states ORDER BY stream")
    assert rows, "the simulation is too short for a state to be kept"
    return KeptState(*rows[0])


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_state_kept_that_is_not_what_the_events_come_to_is_found(punto, kept, sql, jobs):
    account = restore(kept)
    richer = keep(msgspec.structs.replace(account, available_minor=account.available_minor + 1))
    sql("UPDATE ledger.states SET state = %s WHERE stream = %s", richer.state, kept.stream_id)
    ran = punto("audit", "--json", "--jobs", jobs)

    assert ran.document["findings"] == {"account_mismatch": 1}
    (example,) = ran.document["examples"]
    assert f"{kept.stream_id} was kept as of version {kept.version}" in example["detail"]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_state_kept_of_a_version_that_never_came_is_found(punto, kept, sql, jobs):
    sql("UPDATE ledger.states SET version = 9999 WHERE stream = %s", kept.stream_id)
    sql("INSERT INTO ledger.states VALUES ('account:nobody', 3, %s, %s)", STATE_LOGIC, kept.state)
    ran = punto("audit", "--json", "--jobs", jobs)

    assert ran.document["findings"] == {"account_mismatch": 2}


def test_a_state_kept_by_another_logic_is_not_used_and_not_judged(punto, kept, sql):
    sql("UPDATE ledger.states SET logic = logic + 1, state = 'x' WHERE stream = %s", kept.stream_id)
    assert punto("audit").code == 0


# What ends early says nothing.


@pytest.fixture
def held_up(punto, simulated, start_punto, superuser_url):
    """An audit by two processes that wait for a lock; with it, what they wait on."""
    with psycopg.connect(superuser_url) as connection:
        connection.execute("LOCK TABLE ledger.states IN ACCESS EXCLUSIVE MODE")
        process = start_punto("audit", "--json", "--jobs", "2")
        with psycopg.connect(superuser_url, autocommit=True) as other:
            waiting = []
            until = time.monotonic() + 60
            while len(waiting) < 2:
                assert time.monotonic() < until
                assert process.poll() is None, process.communicate()
                waiting = other.execute(
                    "SELECT pid FROM pg_stat_activity"
                    " WHERE wait_event_type = 'Lock' AND datname = current_database()"
                ).fetchall()
                time.sleep(0.05)
            yield process, [pid for (pid,) in waiting], other


def workers_of(process):
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [
        int(child)
        for child in children
        if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]


def must_have_said_nothing(process, workers, expected):
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, b"")
    (line,) = err.decode().splitlines()
    assert line.startswith("punto: ")
    assert expected in line
    until = time.monotonic() + 30
    while any(Path(f"/proc/{worker}").exists() for worker in workers):
        assert time.monotonic() < until, "a process of the audit lives on"
        time.sleep(0.05)


def test_a_process_that_is_killed_leaves_no_verdict(held_up):
    process, _, _ = held_up
    workers = workers_of(process)
    assert len(workers) == 2
    os.kill(workers[0], signal.SIGKILL)
    must_have_said_nothing(process, workers, "ended before its work was done")


def test_a_connection_that_is_lost_leaves_no_verdict(held_up):
    process, backends, other = held_up
    workers = workers_of(process)
    other.execute("SELECT pg_terminate_backend(%s)", [backends[0]])
    must_have_said_nothing(process, workers, "The store failed during the audit")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_audit_that_is_stopped_leaves_no_verdict(held_up, number):
    process, _, _ = held_up
    workers = workers_of(process)
    if number == signal.SIGINT:
        # As Ctrl-C does, which goes to all processes of a terminal.
        for worker in workers:
            os.kill(worker, number)
    process.send_signal(number)
    must_have_said_nothing(process, workers, "The audit was stopped")


def test_no_process_outlives_the_one_that_asked(held_up, superuser_url):
    process, backends, other = held_up
    workers = workers_of(process)
    process.kill()
    process.wait()
    for backend in backends:
        other.execute("SELECT pg_cancel_backend(%s)", [backend])
    until = time.monotonic() + 30
    while any(Path(f"/proc/{worker}").exists() for worker in workers):
        assert time.monotonic() < until, "a process of the audit lives on"
        time.sleep(0.05)


def test_all_processes_see_the_ledger_as_of_one_moment(punto, evening, superuser_url):
    punto.run(evening[:40])
    with (
        psycopg.connect(superuser_url, autocommit=True) as connection,
        psycopg.connect(superuser_url, autocommit=True) as other,
        reading(connection, can_read_states=True) as source,
    ):
        head, snapshot = source.reader.head(), source.export()
        punto.run(evening[40:])
        assert source.reader.head() == head
        with reading(other, can_read_states=True, snapshot=snapshot) as same:
            assert same.reader.head() == head
            assert sum(map(len, same.reader.pages())) == head
        with reading(other, can_read_states=True) as later:
            assert later.reader.head() > head


def test_ranges_end_where_no_shoe_is_open_and_cover_everything(simulated, superuser_url, sql):
    closed = {
        position
        for (position,) in sql(
            "SELECT notification_id FROM ledger.stored_events WHERE topic = 'shoe.closed'"
        )
    }
    with (
        psycopg.connect(superuser_url, autocommit=True) as connection,
        reading(connection, can_read_states=True) as source,
    ):
        for parts in (1, 2, 3):
            ranges = source.cut(parts)
            assert [after for after, _ in ranges] == [0, *(until for _, until in ranges[:-1])]
            assert ranges[-1][1] == source.reader.head()
            assert {until for _, until in ranges[:-1]} <= closed


# A scope is read without the rest of the log.


def scoped(superuser_url, scope):
    """The report on a scope from what is read for it, from all events; how many were read."""
    with (
        psycopg.connect(superuser_url, autocommit=True) as connection,
        reading(connection, can_read_states=True) as source,
    ):
        known, loaders = source.known(), (source.reader.naming_rounds, source.reader.entries)
        pages = list(source.about(scope))
        some = audit(pages, *loaders, scope=scope, known=known)
        all_of_it = audit(source.reader.pages(), *loaders, scope=scope, known=known)
        return some, all_of_it, sum(map(len, pages)), source.reader.head()


SCOPES = [
    *(Scope(round=name) for name in ("R1", "R3", "P2", "R9")),
    *(Scope(shoe=name) for name in ("S1", "S2", "S9")),
    *(Scope(table=name) for name in ("T1", "T2", "T9")),
]


@pytest.mark.parametrize(
    ("where", "old", "new"),
    [
        ("true", b"none of them", b""),
        ("originator_id = 'round:R1'", b'"commission_minor":167', b'"commission_minor":168'),
        ("originator_id = 'round:R1'", b'"shoe_id":"S1"', b'"shoe_id":"S9"'),
        ("originator_id = 'round:R1'", b'"table_id":"T1"', b'"table_id":"T9"'),
        ("originator_id = 'shoe:S1'", b'"round_id":"R1"', b'"round_id":"R9"'),
        ("originator_id = 'shoe:S1'", b'"table_id":"T1"', b'"table_id":"T2"'),
        ("originator_id = 'account:bob'", b'"round_id":"R1"', b'"round_id":"P2"'),
        ("originator_id = 'account:chai'", b'"round_id":"P2"', b'"round_id":"R1"'),
        ("originator_id = 'account:alice'", b'"currency":"USD"', b'"currency":"THB"'),
        ("originator_id = 'table:T1'", b'"rate_basis_points":500', b'"rate_basis_points":600'),
        ("originator_id = 'round:R1'", b"{", b"[{"),
        ("originator_id = 'shoe:S2'", b"{", b""),
    ],
)
def test_a_scope_has_the_findings_that_all_events_would_give(
    played, tamper, sql, superuser_url, where, old, new
):
    alter(tamper, sql, where, old, new)
    found = set()
    for scope in SCOPES:
        some, all_of_it, _, _ = scoped(superuser_url, scope)
        assert some == all_of_it, scope
        found |= set(some.findings)
    assert found or b"none" in old


def test_a_scope_reads_little_of_the_log(simulated, sql, superuser_url):
    ((shoe,),) = sql(
        "SELECT originator_id FROM ledger.stored_events WHERE topic = 'shoe.opened' LIMIT 1"
    )
    report, _, read, head = scoped(superuser_url, Scope(shoe=shoe.removeprefix("shoe:")))
    assert report.rounds > 50
    assert read < head / 5
