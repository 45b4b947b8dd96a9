"""How another system's CSV file is read, and what of it is refused."""

import io
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from domain.cards import parse_card
from domain.tableau import Outcome
from infrastructure.importers.layouts import LAYOUTS, POINTS_CSV
from infrastructure.importers.reading import ImportRefused, RecordedRound, read_rounds
from tests.infrastructure.importers.files import HEADER, read, row

RECORDED = Path(__file__).parents[3].parent / "shared" / "data" / "recorded_shoes.csv"

GOOD = row(1, 1)


def read_bytes(content):
    return read_rounds(io.BytesIO(content), POINTS_CSV)


def cards(text):
    return tuple(parse_card(card) for card in text.split())


def test_a_row_is_a_round_as_the_other_system_recorded_it():
    assert read("7,7,1,9,7,8,4,5,tie,12,0,0,1,3") == [
        RecordedRound(
            line=2,
            recorded_from="points-csv",
            shoe=3,
            number=12,
            player=cards("A? 9? 7?"),
            banker=cards("8? 4? 5?"),
            player_total=7,
            banker_total=7,
            outcome=Outcome.TIE,
        )
    ]


def test_a_card_of_no_points_is_some_ten_valued_one():
    assert read(row(1, 1, cards="0,7,,8,0,"))[0].player == cards("0? 7?")


def test_a_blank_third_card_is_none_and_the_other_hand_may_have_one():
    (each,) = read(row(1, 1, cards="0,7,,4,0,2"))
    assert (len(each.player), len(each.banker)) == (2, 3)


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("player win", Outcome.PLAYER),
        ("banker win", Outcome.BANKER),
        ("tie", Outcome.TIE),
    ],
)
def test_an_outcome_is_recorded_though_the_totals_say_another(text, outcome):
    assert read(row(1, 1, outcome=text))[0].outcome is outcome


def test_columns_may_stand_in_any_order_and_others_between_them():
    names = [*reversed(HEADER.split(",")), "dealer", "dealer"]
    values = [*reversed(GOOD.split(",")), "Ann", "Bob"]
    content = f"{','.join(names)}\n{','.join(values)}\n".encode()
    assert read_bytes(content) == read(GOOD)


@pytest.mark.parametrize(
    "change",
    [
        lambda content: b"\xef\xbb\xbf" + content,
        lambda content: content.replace(b"\n", b"\r\n"),
        lambda content: content.rstrip(b"\n"),
        lambda content: content + b"\n\n",
        lambda content: content.replace(b"banker win", b'"banker win"'),
    ],
    ids=["byte order mark", "CRLF", "no last line end", "blank lines at the end", "quotes"],
)
def test_a_file_may_be_written_as_other_programs_write_it(change):
    content = f"{HEADER}\n{GOOD}\n".encode()
    assert read_bytes(change(content)) == read(GOOD)


def test_a_file_is_read_by_its_path(tmp_path):
    file = tmp_path / "rounds.csv"
    file.write_text(f"{HEADER}\n{GOOD}\n")
    assert read_rounds(file, POINTS_CSV) == read_rounds(str(file), POINTS_CSV) == read(GOOD)


def test_a_header_alone_is_a_file_without_rounds():
    assert read() == []


def test_another_layout_is_another_table_entry():
    layout = replace(
        POINTS_CSV,
        name="words",
        shoe="shoe",
        round="hand",
        outcomes={"P": Outcome.PLAYER, "B": Outcome.BANKER, "T": Outcome.TIE},
        cards={"ace of spades": parse_card("AS"), "king": parse_card("K?")},
        no_card="-",
    )
    content = (
        "shoe,hand,pcard1,pcard2,pcard3,bcard1,bcard2,bcard3,player total,b total,outcome\n"
        "7,1,ace of spades,king,-,king,king,ace of spades,1,1,T\n"
    )
    (each,) = read_rounds(io.BytesIO(content.encode()), layout)
    assert (each.player, each.banker) == (cards("AS K?"), cards("K? K? AS"))
    assert (each.shoe, each.outcome, each.recorded_from) == (7, Outcome.TIE, "words")


def test_every_preset_is_known_by_its_name():
    assert {name: layout.name for name, layout in LAYOUTS.items()} == {"points-csv": "points-csv"}


def changed(column, value):
    values = dict(zip(HEADER.split(","), row(1, 2).split(","), strict=True))
    return ",".join({**values, column: value}.values())


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (changed("pcard1", ""), "'pcard1' is missing, it must be a card"),
        (changed("bcard2", ""), "'bcard2' is missing, it must be a card"),
        (changed("pcard2", "10"), "'pcard2' is '10', not a card"),
        (changed("bcard3", "K"), "'bcard3' is 'K', not a card"),
        (changed("pcard3", " "), "'pcard3' is ' ', not a card"),
        (changed("b total", ""), "'b total' is missing, it must be a total, 0 to 9"),
        (changed("b total", "10"), "'b total' is '10', not a total, 0 to 9"),
        (changed("player total", "-1"), "'player total' is '-1', not a total, 0 to 9"),
        (changed("player total", "7.0"), "'player total' is '7.0', not a total, 0 to 9"),
        (
            changed("outcome", "Banker"),
            "'outcome' is 'Banker', not one of 'player win', 'banker win', 'tie'",
        ),
        (changed("outcome", ""), "'outcome' is missing"),
        (changed("rounds", "x"), "'rounds' is 'x', not a whole number of at most 9 digits"),
        (changed("rounds", "1.5"), "'rounds' is '1.5', not a whole number"),
        (changed("rounds", "1234567890"), "'rounds' is '1234567890', not a whole number"),
        (changed("rounds", "\u0663"), "'rounds' is '\u0663', not a whole number"),
        (changed("rounds", "0"), "'rounds' is 0, rounds are numbered from 1"),
        (changed("rounds", ""), "'rounds' is missing"),
        (changed("rounds", "01"), "shoe 1 has a round 1 already"),
        (changed("shoe number", "-1"), "'shoe number' is '-1', not a whole number"),
        (changed("shoe number", ""), "'shoe number' is missing"),
        (f"{row(1, 2)},1", "has 15 fields, the header has 14"),
        ("8,7,0,7", "has 4 fields, the header has 14"),
        (changed("outcome", '"tie"x'), "is not CSV: "),
        (changed("outcome", '"tie'), "is not CSV: unexpected end of data"),
        (changed("outcome", "t\0ie"), "holds a NUL byte"),
        (changed("outcome", "a\rb"), "is not CSV: "),
    ],
)
def test_a_malformed_row_is_refused_by_its_line(bad, message):
    with pytest.raises(ImportRefused) as refused:
        read(GOOD, bad)
    assert str(refused.value).startswith(f"line 3: {message}")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "line 1: there is no header"),
        (b"\n\n", "line 1: there is no header"),
        (HEADER.replace("outcome,", "").encode(), "line 1: column 'outcome' is missing"),
        (HEADER.replace("bcard2", "bcard1").encode(), "line 1: column 'bcard1' is doubled"),
        (GOOD.encode(), "line 1: column 'shoe number' is missing"),
        (f"{HEADER}\n".encode("utf-16"), "line 1: holds a NUL byte"),
        (HEADER.encode() + b"\n" + GOOD.replace("banker", "b\xe4nker").encode("latin-1"), "line 2"),
    ],
    ids=["empty", "blank", "missing column", "doubled column", "no header", "UTF-16", "Latin-1"],
)
def test_a_file_that_is_no_such_file_is_refused(content, message):
    with pytest.raises(ImportRefused) as refused:
        read_bytes(content)
    assert str(refused.value).startswith(message)


def test_a_line_that_is_not_utf_8_is_refused_as_that():
    with pytest.raises(ImportRefused, match=r"^line 3: is not UTF-8$"):
        read_bytes(f"{HEADER}\n{GOOD}\n".encode() + b"\xff\n")


def test_a_row_that_spans_lines_is_named_by_its_first():
    spanning = changed("banker streak", '"1\n2"')
    with pytest.raises(ImportRefused, match=r"^line 5: 'outcome' is 'x'"):
        read(GOOD, spanning, row(1, 3, outcome="x"))


def test_a_shoe_that_comes_back_after_another_is_refused():
    with pytest.raises(ImportRefused, match=r"^line 4: shoe 1 is there again after another shoe$"):
        read(row(1, 1), row(2, 1), row(1, 2))


@pytest.mark.skipif(not RECORDED.exists(), reason="../shared/data/recorded_shoes.csv is not here")
def test_the_recorded_shoes_are_read_whole():
    rounds = read_rounds(RECORDED, POINTS_CSV)
    assert len(rounds) == 39_989
    assert len({each.shoe for each in rounds}) == 500
    assert Counter(each.outcome.value for each in rounds) == {
        "banker": 18_220,
        "player": 18_104,
        "tie": 3_665,
    }
