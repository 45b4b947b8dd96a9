"""`punto audit` on a real ledger that a superuser tampered with, byte by byte."""

import re

import pytest

GUARD = ("update", "delete", "truncate")
CARRIES = ("card", "cards", "hand", "outcome", "result", "player_total", "banker_total")
OF_A_ROUND = """
    SELECT originator_id, originator_version, topic, state
    FROM ledger.stored_events
    WHERE originator_id = %s
        OR topic ~ '^account[.](stake|win_paid|commission)|^shoe[.]cards_drawn'
            AND convert_from(state, 'UTF8')::jsonb ->> 'round_id' = %s
    ORDER BY notification_id
"""
CHANGE = """
    UPDATE ledger.stored_events SET state = %s WHERE originator_id = %s AND originator_version = %s
"""


class Tampering:
    """Does what the guard of the history forbids, and puts the guard back as it was."""

    def __init__(self, sql):
        self._sql = sql

    def __call__(self, statement, *parameters):
        self.off()
        try:
            return self._sql(statement, *parameters)
        finally:
            for operation in GUARD:
                self._sql(
                    f"ALTER TABLE ledger.stored_events ENABLE ALWAYS TRIGGER refuse_{operation}"
                )

    def off(self):
        self._sql("ALTER TABLE ledger.stored_events DISABLE TRIGGER USER")


@pytest.fixture
def tamper(sql):
    return Tampering(sql)


def changed_bytes(state):
    """Every way to change one byte of a card, an outcome, a total or an amount."""
    text = state.decode()
    fields = re.finditer(r'"(\w+)":(\[[^]]*\]|"[^"]*"|\d+)', text)
    for field in fields:
        name = field[1]
        if name not in CARRIES and not name.endswith("_minor"):
            continue
        for place in range(field.start(2), field.end(2)):
            old = text[place]
            if not old.isalnum():
                continue
            for new in another(old):
                yield name, f"{text[:place]}{new}{text[place + 1 :]}".encode()


def another(old):
    """What a byte is changed to: another card, another digit, or another letter."""
    if old in "SHDC":
        return "SHDC"[("SHDC".index(old) + 1) % 4]
    if old in "23456789TJQKA":
        return "23456789TJQKA"[("23456789TJQKA".index(old) + 1) % 13]
    if old in "01":
        return "2"
    return chr(ord(old) ^ 1)


def names(document, round_id):
    return any(
        example["round_id"] == round_id or f"round:{round_id}" in example["detail"]
        for example in document["examples"]
    )


@pytest.mark.usefixtures("unmeasured")  # an audit for each byte
@pytest.mark.parametrize("round_id", ["R1", "R2", "P2"])
def test_one_changed_byte_anywhere_in_a_round_is_found_and_names_the_round(
    punto, played, tamper, sql, round_id
):
    events = sql(OF_A_ROUND, f"round:{round_id}", round_id)
    tried, missed = 0, []
    for stream, version, topic, state in events:
        for field, changed in changed_bytes(state):
            tamper(CHANGE, changed, stream, version)
            ran = punto("audit", "--json")
            tried += 1
            if ran.code != 1 or not names(ran.document, round_id) or ran.err:
                missed.append((stream, topic, field, changed, ran.out, ran.err))
            tamper(CHANGE, state, stream, version)
    assert missed == []
    assert tried > 30
    assert punto("audit").code == 0


@pytest.mark.usefixtures("unmeasured")  # an audit for each event
def test_an_event_that_was_deleted_is_found_whichever_it_is(punto, played, tamper, sql):
    rows = sql("SELECT * FROM ledger.stored_events ORDER BY notification_id")
    missed = []
    for row in rows[::4] + rows[-1:]:
        tamper(
            "DELETE FROM ledger.stored_events WHERE originator_id = %s AND originator_version = %s",
            *row[:2],
        )
        ran = punto("audit", "--json")
        if ran.code != 1 or "stream_gap" not in ran.document["findings"] or ran.err:
            missed.append((row, ran))
        sql("INSERT INTO ledger.stored_events VALUES (%s, %s, %s, %s, %s, %s)", *row)
    assert missed == []
    assert punto("audit").code == 0


@pytest.mark.parametrize("state", [b"", b"{", b"null", b"{}", b"\xff", b'{"at":1', b"[" * 10_000])
def test_an_event_that_is_no_longer_json_is_found_and_nothing_crashes(
    punto, played, tamper, sql, state
):
    streams = ("round:R1", "shoe:S1", "account:alice", "table:T1", "site")
    for stream in streams:
        ((before,),) = sql(
            "SELECT state FROM ledger.stored_events"
            " WHERE originator_id = %s AND originator_version = 1",
            stream,
        )
        tamper(CHANGE, state, stream, 1)
        ran = punto("audit", "--json")
        assert (ran.code, ran.err) == (1, "")
        assert "stream_gap" in ran.document["findings"]
        assert any(stream in example["detail"] for example in ran.document["examples"])
        assert punto("audit").code == 1
        tamper(CHANGE, before, stream, 1)


def test_an_event_of_an_unknown_topic_is_found_and_what_is_whole_still_answers(
    punto, played, tamper
):
    punto("tables")
    tamper("UPDATE ledger.stored_events SET topic = 'round.cheated' WHERE originator_id = 'site'")
    ran = punto("audit", "--json")
    assert ran.code == 1
    assert ran.document["findings"] == {"stream_gap": 1}
    assert "round.cheated" in ran.document["examples"][0]["detail"]
    assert punto("replay", "R1").code == 0
    assert "round.cheated" in punto("events", "site").refusal()


def test_the_status_counts_what_is_parked_and_every_question_says_so(punto, played, tamper, sql):
    sql("UPDATE projection.tracking SET version = 0")
    tamper("UPDATE ledger.stored_events SET topic = 'cheated' WHERE originator_id = 'account:bob'")
    ran = punto("status", "--json")
    assert ran.code == 0
    (bobs,) = sql("SELECT count(*) FROM ledger.stored_events WHERE originator_id = 'account:bob'")
    assert ran.err.startswith(f"{bobs[0]} events are parked")
    assert ran.err.endswith("`punto parked` says which, `punto audit` what is wrong\n")
    status = ran.document
    assert {each["lag_events"] for each in status["projections"]} == {0}
    parked = {each["name"]: each["parked"] for each in status["projections"]}
    assert parked == {
        "balances": bobs[0],
        "days": 0,
        "journal": bobs[0],
        "rounds": 0,
        "shoes": 0,
        "tables": 0,
    }
    alice = punto("balance", "alice")
    assert (alice.code, alice.err) == (0, ran.err)


def test_a_damaged_round_is_replayed_as_far_as_it_can_be_or_refused(punto, played, tamper, sql):
    (count,) = sql("SELECT max(version) FROM ledger.events WHERE stream = 'round:R1'")
    for version in range(1, count[0] + 1):
        where = "WHERE originator_id = 'round:R1' AND originator_version = %s"
        (row,) = sql(f"SELECT * FROM ledger.stored_events {where}", version)
        tamper(f"DELETE FROM ledger.stored_events {where}", version)
        for options in ((), ("--json",)):
            ran = punto("replay", "R1", *options)
            assert ran.code in {0, 2}, ran
        sql("INSERT INTO ledger.stored_events VALUES (%s, %s, %s, %s, %s, %s)", *row)


@pytest.mark.parametrize(
    "how",
    [
        "ALTER TABLE ledger.stored_events DISABLE TRIGGER USER",
        "ALTER TABLE ledger.answers DISABLE TRIGGER refuse_delete",
        "DROP TRIGGER refuse_update ON ledger.stored_events",
        "ALTER TABLE ledger.stored_events ENABLE TRIGGER refuse_update",
    ],
)
def test_a_guard_that_is_off_is_found_and_nothing_is_written_but_questions_answer(
    punto, played, sql, how, evening, stored_events
):
    sql(how)
    before = stored_events(punto.url)
    ran = punto("audit", "--json")
    assert ran.code == 1
    assert ran.document["findings"].keys() == {"history_unprotected"}
    assert ran.document["rounds_with_findings"] == 0
    for arguments in (("run", "-"), ("simulate",)):
        assert punto(*arguments).refusal().startswith("The history is not protected: ")
    assert stored_events(punto.url) == before
    for question in (("tables",), ("balance", "alice"), ("replay", "R1"), ("status",)):
        assert punto(*question).code == 0


def test_an_event_that_was_appended_by_hand_is_found(punto, played, sql):
    sql("""
        INSERT INTO ledger.stored_events
        SELECT originator_id, 1 + max(originator_version) OVER (), topic, state,
            1 + (SELECT max(notification_id) FROM ledger.stored_events)
        FROM ledger.stored_events
        WHERE originator_id = 'account:alice' ORDER BY topic = 'account.win_paid' DESC LIMIT 1
    """)
    ran = punto("audit", "--json")
    assert ran.code == 1
    assert names(ran.document, "R1")
