"""Recorded rounds come into the ledger once, and only where nothing contradicts them."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from infrastructure.casino import Casino
from infrastructure.commands import contract
from infrastructure.commands.execution import Client, execute
from infrastructure.importers.importing import ImportRefused, import_rounds
from infrastructure.importers.layouts import POINTS_CSV
from infrastructure.importers.reading import read_rounds
from tests.infrastructure.importers.files import facts, read, row, rows_of, shoes

RECORDED = Path(__file__).parents[3].parent / "shared" / "data" / "recorded_shoes.csv"

SOMEBODY = Client("somebody")


class Killed(BaseException):
    """The process ends in the middle of an import."""


def do(casino, *commands):
    answers = execute(casino, commands, client=SOMEBODY)
    assert all(answer["ok"] for answer in answers), answers


def open_table(table_id="T1", currency="USD"):
    return contract.OpenTable(
        command="open_table", key=f"table-{table_id}", table_id=table_id, currency=currency
    )


def open_shoe(shoe_id, table_id="T1"):
    return contract.OpenShoe(
        command="open_shoe",
        key=f"shoe-{shoe_id}",
        shoe_id=shoe_id,
        table_id=table_id,
        source="physical",
    )


def close_shoe(shoe_id):
    return contract.CloseShoe(command="close_shoe", key=f"close-{shoe_id}", shoe_id=shoe_id)


def refused(casino, rounds, **how):
    """The refusal of an import, which has stored nothing."""
    before = facts(casino)
    with pytest.raises(ImportRefused) as refusal:
        import_rounds(casino, rounds, table_id="T1", **how)
    assert facts(casino) == before
    return str(refusal.value)


def test_a_round_is_recorded_as_it_fell(casino):
    import_rounds(casino, read("9,7,0,7,2,8,0,1,tie,1,0,0,1,17"), table_id="T1")
    recorded = facts(casino)
    in_round = [event for event in recorded if event["originator_id"] == "round:T1.17.1"]
    assert [event["topic"] for event in in_round] == [
        "round.opened",
        *["round.card_dealt"] * 4,
        *["round.third_card_drawn"] * 2,
        "round.resolved",
        "round.settled",
    ]
    assert [(event["hand"], event["card"]) for event in in_round[1:7]] == [
        ("player", "0?"),
        ("banker", "8?"),
        ("player", "7?"),
        ("banker", "0?"),
        ("player", "2?"),
        ("banker", "A?"),
    ]
    opened, resolved = in_round[0], in_round[-2]
    assert (opened["shoe_id"], opened["number"]) == ("T1.17", 1)
    assert opened["recorded_from"] == "points-csv"
    assert (resolved["player_total"], resolved["banker_total"]) == (7, 9)
    assert resolved["outcome"] == "tie"
    assert {event["actor"] for event in recorded} == {"import"}


def test_the_report_says_what_was_there_and_what_was_new(casino):
    first = import_rounds(casino, shoes({1: 3, 2: 2}), table_id="T1")
    assert first.to_json() == {
        "table_id": "T1",
        "currency": "USD",
        "rounds": 5,
        "new_rounds": 5,
        "shoes": 2,
        "new_shoes": 2,
        "last_position": len(facts(casino)),
    }
    assert str(first) == "Rounds: 5, shoes: 2, at table T1, 5 of them new"
    again = import_rounds(casino, shoes({1: 3, 2: 2}), table_id="T1")
    assert (again.rounds, again.new_rounds, again.new_shoes, again.last_position) == (5, 0, 0, None)
    assert str(again) == "Rounds: 5, shoes: 2, at table T1, all of them there already"


def test_a_shoe_is_closed_when_the_next_begins_and_the_last_stays_open(casino):
    import_rounds(casino, shoes({1: 2, 2: 2, 3: 2}), table_id="T1")
    with casino.turn() as book:
        assert [book.shoe(f"T1.{shoe}").is_closed for shoe in (1, 2, 3)] == [True, True, False]
        assert book.table("T1").shoe_id == "T1.3"


def test_the_same_file_again_adds_nothing(casino):
    import_rounds(casino, shoes({1: 3, 2: 2}), table_id="T1")
    before = facts(casino)
    import_rounds(casino, shoes({1: 3, 2: 2}), table_id="T1")
    assert facts(casino) == before


@pytest.mark.parametrize("batch", [1, 2, 1000])
@pytest.mark.parametrize("grown", [{1: 3, 2: 5}, {1: 3, 2: 2, 3: 1}, {1: 3, 2: 3, 3: 2, 4: 1}])
def test_a_file_that_has_grown_adds_only_its_new_rows(casino, make_casino, grown, batch):
    import_rounds(casino, shoes({1: 3, 2: 2}), table_id="T1")
    report = import_rounds(casino, shoes(grown), table_id="T1", batch=batch)
    assert report.new_rounds == sum(grown.values()) - 5
    at_once = make_casino()
    import_rounds(at_once, shoes(grown), table_id="T1")
    assert facts(casino) == facts(at_once)


def test_an_older_file_adds_nothing(casino):
    import_rounds(casino, shoes({1: 3, 2: 4, 3: 2}), table_id="T1")
    before = facts(casino)
    assert import_rounds(casino, shoes({1: 3, 2: 2}), table_id="T1").new_rounds == 0
    assert facts(casino) == before


def test_a_file_with_only_the_next_shoes_goes_on_where_the_last_one_ended(casino, make_casino):
    import_rounds(casino, shoes({1: 3, 2: 2}), table_id="T1")
    import_rounds(casino, shoes({3: 2, 4: 1}), table_id="T1")
    at_once = make_casino()
    import_rounds(at_once, shoes({1: 3, 2: 2, 3: 2, 4: 1}), table_id="T1")
    assert facts(casino) == facts(at_once)


def test_a_file_without_rounds_opens_the_table(casino):
    assert import_rounds(casino, read(), table_id="T1", currency="JPY").rounds == 0
    assert [event["topic"] for event in facts(casino)] == ["table.opened"]


def test_two_tables_may_have_the_same_file(casino):
    import_rounds(casino, shoes({1: 3, 2: 2}), table_id="T1")
    assert import_rounds(casino, shoes({1: 3, 2: 2}), table_id="T1.1").new_rounds == 5
    assert import_rounds(casino, shoes({1: 3, 2: 2}), table_id="T1.1.1").new_rounds == 5


def test_a_new_table_plays_us_dollars_or_what_is_asked(casino):
    assert import_rounds(casino, shoes({1: 1}), table_id="T1").currency == "USD"
    assert import_rounds(casino, shoes({1: 1}), table_id="T2", currency="KWD").currency == "KWD"


def test_a_table_that_is_there_is_used_as_it_is(casino):
    do(casino, open_table(currency="THB"))
    assert import_rounds(casino, shoes({1: 1}), table_id="T1").currency == "THB"
    assert import_rounds(casino, shoes({1: 2}), table_id="T1", currency="THB").new_rounds == 1


def test_another_currency_than_the_tables_is_refused(casino):
    do(casino, open_table(currency="THB"))
    message = refused(casino, shoes({1: 1}), currency="USD")
    assert message == "table T1 plays THB, not USD"


def test_a_currency_that_does_not_exist_is_refused(casino):
    assert refused(casino, shoes({1: 1}), currency="XYZ") == "'XYZ' is not an ISO 4217 currency"


@pytest.mark.parametrize("table_id", ["", "T 1", "T1\n", "T" * 65, "Ü"])
def test_a_table_id_that_is_none_is_refused(casino, table_id):
    with pytest.raises(ImportRefused, match="must be 1 to 64 of the characters"):
        import_rounds(casino, shoes({1: 1}), table_id=table_id)


def test_a_table_id_too_long_to_name_the_rounds_by_is_refused(casino):
    fits = "T" * 54
    assert import_rounds(casino, shoes({1: 1}), table_id=fits).new_rounds == 1
    with pytest.raises(ImportRefused, match=r"^line 11: table id 'T+' is 1 characters too long"):
        import_rounds(casino, shoes({2: 10}), table_id=fits)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_shoe_that_is_there_with_another_round_is_refused(casino, number):
    import_rounds(casino, shoes({1: 3, 2: 2}), table_id="T1")
    rows = rows_of({1: 3, 2: 3})
    rows[number - 1] = row(1, number, outcome="tie")
    message = refused(casino, read(*rows))
    assert message == f"line {number + 1}: shoe 1 is there with another round {number}"


def test_a_contradiction_in_the_last_row_keeps_everything_before_it_out(casino):
    import_rounds(casino, shoes({9: 3}), table_id="T1")
    rows = [*rows_of({1: 5, 2: 5}), *rows_of({9: 2}), row(9, 3, cards="1,7,,8,0,")]
    assert refused(casino, read(*rows)) == "line 14: shoe 9 is there with another round 3"


def test_rows_of_a_closed_shoe_that_are_not_there_are_refused(casino):
    import_rounds(casino, shoes({1: 3, 2: 2}), table_id="T1")
    message = refused(casino, shoes({1: 4, 2: 2}))
    assert message == "line 5: shoe 1 is closed, nothing can be added to it"


def test_a_row_before_those_that_are_there_is_refused(casino):
    import_rounds(casino, read(row(1, 1), row(1, 3)), table_id="T1")
    message = refused(casino, shoes({1: 3}))
    assert message == "line 3: shoe 1 is there without a round 2"


def test_a_shoe_that_is_there_with_more_rounds_than_the_file_says_is_refused(casino):
    import_rounds(casino, shoes({1: 3, 2: 2}), table_id="T1")
    message = refused(casino, shoes({1: 2, 2: 2}))
    assert message == "line 3: shoe 1 is there with other rounds, up to 3"


def test_an_open_shoe_with_more_rounds_than_a_longer_file_says_is_refused(casino):
    import_rounds(casino, shoes({1: 3}), table_id="T1")
    message = refused(casino, shoes({1: 2, 2: 1}))
    assert message == "line 3: shoe 1 is there with other rounds, up to 3"


def test_a_shoe_that_is_there_without_any_round_of_the_file_is_refused(casino):
    import_rounds(casino, shoes({1: 3}), table_id="T1")
    message = refused(casino, read(row(1, 4), row(1, 5)))
    assert message == "line 2: shoe 1 is there with other rounds, up to 3"


def test_a_shoe_that_would_be_closed_by_then_takes_no_rows(casino):
    import_rounds(casino, shoes({2: 3}), table_id="T1")
    message = refused(casino, shoes({1: 2, 2: 4}))
    assert message == "line 7: shoe 2 is closed, nothing can be added to it"


def test_a_shoe_of_somebody_else_on_the_table_is_refused(casino):
    do(casino, open_table(), open_shoe("evening"))
    message = refused(casino, shoes({1: 1}))
    assert message == "shoe evening is on the table and was not imported: close it first"


def test_a_shoe_of_somebody_else_that_has_left_the_table_is_no_hindrance(casino):
    do(casino, open_table(), open_shoe("evening"), close_shoe("evening"))
    assert import_rounds(casino, shoes({1: 1}), table_id="T1").new_rounds == 1


def test_a_shoe_of_somebody_else_by_the_same_id_is_refused(casino):
    do(casino, open_table(), open_shoe("T1.2"), close_shoe("T1.2"))
    message = refused(casino, shoes({1: 3, 2: 1}))
    assert message == "line 5: shoe T1.2 is there and was not imported"


def test_a_round_of_somebody_else_by_the_same_id_is_refused(casino):
    do(
        casino,
        open_table("T2"),
        open_shoe("S", "T2"),
        contract.OpenRound(command="open_round", key="r", round_id="T1.1.2", shoe_id="S"),
    )
    message = refused(casino, shoes({1: 3}))
    assert message == "line 3: round T1.1.2 is there and was not imported"


def test_a_round_of_somebody_else_in_an_imported_shoe_is_refused(casino):
    import_rounds(casino, shoes({1: 2}), table_id="T1")
    live = contract.OpenRound(command="open_round", key="r", round_id="live", shoe_id="T1.1")
    do(casino, live)
    message = refused(casino, shoes({1: 4}))
    assert message == "line 4: shoe 1 is there with other rounds, up to 3"
    do(casino, contract.VoidRound(command="void_round", key="v", round_id="live", reason="x"))
    assert refused(casino, shoes({1: 4})) == message


def test_an_imported_shoe_is_not_closed_in_the_middle_of_a_round(casino):
    import_rounds(casino, shoes({1: 2}), table_id="T1")
    live = contract.OpenRound(command="open_round", key="r", round_id="live", shoe_id="T1.1")
    do(casino, live)
    message = refused(casino, shoes({2: 1}))
    assert message == "round live is open on shoe T1.1: settle it first"


def test_an_imported_shoe_that_somebody_closed_is_followed_by_the_next(casino):
    import_rounds(casino, shoes({1: 2}), table_id="T1")
    do(casino, close_shoe("T1.1"))
    assert "is closed" in refused(casino, shoes({1: 3}))
    assert import_rounds(casino, shoes({1: 2, 2: 1}), table_id="T1").new_rounds == 1


def test_what_somebody_does_meanwhile_stops_the_import_and_refusals_are_not_kept(casino):
    def meddle(done, total):
        if done == 0:
            do(casino, open_table(), open_shoe("evening"))

    with pytest.raises(ImportRefused, match="stopped, import the file again: "):
        import_rounds(casino, shoes({1: 2}), table_id="T1", progress=meddle)
    do(casino, close_shoe("evening"))
    assert import_rounds(casino, shoes({1: 2}), table_id="T1").new_rounds == 2


def killing(after):
    def progress(done, total):
        if done >= after:
            raise Killed

    return progress


@pytest.mark.parametrize("batch", [1, 2, 3, 5])
@pytest.mark.parametrize("after", range(9))
def test_an_import_that_was_killed_ends_as_if_it_had_not_been(casino, make_casino, after, batch):
    rounds = shoes({1: 3, 2: 2, 3: 4})
    with pytest.raises(Killed):
        import_rounds(casino, rounds, table_id="T1", batch=batch, progress=killing(after))
    import_rounds(casino, rounds, table_id="T1", batch=batch)
    undisturbed = make_casino()
    import_rounds(undisturbed, rounds, table_id="T1")
    assert facts(casino) == facts(undisturbed)


def test_progress_counts_the_rounds_that_are_there(casino):
    told = []
    import_rounds(casino, shoes({1: 2}), table_id="T1")
    import_rounds(
        casino,
        shoes({1: 2, 2: 5}),
        table_id="T1",
        batch=3,
        progress=lambda done, total: told.append((done, total)),
    )
    assert told == [(2, 7), (5, 7), (7, 7)]


def test_times_are_those_of_the_import_and_do_not_go_backwards(casino):
    before = datetime.now(UTC)
    import_rounds(casino, shoes({1: 5}), table_id="T1")
    events = map(casino.mapper.to_domain_event, casino.recorder.select_notifications(1, 1000))
    times = [before, *(event.at for event in events), datetime.now(UTC)]
    assert times == sorted(times)


@pytest.fixture
def on_postgres(database):
    with Casino(
        {
            "PERSISTENCE_MODULE": "infrastructure.store.factory",
            "PUNTO_CONNINFO": database.conninfo,
        }
    ) as casino:
        yield casino


def test_on_postgresql_a_killed_import_ends_as_one_in_memory(on_postgres, casino):
    rounds = shoes({1: 3, 2: 2, 3: 4})
    with pytest.raises(Killed):
        import_rounds(on_postgres, rounds, table_id="T1", batch=4, progress=killing(4))
    import_rounds(on_postgres, rounds, table_id="T1", batch=4)
    import_rounds(casino, rounds, table_id="T1")
    assert facts(on_postgres) == facts(casino)
    assert import_rounds(on_postgres, rounds, table_id="T1").new_rounds == 0


@pytest.mark.skipif(not RECORDED.exists(), reason="../shared/data/recorded_shoes.csv is not here")
def test_on_postgresql_the_recorded_shoes_go_in_and_grow(on_postgres):
    rounds = read_rounds(RECORDED, POINTS_CSV)[:600]
    assert import_rounds(on_postgres, rounds[:430], table_id="T1").new_rounds == 430
    report = import_rounds(on_postgres, rounds, table_id="T1")
    assert (report.rounds, report.new_rounds) == (600, 170)
    other = replace(rounds[5], player_total=(rounds[5].player_total + 1) % 10)
    message = refused(on_postgres, [*rounds[:5], other, *rounds[6:]])
    assert message == "line 7: shoe 1 is there with another round 6"
