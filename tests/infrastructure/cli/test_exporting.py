"""`punto export`: the tables, and what programs that read them make of them."""

import fcntl
import os
import random
import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import duckdb
import polars
import psycopg
import pytest

from infrastructure.store.schema import LEDGER_ROLE
from tests.conftest import TEMPLATE
from tests.infrastructure.cli.conftest import REPOSITORY, Punto, an_evening
from tests.infrastructure.cli.test_books import BANKER_WINS, a_week

NAMES = ("events", "rounds", "bets", "postings", "commission", "accounts")
TODAY = datetime.now(UTC).replace(microsecond=0)
CLOSED = (TODAY - timedelta(days=5)).date().isoformat()

A_DEPOSIT = {"command": "deposit", "key": "d", "account_id": "alice", "amount_minor": 1}


def came_late():
    """A round of a day that is closed, at a table of its own."""
    at = TODAY - timedelta(days=6, hours=2)
    bet = {"bet_id": "b", "account_id": "late", "bet": "banker", "stake_minor": 10_00}
    commands = [
        {"command": "open_table", "table_id": "late", "currency": "USD"},
        {"command": "open_account", "account_id": "late", "currency": "USD"},
        {"command": "deposit", "account_id": "late", "amount_minor": 100_00},
        {"command": "open_shoe", "shoe_id": "late", "table_id": "late", "source": "physical"},
        {"command": "play_round", "round_id": "late", "shoe_id": "late", "cards": BANKER_WINS}
        | {"bets": [bet]},
    ]
    return [{**each, "key": f"late{n}", "at": at.isoformat()} for n, each in enumerate(commands)]


def fill(punto):
    """Corrections, voids, four currencies, deferred commission, a closed day, a round cut short."""
    for commands in (an_evening(), a_week()):
        assert [each for each in punto.run(commands) if not each["ok"]] == []
    assert punto("close-day", CLOSED, "--actor", "owner").code == 0
    assert [each for each in punto.run(came_late()) if not each["ok"]] == []


@pytest.fixture(scope="module")
def full_database(server):
    name = f"full_{uuid4().hex}"
    with psycopg.connect(server.url(), autocommit=True) as superuser:
        superuser.execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
        with pytest.MonkeyPatch.context() as patched:
            fill(Punto(patched, server.url(user=LEDGER_ROLE, database=name)))
        yield name
        superuser.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def database_name(request, make_database):
    """A fresh database: a copy of the full one where a test asks for it, or an empty ledger."""
    if "full" in request.fixturenames:
        return make_database(template=request.getfixturevalue("full_database"))
    return make_database(template=TEMPLATE)


@pytest.fixture
def full(database_name):
    """Everything that can happen is in the ledger."""


@pytest.fixture
def to(tmp_path):
    return tmp_path / "reports"


def files(to):
    return {
        str(path.relative_to(to)): path.read_bytes()
        for path in sorted(to.rglob("*"))
        if path.is_file() and path.name != "manifest.json"
    }


def ask(to, question, how="parquet"):
    """What DuckDB answers, each table under its own name."""
    with duckdb.connect() as connection:
        for name in NAMES:
            connection.execute(f"CREATE VIEW {name} AS FROM '{to}/{name}/*/*.{how}'")
        return connection.execute(question).fetchall()


def contents(to):
    """All rows of all tables, in no order."""
    return {name: sorted(ask(to, f"FROM {name}"), key=repr) for name in NAMES}


PLAYED = """
    SELECT strftime(day, '%Y-%m-%d') AS day, table_id, currency, sum(stake_minor),
           sum(CASE result WHEN 'lost' THEN stake_minor ELSE -win_minor END),
           sum(commission_minor)
      FROM bets WHERE result <> 'returned'
     GROUP BY ALL HAVING sum(abs(stake_minor)) > 0
"""


def test_turnover_win_and_commission_in_duckdb_are_those_of_the_reports(punto, full, to):
    assert punto("export", "--to", str(to)).code == 0
    reported = {}
    days = [(TODAY + timedelta(days=each)).date().isoformat() for each in range(-8, 3)]
    for day in days:
        for line in punto("day", "--day", day, "--json").document["tables"]:
            sums = [line[name] for name in ("turnover_minor", "win_minor", "commission_minor")]
            if line["bets"] or any(sums):
                reported[day, line["key"], line["currency"]] = tuple(sums)
    found = {tuple(row[:3]): tuple(map(int, row[3:])) for row in ask(to, PLAYED)}
    assert {key: sums for key, sums in found.items() if any(sums)} == reported
    assert {currency for _, _, currency in reported} == {"USD", "JPY", "KWD", "THB"}
    for by, column in (
        ("day", "strftime(day, '%Y-%m-%d')"),
        ("table", "table_id"),
        ("shoe", "shoe_id"),
        ("account", "account_id"),
    ):
        lines = punto("commission", "--by", by, "--json").lines
        expected = sorted(
            (line["key"], line["currency"], line["commission_minor"])
            for line in lines
            if line["commission_minor"]
        )
        for table in ("commission", "bets"):
            rows = ask(
                to,
                f"SELECT {column}, currency, sum(commission_minor) AS minor FROM {table}"
                " GROUP BY ALL HAVING minor <> 0",
            )
            assert sorted((key, currency, int(minor)) for key, currency, minor in rows) == expected


@pytest.mark.parametrize("table", ["bets", "postings", "commission"])
def test_every_row_of_a_round_joins_to_its_round(punto, full, to, table):
    punto("export", "--to", str(to))
    orphans = f"FROM {table} ANTI JOIN rounds USING (round_id) WHERE round_id IS NOT NULL"
    assert ask(to, orphans) == []
    ((count,),) = ask(to, f"SELECT count(*) FROM {table} JOIN rounds USING (round_id)")
    ((of_rounds,),) = ask(to, f"SELECT count(*) FROM {table} WHERE round_id IS NOT NULL")
    assert count == of_rounds > 0


def test_every_entry_is_zero_and_the_postings_make_the_trial_balance(punto, full, to):
    punto("export", "--to", str(to))
    unbalanced = "SELECT position FROM postings GROUP BY position, currency"
    assert ask(to, f"{unbalanced} HAVING sum(amount_minor) <> 0") == []
    sums = ask(to, "SELECT account, currency, sum(amount_minor)::long FROM postings GROUP BY ALL")
    accounts = punto("trial-balance", "--json").document["accounts"]
    held = {(line["account"], line["currency"]): line["balance_minor"] for line in accounts}
    assert {tuple(row[:2]): row[2] for row in sums if row[2]} == {
        key: minor for key, minor in held.items() if minor
    }


def test_rounds_and_accounts_are_those_that_punto_lists(punto, full, to):
    punto("export", "--to", str(to))
    rounds = ask(
        to,
        "SELECT round_id, table_id, shoe_id, number, state, player_cards, banker_cards,"
        " player_total, banker_total, outcome, bets, currency, turnover_minor FROM rounds",
    )
    assert sorted(rounds) == sorted(
        (
            *(line[name] for name in ("round_id", "table_id", "shoe_id", "number", "state")),
            " ".join(line["player_cards"]),
            " ".join(line["banker_cards"]),
            *(line[name] for name in ("player_total", "banker_total", "outcome", "bets")),
            *line["turnover"].popitem(),
        )
        for line in punto("rounds", "--json").lines
    )
    columns = "account_id, currency, available_minor, in_play_minor, commission_due_minor"
    accounts = ask(to, f"SELECT {columns}, owed_minor, version FROM accounts")
    names = [*columns.split(", "), "owed_minor", "version"]
    listed = punto("accounts", "--json").lines
    assert sorted(accounts) == sorted(tuple(line[name] for name in names) for line in listed)


def test_the_events_are_those_of_the_log_without_what_is_private(punto, full, to):
    punto("export", "--to", str(to))
    rows = ask(to, "SELECT position, stream, version, event, data FROM events ORDER BY position")
    assert [row[0] for row in rows] == list(range(1, len(rows) + 1))
    for stream in ("round:R1", "account:bob"):
        told = punto("events", stream, "--json").lines
        assert [(row[2], row[3]) for row in rows if row[1] == stream] == [
            (line["version"], line["event"]) for line in told
        ]
    (frozen,) = [row[4] for row in rows if row[3] == "account.frozen"]
    assert frozen == "{}"
    (stake,) = ask(
        to,
        "SELECT (data->>'stake_minor')::long FROM events"
        " WHERE event = 'account.stake_placed' AND data->>'bet_id' = 'R1-alice-banker'",
    )
    assert stake == (33_33,)


def test_polars_reads_the_tables_without_being_told_how(punto, full, to):
    punto("export", "--to", str(to))
    bets = polars.scan_parquet(to / "bets")
    played = bets.filter(polars.col("result") != "returned").group_by("day", "table_id")
    sums = played.agg(polars.col("stake_minor").sum()).collect()
    assert {(str(day), table_id): stake for day, table_id, stake in sums.iter_rows() if stake} == {
        (row[0], row[1]): int(row[3]) for row in ask(to, PLAYED) if row[3]
    }
    assert bets.collect_schema()["at"] == polars.Datetime("us", "UTC")
    assert bets.collect_schema()["stake_minor"] == polars.Int64
    joined = bets.join(polars.scan_parquet(to / "rounds"), on="round_id", how="anti")
    assert joined.collect().is_empty()


def test_csv_says_the_same_as_parquet(punto, full, to, tmp_path):
    punto("export", "--to", str(to))
    assert punto("export", "--to", str(tmp_path / "csv"), "--format", "csv").code == 0
    for name in NAMES:
        ((rows,),) = ask(to, f"SELECT count(*) FROM {name}")
        text = polars.scan_csv(tmp_path / "csv" / name / "**" / "*.csv").collect()
        assert len(text) == rows
    by_csv = sorted(map(str, ask(tmp_path / "csv", PLAYED, "csv")))
    assert by_csv == sorted(map(str, ask(to, PLAYED)))


def test_a_late_round_stands_in_the_day_that_was_open(punto, full, to):
    punto("export", "--to", str(to))
    rows = ask(to, "SELECT DISTINCT day, own_day FROM bets WHERE table_id = 'late'")
    ((day, own_day),) = rows
    assert own_day.isoformat() <= CLOSED < day.isoformat()


def test_a_second_run_writes_nothing_and_a_third_only_the_day_that_has_changed(punto, full, to):
    punto("export", "--to", str(to))
    before = files(to)
    second = punto("export", "--to", str(to), "--json").document
    assert (second["written"], files(to)) == (0, before)
    answers = punto.run(
        [{"command": "deposit", "key": "d", "account_id": "alice"} | {"amount_minor": 1}]
    )
    assert answers[0]["ok"]
    third = punto("export", "--to", str(to), "--json").document
    after = files(to)
    changed = {path for path in after if after[path] != before.get(path)}
    day = ask(to, f"SELECT day FROM events WHERE position = {third['position']}")[0][0]
    opened = ask(to, "SELECT day FROM accounts WHERE account_id = 'alice'")[0][0]
    assert {path for path in changed if before.get(path)} <= {
        f"{name}/day={day}/{name}.parquet" for name in ("events", "postings")
    } | {f"accounts/day={opened}/accounts.parquet"}
    assert third["written"] == len(changed)


def test_many_runs_come_to_the_same_as_one(punto, to, tmp_path):
    # Bets of a round that is open at one run, and ends before the next one.
    evening = an_evening()
    for end in (15, 21, 24, 26, 28, 31, 33, len(evening)):
        punto.run(evening[:end])
        assert punto("export", "--to", str(to)).code == 0
    commands = [*a_week(), *came_late()]
    for start in range(0, len(commands), 25):
        assert [each for each in punto.run(commands[start : start + 25]) if not each["ok"]] == []
        if start == 50:
            assert punto("close-day", CLOSED, "--actor", "owner").code == 0
        assert punto("export", "--to", str(to)).code == 0
    verified = punto("feed", "verify", "--to", str(to), "--json")
    assert (verified.code, verified.document["differences"]) == (0, [])
    punto("export", "--to", str(tmp_path / "once"))
    assert contents(to) == contents(tmp_path / "once")


def test_days_are_exported_one_after_another(punto, full, to, tmp_path):
    punto("export", "--to", str(tmp_path / "once"))
    days = sorted(row[0] for row in ask(tmp_path / "once", "SELECT DISTINCT day FROM events"))
    first = punto("export", "--to", str(to), "--days", f"{days[1]}..{days[2]}", "--json").document
    assert first["days"] == [str(days[1]), str(days[2])]
    assert punto("feed", "verify", "--to", str(to)).code == 0
    for day in days:
        assert punto("export", "--to", str(to), "--days", str(day)).code == 0
    assert contents(to) == contents(tmp_path / "once")
    punto.run([A_DEPOSIT])
    assert punto("export", "--to", str(to)).code == 0
    punto("export", "--to", str(tmp_path / "once"))
    assert contents(to) == contents(tmp_path / "once")
    assert punto("feed", "verify", "--to", str(to)).code == 0


def test_an_empty_ledger_gives_tables_without_rows(punto, to):
    assert punto("export", "--to", str(to)).code == 0
    assert contents(to) == {name: [] for name in NAMES}
    assert punto("feed", "verify", "--to", str(to)).code == 0
    punto.run(an_evening())
    punto("export", "--to", str(to))
    assert len(ask(to, "FROM rounds")) == 14
    assert punto("feed", "verify", "--to", str(to)).code == 0


def test_a_role_that_may_only_read_exports_as_of_the_read_models(punto, full, to, make_role, sql):
    punto("status")
    role = make_role("IN ROLE puntobanco_reader")
    url = punto.url.replace("puntobanco_ledger@", f"{role}@")
    exported = punto("export", "--to", str(to), url=url)
    assert exported.code == 0, exported.err
    assert len(ask(to, "FROM rounds")) == len(punto("rounds", "--json").lines)


KILLED_AT = """
import os, signal, sys
from pathlib import Path
replace, left = Path.replace, [{renames}]
def killed(self, target):
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left[0] -= 1
    return replace(self, target)
Path.replace = killed
from infrastructure.cli.main import run
sys.exit(run(["export", "--to", {to!r}]))
"""


@pytest.mark.parametrize("renames", [0, 1, 4, 7])
def test_a_run_that_is_killed_between_two_renames_is_finished_by_the_next(
    punto, full, to, tmp_path, renames
):
    punto("export", "--to", str(to))
    before = files(to)
    punto.run([{"command": "close_shoe", "key": "z", "shoe_id": "syen"}])
    punto.run([{"command": "void_round", "key": "v", "round_id": "R4", "reason": "closing time"}])
    code = KILLED_AT.format(renames=renames, to=str(to))
    environment = os.environ | {"PUNTO_DATABASE_URL": punto.url}
    command = [sys.executable, "-c", code]
    assert os.spawnve(os.P_WAIT, sys.executable, command, environment) == -9
    if renames == 0:
        assert {path: each for path, each in files(to).items() if path in before} == before
    else:
        assert "was stopped" in punto("feed", "verify", "--to", str(to)).refusal()
    # Whatever stands where tables are read is whole, and no bet is without its round.
    assert ask(to, "FROM bets ANTI JOIN rounds USING (round_id)") == []
    assert punto("export", "--to", str(to)).code == 0
    assert punto("feed", "verify", "--to", str(to)).code == 0
    punto("export", "--to", str(tmp_path / "once"))
    assert contents(to) == contents(tmp_path / "once")
    assert not (to / ".partial").exists()


def test_a_run_that_is_killed_at_any_moment_leaves_nothing_half_visible(
    punto, start_punto, to, tmp_path
):
    punto("simulate", "--tables", "2", "--shoes", "3", "--seats", "3", "--seed", "1")
    chance = random.Random(5)
    for _ in range(6):
        process = start_punto("export", "--to", str(to))
        started = time.monotonic()
        wait = 0.8 + chance.random() * 1.5
        while process.poll() is None and time.monotonic() - started < wait:
            time.sleep(0.01)
        process.kill()
        process.wait()
        for path, content in files(to).items() if to.exists() else ():
            if not path.startswith(".partial"):
                assert content[-4:] == b"PAR1", path
        if (to / "manifest.json").exists() and not (to / ".partial" / "plan.json").exists():
            assert punto("feed", "verify", "--to", str(to)).code == 0
            shutil.rmtree(to)
    assert punto("export", "--to", str(to)).code == 0
    assert punto("feed", "verify", "--to", str(to)).code == 0


def test_two_exports_do_not_write_to_one_folder_at_once(punto, full, to):
    to.mkdir()
    descriptor = os.open(to, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        assert "Another export writes to" in punto("export", "--to", str(to)).refusal()
    finally:
        os.close(descriptor)
    assert punto("export", "--to", str(to)).code == 0


def test_a_folder_of_another_ledger_and_one_of_another_format_are_refused(
    punto, full, to, make_url
):
    punto("export", "--to", str(to))
    assert "holds parquet" in punto("export", "--to", str(to), "--format", "csv").refusal()
    other = make_url()
    punto.run(an_evening(), url=other)
    for command in (("export",), ("feed", "verify")):
        refusal = punto(*command, "--to", str(to), url=other).refusal()
        assert "another ledger" in refusal
    before = files(to)
    punto("feed", "new-incarnation")
    assert "another ledger" in punto("export", "--to", str(to)).refusal()
    assert files(to) == before


def test_a_file_that_was_altered_is_not_gone_on_with(punto, full, to):
    punto("export", "--to", str(to))
    day = ask(to, "SELECT max(day) FROM events")[0][0]
    path = to / f"events/day={day}/events.parquet"
    shutil.copy(next((to / "events").glob("day=*/*.parquet")), path)
    punto.run([A_DEPOSIT])
    refusal = punto("export", "--to", str(to)).refusal()
    assert "is not as it was exported" in refusal
    assert "--anew" in refusal
    assert punto("export", "--to", str(to), "--anew").code == 0
    assert punto("feed", "verify", "--to", str(to)).code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--days", "today"), "2026-01-31"),
        (("--days", "2026-02-01..2026-01-01"), "ends before it starts"),
        (("--days", "2026-01-01..2026-02-30"), "2026-01-31"),
        (("--format", "xml"), "none of parquet, csv"),
    ],
)
def test_what_cannot_be_exported_is_refused_in_one_line(punto, to, arguments, said):
    assert said in punto("export", "--to", str(to), *arguments).refusal()
    assert not to.exists()


def test_a_folder_that_cannot_be_written_to_is_refused_in_one_line(punto, tmp_path):
    (tmp_path / "file").write_text("")
    assert "is not a folder" in punto("export", "--to", str(tmp_path / "file")).refusal()
    below = punto("export", "--to", str(tmp_path / "file" / "below")).refusal()
    assert str(tmp_path / "file" / "below") in below
    assert "/proc/reports" in punto("export", "--to", "/proc/reports").refusal()
    assert "holds no export" in punto("feed", "verify", "--to", str(tmp_path)).refusal()


def test_a_full_disk_is_said_in_one_line_and_leaves_the_last_export(punto, full, to, url):
    punto("export", "--to", str(to))
    before = files(to)
    punto("simulate", "--tables", "1", "--shoes", "1", "--seats", "3", "--seed", "1")
    command = f"ulimit -f 8; exec {sys.executable} -m infrastructure.cli.main export --to {to}"
    ran = subprocess.run(
        ["bash", "-c", command],
        cwd=REPOSITORY,
        env={**os.environ, "PUNTO_DATABASE_URL": url},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    (line,) = ran.stderr.splitlines()
    assert line.startswith("punto: ")
    assert "File too large" in line
    assert str(to) in line
    assert files(to) == before
    assert punto("export", "--to", str(to)).code == 0
    assert punto("feed", "verify", "--to", str(to)).code == 0


def test_an_event_that_cannot_be_read_stops_the_export(punto, full, to, sql):
    sql("ALTER TABLE ledger.stored_events DISABLE TRIGGER ALL")
    sql("UPDATE ledger.stored_events SET state = '{}' WHERE notification_id = 30")
    refusal = punto("export", "--to", str(to)).refusal()
    assert refusal.startswith("position 30 cannot be read")
    assert files(to) == {}
