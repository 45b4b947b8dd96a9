"""The pages in a real browser, where Playwright and a Chromium are installed.

`pip install playwright axe-playwright-python` and Debian's `chromium` are all it
takes. With PUNTO_SCREENSHOTS set, the pictures of docs/pages are made anew there.
"""

import os
import shutil
from pathlib import Path

import httpx
import pytest

from tests.infrastructure.pages.conftest import serving_pages

playwright = pytest.importorskip("playwright.sync_api")
axe = pytest.importorskip("axe_playwright_python.sync_playwright")
CHROMIUM = shutil.which("chromium")
SCREENSHOTS = os.environ.get("PUNTO_SCREENSHOTS")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")

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
SHAPES = [("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390)]


@pytest.fixture(scope="module")
def chromium():
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium, address):
    """Opens a page and watches its console, which has to stay silent."""
    contexts, said = [], []

    def open_one(path, *, scheme="light", width=1280, base=address, **options):
        context = chromium.new_context(
            base_url=base,
            color_scheme=scheme,
            viewport={"width": width, "height": 900},
            locale="en-GB",
            **options,
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(path)
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert said == []


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(("scheme", "width"), SHAPES)
def test_a_page_fits_its_window_and_axe_finds_nothing(open_page, name, scheme, width):
    # What axe runs in the page is no part of it, so the page's policy has to let it pass.
    page = open_page(PAGES[name], scheme=scheme, width=width, bypass_csp=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert axe.Axe().run(page).response["violations"] == []


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_silent_under_its_own_policy(open_page, name):
    page = open_page(PAGES[name])
    if SCREENSHOTS is not None:
        page.screenshot(path=Path(SCREENSHOTS) / f"{name}.png")


def test_a_round_is_stepped_through_with_the_arrow_keys(open_page):
    page = open_page("/rounds/R2?version=4")
    cards = page.locator(".hands.large .card")
    for count in range(1, 7):
        page.keyboard.press("ArrowRight")
        page.wait_for_url(f"**/rounds/R2?version={4 + count}")
        playwright.expect(cards).to_have_count(count)
    page.keyboard.press("ArrowLeft")
    page.wait_for_url("**/rounds/R2?version=9")
    playwright.expect(cards).to_have_count(5)


def test_a_settled_round_with_a_correction_prints_on_one_page(open_page, tmp_path):
    page = open_page("/rounds/R2")
    page.pdf(path=tmp_path / "round.pdf", prefer_css_page_size=True)
    printed = (tmp_path / "round.pdf").read_bytes()
    assert printed.count(b"/Type /Page") - printed.count(b"/Type /Pages") == 1


def test_a_table_is_followed_card_by_card(open_page, make_ledger):
    with serving_pages(make_ledger()) as base:
        page = open_page("/tables", base=base)
        playwright.expect(page.locator("#live-state")).to_contain_text("Live")
        cards = page.locator("[data-part=T1] .hands .card")
        playwright.expect(cards).to_have_count(3)
        with httpx.Client(base_url=base, trust_env=False) as table:
            for number, (path, body) in enumerate(
                [
                    ("/v1/rounds/R4/deal", {"cards": ["7S"]}),
                    ("/v1/rounds/R4/settle", {}),
                ]
            ):
                answer = table.post(path, json=body, headers={"Idempotency-Key": f"live-{number}"})
                assert answer.status_code == 200, answer.text
                playwright.expect(cards).to_have_count(4)
        playwright.expect(page.locator("#live-said")).to_contain_text("T1, round 4: player")
        # Its stream ends with the service, which the console would tell.
        page.close()
