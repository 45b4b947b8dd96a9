"""`punto import`, `simulate` and `demo` as commands."""

import json
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
RECORDED = REPOSITORY.parent / "shared" / "data" / "recorded_shoes.csv"
HEADER = (
    "b total,player total,pcard1,pcard2,pcard3,bcard1,bcard2,bcard3,outcome,rounds,"
    "banker streak,player streak,tie streak,shoe number"
)
ROWS = [
    "8,7,0,7,,8,0,,banker win,1,1,0,0,1",
    "6,6,1,5,,6,0,,tie,2,0,0,1,1",
    # The Player stood on 7 and has a third card all the same.
    "8,7,0,7,3,8,0,,banker win,1,1,0,0,2",
]


@pytest.fixture
def write(tmp_path):
    def write(*rows):
        file = tmp_path / "rounds.csv"
        file.write_text("\n".join((HEADER, *rows)) + "\n")
        return str(file)

    return write


def test_an_import_reports_what_was_new_and_the_same_file_again_adds_nothing(
    punto, write, stored_events
):
    file = write(*ROWS)
    first = punto("import", file, "--table", "T9", "--json")
    assert (first.code, first.err) == (0, "")
    report = first.document
    assert (report["table_id"], report["currency"]) == ("T9", "USD")
    assert (report["rounds"], report["new_rounds"], report["shoes"]) == (3, 3, 2)
    before = stored_events(punto.url)
    again = punto("import", file, "--table", "T9", "--json")
    assert again.code == 0
    assert (again.document["rounds"], again.document["new_rounds"]) == (3, 0)
    assert stored_events(punto.url) == before
    shown = punto("import", file, "--table", "T9")
    assert shown.code == 0
    assert shown.out == "Rounds: 3, shoes: 2, at table T9, all of them there already\n"


def test_a_file_that_has_grown_adds_its_new_rows(punto, write):
    assert punto("import", write(*ROWS[:2]), "--table", "T9").code == 0
    grown = punto("import", write(*ROWS), "--table", "T9", "--json").document
    assert (grown["rounds"], grown["new_rounds"]) == (3, 1)


def test_an_import_is_exit_code_0_whatever_the_audit_finds(punto, write):
    assert punto("import", write(*ROWS), "--table", "T9", "--currency", "THB").code == 0
    ran = punto("audit", "--json")
    assert ran.code == 1
    assert ran.document["findings"] == {"player_third_card_unexpected": 1}
    assert ran.document["rounds_with_findings"] == 1
    (example,) = ran.document["examples"]
    assert example["round_id"] == punto("rounds", "--shoe", "T9.2", "--json").document["round_id"]
    (table,) = punto("tables", "--json").lines
    assert (table["table_id"], table["currency"]) == ("T9", "THB")
    shown = punto("audit")
    assert shown.code == 1
    assert "player_third_card_unexpected" in shown.out


@pytest.mark.parametrize(
    "row",
    [
        "8,7,0,7,,8,0,,banker win,1,1,0,0",
        "8,7,0,7,,8,0,,nobody,3,1,0,0,2",
        "8,7,0,77,,8,0,,banker win,3,1,0,0,2",
        "8,7,,7,,8,0,,banker win,3,1,0,0,2",
        "8,7,0,7,,8,0,,banker win,x,1,0,0,2",
    ],
)
def test_a_malformed_row_is_named_by_its_line_and_nothing_is_stored(
    punto, write, stored_events, row
):
    ran = punto("import", write(*ROWS, row, ROWS[0]), "--table", "T9")
    assert "line 5" in ran.refusal()
    assert ran.out == ""
    assert stored_events(punto.url) == []


def test_a_shoe_that_is_there_with_other_rounds_is_refused(punto, write, stored_events):
    assert punto("import", write(*ROWS), "--table", "T9").code == 0
    before = stored_events(punto.url)
    other = ["7,6,0,6,,7,0,,banker win,1,1,0,0,1", *ROWS[1:]]
    assert "line 2" in punto("import", write(*other), "--table", "T9").refusal()
    assert stored_events(punto.url) == before


def test_a_file_that_is_not_there_or_not_of_this_kind_is_refused(punto, tmp_path, write):
    assert "No such file" in punto("import", str(tmp_path / "nope"), "--table", "T9").refusal()
    assert "Is a directory" in punto("import", str(tmp_path), "--table", "T9").refusal()
    binary = tmp_path / "binary.csv"
    binary.write_bytes(bytes(range(256)))
    assert punto("import", str(binary), "--table", "T9").refusal()
    assert punto("import", write(*ROWS), "--table", "T 9").refusal()
    assert punto("import", write(*ROWS), "--table", "T9", "--currency", "X").refusal()


def test_one_seed_plays_the_same_in_every_ledger(punto, make_url, stored_events):
    urls = [punto.url, make_url()]
    arguments = ("simulate", "--tables", "1", "--shoes", "1", "--seats", "3", "--seed", "7")
    reports = [punto(*arguments, "--json", url=url) for url in urls]
    assert [(report.code, report.err) for report in reports] == [(0, ""), (0, "")]
    assert reports[0].document == reports[1].document
    ids = [[line["round_id"] for line in punto("rounds", "--json", url=url).lines] for url in urls]
    assert ids[0] == ids[1]
    assert len(ids[0]) == reports[0].document["rounds"] > 60
    for round_id in ids[0]:
        one, other = (punto("replay", round_id, "--json", url=url).out for url in urls)
        assert one == other
    assert punto("rounds", "--json", url=urls[0]).out == punto("rounds", "--json", url=urls[1]).out
    assert stored_events(urls[0]) == stored_events(urls[1])
    for url in urls:
        audited = punto("audit", "--json", url=url)
        assert audited.code == 0
        assert audited.document["rounds"] == len(ids[0])


def test_a_simulation_again_is_all_replayed(punto, stored_events):
    first = punto("simulate", "--seats", "1", "--json").document
    before = stored_events(punto.url)
    again = punto("simulate", "--seats", "1", "--json")
    assert again.code == 0
    assert again.document == {**first, "replayed": first["commands"]}
    assert stored_events(punto.url) == before
    assert "all of them there already" in punto("simulate", "--seats", "1").out


def test_a_simulation_that_is_refused_is_exit_code_1(punto):
    assert punto("simulate", "--seats", "1").code == 0
    ran = punto("simulate", "--seats", "1", "--currency", "THB", "--json")
    assert ran.code == 1
    assert ran.document["refused"] > 0
    assert ran.document["first_refusal"]


def test_a_simulation_plays_by_the_rules_that_are_given(punto):
    rules = {"variant": "ez", "odds": {"player": [1, 1], "banker": [1, 1], "dragon7": [40, 1]}}
    ran = punto("simulate", "--seats", "2", "--rules", json.dumps(rules), "--currency", "JPY")
    assert ran.code == 0
    (table,) = punto("tables", "--json").lines
    assert (table["variant"], table["currency"]) == ("ez", "JPY")
    assert punto("audit").code == 0


@pytest.mark.usefixtures("unmeasured")
def test_recorded_shoes_of_another_system_give_the_published_findings(punto):
    if not RECORDED.exists():
        pytest.skip(f"{RECORDED.name} is not there: it is not part of the repository")
    imported = punto("import", str(RECORDED), "--table", "T1", "--json")
    assert imported.code == 0
    assert (imported.document["rounds"], imported.document["shoes"]) == (39_989, 500)
    audited = punto("audit", "--json")
    assert audited.code == 1
    assert audited.document["rounds"] == 39_989
    assert audited.document["rounds_with_findings"] == 14_408
    assert audited.document["findings"] == {
        "player_third_card_unexpected": 7_313,
        "banker_third_card_unexpected": 6_963,
        "banker_total_mismatch": 2_333,
        "outcome_mismatch": 950,
        "banker_third_card_missing": 539,
        "shoe_card_excess": 101,
    }
    outcomes = [line["outcome"] for line in punto("rounds", "--json").lines]
    counted = {outcome: outcomes.count(outcome) for outcome in ("banker", "player", "tie")}
    assert counted == {"banker": 18_220, "player": 18_104, "tie": 3_665}


def test_the_demo_needs_nothing_but_a_home_and_the_questions_go_on_from_there(
    punto_process, initialised_home
):
    here = {"PUNTO_HOME": str(initialised_home), "PUNTO_DATABASE_URL": "", "COLUMNS": "80"}
    shown = punto_process("demo", **here)
    assert shown.code == 0
    assert "Traceback" not in shown.err
    for part in ("The newest rounds", "The balances", "No finding", "What to try next"):
        assert part in shown.out
    assert "0 with findings" in shown.out or "with findings: 0" in shown.out
    (suggested,) = (line for line in shown.out.splitlines() if "punto replay" in line)
    replayed = punto_process(*suggested.split()[1:], **here)
    assert replayed.code == 0
    assert replayed.document["state"] == "settled"
    rounds = punto_process("rounds", "--limit", "3", "--json", **here)
    assert (rounds.code, len(rounds.lines)) == (0, 3)
