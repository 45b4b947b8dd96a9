"""`punto reconcile commission` finds the cent, wherever it was planted, and names its round."""

import csv
import io
from datetime import UTC, datetime, timedelta

import pytest

pytestmark = pytest.mark.usefixtures("played")

GUARD = ("update", "delete", "truncate")
DIMENSIONS = ("table", "shoe", "account", "day")


@pytest.fixture
def tamper(sql):
    """Changes the history or the journal behind the ledger's back, as their owner can."""

    def change(statement, *parameters):
        tables = ("ledger.stored_events", "projection.journal")
        for table in tables:
            sql(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        changed = sql(f"{statement} RETURNING 1", *parameters)
        assert changed
        for table in tables:
            sql(f"ALTER TABLE {table} ENABLE TRIGGER USER")
        for operation in GUARD:
            sql(f"ALTER TABLE ledger.stored_events ENABLE ALWAYS TRIGGER refuse_{operation}")

    return change


@pytest.fixture
def reconcile(punto):
    """The answer, after which the exit code says the same."""

    def ask(*arguments):
        ran = punto("reconcile", "commission", "--json", *arguments)
        assert ran.code == (0 if ran.document["ok"] else 1), ran
        return ran.document

    return ask


@pytest.fixture
def statement(punto, tmp_path):
    """Writes rows as a statement; the answer to its comparison."""

    def write(text):
        path = tmp_path / "statement.csv"
        path.write_text(text)
        return str(path)

    return write


def rows_by(punto, subject):
    """The statement that an outside system would send, row by row."""
    lines = punto("commission", "--by", subject, "--json").lines
    return [(line["key"], line["currency"], str(line["commission_minor"])) for line in lines]


def as_csv(subject, rows):
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow((subject, "currency", "commission_minor"))
    writer.writerows(rows)
    return text.getvalue()


def named(document, source):
    return {
        round_id
        for difference in document["differences"]
        if difference["source"] == source
        for round_id in difference["rounds"]
    }


def sources(document):
    return {difference["source"] for difference in document["differences"]}


def test_the_sources_agree_in_every_currency(punto, reconcile):
    document = reconcile()
    assert (document["ok"], document["differences"]) == (True, [])
    assert set(document["currencies"]) == {"JPY", "THB", "USD"}
    for currency, sums in document["currencies"].items():
        total = sum(
            line["commission_minor"]
            for line in punto("commission", "--by", "table", "--json").lines
            if line["currency"] == currency
        )
        assert sums == {
            "recomputed_minor": total,
            "events_minor": total,
            "ledger_minor": total,
            "statement_minor": None,
        }
    assert document["currencies"]["USD"]["recomputed_minor"] == 1_67
    assert document["currencies"]["JPY"]["recomputed_minor"] == 0


def test_people_are_told_that_there_is_no_difference(punto):
    ran = punto("reconcile", "commission")
    assert ran.code == 0
    assert "1.67 USD" in ran.out
    assert ran.out.rstrip().endswith("No difference")


def test_a_commission_event_that_is_a_unit_too_high_is_found(reconcile, tamper):
    reconcile()
    tamper("""
        UPDATE ledger.stored_events
           SET state = convert_to(replace(convert_from(state, 'UTF8'), ':167', ':168'), 'UTF8')
         WHERE topic = 'account.commission_charged'
    """)
    document = reconcile()
    assert sources(document) == {"events"}
    assert {difference["by"] for difference in document["differences"]} == set(DIMENSIONS)
    for difference in document["differences"]:
        assert difference["difference_minor"] == 1
        assert (difference["rounds"], difference["currency"]) == (["R1"], "USD")
        assert difference["bets"] == [
            {
                "round_id": "R1",
                "bet_id": "R1-alice-banker",
                "expected_minor": 1_67,
                "found_minor": 1_68,
            }
        ]
    keys = {difference["by"]: difference["key"] for difference in document["differences"]}
    assert (keys["table"], keys["shoe"], keys["account"]) == ("T1", "S1", "alice")


def test_a_mark_that_is_a_unit_too_high_is_found_in_what_is_due_as_well(punto, reconcile, tamper):
    reconcile()
    tamper("""
        UPDATE ledger.stored_events
           SET state = convert_to(
                   regexp_replace(convert_from(state, 'UTF8'), '"commission_minor":\\d+',
                                  '"commission_minor":1'), 'UTF8')
         WHERE notification_id = (SELECT min(notification_id) FROM ledger.stored_events
                                   WHERE topic = 'account.commission_marked')
    """)
    document = reconcile()
    assert sources(document) == {"events", "commission_due"}
    assert named(document, "events") == named(document, "commission_due")
    (round_id,) = named(document, "events")
    assert round_id.startswith("P")


def test_a_card_that_was_changed_makes_another_commission_due(reconcile, tamper):
    reconcile()
    # With a five for the ace the Player's first two are a natural nine.
    tamper("""
        UPDATE ledger.stored_events
           SET state = convert_to(replace(convert_from(state, 'UTF8'), '"AH"', '"5H"'), 'UTF8')
         WHERE originator_id = 'round:R1' AND topic = 'round.card_dealt'
           AND position('"AH"'::bytea IN state) > 0
    """)
    document = reconcile()
    assert named(document, "events") == named(document, "ledger") == {"R1"}
    assert document["currencies"]["USD"]["recomputed_minor"] == 0


def test_a_posting_that_is_a_unit_too_high_is_found(reconcile, tamper):
    reconcile()
    tamper("""
        UPDATE projection.journal SET amount_minor = amount_minor - 1
         WHERE account = 'commission:T1' AND round_id = 'R1'
    """)
    document = reconcile()
    assert sources(document) == {"ledger"}
    assert named(document, "ledger") == {"R1"}
    assert {difference["difference_minor"] for difference in document["differences"]} == {1}
    assert {difference["by"] for difference in document["differences"]} == set(DIMENSIONS)


@pytest.mark.parametrize(
    ("column", "value"),
    [("account", "commission:T2"), ("account_id", "bob"), ("shoe_id", "S2"), ("day", "2020-01-01")],
)
def test_a_posting_in_the_wrong_place_is_found_though_the_totals_are_right(
    reconcile, tamper, column, value
):
    before = reconcile()["currencies"]
    tamper(
        f"UPDATE projection.journal SET {column} = %s"
        " WHERE account = 'commission:T1' AND round_id = 'R1'",
        value,
    )
    document = reconcile()
    assert document["currencies"] == before
    assert named(document, "ledger") == {"R1"}


def test_a_posting_that_is_missing_is_found(reconcile, tamper):
    reconcile()
    tamper("DELETE FROM projection.journal WHERE account = 'commission:T1' AND round_id = 'R1'")
    document = reconcile()
    assert named(document, "ledger") == {"R1"}
    assert document["currencies"]["USD"]["ledger_minor"] == 0


@pytest.mark.parametrize("subject", DIMENSIONS)
def test_a_statement_of_totals_that_agrees_is_ok(punto, reconcile, statement, subject):
    document = reconcile("--statement", statement(as_csv(subject, rows_by(punto, subject))))
    assert document["ok"]
    for sums in document["currencies"].values():
        assert sums["statement_minor"] == sums["recomputed_minor"]


@pytest.mark.parametrize("subject", DIMENSIONS)
@pytest.mark.parametrize("what", ["changed", "missing", "doubled"])
def test_a_total_that_was_changed_left_out_or_doubled_is_found_with_its_rounds(
    punto, reconcile, statement, subject, what
):
    rows = rows_by(punto, subject)
    place = next(n for n, row in enumerate(rows) if row[1] == "USD" and row[2] == "167")
    key, currency, minor = rows[place]
    if what == "changed":
        rows[place] = (key, currency, str(int(minor) + 1))
    elif what == "missing":
        del rows[place]
    else:
        rows.append(rows[place])
    document = reconcile("--statement", statement(as_csv(subject, rows)))
    (difference,) = document["differences"]
    assert (difference["source"], difference["by"], difference["key"]) == (
        "statement",
        subject,
        key,
    )
    assert difference["problem"] == {"changed": "amount", "doubled": "duplicate"}.get(what, what)
    assert difference["rounds"] == ["R1"]


@pytest.mark.parametrize(
    ("subject", "row", "problem"),
    [
        ("round", ("R1", "USD", "168"), "amount"),
        ("bet", ("R1-alice-banker", "USD", "166"), "amount"),
        ("round", ("R9", "USD", "0"), "unknown"),
        ("bet", ("nothing", "USD", "1"), "unknown"),
        ("table", ("T9", "USD", "0"), "unknown"),
        ("shoe", ("T1", "USD", "0"), "unknown"),
        ("account", ("alice", "THB", "0"), "currency"),
        ("table", ("T1", "EUR", "1"), "currency"),
        ("day", ("2026-01-01", "EUR", "0"), "currency"),
        ("round", ("R2", "USD", "1"), "amount"),
    ],
)
def test_a_row_that_is_wrong_or_not_known_is_reported(
    punto, reconcile, statement, subject, row, problem
):
    document = reconcile("--statement", statement(as_csv(subject, [row])))
    key, currency, minor = row
    (difference,) = [each for each in document["differences"] if "lines" in each]
    assert difference["key"] == key
    assert (difference["problem"], difference["currency"]) == (problem, currency)
    assert difference["found_minor"] == int(minor)
    assert difference["lines"] == [2]
    if subject == "round":
        assert difference["rounds"] == [key]


def test_a_bet_may_be_named_by_its_round(reconcile, statement):
    text = "round,bet,currency,commission_minor\nR1,R1-alice-banker,USD,168\n"
    document = reconcile("--statement", statement(text))
    (difference,) = [each for each in document["differences"] if each["problem"] == "amount"]
    assert (difference["by"], difference["rounds"]) == ("round bet", ["R1"])


@pytest.mark.parametrize(
    "amount",
    ["1.005", "1e3", "NaN", "-0", "٣", "", " 1", "+1", "01", "1,000", "0x1", "1_0", "--1", "1.0"],
)
def test_an_amount_that_is_not_whole_is_refused_by_name_of_the_field(punto, statement, amount):
    path = statement(as_csv("table", [("T1", "USD", "167"), ("T2", "THB", amount)]))
    why = punto("reconcile", "commission", "--statement", path).refusal()
    assert why.startswith("statement.csv line 3: commission_minor ")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "line 1: the header must be currency, commission_minor and one of table"),
        ("table,commission_minor\nT1,1\n", "line 1: the header"),
        ("table,shoe,currency,commission_minor\n", "line 1: the header"),
        ("table,table,currency,commission_minor\n", "line 1: the header"),
        ("table,note,currency,commission_minor\n", "line 1: the header"),
        ("table,currency,commission_minor\nT1,USD\n", "line 2: 2 fields where the header has 3"),
        ("table,currency,commission_minor\nT1,usd,1\n", "line 2: currency 'usd' is no ISO"),
        ("table,currency,commission_minor\nT 1,USD,1\n", "line 2: table 'T 1' is no id"),
        ("day,currency,commission_minor\n20260101,USD,1\n", "line 2: day '20260101' is no date"),
        ("day,currency,commission_minor\n2026-02-30,USD,1\n", "line 2: day '2026-02-30' is"),
        ('table,currency,commission_minor\n"T1,USD,1\n', "is not CSV"),
    ],
)
def test_a_statement_that_cannot_be_read_is_refused_with_its_line(punto, statement, text, why):
    assert why in punto("reconcile", "commission", "--statement", statement(text)).refusal()


def test_a_statement_that_is_not_there_or_no_text_is_refused(punto, tmp_path):
    missing = str(tmp_path / "no.csv")
    assert "no.csv" in punto("reconcile", "commission", "--statement", missing).refusal()
    (tmp_path / "bytes.csv").write_bytes(b"table,currency,commission_minor\n\xff,USD,1\n")
    why = punto("reconcile", "commission", "--statement", str(tmp_path / "bytes.csv")).refusal()
    assert "not UTF-8" in why


def test_only_one_day_is_reconciled_where_one_is_named(punto, reconcile, tamper):
    (line,) = [each for each in rows_by(punto, "day") if each[1] == "USD"]
    assert reconcile("--day", line[0])["currencies"]["USD"]["ledger_minor"] == 1_67
    tamper("""
        UPDATE projection.journal SET amount_minor = amount_minor - 1
         WHERE account = 'commission:T1' AND round_id = 'R1'
    """)
    assert named(reconcile("--day", line[0]), "ledger") == {"R1"}
    other = reconcile("--day", "2020-01-01")
    assert other["ok"]
    assert other["currencies"]["USD"]["recomputed_minor"] == 0


@pytest.mark.parametrize("day", ["yesterday", "2026-13-01", "20260101", "2026-1-1"])
def test_a_day_that_is_no_date_is_refused(punto, day):
    assert "is not a date" in punto("reconcile", "commission", "--day", day).refusal()


def test_an_event_that_cannot_be_read_is_a_difference(reconcile, tamper):
    reconcile()
    tamper("""
        UPDATE ledger.stored_events SET state = 'no json'
         WHERE originator_id = 'round:R1' AND topic = 'round.bet_placed'
           AND originator_version = 2
    """)
    document = reconcile()
    (unreadable,) = [each for each in document["differences"] if each["problem"] == "unreadable"]
    assert (unreadable["key"], unreadable["rounds"]) == ("round:R1", ["R1"])


@pytest.fixture
def corrected(punto):
    """A deferred commission that was collected, and then taken back by a correction."""
    at = datetime.now(UTC) - timedelta(hours=1)
    script = [
        {"command": "collect_due", "account_id": "chai"},
        {
            "command": "propose_correction",
            "correction_id": "C1",
            "round_id": "R1",
            "reason": "the camera shows another card",
            "actor": "pit",
            "cards": ["4D", "3S", "5H", "QC"],
        },
        {"command": "approve_correction", "correction_id": "C1", "actor": "manager"},
    ]
    answers = punto.run(
        [{**each, "key": f"c{n}", "at": at.isoformat()} for n, each in enumerate(script)]
    )
    assert all(answer["ok"] for answer in answers), answers


def test_what_is_collected_and_taken_back_is_reconciled(reconcile, corrected):
    document = reconcile()
    assert (document["ok"], document["differences"]) == (True, [])
    assert document["currencies"]["USD"]["recomputed_minor"] == 0


@pytest.mark.parametrize(
    ("topic", "field", "sources_found", "round_id"),
    [
        ("account.settlement_reversed", "refunded_minor", {"events"}, "R1"),
        (
            "account.settlement_reversed",
            "unmarked_minor",
            {"events", "commission_due"},
            "R1",
        ),
        ("account.due_collected", "commission_minor", {"commission_due"}, None),
    ],
)
def test_a_unit_in_what_was_taken_back_or_collected_is_found(
    reconcile, corrected, tamper, topic, field, sources_found, round_id
):
    reconcile()
    tamper(
        """
        UPDATE ledger.stored_events
           SET state = convert_to(
                   regexp_replace(convert_from(state, 'UTF8'), %s, '\\1' || %s), 'UTF8')
         WHERE notification_id = (SELECT max(notification_id) FROM ledger.stored_events
                                   WHERE topic = %s AND originator_id <> 'account:bob')
        """,
        f'("{field}":)\\d+',
        "1",
        topic,
    )
    document = reconcile()
    assert sources(document) == sources_found
    if round_id is not None:
        for source in sources_found:
            assert named(document, source) == {round_id}
    else:
        (difference,) = document["differences"]
        assert (difference["by"], difference["key"]) == ("account", "chai")


@pytest.mark.parametrize("account", ["commission:T1", "commission_due:chai"])
def test_a_posting_of_a_correction_or_a_collection_that_was_altered_is_found(
    reconcile, corrected, tamper, account
):
    reconcile()
    tamper(
        """
        UPDATE projection.journal SET amount_minor = amount_minor + 1
         WHERE position = (SELECT max(position) FROM projection.journal WHERE account = %s)
           AND account = %s
        """,
        account,
        account,
    )
    document = reconcile()
    source = "ledger" if account == "commission:T1" else "commission_due"
    assert sources(document) == {source}
    assert {difference["difference_minor"] for difference in document["differences"]} <= {1, -1}
    assert named(document, source) == ({"R1"} if source == "ledger" else set())


def test_a_round_that_was_read_long_ago_is_read_again_for_its_correction(
    reconcile, corrected, monkeypatch
):
    path = "infrastructure.audit.reconciliation.reconciliation.ROUNDS_IN_MEMORY"
    monkeypatch.setattr(path, 1)
    assert reconcile()["ok"]
