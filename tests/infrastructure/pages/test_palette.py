"""The colours of the style sheet: text can be read on every ground, in light, dark and print."""

import re
from importlib.resources import files

import pytest

SHEET = files("infrastructure.pages").joinpath("static", "pages.css").read_text()
LEAST_OF_TEXT = 4.5
LEAST_OF_SHAPES = 3.0

_COLOUR = re.compile(r"--([a-z-]+): (#[0-9a-f]{3}(?:[0-9a-f]{3})?);")
_LIGHT, _DARK, _PRINT = (
    dict(_COLOUR.findall(root)) for root in re.findall(r":root {(.*?)}", SHEET, re.DOTALL)
)
SCHEMES = {"light": _LIGHT, "dark": {**_LIGHT, **_DARK}, "print": {**_LIGHT, **_PRINT}}

TEXTS = [
    *((text, ground) for text in ("text", "quiet", "link") for ground in ("ground", "raised")),
    *((text, ground) for text in ("banker", "player", "tie") for ground in ("ground", "raised")),
    ("good", "ground"),
    ("fault", "ground"),
    ("text", "mark"),
    ("quiet", "mark"),
    ("link", "mark"),
    *(("on-colour", ground) for ground in ("banker", "player", "tie")),
]


def luminance(colour):
    """As WCAG 2 defines it."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_the_contrast_of_black_on_white_is_21():
    assert contrast("#000", "#ffffff") == pytest.approx(21)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(("text", "ground"), TEXTS)
def test_text_can_be_read_on_its_ground(scheme, text, ground):
    colours = SCHEMES[scheme]
    assert contrast(colours[text], colours[ground]) >= LEAST_OF_TEXT


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("side", ["banker", "player"])
def test_a_bar_is_seen_on_its_band(scheme, side):
    colours = SCHEMES[scheme]
    assert contrast(colours[side], colours["band"]) >= LEAST_OF_SHAPES


def test_dark_and_print_have_a_colour_of_their_own_for_every_one_of_light():
    assert _LIGHT.keys() == _DARK.keys() == _PRINT.keys()


def test_a_card_is_read_on_white_whatever_the_scheme():
    inks = re.findall(r"--ink: (#[0-9a-f]{6})", SHEET)
    assert len(inks) == 2
    assert all(contrast(ink, "#ffffff") >= LEAST_OF_TEXT for ink in inks)


def test_the_style_sheet_loads_nothing():
    assert "url(" not in SHEET
    assert "@import" not in SHEET
