"""`punto commission`, `punto day` and `punto close-day`."""

from datetime import UTC, datetime, timedelta

import pytest

START = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0) - timedelta(days=3)
DAY = START.date().isoformat()
NEXT = (START + timedelta(days=1)).date().isoformat()
BANKER_WINS = ["2S", "4D", "KH", "5C"]


def opening(**rules):
    at = START.isoformat()
    commands = [
        {"command": "open_table", "table_id": "T1", "currency": "USD", "rules": rules},
        {"command": "open_account", "account_id": "alice", "currency": "USD"},
        {"command": "deposit", "account_id": "alice", "amount_minor": 1_000_00},
        {"command": "open_shoe", "shoe_id": "S1", "table_id": "T1", "source": "physical"},
    ]
    return [{**command, "key": f"o{n}", "at": at} for n, command in enumerate(commands)]


def a_round(name, *, at, stake_minor=100_00):
    bet = {"bet_id": "B1", "account_id": "alice", "bet": "banker", "stake_minor": stake_minor}
    return {
        "command": "play_round",
        "key": name,
        "at": at.isoformat(),
        "round_id": name,
        "shoe_id": "S1",
        "bets": [bet],
        "cards": BANKER_WINS,
    }


@pytest.fixture
def played(punto):
    """A Banker bet of 100.00 that has won, three days ago."""
    answers = punto.run([*opening(), a_round("R1", at=START + timedelta(hours=1))])
    assert all(answer["ok"] for answer in answers)


def test_a_day_is_reported_with_what_the_odds_would_have_had_it_come_to(punto, played):
    document = punto("day", "--day", DAY, "--json").document
    assert (document["day"], document["played"], document["closed"]) == (DAY, True, False)
    assert document["from"] == f"{DAY}T06:00:00Z"
    (total,) = document["totals"]
    assert total == {
        "key": "",
        "currency": "USD",
        "turnover_minor": 100_00,
        "win_minor": -100_00,
        "commission_minor": 5_00,
        "hold_percent": "-95.00",
        "bets": 1,
        "rounds": 1,
        "void_rounds": 0,
        "in_play_start_minor": 0,
        "in_play_end_minor": 0,
        "theoretical_minor": 1_06,
        "deviation_minor": -96_06,
        "standard_deviation_minor": 92_74,
        "deviations": "-1.04",
    }
    assert [line["key"] for line in document["tables"]] == ["T1"]
    assert [line["key"] for line in document["shoes"]] == ["S1"]
    assert [line["key"] for line in document["bets"]] == ["banker"]
    assert [line["key"] for line in document["accounts"]] == ["alice"]


def test_people_get_the_report_in_tables(punto, played):
    out = punto("day", "--day", DAY, "--table", "T1").out
    assert out.startswith(f"Gaming day {DAY}, open: {DAY} 06:00 to {NEXT} 06:00 UTC\n")
    assert "-95.00" in out
    assert "banker" in out


def test_a_day_without_play_says_so(punto, played):
    document = punto("day", "--day", "2025-02-03", "--json").document
    assert (document["played"], document["totals"], document["tables"]) == (False, [], [])
    assert "No play" in punto("day", "--day", "2025-02-03").out
    assert punto("day", "--json").document["played"] is False


def test_an_empty_ledger_has_days_too(punto):
    assert punto("day", "--day", "2026-01-01", "--json").document["played"] is False
    assert punto("commission", "--by", "day", "--json").lines == []
    reconciled = punto("reconcile", "commission", "--json")
    assert (reconciled.code, reconciled.document) == (
        0,
        {"ok": True, "currencies": {}, "differences": []},
    )


def test_a_table_that_is_not_there_is_refused(punto, played):
    assert punto("day", "--table", "T9").refusal().startswith("There is no table T9")


@pytest.mark.parametrize("arguments", [("day", "--day", "today"), ("close-day", "2026-02-30")])
def test_a_day_that_is_no_date_is_refused(punto, arguments):
    assert "is not a date, such as 2026-01-31" in punto(*arguments).refusal()


def test_a_closed_day_gives_the_same_bytes_whatever_comes_later(punto, played):
    assert punto("close-day", DAY).out == f"Gaming day {DAY} is closed\n"
    closed = punto("day", "--day", DAY, "--json").out
    shown = punto("day", "--day", DAY).out
    late = punto.run([a_round("R2", at=START + timedelta(hours=2), stake_minor=40_00)])
    assert late[0]["ok"], late
    assert punto("day", "--day", DAY, "--json").out == closed
    assert punto("day", "--day", DAY).out == shown
    assert punto("rebuild").code == 0
    assert punto("day", "--day", DAY, "--json").out == closed

    document = punto("day", "--day", NEXT, "--json").document
    (line,) = document["late"]
    assert (line["key"], line["turnover_minor"], line["rounds"]) == (DAY, 40_00, 1)
    assert document["totals"][0]["turnover_minor"] == 40_00
    assert punto("commission", "--by", "day", "--json").lines == [
        {
            "key": day,
            "currency": "USD",
            "commission_minor": minor,
            "winning_banker_stakes_minor": 20 * minor,
            "bets": 1,
        }
        for day, minor in ((DAY, 5_00), (NEXT, 2_00))
    ]
    assert punto("reconcile", "commission", "--json").document["ok"]


def test_a_closed_day_and_one_that_is_not_over_are_refused(punto, played):
    punto("close-day", DAY)
    again = punto("close-day", DAY, "--json")
    assert (again.code, again.document["error"]["code"]) == (1, "day_closed")
    today = datetime.now(UTC).date() + timedelta(days=1)
    early = punto("close-day", today.isoformat())
    assert (early.code, early.out) == (1, "")
    assert f"gaming day {today} is not over before" in early.err


def test_the_command_closes_a_day_too(punto, played):
    command = {"command": "close_day", "key": "c1", "day": DAY, "actor": "manager-1"}
    first, again, other = punto.run([command, command, {**command, "key": "c2"}])
    assert (first["ok"], first["result"]) == (True, {"day": DAY})
    assert again == {**first, "replayed": True}
    assert (other["error"]["code"], other["error"]["field"]) == ("day_closed", "day")
    [unreadable] = punto.run([{**command, "key": "c3", "day": "3 March"}])
    assert unreadable["error"]["field"] == "day"


@pytest.mark.parametrize("currency", ["JPY", "USD", "KWD"])
def test_currencies_of_any_number_of_decimals_are_reconciled(punto, currency):
    commands = opening()
    commands = [
        {**command, "currency": currency} if "currency" in command else command
        for command in commands
    ]
    answers = punto.run([*commands, a_round("R1", at=START, stake_minor=33_33)])
    assert all(answer["ok"] for answer in answers), answers
    document = punto("reconcile", "commission", "--json").document
    assert document["ok"]
    assert document["currencies"][currency]["ledger_minor"] == 1_67
    shown = punto("commission").out
    assert {"JPY": "167 JPY", "USD": "1.67 USD", "KWD": "0.167 KWD"}[currency] in shown


@pytest.mark.parametrize("by", ["table", "shoe", "account", "day"])
def test_commission_is_listed_by_what_one_asks_for(punto, played, by):
    [line] = punto("commission", "--by", by, "--json").lines
    assert line == {
        "key": {"table": "T1", "shoe": "S1", "account": "alice", "day": DAY}[by],
        "currency": "USD",
        "commission_minor": 5_00,
        "winning_banker_stakes_minor": 100_00,
        "bets": 1,
    }
    assert "5.00 USD" in punto("commission", "--by", by).out


@pytest.mark.parametrize(
    "arguments",
    [
        ("close-day", "9999-12-31"),
        ("close-day", "1000-01-01"),
        ("close-day", "2026-W48-5"),
        ("close-day", "20260103"),
        ("day", "--day", "9999-12-31"),
        ("day", "--day", "0001-01-01"),
        ("day", "--day", "2026-W48-7"),
        ("journal", "--day", "20260103"),
        ("journal", "--day", "9999-12-31"),
        ("reconcile", "commission", "--day", "2026-W01-6"),
        ("export", "--to", "reports", "--days", "20260103"),
        ("export", "--to", "reports", "--days", "2026-01-01..9999-12-31"),
    ],
)
def test_a_day_is_written_in_one_way_and_lies_in_the_calendar(punto, arguments):
    assert "as 2026-01-" in punto(*arguments).refusal()


@pytest.mark.parametrize("actor", ["José", "b ad", "", "a" * 65])
def test_who_closes_a_day_is_an_id(punto, actor):
    assert "actor" in punto("close-day", "2026-01-03", "--actor", actor).refusal()
