"""Each page over a real ledger: what it shows, and that it is whole, plain and safe HTML."""

import httpx
import pytest

from tests.infrastructure.pages.conftest import serving_pages
from tests.infrastructure.pages.html import check, parse

PAGES = (
    "/tables",
    "/tables/T1",
    "/tables/sim7-T1",
    "/rounds/R1",
    "/rounds/R2",
    "/rounds/R3",
    "/rounds/R4",
    "/rounds/R1?version=8",
    "/rounds/R2?version=14",
    "/rounds/E1.1",
    "/shoes/E1",
    "/shoes/S1",
    "/shoes/sim7-T1-S1",
    "/accounts",
    "/accounts/alice",
    "/accounts/alice?at=2026-01-02T12:00:00",
    "/days/2026-01-01",
    "/days/2026-01-02",
    "/days/2026-02-02",
    "/ledger",
    "/sign-in",
    "/rounds/none",
)
NBSP = "\u00a0"


@pytest.fixture
def look(browser):
    """Opens a page and gives its tree."""

    def open_page(path, *, status=200, **headers):
        answer = browser.get(path, headers=headers)
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        return parse(answer.text)

    return open_page


def steps_of(page):
    (steps,) = (each for each in page.all("ol") if each.get("class") == "steps")
    return [step.text for step in steps.children]


def cards_of(page):
    (hands,) = (each for each in page.all("div") if each.get("class") == "hands large")
    return [each.get("aria-label") for each in hands.all("svg")]


def facts_of(page):
    return {
        each.one("dt").text: each.one("dd").text
        for each in page.all("div")
        if each.all("dt")[:1] and not each.all("div")
    }


def rows_of(page, caption):
    (table,) = (each for each in page.all("table") if each.one("caption").text.startswith(caption))
    rows = [[cell.text for cell in row.all("th", "td")] for row in table.one("tbody").all("tr")]
    return [[cell.replace(NBSP, " ") for cell in row] for row in rows]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_well_formed_and_can_be_used_by_keyboard_and_screen_reader(look, path):
    check(look(path, status=404 if path.endswith("none") else 200))


@pytest.mark.parametrize("path", [*PAGES, "/pages/pages.js", "/pages/pages.css"])
def test_a_page_may_load_nothing_from_elsewhere_nor_be_framed(browser, path):
    headers = browser.get(path).headers
    policy = dict(
        part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";")
    )
    assert policy["default-src"] == "'none'"
    assert policy["frame-ancestors"] == "'none'"
    sources = {name: value for name, value in policy.items() if name.endswith("-src")}
    assert set(sources.values()) <= {"'none'", "'self'"}
    assert headers["x-content-type-options"] == "nosniff"


def test_a_round_is_told_step_by_step_with_the_rule_behind_each_draw(look):
    steps = steps_of(look("/rounds/R1"))
    assert len(steps) == 14
    assert "alice bets 100.00 USD on Banker (bet B1)" in steps[1]
    assert "Player draws a third card" in steps[8]
    assert "Player has 5 and draws on 0-5." in steps[8]
    assert "the third card counts 7, so Banker draws." in steps[9]
    assert "Player 2, Banker 8: Banker wins" in steps[10]
    assert "Bet B1: won, wins 100.00 USD, commission 5.00 USD" in steps[11]


def test_a_round_is_replayed_card_by_card(look):
    assert cards_of(look("/rounds/R1?version=4")) == []
    assert cards_of(look("/rounds/R1?version=8")) == [
        "Four of diamonds",
        "Ace of hearts",
        "Three of spades",
        "Queen of clubs",
    ]
    assert len(cards_of(look("/rounds/R1"))) == 6


def test_one_steps_through_a_round_by_links(look):
    def linked(page, rel):
        return [each.get("href") for each in page.all("a") if each.get("rel") == rel]

    first, last = look("/rounds/R1?version=1"), look("/rounds/R1")
    assert (linked(first, "prev"), linked(first, "next")) == ([], ["/rounds/R1?version=2"])
    assert (linked(last, "prev"), linked(last, "next")) == (["/rounds/R1?version=13"], [])


def test_the_postings_of_a_version_are_those_that_were_there_before_the_round_went_on(look):
    def entries(path):
        return {row[1] for row in rows_of(look(path), "Debits and credits")}

    stakes = {"Stake placed, B1", "Stake placed, B2"}
    assert entries("/rounds/R2?version=8") == stakes
    settled = stakes | {"Win paid, B1", "Commission charged, B1", "Stake lost, B2"}
    assert entries("/rounds/R2?version=14") == settled
    assert entries("/rounds/R2") > settled


def test_the_postings_of_a_settled_round_are_balanced(look):
    rows = rows_of(look("/rounds/R1"), "Debits and credits")
    debit, credit = (
        sum(int(row[column].replace(".", "").removesuffix(" USD")) for row in rows if row[column])
        for column in (3, 4)
    )
    assert debit == credit > 0


def test_a_corrected_round_shows_what_was_corrected_why_by_whom_and_what_was_settled_first(look):
    page = look("/rounds/R2")
    steps = steps_of(page)
    assert "pit-1 proposes correction C1, the <last> card was misread" in steps[14]
    assert "the cards 4D 3S AH QC 7S 8S are to hold" in steps[14]
    assert (
        "pit-2 approves correction C1: Player 4D AH 7S, Banker 3S QC 8S, Player wins" in steps[15]
    )
    now = {row[0]: row[4] for row in rows_of(page, "Bets and what they came to")}
    before = {row[0]: row[4] for row in rows_of(page, "As first settled: banker")}
    assert (now, before) == ({"B1": "Lost", "B2": "Won"}, {"B1": "Won", "B2": "Lost"})
    assert "proposed by pit-1, approved by pit-2" in page.text


def test_what_people_wrote_is_shown_as_text(browser):
    text = browser.get("/rounds/R2").text
    assert "<last>" not in text
    assert "&lt;last&gt;" in text


def test_a_round_shows_the_verdict_of_the_audit(look):
    text = look("/rounds/R2").text
    assert "No finding in the round's own record." in text
    assert "No finding with the accounts, the shoe and the table." in text
    assert "A round is judged when it is finished." in look("/rounds/R4").text


def test_a_card_that_the_tableau_forbids_is_marked_and_found(look):
    page = look("/rounds/E1.1")
    assert cards_of(page) == [
        "Nine, suit unknown",
        "Ten-valued card, suit unknown",
        "Five, suit unknown",
        "Ace, suit unknown",
        "Three, suit unknown, not allowed by the tableau",
    ]
    assert "Banker third card unexpected: 3? for the banker hand is forbidden" in page.text
    assert "the tableau forbids this card and it does not count" in page.text
    assert "as a simulator recorded it" in page.text


def test_a_version_that_was_cited_stays_as_it_was(look):
    page = look("/rounds/R2?version=14")
    (cited,) = (each for each in page.all("p") if each.get("class") == "cite")
    assert cited.one("a").get("href").endswith("/rounds/R2?version=14")
    assert [row[4] for row in rows_of(page, "Bets and what they came to")] == ["Won", "Lost"]
    assert "C1 approved" not in page.text


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/rounds/none", 404, "There is no round none."),
        ("/rounds/R1?version=15", 404, "Round R1 has no version 15"),
        ("/rounds/R1?version=0", 404, "Round R1 has no version 0"),
        ("/rounds/R1?version=x", 400, "Version 'x' is not a whole number."),
        ("/rounds/%3Cscript%3E", 400, "'<script>' is not an id"),
        ("/shoes/none", 404, "There is no shoe none."),
        ("/tables/none", 404, "There is no table none."),
        ("/accounts/none", 404, "There is no account none."),
        ("/accounts/alice?position=999999", 400, "The ledger has come to position"),
        ("/accounts/alice?position=1&at=2026-01-01", 400, "not of both"),
        ("/accounts/alice?at=yesterday", 400, "Time 'yesterday' is not a time"),
        ("/accounts/alice?at=0001-01-01T00:00%2B14:00", 400, "is not a time"),
        ("/days/2026-02-30", 400, "'2026-02-30' is not a date"),
        ("/days/9999-12-31", 400, "'9999-12-31' is not a date"),
        ("/find?kind=dealer&id=x", 404, "There are rounds, shoes, accounts and tables"),
        ("/find?kind=round&id=a%2Fb", 400, "'a/b' is not an id"),
        ("/pages/router.py", 404, "There is no file router.py."),
    ],
)
def test_what_is_not_there_or_cannot_be_read_is_said_in_a_sentence(browser, path, status, said):
    answer = browser.get(path)
    assert answer.status_code == status
    page = parse(answer.text)
    check(page)
    assert said in page.one("main").text


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/nowhere", {}, 404),
        ("GET", "/pages/..%2Frouter.py", {}, 404),
        ("POST", "/tables", {}, 405),
        ("GET", "/tables", {"Host": "elsewhere.example"}, 421),
        ("POST", "/sign-in", {"Origin": "https://elsewhere.example"}, 403),
    ],
)
def test_what_no_page_takes_is_refused_to_a_browser_as_a_page(
    browser, method, path, headers, status
):
    answer = browser.request(method, path, headers={"Accept": "text/html,*/*;q=0.8", **headers})
    assert answer.status_code == status
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    check(parse(answer.text))


@pytest.mark.parametrize(
    ("path", "accept"), [("/nowhere", "*/*"), ("/v1/nowhere", "text/html"), ("/v1/rounds/none", "")]
)
def test_a_program_is_told_a_problem_as_the_api_does(browser, path, accept):
    answer = browser.get(path, headers={"Accept": accept})
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


def test_anything_is_found_by_its_id(browser):
    answer = browser.get("/find?kind=round&id=+R1+")
    assert answer.headers["location"] == "/rounds/R1"


def test_the_roads_of_a_shoe_hold_its_rounds_but_the_void_ones(look):
    page = look("/shoes/S1")
    facts = facts_of(page)
    assert (facts["Banker wins"], facts["Player wins"], facts["Ties"]) == ("1", "1", "0")
    assert facts["Void rounds"] == "1"
    drawn = {
        each.get("aria-label") for each in page.all("svg") if "road" in (each.get("class") or "")
    }
    assert drawn == {"Bead plate", "Big road", "Big eye boy", "Small road", "Cockroach pig"}
    assert "Card face down" in [each.get("aria-label") for each in page.all("svg")]


def test_a_shoe_that_is_closed_shows_its_seed_and_one_that_is_open_none(look):
    assert len(facts_of(look("/shoes/sim7-T1-S1"))["Seed"]) == 64
    assert "Seed" not in facts_of(look("/shoes/S1"))


def test_a_table_shows_the_cards_and_the_stakes_of_the_round_that_is_on_it(look):
    page = look("/tables/T1")
    (now,) = (each for each in page.all("section") if each.get("data-part") == "T1")
    labels = [each.get("aria-label") for each in now.all("svg")]
    assert {"Nine of diamonds", "Nine of hearts", "King of spades"} <= set(labels)
    assert "Banker 123.45 USD 1 bet" in now.text
    # 3 burned, 12 in two rounds, 3 on the table.
    assert "18 of 416 cards out" in now.text


def test_the_part_of_a_page_that_lives_is_served_alone(browser):
    whole, part = browser.get("/tables").text, browser.get("/tables?part=1").text
    assert part.strip() in whole
    (live,) = parse(part).children
    assert live.get("id") == "live"
    assert int(live.get("data-position")) > 0
    assert live.get("data-events") == "/v1/events"
    assert "round.card_dealt" in live.get("data-topics").split()


def test_a_table_follows_its_own_events_alone(look):
    (live,) = (each for each in look("/tables/T1").all("div") if each.get("id") == "live")
    assert live.get("data-events") == "/v1/events?table=T1"


def test_a_statement_shows_each_transaction_with_the_balance_after_it(look):
    rows = rows_of(look("/accounts/bob"), "Transactions")
    assert [row[0] for row in rows] == [str(number) for number in range(len(rows), 0, -1)]
    assert rows[-2][2:] == [
        "Funds deposited",
        "",
        "dealer-1",
        "1,000.00 USD",
        "1,000.00 USD",
        "0.00 USD",
    ]


def test_a_balance_is_shown_then_and_now(look):
    rows = rows_of(look("/rounds/R1"), "Debits and credits")
    staked = int(rows[0][0].replace(",", ""))
    balance = rows_of(look(f"/accounts/alice?position={staked}"), "Now, and as of position")
    assert balance[0] == ["Available", "900.00 USD", "871.55 USD"]
    assert balance[1] == ["In play", "100.00 USD", "123.45 USD"]
    text = look("/accounts/alice?position=1").text
    assert "The account was not open as of position 1." in text


def test_a_day_shows_turnover_win_hold_and_commission_and_that_they_reconcile(look):
    page = look("/days/2026-01-01")
    total = [cell.text for cell in page.all("table")[0].one("tbody").all("td")]
    assert total[0].endswith(" USD")
    assert total[-3:] == ["170", "78", "0"]
    (reconciled,) = rows_of(page, "Commission of the day")
    assert len(set(reconciled[1:])) == 1
    assert "No difference." in page.text
    assert [each for each in page.all("svg") if each.get("class") == "plot"]


def test_a_day_without_play_says_so(look):
    assert "No play." in look("/days/2026-02-02").text


def test_numbers_and_dates_are_those_of_the_browsers_language(look):
    page = look("/rounds/R1", **{"Accept-Language": "de-DE,de;q=0.9"})
    assert rows_of(page, "Bets and what")[0][3] == "100,00 USD"
    assert "02.01.2026, 12:00:00 UTC" in page.text


def test_the_ledger_shows_its_head_and_how_far_everything_has_come(look):
    page = look("/ledger")
    head = facts_of(page)["Head"].removeprefix("position ")
    assert {row[1] for row in rows_of(page, "Read models")} == {head}
    assert "protected from changes" in page.text
    assert "R4" in [each.text for each in page.all("a")]


def test_the_ledger_shows_how_far_behind_a_feed_is(ledger_to_look_at):
    def read_feeds(head):
        yield {"name": "NEAR", "position": head - 7, "lag_events": 7, "error": None}
        yield {"name": "AWAY", "position": None, "lag_events": None, "error": "no answer"}

    with serving_pages(ledger_to_look_at, read_feeds=read_feeds) as address:
        page = parse(httpx.get(f"{address}/ledger", timeout=60, trust_env=False).text)
    check(page)
    near, away = rows_of(page, "What is published")
    head = facts_of(page)["Head"].removeprefix("position ")
    assert near == ["NEAR", f"{int(head.replace(',', '')) - 7:,}", "7"]
    assert away == ["AWAY", "not known: no answer"]


def test_a_bug_is_told_to_a_browser_as_a_page_that_shows_nothing_of_it(ledger_to_look_at):
    with serving_pages(ledger_to_look_at, read_feeds=lambda head: head / 0) as address:
        headers = {"Accept": "text/html"}
        answer = httpx.get(f"{address}/ledger", headers=headers, timeout=60, trust_env=False)
    assert answer.status_code == 500
    page = parse(answer.text)
    check(page)
    assert "a bug in punto; its log says more" in page.text
    assert "ZeroDivisionError" not in answer.text
