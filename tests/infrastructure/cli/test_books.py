"""The books: what people and programs are told, and what other programs make of the journal."""

import csv
import io
import json
import shutil
import subprocess
import sys
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from domain.money import DECIMALS
from infrastructure.books.names import book_name
from infrastructure.store.schema import LEDGER_ROLE
from tests.conftest import TEMPLATE
from tests.infrastructure.cli.conftest import Punto

BEAN_CHECK = Path(sys.executable).with_name("bean-check")
HLEDGER = shutil.which("hledger")
needs_hledger = pytest.mark.skipif(
    HLEDGER is None, reason="hledger is not installed: apt-get install hledger"
)

BANKER_WINS = ["2S", "4D", "KH", "5C"]
PLAYER_WINS = ["9S", "4D", "KH", "2C"]
TIE = ["9S", "9H", "KD", "KC"]


class Week:
    """Writes commands of seven days, a few seconds after one another, the last of them now."""

    def __init__(self):
        self.commands = []
        self.at = datetime.now(UTC).replace(microsecond=0) - timedelta(days=6, hours=23)

    def add(self, command, **fields):
        self.at += timedelta(seconds=7)
        key = f"w{len(self.commands) + 1}"
        self.commands.append({"command": command, "key": key, "at": self.at.isoformat(), **fields})

    def play(self, round_id, shoe_id, cards, *bets):
        bets = [
            {"bet_id": f"b{number}", "account_id": account, "bet": bet, "stake_minor": stake}
            for number, (account, bet, stake) in enumerate(bets, 1)
        ]
        self.add("play_round", round_id=round_id, shoe_id=shoe_id, cards=cards, bets=bets)

    def correct(self, correction_id, round_id, **what):
        what = {"correction_id": correction_id, "actor": "pit-1", "round_id": round_id, **what}
        self.add("propose_correction", reason="seen on camera", **what)
        self.add("approve_correction", correction_id=correction_id, actor="manager-2")


TABLES = {
    "T:1": ("USD", {"commission": {"collection": "deferred"}}),
    "T.1": ("USD", {}),
    "yen": ("JPY", {"commission": {"increment_minor": 5, "rounding": "up"}}),
    "-din_ar": ("KWD", {"commission": {"collection": "deferred", "minimum_minor": 10}}),
}


def a_week():
    """Four tables of three currencies, ids that differ little, corrections, and closed days."""
    week = Week()
    for table_id, (currency, rules) in TABLES.items():
        week.add("open_table", table_id=table_id, currency=currency, rules=rules)
        week.add("open_shoe", shoe_id=f"s{table_id}", table_id=table_id, source="physical")
        for seat in ("p", "P", "p.", "p:"):
            account_id = f"{seat}{table_id}"
            week.add("open_account", account_id=account_id, currency=currency)
            week.add("deposit", account_id=account_id, amount_minor=1_000_00)
    for day in range(7):
        for number, table_id in enumerate(TABLES):
            cards = (BANKER_WINS, PLAYER_WINS, TIE)[(day + number) % 3]
            bets = (
                (f"p{table_id}", "banker", 20_00 + day),
                (f"P{table_id}", "player", 10_01),
                (f"p.{table_id}", "tie", 50),
                (f"p:{table_id}", "banker", 3),
            )
            week.play(f"r{day}-{table_id}", f"s{table_id}", cards, *bets)
        if day == 3:
            spent_and_corrected(week)
        week.at += timedelta(hours=23, minutes=40)
    week.at = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=30)
    week.correct("c-void", "r1-yen", void=True)
    week.correct("c-cards", "r2-T.1", cards=BANKER_WINS)
    week.add("collect_due", account_id="p-din_ar")
    return week.commands


def spent_and_corrected(week):
    """A player takes a win home, and the round is corrected: the win is owed."""
    week.add("collect_due", account_id="PT.1")
    week.play("r-spent", "sT:1", BANKER_WINS, ("PT:1", "banker", 400_00))
    week.add("collect_due", account_id="PT:1")
    week.add("withdraw", account_id="PT:1", amount_minor=1_300_00)
    week.correct("c-spent", "r-spent", cards=PLAYER_WINS)
    week.add("deposit", account_id="PT:1", amount_minor=50_00)


@pytest.fixture(scope="module")
def database_of_the_week(server):
    """The name of a database that the week is in, its first days closed."""
    name = f"week_{uuid4().hex}"
    with psycopg.connect(server.url(), autocommit=True) as superuser:
        superuser.execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
        with pytest.MonkeyPatch.context() as patched:
            punto = Punto(patched, server.url(user=LEDGER_ROLE, database=name))
            answers = punto.run(a_week())
            assert [answer for answer in answers if not answer["ok"]] == []
            day = (datetime.now(UTC) - timedelta(days=5)).date().isoformat()
            assert punto("close-day", day, "--actor", "owner").code == 0
        yield name
        superuser.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def database_name(request, make_database):
    """A fresh database: a copy of the week where a test asks for it, or else an empty ledger."""
    if "week" in request.fixturenames:
        return make_database(template=request.getfixturevalue("database_of_the_week"))
    return make_database(template=TEMPLATE)


@pytest.fixture
def week(database_name):
    """The week is in the ledger."""


def accounts(punto):
    """What the trial balance says, by account and currency."""
    document = punto("trial-balance", "--json").document
    assert document["ok"]
    return {
        (line["account"], line["currency"]): line["balance_minor"] for line in document["accounts"]
    }


def in_other_books(held):
    """The same by the names that the exports have, in whole units, without empty accounts."""
    return {
        (book_name(account), currency): Decimal(minor).scaleb(-DECIMALS[currency])
        for (account, currency), minor in held.items()
        if minor
    }


def test_the_trial_balance_is_zero_in_every_currency(punto, week):
    document = punto("trial-balance", "--json").document
    assert document["ok"] is True
    assert set(document["currencies"]) == {"USD", "JPY", "KWD"}
    for currency, both in document["currencies"].items():
        assert both["debits_minor"] == both["credits_minor"] > 0
        lines = [line for line in document["accounts"] if line["currency"] == currency]
        assert sum(line["balance_minor"] for line in lines) == 0
    in_play = [line for line in document["accounts"] if line["account"].startswith("in_play:")]
    assert len(in_play) == 29
    assert {line["balance_minor"] for line in in_play} == {0}
    assert "house" in {line["account"] for line in document["accounts"]}


def test_wallets_in_the_trial_balance_are_the_balances(punto, week):
    held = accounts(punto)
    for line in punto("accounts", "--json").lines:
        name, currency = line["account_id"], line["currency"]
        assert -held[f"player:{name}", currency] == line["available_minor"]
        assert held.get((f"commission_due:{name}", currency), 0) == line["commission_due_minor"]
        assert held.get((f"owed:{name}", currency), 0) == line["owed_minor"]


def test_hledger_and_beancount_names_of_two_accounts_are_never_one(punto, week):
    names = {account for account, _ in accounts(punto)}
    assert len({book_name(name) for name in names}) == len(names)


@needs_hledger
@pytest.mark.parametrize("scope", [[], ["--round", "r-spent"], ["--account", "PT:1"]])
def test_hledger_accepts_the_journal_and_has_our_balances(punto, week, tmp_path, scope):
    journal = tmp_path / "week.hledger"
    journal.write_text(punto("journal", "--format", "hledger", *scope).out)
    checked = hledger(journal, "check", "--strict")
    assert (checked.returncode, checked.stderr) == (0, "")
    listed = hledger(journal, "balance", "--flat", "--no-total", "-O", "csv")
    theirs = {}
    for name, amounts in list(csv.reader(io.StringIO(listed.stdout)))[1:]:
        for amount in amounts.split(", "):
            number, currency = amount.split(" ")
            theirs[name, currency] = Decimal(number)
    if not scope:
        assert theirs == in_other_books(accounts(punto))
    assert theirs


@needs_hledger
def test_hledger_refuses_a_journal_that_is_off_by_one_unit(punto, week, tmp_path):
    text = punto("journal", "--format", "hledger").out
    journal = tmp_path / "week.hledger"
    journal.write_text(text.replace("Assets:Cage  1000.00 USD", "Assets:Cage  1000.01 USD", 1))
    assert hledger(journal, "check", "--strict").returncode != 0
    journal.write_text(text.replace("= 0.000 KWD", "= 0.001 KWD", 1))
    assert "assertion" in hledger(journal, "check", "--strict").stderr


def hledger(journal, *arguments):
    command = [str(HLEDGER), "-f", str(journal), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("scope", [[], ["--round", "r-spent"], ["--account", "PT:1"]])
def test_beancount_accepts_the_journal_and_has_our_balances(punto, week, tmp_path, scope):
    from beancount.core.data import Transaction
    from beancount.loader import load_file

    journal = tmp_path / "week.beancount"
    journal.write_text(punto("journal", "--format", "beancount", *scope).out)
    checked = subprocess.run([BEAN_CHECK, journal], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
    found, errors, _ = load_file(str(journal))
    assert errors == []
    theirs = defaultdict(Decimal)
    for entry in found:
        if isinstance(entry, Transaction):
            for posting in entry.postings:
                theirs[posting.account, posting.units.currency] += posting.units.number
    assert theirs
    if not scope:
        held = {key: number for key, number in theirs.items() if number}
        assert held == in_other_books(accounts(punto))


def test_beancount_refuses_a_journal_that_is_off_by_one_unit(punto, week, tmp_path):
    text = punto("journal", "--format", "beancount").out
    journal = tmp_path / "week.beancount"
    for before, after in (
        ("Assets:Cage  1000.00 USD", "Assets:Cage  1000.01 USD"),
        ("0.000 ~ 0 KWD", "0.001 ~ 0 KWD"),
    ):
        assert before in text
        journal.write_text(text.replace(before, after, 1))
        checked = subprocess.run([BEAN_CHECK, journal], capture_output=True, check=False)
        assert checked.returncode != 0


def test_what_the_ledger_calls_an_account_stands_beside_its_name(punto, week):
    text = punto("journal", "--format", "beancount").out
    opened = text[text.index("open Liabilities:Players:P-pT-p1-l USD") :]
    assert opened.splitlines()[1] == '  original: "player:p.T.1"'
    declared = punto("journal", "--format", "hledger").out
    assert (
        "account Assets:CommissionDue:P--din-uar-l  ; type:A, original:commission_due:p-din_ar"
        in (declared.splitlines())
    )


def test_csv_and_json_have_the_same_postings(punto, week):
    rows = list(csv.DictReader(io.StringIO(punto("journal", "--format", "csv").out)))
    document = punto("journal", "--json").out
    found = json.loads(document)["postings"]
    assert [row["amount_minor"] for row in rows] == [str(each["amount_minor"]) for each in found]
    assert {row["book_account"] for row in rows} >= {"Assets:Cage", "Equity:House"}
    assert punto("journal", "--format", "json").out == document


def test_a_statement_goes_from_its_opening_to_its_closing_balance(punto, week):
    for line in punto("accounts", "--json").lines:
        document = punto("statement", line["account_id"], "--json").document
        balance = document["opening"]["available_minor"]
        assert balance == 0
        for number, movement in enumerate(document["movements"], 1):
            assert movement["number"] == number
            assert movement["before_minor"] == balance
            balance += movement["amount_minor"]
            assert movement["after_minor"] == movement["after"]["available_minor"] == balance
        assert document["closing"] == {name: line[name] for name in document["closing"]}
        assert len(document["movements"]) == line["version"]


def test_statements_of_two_periods_make_that_of_both(punto, week):
    whole = punto("statement", "pT:1", "--json").document
    between = whole["movements"][7]["at"]
    first = punto("statement", "pT:1", "--to", between, "--json").document
    second = punto("statement", "pT:1", "--from", between, "--json").document
    assert first["opening"] == whole["opening"]
    assert first["closing"] == second["opening"]
    assert second["closing"] == whole["closing"]
    assert first["movements"] + second["movements"] == whole["movements"]
    assert (second["from"], second["to"]) == (between, None)
    assert first["position"] == first["movements"][-1]["position"]


def test_a_statement_is_the_same_bytes_whatever_comes_after_its_period(punto, week):
    end = datetime.now(UTC).isoformat()
    before = punto("statement", "PT:1", "--to", end, "--json").out
    assert punto("statement", "PT:1", "--to", end, "--json").out == before
    punto.run([{"command": "deposit", "key": "later", "account_id": "PT:1", "amount_minor": 1}])
    assert punto("statement", "PT:1", "--to", end, "--json").out == before
    assert punto("statement", "PT:1", "--json").out != before


def test_a_statement_says_what_was_settled_first_and_what_a_correction_made_of_it(punto, week):
    movements = punto("statement", "PT:1", "--json").document["movements"]
    of_the_round = [
        (each["event"], each["amount_minor"], each["after"]["owed_minor"])
        for each in movements
        if each["details"].get("round_id") == "r-spent"
    ]
    assert [event for event, _, _ in of_the_round] == [
        "account.stake_placed",
        "account.win_paid",
        "account.commission_marked",
        "account.settlement_reversed",
        "account.stake_lost",
    ]
    assert of_the_round[-1][2] > 0
    reversal = next(each for each in movements if each["event"].endswith("settlement_reversed"))
    assert reversal["details"]["correction_id"] == "c-spent"


def test_a_statement_is_shown_to_people(punto, week):
    ran = punto("statement", "p:yen")
    assert ran.code == 0
    assert "opening 0 JPY" in ran.out
    assert "stake_placed" in ran.out
    assert "r0-yen" in ran.out


def balance(punto, account_id, *when):
    return punto("balance", account_id, "--json", *when).document


def test_a_late_correction_leaves_what_was_known_and_moves_what_was_true(punto, a_script):
    a_script.add("open_table", table_id="T1", currency="USD")
    a_script.add("open_account", account_id="a1", currency="USD")
    a_script.add("deposit", account_id="a1", amount_minor=1_000_00)
    a_script.add("open_shoe", shoe_id="S1", table_id="T1", source="physical")
    a_script.play("R1", "S1", ("a1", "banker", 100_00), cards=BANKER_WINS)
    a_script.add("deposit", account_id="a1", amount_minor=5)
    answers = punto.run(a_script.commands)
    placed, settled, deposited = (a_script.commands[number]["at"] for number in (3, 4, 5))
    positions = range(answers[1]["position"], answers[-1]["position"] + 1)
    known = {at: balance(punto, "a1", "--position", str(at)) for at in positions}
    assert balance(punto, "a1", "--at", settled)["available_minor"] == 1_095_00

    correction = {"correction_id": "c1", "round_id": "R1", "reason": "misread"}
    punto.run(
        [
            {"command": "propose_correction", "key": "p", "actor": "pit", **correction}
            | {"cards": PLAYER_WINS},
            {"command": "approve_correction", "key": "a", "actor": "boss", "correction_id": "c1"},
        ]
    )
    for _ in range(2):
        assert {at: balance(punto, "a1", "--position", str(at)) for at in positions} == known
        assert balance(punto, "a1", "--at", placed)["available_minor"] == 1_000_00
        assert balance(punto, "a1", "--at", settled)["available_minor"] == 900_00
        assert balance(punto, "a1", "--at", deposited)["available_minor"] == 900_05
        now = balance(punto, "a1")
        assert balance(punto, "a1", "--at", datetime.now(UTC).isoformat()) == now
        assert balance(punto, "a1", "--position", str(now["position"])) == now
        assert punto("rebuild").code == 0


def test_what_a_correction_took_and_was_spent_is_owed_from_the_moment_it_was_missing(punto, week):
    movements = punto("statement", "PT:1", "--json").document["movements"]
    withdrawn = next(each for each in movements if each["event"] == "account.funds_withdrawn")
    paid = next(
        each
        for each in movements
        if each["event"] == "account.win_paid" and each["details"]["round_id"] == "r-spent"
    )
    before, after = (balance(punto, "PT:1", "--at", each["at"]) for each in (paid, withdrawn))
    now = balance(punto, "PT:1")
    assert (before["owed_minor"], after["available_minor"]) == (0, 0)
    held_minor = before["available_minor"] - before["commission_due_minor"]
    assert held_minor == paid["after_minor"] - 800_00
    assert after["owed_minor"] == now["owed_minor"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["balance", "nobody"], "There is no account nobody: `punto accounts` lists them"),
        (["balance", "pT:1", "--position", "100000"], "The ledger has come to position"),
        (["balance", "pT:1", "--position", "1"], "Account pT:1 was not open at position 1"),
        (["balance", "pT:1", "--at", "2020-01-01T00:00:00Z"], "Account pT:1 was not open at 2020"),
        (["balance", "pT:1", "--at", "2020-01-01T00:00:00"], "needs an offset"),
        (
            ["balance", "pT:1", "--at", "2020-01-01T00:00:00Z", "--position", "1"],
            "--at and --position exclude each other",
        ),
        (["statement", "nobody"], "There is no account nobody: `punto accounts` lists them"),
        (["journal", "--account", "nobody"], "There is no account nobody"),
        (["journal", "--round", "nothing"], "There is no round nothing"),
        (["journal", "--day", "yesterday"], "--day 'yesterday' is not a date"),
        (["journal", "--json", "--format", "csv"], "--json and --format csv exclude each other"),
        (["journal", "--format", "xml"], "'xml' is not one of"),
    ],
)
def test_what_cannot_be_answered_is_said_in_one_line(punto, week, arguments, reason):
    assert reason in punto(*arguments).refusal()


def test_the_journal_of_an_account_of_the_ledger_has_whole_entries(punto, week):
    found = json.loads(punto("journal", "--account", "commission:yen", "--json").out)["postings"]
    totals = defaultdict(int)
    for each in found:
        totals[each["position"]] += each["amount_minor"]
    assert set(totals.values()) == {0}
    entries = {each["position"] for each in found if each["account"] == "commission:yen"}
    assert entries == totals.keys()


def test_the_journal_of_a_day_has_what_stands_in_its_books(punto, week):
    day = (datetime.now(UTC) - timedelta(days=3)).date().isoformat()
    found = json.loads(punto("journal", "--day", day, "--json").out)["postings"]
    assert {each["day"] for each in found} == {day}
    assert json.loads(punto("journal", "--day", "1999-12-31", "--json").out) == {"postings": []}
    for form in ("text", "csv", "hledger", "beancount"):
        assert punto("journal", "--day", "1999-12-31", "--format", form).code == 0


def test_the_journal_is_shown_to_people_entry_by_entry(punto, week):
    lines = punto("journal", "--round", "r-spent").out.splitlines()
    assert lines[0].endswith("account.stake_placed, account PT:1, round r-spent, bet b1")
    assert lines[1].split() == ["player:PT:1", "400.00", "USD", *lines[1].split()[3:]]
    assert lines[2].split()[:3] == ["in_play:r-spent", "-400.00", "USD"]


def test_a_posting_that_was_altered_is_found(punto, week, sql):
    cents = "UPDATE projection.journal SET amount_minor = amount_minor + CASE line WHEN 1 THEN 1"
    sql(f"{cents} ELSE -1 END WHERE position = (SELECT min(position) FROM projection.journal)")
    ran = punto("trial-balance", "--json")
    assert (ran.code, ran.document["ok"]) == (1, False)
    assert {each["account"] for each in ran.document["differences"]} == {"cage", "player:pT:1"}
    assert "its postings come to" in punto("trial-balance").out


def test_an_empty_ledger_has_empty_books(punto):
    assert punto("trial-balance", "--json").document["ok"] is True
    assert json.loads(punto("journal", "--json").out) == {"postings": []}


def test_a_statement_that_ends_before_the_account_opened_has_its_currency(punto, played):
    account = punto("accounts", "--json").lines[0]
    early = punto(
        "statement", account["account_id"], "--to", "2020-01-01T00:00:00Z", "--json"
    ).document
    assert (early["currency"], early["closing"]["available_minor"]) == (account["currency"], 0)


def test_a_period_that_ends_before_it_starts_is_refused(punto, played):
    account = punto("accounts", "--json").lines[0]["account_id"]
    period = ("--from", "2026-02-01T00:00:00Z", "--to", "2026-01-01T00:00:00Z")
    assert "lies after --to" in punto("statement", account, *period).refusal()
