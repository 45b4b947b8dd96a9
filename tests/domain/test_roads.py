"""The roads, by published examples and by what holds of every sequence of outcomes."""

from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.roads import (
    BigRoadCell,
    Colour,
    DerivedRoad,
    Result,
    Square,
    bead_plate,
    big_road,
    derived,
    placed,
)
from domain.tableau import Outcome

OUTCOMES = {"B": Outcome.BANKER, "P": Outcome.PLAYER, "T": Outcome.TIE}
COLOURS = {Colour.RED: "R", Colour.BLUE: "B"}

SHOES = st.text("BPT", max_size=100)


def results(letters):
    return [Result(OUTCOMES[letter]) for letter in letters]


def marks(letters, road):
    return "".join(COLOURS[mark] for mark in derived(results(letters), road))


def squares(letters):
    return [tuple(square) for square in placed(letters)]


@pytest.mark.parametrize(
    ("shoe", "road", "expected"),
    [
        ("BPB", DerivedRoad.BIG_EYE_BOY, "R"),
        ("BBPP", DerivedRoad.BIG_EYE_BOY, "R"),
        ("BBPPPP", DerivedRoad.BIG_EYE_BOY, "RBR"),
        ("BPPPB", DerivedRoad.BIG_EYE_BOY, "BRB"),
        ("BBBPPBPBBBBPPPB", DerivedRoad.BIG_EYE_BOY, "RBBRBRRBRRB"),
        ("BBBPPBPBBBBPPPB", DerivedRoad.SMALL_ROAD, "BBBRRBBRB"),
        ("BBBPPBPBBBBPPPB", DerivedRoad.COCKROACH_PIG, "BRBRBBRB"),
    ],
)
def test_a_derived_road_is_that_of_the_example(shoe, road, expected):
    assert marks(shoe, road) == expected


@pytest.mark.parametrize(
    ("road", "last_without", "first_with"),
    [
        (DerivedRoad.BIG_EYE_BOY, "BP", "BPB"),
        (DerivedRoad.BIG_EYE_BOY, "BP", "BPP"),
        (DerivedRoad.SMALL_ROAD, "BPB", "BPBP"),
        (DerivedRoad.SMALL_ROAD, "BPB", "BPBB"),
        (DerivedRoad.COCKROACH_PIG, "BPBP", "BPBPB"),
        (DerivedRoad.COCKROACH_PIG, "BPBP", "BPBPP"),
    ],
)
def test_a_derived_road_begins_after_the_first_cell_of_the_column_that_has_enough_before_it(
    road, last_without, first_with
):
    assert marks(last_without, road) == ""
    assert len(marks(first_with, road)) == 1


@given(SHOES)
def test_ties_do_not_count_on_the_derived_roads(shoe):
    for road in DerivedRoad:
        assert marks(shoe, road) == marks(shoe.replace("T", ""), road)


@given(SHOES)
def test_the_derived_roads_are_the_same_where_the_sides_are_exchanged(shoe):
    exchanged = shoe.translate(str.maketrans("BP", "PB"))
    for road in DerivedRoad:
        assert marks(shoe, road) == marks(exchanged, road)


@given(SHOES, st.text("BPT", max_size=5))
def test_a_mark_that_was_made_stays(shoe, more):
    for road in DerivedRoad:
        assert marks(shoe + more, road).startswith(marks(shoe, road))


def test_a_run_that_meets_the_floor_goes_on_to_the_right():
    assert squares("BBBBBBBB")[4:] == [(0, 4), (0, 5), (1, 5), (2, 5)]


def test_the_next_run_starts_beside_the_start_and_turns_above_a_filled_cell():
    run = squares("BBBBBBBB" + "PPPPPPP" + "B")
    assert run[8:] == [(1, 0), (1, 1), (1, 2), (1, 3), (1, 4), (2, 4), (3, 4), (2, 0)]


def test_a_run_that_went_to_the_right_does_not_turn_down_again():
    run = squares("BBBBBBB" + "PPPPPPP")
    assert run[6] == (1, 5)
    assert run[7:] == [(1, 0), (1, 1), (1, 2), (1, 3), (1, 4), (2, 4), (3, 4)]


def test_a_run_starts_in_the_next_column_with_a_free_top():
    letters = "".join(side * 12 for side in "BPBPBP")
    (last_start,) = [column for column, row in squares(letters)[60:61] if row == 0]
    assert last_start == 5
    # The run before stood on five tails and went along the top: 12 cells from column 5.
    assert squares(letters + "B")[-1] == (17, 0)


@given(st.text("BP", max_size=100))
def test_no_two_marks_share_a_square_and_each_run_starts_at_the_top(letters):
    where = squares(letters)
    assert len(set(where)) == len(letters)
    assert all(0 <= row < 6 for _, row in where)
    starts = [0]
    for _, run in groupby(letters):
        starts.append(starts[-1] + len(list(run)))
    tops = [where[start] for start in starts[:-1]]
    assert all(row == 0 for _, row in tops)
    assert [column for column, _ in tops] == sorted({column for column, _ in tops})


def test_a_tie_is_counted_on_the_last_cell():
    (first, second), held = big_road(results("BTTP"))
    assert (first.ties, second.ties, held) == (2, 0, 0)
    assert (first.number, second.number) == (0, 3)


def test_ties_before_the_first_result_are_held_and_put_on_the_first_cell():
    assert big_road(results("TT")) == ((), 2)
    assert big_road(results("TTBT")) == (
        (BigRoadCell(Square(0, 0), 2, Result(Outcome.BANKER), 3),),
        0,
    )


def test_a_cell_of_the_big_road_knows_the_pairs_of_its_round():
    pair = Result(Outcome.BANKER, has_player_pair=True)
    (cell,), _ = big_road([pair])
    assert cell.result is pair


def test_the_bead_plate_holds_every_round_down_a_column_of_six():
    plate = bead_plate(results("BPTBPTB"))
    assert [tuple(square) for square, _ in plate] == [
        *((0, row) for row in range(6)),
        (1, 0),
    ]
    assert plate[2][1].outcome is Outcome.TIE


@given(SHOES)
def test_the_big_road_loses_no_round(shoe):
    road = big_road(results(shoe))
    ties = road.ties_held + sum(cell.ties for cell in road.cells)
    assert len(road.cells) + ties == len(shoe)
