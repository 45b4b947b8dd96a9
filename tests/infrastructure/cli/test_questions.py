"""The questions: the shape of every answer, what people see, and what is not there."""

import re
from datetime import datetime

import pytest

from infrastructure.cli.output import console

TEXT, NUMBER, FLAG, NAMES = (str,), (int,), (bool,), (list,)
TEXT_OR_NONE, NUMBER_OR_NONE = (str, type(None)), (int, type(None))

TABLE = {
    "table_id": TEXT,
    "currency": TEXT,
    "rules_version": NUMBER,
    "variant": TEXT,
    "decks": NUMBER,
    "shoe_id": TEXT_OR_NONE,
    "rounds": NUMBER,
    "opened_at": TEXT,
}
SHOE = {
    "shoe_id": TEXT,
    "table_id": TEXT,
    "decks": NUMBER,
    "source": TEXT,
    "state": TEXT,
    "rounds": NUMBER,
    "cards_drawn": NUMBER,
    "cards_burned": NUMBER,
    "cut_card_is_out": FLAG,
    "opened_at": TEXT,
    "closed_at": TEXT_OR_NONE,
}
AMOUNTS = {
    "available_minor": NUMBER,
    "in_play_minor": NUMBER,
    "commission_due_minor": NUMBER,
    "owed_minor": NUMBER,
}
ACCOUNT = {
    "account_id": TEXT,
    "currency": TEXT,
    **AMOUNTS,
    "is_frozen": FLAG,
    "is_closed": FLAG,
    "opened_at": TEXT,
    "version": NUMBER,
}
BALANCE = {"account_id": TEXT, "currency": TEXT, **AMOUNTS, "position": NUMBER}
ROUND = {
    "round_id": TEXT,
    "table_id": TEXT,
    "shoe_id": TEXT,
    "number": NUMBER,
    "state": TEXT,
    "player_cards": NAMES,
    "banker_cards": NAMES,
    "player_total": NUMBER_OR_NONE,
    "banker_total": NUMBER_OR_NONE,
    "outcome": TEXT_OR_NONE,
    "bets": NUMBER,
    "turnover": (dict,),
    "opened_at": TEXT,
    "settled_at": TEXT_OR_NONE,
}
EVENT = {
    "position": NUMBER,
    "stream": TEXT,
    "version": NUMBER,
    "event": TEXT,
    "at": TEXT,
    "actor": TEXT,
    "key": TEXT,
}
HAND = {"cards": NAMES, "total": NUMBER_OR_NONE}
REPLAY = {
    "round_id": TEXT,
    "table_id": TEXT,
    "shoe_id": TEXT,
    "state": TEXT,
    "version": NUMBER,
    "rules": (dict,),
    "player": (dict,),
    "banker": (dict,),
    "outcome": TEXT_OR_NONE,
    "bets": NAMES,
    "first_settled": (dict, type(None)),
    "corrections": NAMES,
    "steps": NAMES,
    "findings": NAMES,
}
BET = {
    "bet_id": TEXT,
    "account_id": TEXT,
    "bet": TEXT,
    "stake_minor": NUMBER,
    "currency": TEXT,
    "result": TEXT,
    "win_minor": NUMBER,
    "commission_minor": NUMBER,
}
STEP = {"version": NUMBER, "event": TEXT, "at": TEXT, "actor": TEXT}
AUDIT = {"rounds": NUMBER, "rounds_with_findings": NUMBER, "findings": (dict,), "examples": NAMES}
STATUS = {
    "database_url": TEXT,
    "head": NUMBER,
    "head_recorded_at": TEXT,
    "projections": NAMES,
    "feeds": NAMES,
    "interrupted": NAMES,
}
PROJECTION = {"name": TEXT, "position": NUMBER, "lag_events": NUMBER, "parked": NUMBER}

LISTS = {"tables": TABLE, "shoes": SHOE, "accounts": ACCOUNT, "rounds": ROUND}
QUESTIONS = [
    ("tables",),
    ("shoes",),
    ("shoes", "--table", "T1"),
    ("accounts",),
    ("rounds",),
    ("events", "round:R1"),
    ("events", "site"),
    ("replay", "R1"),
    ("audit",),
    ("balance", "alice"),
    ("status",),
]
UNKNOWN = {
    ("replay", "nope"): "There is no round nope: `punto rounds` lists them",
    ("balance", "nope"): "There is no account nope: `punto accounts` lists them",
    ("events", "nope"): "There is no stream nope: write it as in round:ID or account:ID",
    (
        "events",
        "round:nope",
    ): "There is no stream round:nope: write it as in round:ID or account:ID",
    ("audit", "--round", "nope"): "There is no round nope: `punto rounds` lists them",
    ("audit", "--shoe", "nope"): "There is no shoe nope: `punto shoes` lists them",
    ("audit", "--table", "nope"): "There is no table nope: `punto tables` lists them",
    ("shoes", "--table", "nope"): "There is no table nope: `punto tables` lists them",
    ("rounds", "--table", "nope"): "There is no table nope: `punto tables` lists them",
    ("rounds", "--shoe", "nope"): "There is no shoe nope: `punto shoes` lists them",
    ("rounds", "--after", "nope"): "There is no round nope: `punto rounds` lists them",
}
BAD_USAGE = {
    (): "Which command?",
    ("db",): "Which command?",
    ("nonsense",): "No such command 'nonsense'",
    ("tables", "--nope"): "No such option: --nope",
    ("tables", "T1"): "unexpected extra argument",
    ("replay",): "Missing argument 'ROUND'",
    ("balance",): "Missing argument 'ACCOUNT'",
    ("events",): "Missing argument 'STREAM'",
    ("run",): "Missing argument 'FILE'",
    ("import", "rounds.csv"): "Missing option '--table'",
    ("import", "--table", "T1"): "Missing argument 'FILE'",
    ("audit", "--round", "R1", "--shoe", "S1"): "exclude each other",
    ("audit", "--shoe", "S1", "--table", "T1"): "exclude each other",
    ("rounds", "--limit", "0"): "'--limit'",
    ("rounds", "--limit", "many"): "'--limit'",
    ("rounds", "--from", "yesterday"): "is not an ISO 8601 time, such as",
    ("rounds", "--from", "2026-01-02"): "needs an offset, as in 2026-01-02T00:00:00+00:00",
    ("rounds", "--to", "2026-01-02T10:00"): "needs an offset, as in 2026-01-02T10:00:00+00:00",
    ("replay", "R1", "--to-version", "0"): "'--to-version'",
    ("simulate", "--seats", "0"): "'--seats'",
    ("simulate", "--currency", "XYZ"): "'XYZ' is not an ISO 4217 currency",
    ("simulate", "--rules", "{"): "rules: Invalid JSON",
    ("simulate", "--rules", '{"decks": 7}'): "rules.decks: ",
    ("simulate", "--rules", '{"deck": 8}'): "rules.deck: ",
    (
        "import",
        "rounds.csv",
        "--table",
        "T1",
        "--preset",
        "x",
    ): "there is no preset 'x': points-csv",
    ("rebuild", "nonsense"): "there is no projection 'nonsense': balances, days, journal, rounds,",
}


def assert_shape(row, shape, *, more_is_fine=False):
    names = {name: row[name] for name in shape} if more_is_fine else row
    assert names.keys() == shape.keys()
    for name, value in names.items():
        # A flag is a number to Python, and not to those who read JSON.
        assert type(value) in shape[name], (name, value)


@pytest.mark.parametrize("question", LISTS)
def test_a_list_is_a_line_for_each_with_these_names(punto, played, question):
    ran = punto(question, "--json")
    assert (ran.code, ran.err) == (0, "")
    assert ran.lines
    for line in ran.lines:
        assert_shape(line, LISTS[question])


def test_the_lists_say_what_was_played(punto, played):
    tables = {line["table_id"]: line for line in punto("tables", "--json").lines}
    assert [tables[name]["rounds"] for name in ("T1", "T2", "T3")] == [4, 5, 5]
    assert [tables[name]["shoe_id"] for name in ("T1", "T2", "T3")] == ["S1", None, "S3"]
    shoes = {line["shoe_id"]: line for line in punto("shoes", "--json").lines}
    assert [shoes[name]["state"] for name in ("S1", "S2", "S3")] == ["open", "closed", "open"]
    assert (shoes["S1"]["cards_drawn"], shoes["S1"]["cards_burned"]) == (12, 3)
    (only,) = punto("shoes", "--table", "T2", "--json").lines
    assert only == shoes["S2"]
    accounts = [line["account_id"] for line in punto("accounts", "--json").lines]
    assert accounts == ["alice", "bob", "chai", "dao"]


def test_a_round_is_listed_as_it_was_recorded(punto, played, evening):
    lines = {line["round_id"]: line for line in punto("rounds", "--json").lines}
    opened_at = next(each["at"] for each in evening if each["command"] == "open_round")
    first = lines["R1"]
    assert datetime.fromisoformat(first.pop("opened_at")) == datetime.fromisoformat(opened_at)
    assert first.pop("settled_at") > opened_at
    assert first == {
        "round_id": "R1",
        "table_id": "T1",
        "shoe_id": "S1",
        "number": 1,
        "state": "settled",
        "player_cards": ["4D", "AH", "7S"],
        "banker_cards": ["3S", "QC", "5S"],
        "player_total": 2,
        "banker_total": 8,
        "outcome": "banker",
        "bets": 3,
        "turnover": {"USD": 88_33},
    }
    void = lines["R3"]
    assert (void["state"], void["outcome"], void["turnover"]) == ("void", None, {"USD": 0})
    assert lines["R4"]["state"] == "betting"


def test_rounds_are_limited_to_the_newest_and_printed_oldest_first(punto, played):
    def ids(*options):
        return [line["round_id"] for line in punto("rounds", "--json", *options).lines]

    everything = ids()
    assert everything[:3] == ["R1", "R2", "R3"]
    assert everything[-1] == "R4"
    assert ids("--limit", "2") == everything[-2:]
    assert ids("--limit", str(10**30)) == everything
    assert ids("--table", "T1") == ["R1", "R2", "R3", "R4"]
    assert ids("--shoe", "S2") == ["P1", "P2", "P3", "P4", "P5"]
    assert ids("--shoe", "S2", "--table", "T1") == []
    assert ids("--shoe", "S2", "--after", "P3") == ["P4", "P5"]
    assert ids("--after", "P3", "--limit", "1") == everything[-1:]
    assert ids("--after", "R4") == []


def test_rounds_are_chosen_by_when_they_opened_in_whatever_zone_that_is_said(punto, played):
    lines = punto("rounds", "--json").lines
    opened = {line["round_id"]: datetime.fromisoformat(line["opened_at"]) for line in lines}

    def ids(*options):
        return {line["round_id"] for line in punto("rounds", "--json", *options).lines}

    moment = opened["P3"]
    from_then_on = {name for name, at in opened.items() if at >= moment}
    for written in (moment.isoformat(), moment.isoformat().replace("+00:00", "Z")):
        assert ids("--from", written) == from_then_on
        assert ids("--to", written) == opened.keys() - from_then_on
    elsewhere = moment.replace(hour=0).isoformat().replace("+00:00", "-23:00")
    shifted = datetime.fromisoformat(elsewhere)
    assert ids("--from", elsewhere) == {name for name, at in opened.items() if at >= shifted}
    assert ids("--from", moment.isoformat(), "--to", moment.isoformat()) == set()


def test_events_are_a_line_each_with_what_is_common_to_all(punto, played):
    lines = punto("events", "round:R1", "--json").lines
    for number, line in enumerate(lines, 1):
        assert_shape(line, EVENT, more_is_fine=True)
        assert (line["stream"], line["version"]) == ("round:R1", number)
    assert [line["event"] for line in lines][:2] == ["round.opened", "round.bet_placed"]
    assert [line["card"] for line in lines if line["event"] == "round.third_card_drawn"] == [
        "7S",
        "5S",
    ]
    settled = [line for line in lines if line["event"] == "round.bet_settled"]
    assert settled[0]["bet_id"] == "R1-alice-banker"
    assert settled[0]["result"] == "won"
    assert (settled[0]["stake_minor"], settled[0]["win_minor"]) == (33_33, 33_33)
    assert settled[0]["commission_minor"] == 1_67
    (charged,) = (
        line
        for line in punto("events", "account:alice", "--json").lines
        if line["event"] == "account.commission_charged"
    )
    assert charged["round_id"] == "R1"
    assert charged["bet_id"] == "R1-alice-banker"
    assert charged["commission_minor"] == 1_67


@pytest.mark.parametrize("round_id", ["R1", "R2", "R3", "R4", "P1"])
def test_a_replay_has_these_names(punto, played, round_id):
    ran = punto("replay", round_id, "--json")
    assert (ran.code, ran.err) == (0, "")
    replayed = ran.document
    assert_shape(replayed, REPLAY)
    assert_shape(replayed["player"], HAND)
    assert_shape(replayed["banker"], HAND)
    for bet in replayed["bets"]:
        assert_shape(bet, BET)
        assert bet["result"] in {"won", "lost", "push", "returned", "open"}
    for number, step in enumerate(replayed["steps"], 1):
        assert_shape(step, STEP, more_is_fine=True)
        assert step["version"] == number
    assert replayed["version"] == len(replayed["steps"])
    assert replayed["findings"] == []


def test_a_replay_stops_at_a_version(punto, played):
    whole = punto("replay", "R1", "--json").document
    for version in range(1, whole["version"] + 1):
        part = punto("replay", "R1", "--to-version", str(version), "--json").document
        assert part["version"] == version
        assert part["steps"] == whole["steps"][:version]
    beyond = punto("replay", "R1", "--to-version", str(10**30)).refusal()
    assert beyond.startswith(f"Round R1 has {whole['version']} versions")


def test_a_round_that_was_not_open_at_a_version_is_not_called_unknown(punto, played):
    tombstone = {"command": "cancel_bet", "key": "t", "round_id": "R9", "bet_id": "early"}
    assert punto.run([tombstone])[0]["ok"]
    assert punto("replay", "R9").refusal() == ("Round R9 was not opened: `punto events round:R9`")


def test_an_audit_has_these_names_and_covers_what_was_asked(punto, played):
    for scope, rounds in (
        ((), 14),
        (("--table", "T1"), 4),
        (("--shoe", "S2"), 5),
        (("--round", "R1"), 1),
    ):
        ran = punto("audit", *scope, "--json")
        assert (ran.code, ran.err) == (0, "")
        assert_shape(ran.document, AUDIT)
        assert ran.document["rounds"] == rounds
        assert ran.document["findings"] == {}
        assert ran.document["examples"] == []


def test_a_balance_has_these_names_and_amounts(punto, played):
    ran = punto("balance", "alice", "--json")
    assert (ran.code, ran.err) == (0, "")
    assert_shape(ran.document, BALANCE)
    # 500.00 and a win of 33.33, less 1.67 commission, 100.00 taken home and 12.34 in play.
    assert ran.document["available_minor"] == 500_00 + 33_33 - 1_67 - 100_00 - 12_34
    assert ran.document["in_play_minor"] == 12_34
    # Deferred commission was collected when the shoe closed.
    assert punto("balance", "chai", "--json").document["commission_due_minor"] == 0


def test_the_status_has_these_names_and_shows_interrupted_rounds(punto, played, sql):
    ran = punto("status", "--json")
    assert (ran.code, ran.err) == (0, "")
    status = ran.document
    assert_shape(status, STATUS)
    for projection in status["projections"]:
        assert_shape(projection, PROJECTION)
        assert (projection["position"], projection["lag_events"]) == (status["head"], 0)
    names = [projection["name"] for projection in status["projections"]]
    assert names == ["balances", "days", "journal", "rounds", "shoes", "tables"]
    assert sql("SELECT max(position) FROM ledger.events") == [(status["head"],)]
    assert status["feeds"] == []
    assert status["interrupted"] == ["R4"]


def test_the_status_shows_no_password(punto, played):
    url = punto.url.replace("@", ":open%20sesame@")
    for options in ((), ("--json",)):
        ran = punto("status", *options, url=url)
        assert ran.code == 0
        assert "sesame" not in ran.out + ran.err
        assert ":***@" in ran.out


@pytest.mark.parametrize("question", QUESTIONS, ids=" ".join)
def test_people_get_an_answer_that_fits_an_eighty_column_terminal(
    punto, played, monkeypatch, question
):
    monkeypatch.setattr(console, "width", 80)
    ran = punto(*question)
    assert (ran.code, ran.err) == (0, "")
    assert "…" not in ran.out
    if question[0] not in {"events", "replay", "status"}:
        # Their long lines are left to the terminal, so that they can be copied.
        assert max(map(len, ran.out.splitlines())) <= 80


def test_people_see_money_cards_and_names_whole_on_a_narrow_terminal(punto, monkeypatch, a_script):
    monkeypatch.setattr(console, "width", 80)
    name = "an-account-with-a-name-of-sixty-four-characters:" + "x" * 16
    a_script.add("open_account", account_id=name, currency="USD")
    a_script.add("deposit", account_id=name, amount_minor=1_234_567_89)
    punto.run(a_script.commands)
    shown = punto("accounts").out
    assert "1,234,567.89 USD" in shown
    pieces = [line.split("  ")[0].strip() for line in shown.splitlines()[3:]]
    assert "".join(pieces) == name


@pytest.mark.parametrize("width", [20, 45, 60, 79])
def test_no_number_is_cut_on_a_terminal_that_is_too_narrow(punto, monkeypatch, a_script, width):
    a_script.add("open_account", account_id="carol", currency="USD")
    a_script.add("deposit", account_id="carol", amount_minor=1_234_567_89)
    for _ in range(150):
        a_script.add("deposit", account_id="carol", amount_minor=1)
    punto.run(a_script.commands)
    monkeypatch.setattr(console, "width", width)
    shown = punto("accounts").out
    assert "1,234,569.39 USD" in shown
    assert "carol" in shown
    assert re.search(r"\b152\b", shown)
    said = punto("statement", "carol").out
    assert "Too narrow for: " in said


def test_people_see_a_reason_as_it_was_written(punto, played):
    shown = punto("events", "account:bob").out
    assert "a look at [his] papers, see [/b]" in shown
    assert "papers in order :thumbs_up:" in shown


def test_people_see_an_id_as_it_was_chosen(punto, a_script):
    a_script.add("open_table", table_id="a:bell:b", currency="USD")
    a_script.add("open_shoe", shoe_id="a:bell:s", table_id="a:bell:b", source="physical")
    a_script.play("a:bell:r", "a:bell:s", cards=["9S", "9H", "KD", "KC"])
    punto.run(a_script.commands)
    for question in (("tables",), ("shoes",), ("rounds",), ("replay", "a:bell:r")):
        assert "a:bell:" in punto(*question).out


def test_people_see_the_rule_behind_each_third_card(punto, played):
    shown = punto("replay", "R1").out
    assert "Player has 5 and draws on 0-5" in shown
    assert "Banker has 3, which draws on any third card of the Player but 8" in shown
    assert "Player  4D AH 7S  = 2" in shown
    assert "33.33 USD" in shown
    assert "No finding" in shown


def test_an_empty_ledger_answers_every_list_with_nothing(punto):
    for question in LISTS:
        ran = punto(question, "--json")
        assert (ran.code, ran.out, ran.err) == (0, "", "")
        assert punto(question).code == 0
    assert punto("audit", "--json").document == {
        "rounds": 0,
        "rounds_with_findings": 0,
        "findings": {},
        "examples": [],
    }
    assert punto("status", "--json").document["head"] == 0


def test_an_answer_is_never_older_than_the_last_command(punto, a_script):
    a_script.add("open_account", account_id="ann", currency="USD")
    for number in range(1, 6):
        a_script.add("deposit", account_id="ann", amount_minor=1)
        answer = punto.run(a_script.commands)[-1]
        balance = punto("balance", "ann", "--json").document
        assert balance["available_minor"] == number
        assert balance["position"] == answer["position"]


@pytest.mark.parametrize("question", UNKNOWN, ids=" ".join)
def test_what_is_not_there_is_refused_in_one_line_that_says_what_to_do(punto, played, question):
    for options in ((), ("--json",)):
        ran = punto(*question, *options)
        assert ran.refusal() == UNKNOWN[question]
        assert ran.out == ""


def test_bad_usage_is_refused_in_one_line(punto):
    for arguments, why in BAD_USAGE.items():
        assert why in punto(*arguments).refusal(), arguments
