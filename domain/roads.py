"""The roads: how baccarat players write down the outcomes of a shoe.

The bead plate and the big road hold the outcomes themselves. The big eye boy,
the small road and the cockroach pig are derived from the depths of the big
road's columns, 1, 2 and 3 columns back: red where the columns repeat
themselves, blue where they do not. The rules are those of Wizard of Odds,
"Baccarat Score Boards" (wizardofodds.com/games/baccarat/score-boards). Nothing
in them says anything about the next round.
"""

from collections.abc import Hashable, Iterable, Sequence
from enum import StrEnum
from itertools import groupby
from typing import NamedTuple

from domain.tableau import Outcome

ROWS = 6


class Result(NamedTuple):
    """A round as a road sees it: its outcome, and which hands began with a pair.

    `has_player_pair` and `has_banker_pair` are False too where a card's rank is not known.
    """

    outcome: Outcome
    has_player_pair: bool = False
    has_banker_pair: bool = False


class Square(NamedTuple):
    """A place on a grid of six rows, counted from 0 at the top left."""

    column: int
    row: int


class BigRoadCell(NamedTuple):
    """A decided round on the big road: `number` counts all rounds from 0.

    `ties` followed it, or on the first cell came before it as well.
    """

    square: Square
    number: int
    result: Result
    ties: int


class BigRoad(NamedTuple):
    """The big road. `ties_held` are those of a shoe that has nothing but ties so far."""

    cells: tuple[BigRoadCell, ...]
    ties_held: int


class DerivedRoad(StrEnum):
    """The roads that are derived from the big road."""

    BIG_EYE_BOY = "big_eye_boy"
    SMALL_ROAD = "small_road"
    COCKROACH_PIG = "cockroach_pig"

    @property
    def columns_back(self) -> int:
        """How many columns back it compares: 1, 2 or 3."""
        return list(DerivedRoad).index(self) + 1


class Colour(StrEnum):
    """Red where the big road repeats itself, blue where it does not."""

    RED = "red"
    BLUE = "blue"


def bead_plate(results: Sequence[Result]) -> tuple[tuple[Square, Result], ...]:
    """Every round in its place: down a column of six, then on to the next."""
    return tuple((Square(*divmod(number, ROWS)), result) for number, result in enumerate(results))


def big_road(results: Iterable[Result]) -> BigRoad:
    """The decided rounds, in a new column whenever the side changes.

    A tie is counted on the last cell; ties before the first are held until it is there.
    """
    decided: list[tuple[int, Result]] = []
    ties = [0]
    for number, result in enumerate(results):
        if result.outcome is Outcome.TIE:
            ties[-1] += 1
            continue
        if decided:
            ties.append(0)
        decided.append((number, result))
    if not decided:
        return BigRoad((), ties[0])
    squares = placed([result.outcome for _, result in decided])
    cells = zip(squares, decided, ties, strict=True)
    return BigRoad(tuple(BigRoadCell(square, *each, tied) for square, each, tied in cells), 0)


def derived(results: Iterable[Result], road: DerivedRoad) -> tuple[Colour, ...]:
    """The marks of a derived road, in their order.

    It begins at the second cell of the column after the ones it looks back on
    or, where that has one cell only, at the first of the next. Depths are those
    of whole runs, however the big road is bent on its six rows; ties do not count.
    """
    back = road.columns_back
    depths = _depths(results)
    marks = []
    for column, depth in enumerate(depths):
        for cell in range(depth):
            if column < back or (column == back and cell == 0):
                continue
            if cell == 0:
                repeats = depths[column - 1] == depths[column - 1 - back]
            else:
                # Blue just below where the column further back has ended.
                repeats = cell != depths[column - back]
            marks.append(Colour.RED if repeats else Colour.BLUE)
    return tuple(marks)


def placed(marks: Iterable[Hashable]) -> tuple[Square, ...]:
    """Where marks stand on six rows, a run of equal ones going down from the top.

    A run that meets the floor or a filled cell goes on to the right, to its
    end. The next run starts in the column after the start of this one, or in
    the first after it whose top is free.
    """
    squares: list[Square] = []
    filled: set[Square] = set()
    start = 0
    for _, run in groupby(marks):
        while Square(start, 0) in filled:
            start += 1
        square, goes_down = Square(start, 0), True
        for _ in run:
            assert square not in filled, "what is right of a run lies right of all runs before it"
            filled.add(square)
            squares.append(square)
            below = Square(square.column, square.row + 1)
            goes_down = goes_down and below.row < ROWS and below not in filled
            square = below if goes_down else Square(square.column + 1, square.row)
        start += 1
    return tuple(squares)


def _depths(results: Iterable[Result]) -> list[int]:
    """How many rounds each side won in a row, ties left out."""
    sides = (result.outcome for result in results if result.outcome is not Outcome.TIE)
    return [len(list(run)) for _, run in groupby(sides)]
