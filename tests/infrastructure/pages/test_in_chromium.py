"""The pages in a real browser, where Debian's `chromium` is installed.

With PUNTO_SCREENSHOTS set, the pictures of docs/pages are made anew there.
"""

import os
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect, sync_playwright

from tests.infrastructure.pages.conftest import serving_pages

CHROMIUM = shutil.which("chromium")
SCREENSHOTS = os.environ.get("PUNTO_SCREENSHOTS")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")

# It works without the internet, and asks for nothing there.
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PAGES = {
    "tables": "/tables",
    "table": "/tables/T1",
    "round": "/rounds/R2",
    "shoe": "/shoes/sim7-T1-S1",
    "accounts": "/accounts",
    "account": "/accounts/alice?at=2026-01-02T12:00:00",
    "day": "/days/2026-01-01",
    "ledger": "/ledger",
}
PAGES_WITHOUT_PICTURE = {"sign-in": "/sign-in", "refusal": "/rounds/none"}
WIDTHS = (1280, 390)
SCHEMES = ("light", "dark")
LOUD = ("error", "warning")

# Keeps each position that a page comes to, and what the table shows there.
KEEP_WHAT_IS_SHOWN = """() => {
  const live = document.getElementById("live");
  window.shown = [];
  new MutationObserver(() => window.shown.push([Number(live.dataset.position), live.innerText]))
    .observe(live, { attributeFilter: ["data-position"] });
}"""


@pytest.fixture(scope="module")
def chromium():
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def said():
    """What was wrong by a page's console, which has to stay silent."""
    said = []
    yield said
    assert said == []


@pytest.fixture
def open_page(chromium, address, said):
    """Opens a page and watches its console."""
    contexts = []

    def open_one(path, *, width=1280, base=address):
        viewport = {"width": width, "height": 900}
        context = chromium.new_context(base_url=base, viewport=viewport, locale="en-GB")
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: message.type in LOUD and said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(path)
        return page

    yield open_one
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def live(make_ledger):
    """A ledger that is played into, and where its pages are."""
    database = make_ledger()
    with serving_pages(database) as base:
        yield database, base


@pytest.mark.parametrize("name", [*PAGES, *PAGES_WITHOUT_PICTURE])
def test_a_page_is_silent_and_fits_its_window_and_axe_finds_nothing(open_page, said, name):
    for width in WIDTHS:
        page = open_page({**PAGES, **PAGES_WITHOUT_PICTURE}[name], width=width)
        if SCREENSHOTS is not None and name in PAGES and width == WIDTHS[0]:
            page.screenshot(path=Path(SCREENSHOTS) / f"{name}.png")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            assert Axe().run(page).response["violations"] == []
    if name == "refusal":
        # The browser itself says that it was refused.
        assert len(said) == len(WIDTHS)
        assert all("404" in line for line in said)
        said.clear()


def test_a_corrected_round_is_stepped_through_with_the_arrow_keys(open_page):
    page = open_page("/rounds/R2?version=4")
    cards = page.locator(".hands.large .card")
    outcome = page.locator(".result-line")

    def step(key, version):
        page.keyboard.press(key)
        page.wait_for_url(f"**/rounds/R2?version={version}")

    for count in range(1, 7):
        step("ArrowRight", 4 + count)
        expect(cards).to_have_count(count)
    step("ArrowLeft", 9)
    expect(cards).to_have_count(5)
    for version in range(10, 16):
        step("ArrowRight", version)
    expect(outcome).to_have_text("Banker wins")
    expect(cards.last).to_have_attribute("aria-label", "Five of spades")
    step("ArrowRight", 16)
    expect(outcome).to_have_text("Player wins")
    expect(cards.last).to_have_attribute("aria-label", "Eight of spades")
    expect(page.get_by_text("proposed by pit-1, approved by pit-2")).to_be_visible()
    page.get_by_role("link", name="Last").click()
    page.wait_for_url("**/rounds/R2")
    expect(page.locator(".steps [aria-current]")).to_have_count(1)


def test_a_settled_round_with_a_correction_prints_on_one_page(open_page, tmp_path):
    page = open_page("/rounds/R2")
    page.pdf(path=tmp_path / "round.pdf", prefer_css_page_size=True)
    printed = (tmp_path / "round.pdf").read_bytes()
    assert printed.count(b"/Type /Page") - printed.count(b"/Type /Pages") == 1


def test_a_table_is_followed_card_by_card(open_page, live):
    _, base = live
    page = open_page("/tables", base=base)
    expect(page.locator("#live-state")).to_contain_text("Live")
    cards = page.locator("[data-part=T1] .hands .card")
    expect(cards).to_have_count(3)
    with httpx.Client(base_url=base, trust_env=False) as table:
        for number, (path, body) in enumerate(
            [
                ("/v1/rounds/R4/deal", {"cards": ["7S"]}),
                ("/v1/rounds/R4/settle", {}),
            ]
        ):
            answer = table.post(path, json=body, headers={"Idempotency-Key": f"live-{number}"})
            assert answer.status_code == 200, answer.text
            expect(cards).to_have_count(4)
    expect(page.locator("#live-said")).to_contain_text("T1, round 4: player")
    # Its stream ends with the service, which the console would tell.
    page.close()


def test_a_table_is_followed_while_punto_simulate_plays_at_it(open_page, live):
    database, base = live
    page = open_page("/tables/sim7-T1", base=base)
    expect(page.locator("#live-state")).to_contain_text("Live")
    page.evaluate(KEEP_WHAT_IS_SHOWN)
    # The first of the shoes is there already.
    asked = ["simulate", "--tables", "1", "--shoes", "3", "--seats", "2", "--seed", "7"]
    subprocess.run(
        [sys.executable, "-m", "infrastructure.cli.main", *asked],
        env={**os.environ, "PUNTO_DATABASE_URL": database.url},
        check=True,
        capture_output=True,
    )
    fresh = httpx.get(f"{base}/tables/sim7-T1?part=1", trust_env=False).text
    head = fresh.partition('data-position="')[2].partition('"')[0]
    expect(page.locator("#live")).to_have_attribute("data-position", head)
    positions, texts = zip(*page.evaluate("window.shown"), strict=True)
    # It came there by steps, and the shoe on the table went through the page.
    assert len(positions) > 1
    assert all(before < after for before, after in pairwise(positions))
    assert any("Shoe sim7-T1-S" in text for text in texts)
    again = page.evaluate(
        "text => new DOMParser().parseFromString(text, 'text/html')"
        ".querySelector('[data-part]').outerHTML",
        fresh,
    )
    assert page.locator("[data-part]").evaluate("part => part.outerHTML") == again
    page.close()
