"""The roads drawn as SVG. Letters and shapes say what the colours do."""

from collections.abc import Sequence

from markupsafe import Markup

from domain.roads import (
    ROWS,
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

SIDE = 20
"""A square's side; the page scales the drawing."""
COLUMNS_MIN = 12

_LETTERS = {Outcome.BANKER: "B", Outcome.PLAYER: "P", Outcome.TIE: "T"}


def bead_plate_drawing(results: Sequence[Result]) -> Markup:
    """Every round as a bead, with dots for the pairs: Banker's top left, Player's bottom right."""
    cells = [
        (square, _bead(result, number))
        for number, (square, result) in enumerate(bead_plate(results), start=1)
    ]
    return _grid("Bead plate", "bead-plate", cells)


def big_road_drawing(results: Sequence[Result]) -> Markup:
    """The runs of each side; a stroke is a tie, with their count where there are several."""
    road = big_road(results)
    cells = [(cell.square, _ring(cell)) for cell in road.cells]
    if not cells and road.ties_held:
        cells = [(Square(0, 0), _tie_stroke(road.ties_held))]
    return _grid("Big road", "big-road", cells)


def derived_road_drawing(results: Sequence[Result], road: DerivedRoad) -> Markup:
    """A derived road: rings, dots or strokes, red ones thick and blue ones thin."""
    marks = derived(results, road)
    cells = [
        (square, _MARKS[road].format(mark.value))
        for square, mark in zip(placed(marks), marks, strict=True)
    ]
    return _grid(road_name(road), f"derived {road.value}", cells)


def derived_road_text(results: Sequence[Result], road: DerivedRoad) -> str:
    """A derived road in words, each run of one colour together: `red, 2 blue, red`."""
    runs: list[tuple[Colour, int]] = []
    for mark in derived(results, road):
        if runs and runs[-1][0] is mark:
            runs[-1] = (mark, runs[-1][1] + 1)
        else:
            runs.append((mark, 1))
    return ", ".join(f"{count} {mark.value}" for mark, count in runs) or "nothing yet"


def road_name(road: DerivedRoad) -> str:
    """What people call a derived road."""
    return road.value.replace("_", " ").capitalize()


def _grid(name: str, classes: str, cells: Sequence[tuple[Square, Markup]]) -> Markup:
    columns = max([COLUMNS_MIN, *(square.column + 1 for square, _ in cells)])
    width, height = columns * SIDE, ROWS * SIDE
    lines = "".join(
        [
            *(f"M{column * SIDE} 0V{height}" for column in range(columns + 1)),
            *(f"M0 {row * SIDE}H{width}" for row in range(ROWS + 1)),
        ]
    )
    inside = Markup("").join(
        Markup('<g transform="translate({} {})">{}</g>').format(
            square.column * SIDE, square.row * SIDE, mark
        )
        for square, mark in cells
    )
    # Drawn at a fixed scale: a long road scrolls rather than shrinks.
    return Markup(
        '<svg class="road {}" viewBox="-1 -1 {} {}" width="{}" height="{}" role="img" '
        'aria-label="{}"><path class="lines" d="{}"/>{}</svg>'
    ).format(classes, width + 2, height + 2, width + 2, height + 2, name, lines, inside)


def _bead(result: Result, number: int) -> Markup:
    letter = _LETTERS[result.outcome]
    return Markup(
        "<g><title>Round {}: {}</title>"
        '<circle class="bead {}" cx="10" cy="10" r="8.5"/>'
        '<text class="letter" x="10" y="14" text-anchor="middle">{}</text>{}</g>'
    ).format(number, _said(result), result.outcome.value, letter, _pairs(result))


def _ring(cell: BigRoadCell) -> Markup:
    side = cell.result.outcome
    ties = _tie_stroke(cell.ties) if cell.ties else Markup("")
    after = f", {cell.ties} tied" if cell.ties else ""
    return Markup(
        "<g><title>Round {}: {}{}</title>"
        '<circle class="ring {}" cx="10" cy="10" r="7.5"/>'
        '<text class="small-letter {}" x="10" y="13" text-anchor="middle">{}</text>{}{}</g>'
    ).format(
        cell.number + 1,
        _said(cell.result),
        after,
        side.value,
        side.value,
        "" if cell.ties > 1 else _LETTERS[side],
        ties,
        _pairs(cell.result),
    )


def _tie_stroke(ties: int) -> Markup:
    count = (
        Markup('<text class="ties" x="10" y="13.5" text-anchor="middle">{}</text>').format(ties)
        if ties > 1
        else Markup("")
    )
    return Markup('<path class="tie-stroke" d="M3 17 17 3"/>{}').format(count)


def _pairs(result: Result) -> Markup:
    dots = Markup("")
    if result.has_banker_pair:
        dots += Markup('<circle class="pair banker" cx="3.5" cy="3.5" r="2.8"/>')
    if result.has_player_pair:
        dots += Markup('<circle class="pair player" cx="16.5" cy="16.5" r="2.8"/>')
    return dots


def _said(result: Result) -> str:
    pairs = [
        f", {hand} pair"
        for hand, is_there in (
            ("Player", result.has_player_pair),
            ("Banker", result.has_banker_pair),
        )
        if is_there
    ]
    return result.outcome.value.capitalize() + "".join(pairs)


_MARKS = {
    DerivedRoad.BIG_EYE_BOY: Markup('<circle class="hollow {}" cx="10" cy="10" r="6.5"/>'),
    DerivedRoad.SMALL_ROAD: Markup('<circle class="solid {}" cx="10" cy="10" r="6.5"/>'),
    DerivedRoad.COCKROACH_PIG: Markup('<path class="stroke {}" d="M4 16 16 4"/>'),
}
