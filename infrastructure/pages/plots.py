"""Plots drawn as SVG: bars around a zero line, each with its label and value in text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

WIDTH = 640
ROW = 30
LABELS = 130
VALUES = 150
_BARS = WIDTH - LABELS - VALUES


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a plot; `text` is its value as people read it.

    `expected` is where it would be in theory, `deviation` one standard
    deviation of that, both in the units of `value`; None where there is none.
    """

    label: str
    value: int
    text: str
    expected: int | None = None
    deviation: int | None = None


def bars_drawing(title: str, bars: Sequence[Bar]) -> Markup:
    """Horizontal bars, drawn to one scale.

    A line across a bar is what it would come to in theory, the band behind it
    two standard deviations to each side.
    """
    low, high = _bounds(bars)
    span = max(high - low, 1)

    def x(value: int) -> str:
        return f"{LABELS + (value - low) * _BARS / span:.1f}"

    rows = Markup("").join(_row(bar, place * ROW, x) for place, bar in enumerate(bars))
    height = ROW * len(bars)
    zero = Markup('<path class="zero" d="M{} 0V{}"/>').format(x(0), height)
    said = "; ".join(f"{bar.label} {bar.text}" for bar in bars)
    return Markup(
        '<svg class="plot" viewBox="0 0 {} {}" role="img" aria-label="{}: {}">{}{}</svg>'
    ).format(WIDTH, height, title, said, rows, zero)


def _row(bar: Bar, top: int, x: Callable[[int], str]) -> Markup:
    left, right = sorted((0, bar.value))
    width = f"{float(x(right)) - float(x(left)):.1f}"
    band = Markup("")
    if bar.expected is not None and bar.deviation is not None:
        start, end = bar.expected - 2 * bar.deviation, bar.expected + 2 * bar.deviation
        band = Markup('<rect class="band" x="{}" y="{}" width="{}" height="{}"/>').format(
            x(start), top + 3, f"{float(x(end)) - float(x(start)):.1f}", ROW - 6
        )
    theory = Markup("")
    if bar.expected is not None:
        theory = Markup('<path class="theory" d="M{} {}v{}"/>').format(
            x(bar.expected), top + 3, ROW - 6
        )
    sign = "loss" if bar.value < 0 else "gain"
    return Markup(
        '<text class="label" x="{}" y="{}" text-anchor="end">{}</text>{}'
        '<rect class="bar {}" x="{}" y="{}" width="{}" height="{}"/>{}'
        '<text class="value" x="{}" y="{}" text-anchor="end">{}</text>'
    ).format(
        LABELS - 8,
        top + 20,
        bar.label,
        band,
        sign,
        x(left),
        top + 8,
        width,
        ROW - 16,
        theory,
        WIDTH - 2,
        top + 20,
        bar.text,
    )


def _bounds(bars: Sequence[Bar]) -> tuple[int, int]:
    """The least and the greatest that is drawn, zero among them."""
    drawn = [0]
    for bar in bars:
        drawn.append(bar.value)
        if bar.expected is not None:
            spread = 2 * (bar.deviation or 0)
            drawn += [bar.expected - spread, bar.expected + spread]
    return min(drawn), max(drawn)
