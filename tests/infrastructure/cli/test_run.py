"""`punto run`: one answer a line, in order, whatever the line is."""

import json
import os
from collections import defaultdict

import pytest

from infrastructure.commands.contract import LINE_BYTES_MAX
from tests.infrastructure.cli.conftest import as_file

OPEN = {"command": "open_account", "key": "a", "account_id": "ann", "currency": "USD"}
DEPOSIT = {"command": "deposit", "key": "d", "account_id": "ann", "amount_minor": 100}


def as_line(given, **changes):
    return json.dumps({**given, **changes}).encode()


def raw(fields):
    return b'{"command":"deposit",%s}' % fields


BAD_LINES = {
    "empty": (b"", None, "not JSON"),
    "blank": (b"   ", None, "not JSON"),
    "not JSON": (b"deposit 100", None, "not JSON"),
    "cut off": (b'{"command":"deposit","key":"d","acc', None, "not JSON"),
    "two objects": (as_line(OPEN) + as_line(OPEN), None, "not JSON"),
    "a byte order mark": (b"\xef\xbb\xbf" + as_line(OPEN), None, "not JSON"),
    "an array": (b"[" + as_line(OPEN) + b"]", None, "not a JSON object"),
    "a string": (b'"deposit"', None, "not a JSON object"),
    "null": (b"null", None, "not a JSON object"),
    "bad UTF-8": (b'{"command":"deposit","key":"\xff"}', None, "not UTF-8"),
    "UTF-16": (as_line(OPEN).decode().encode("utf-16"), None, "not UTF-8"),
    "a NUL byte": (b'{"command":"deposit","key":"\x00"}', None, "not JSON"),
    "a NUL escaped": (
        raw(rb'"key":"d","account_id":"a\u0000","amount_minor":1'),
        "d",
        "account_id",
    ),
    "a lone surrogate": (raw(rb'"key":"d","account_id":"\ud800","amount_minor":1'), "d", "JSON"),
    "a lone surrogate as key": (raw(rb'"key":"\ud800","account_id":"ann"'), None, "JSON"),
    "a lone surrogate as field": (raw(rb'"key":"d","\udc00":1'), "d", "JSON"),
    "a lone surrogate twice": (raw(rb'"key":"d","\udc00":1,"\udc00":1'), None, "there twice"),
    "deep nesting": (b"[" * 100_000, None, "nested too deeply"),
    "a deep field": (raw(b'"key":"d","x":' + b"[" * 900 + b"]" * 900), "d", ""),
    "too long": (as_line(OPEN, reason="x" * LINE_BYTES_MAX), None, "longer than"),
    "a doubled key": (raw(b'"key":"d","key":"e"'), None, "'key' is there twice"),
    "a doubled field": (raw(b'"key":"d","amount_minor":1,"amount_minor":2'), None, "there twice"),
    "no command": (b'{"key":"d"}', "d", "command"),
    "an unknown command": (as_line(DEPOSIT, command="steal"), "d", "command"),
    "a command of the importer": (as_line(DEPOSIT, command="record_round"), "d", "command"),
    "a command that is no text": (as_line(DEPOSIT, command=1), "d", "command"),
    "no key": (raw(b'"account_id":"ann","amount_minor":1'), None, "key: is missing"),
    "a key that is none": (as_line(DEPOSIT, key="a b"), None, "key: must be"),
    "a key with a line end": (as_line(DEPOSIT, key="d\n"), None, "key: must be"),
    "a key too long": (as_line(DEPOSIT, key="x" * 65), None, "key: must be"),
    "a missing field": (raw(b'"key":"d","account_id":"ann"'), "d", "amount_minor: is missing"),
    "an unknown field": (as_line(DEPOSIT, tip=1), "d", "tip: is not a field of this command"),
    "a float": (raw(b'"key":"d","account_id":"ann","amount_minor":1.0'), "d", "amount_minor"),
    "an exponent": (raw(b'"key":"d","account_id":"ann","amount_minor":1e3'), "d", "amount_minor"),
    "infinity": (raw(b'"key":"d","account_id":"ann","amount_minor":1e999'), "d", "amount_minor"),
    "NaN": (raw(b'"key":"d","account_id":"ann","amount_minor":NaN'), None, "NaN is not JSON"),
    "a boolean": (as_line(DEPOSIT, amount_minor=True), "d", "amount_minor"),
    "digits as text": (as_line(DEPOSIT, amount_minor="100"), "d", "amount_minor"),
    "a negative amount": (as_line(DEPOSIT, amount_minor=-1), "d", "amount_minor"),
    "nothing": (as_line(DEPOSIT, amount_minor=0), "d", "amount_minor"),
    "too much": (as_line(DEPOSIT, amount_minor=10**15 + 1), "d", "amount_minor"),
    "far too much": (as_line(DEPOSIT, amount_minor=10**40), "d", "amount_minor"),
    "digits without end": (
        raw(b'"key":"d","account_id":"ann","amount_minor":' + b"9" * 5000),
        None,
        "not a command",
    ),
    "a naive time": (as_line(DEPOSIT, at="2026-01-02T03:04:05"), "d", "at: "),
    "a date": (as_line(DEPOSIT, at="2026-01-02"), "d", "at: "),
    "seconds since 1970": (as_line(DEPOSIT, at=1_700_000_000), "d", "at: "),
    "seconds as text": (as_line(DEPOSIT, at="1700000000"), "d", "at: "),
    "a time before the calendar": (as_line(DEPOSIT, at="0001-01-01T00:00:00+14:00"), "d", "at: "),
    "a time after the calendar": (as_line(DEPOSIT, at="9999-12-31T23:59:59-14:00"), "d", "at: "),
    "null as text": (as_line(DEPOSIT, account_id=None), "d", "account_id"),
}


def test_a_line_that_is_no_command_is_refused_and_the_file_goes_on(punto, tmp_path, sql):
    lines = [as_line(OPEN)]
    for number, (line, _, _) in enumerate(BAD_LINES.values(), 1):
        lines += [line, as_line(DEPOSIT, key=f"after{number}")]
    file = tmp_path / "commands.ndjson"
    file.write_bytes(b"\n".join(lines))
    ran = punto("run", str(file))
    first, *answers = ran.lines
    assert first["ok"]
    for number, (name, (_, key, why)) in enumerate(BAD_LINES.items(), 1):
        refusal, after = answers[2 * number - 2 : 2 * number]
        assert (refusal["key"], refusal["ok"], refusal["replayed"]) == (key, False, False), name
        assert refusal["error"]["code"] == "invalid_command", name
        assert why in refusal["error"]["message"], (name, refusal)
        assert after["key"] == f"after{number}", name
        assert after["result"]["available_minor"] == 100 * number, name
    assert len(answers) == 2 * len(BAD_LINES)
    assert (ran.code, ran.err) == (1, "")
    assert sql("SELECT count(*) FROM ledger.refusals") == [(0,)]


def test_a_line_may_be_as_long_as_allowed_and_end_as_on_windows(punto):
    padded = b" " * (LINE_BYTES_MAX - len(as_line(OPEN)))
    ran = punto("run", "-", stdin=padded + as_line(OPEN) + b"\r\n" + as_line(DEPOSIT) + b"\r\n")
    assert [answer["ok"] for answer in ran.lines] == [True, True]


def test_answers_come_in_order_with_the_position_of_the_last_event(punto, evening, sql):
    ran = punto("run", "-", stdin=b"".join(json.dumps(each).encode() + b"\n" for each in evening))
    assert (ran.code, ran.err) == (0, "")
    answers = ran.lines
    assert [answer["key"] for answer in answers] == [command["key"] for command in evening]
    assert all(set(each) == {"key", "ok", "replayed", "position", "result"} for each in answers)
    assert not any(answer["replayed"] for answer in answers)
    latest = sql("SELECT key, max(position) FROM ledger.events GROUP BY key")
    assert {answer["key"]: answer["position"] for answer in answers} == dict(latest)


def test_a_refusal_has_a_code_and_a_sentence_and_is_exit_code_1(punto):
    ran = punto("run", "-", stdin=as_line(OPEN) + b"\n" + as_line(DEPOSIT, account_id="zoe"))
    assert ran.code == 1
    assert ran.lines[1] == {
        "key": "d",
        "ok": False,
        "replayed": False,
        "error": {
            "code": "unknown_account",
            "message": ran.lines[1]["error"]["message"],
            "field": "account_id",
        },
    }


def test_an_empty_file_is_no_error(punto):
    ran = punto("run", "-")
    assert (ran.code, ran.out, ran.err) == (0, "", "")


def test_a_last_line_that_was_cut_off_loses_only_itself(punto, tmp_path):
    file = tmp_path / "commands.ndjson"
    whole = as_line(OPEN) + b"\n" + as_line(DEPOSIT) + b"\n"
    file.write_bytes(whole[:-20])
    first, second = punto("run", str(file)).lines
    assert (first["ok"], second["ok"], second["key"]) == (True, False, None)
    file.write_bytes(whole)
    first, second = punto("run", str(file)).lines
    assert (first["replayed"], second["ok"], second["replayed"]) == (True, True, False)


def test_the_same_file_again_is_all_replayed_and_adds_nothing(punto, evening, stored_events):
    refused = {**DEPOSIT, "key": "r", "account_id": "nobody"}
    first = punto.run([*evening, refused])
    before = stored_events(punto.url)
    again = punto.run([*evening, refused])
    assert again == [{**answer, "replayed": True} for answer in first]
    assert stored_events(punto.url) == before


def test_a_key_with_another_content_is_refused_by_name_of_the_field(punto):
    answers = punto.run([OPEN, DEPOSIT, {**DEPOSIT, "amount_minor": 101}, DEPOSIT])
    assert answers[2]["error"]["code"] == "key_reused"
    assert answers[2]["error"]["field"] == "amount_minor"
    assert answers[3] == {**answers[1], "replayed": True}


def test_an_answer_stands_with_the_events_of_its_command(punto, evening, sql):
    punto.run([*evening, {**DEPOSIT, "key": "refused", "account_id": "nobody"}])
    of_events = sql("SELECT DISTINCT actor, key FROM ledger.events ORDER BY key")
    of_answers = sql("SELECT client, key FROM ledger.answers ORDER BY key")
    assert of_events == of_answers
    assert len(of_answers) == len(evening)
    assert sql("SELECT key FROM ledger.refusals") == [("refused",)]


def test_positions_and_versions_have_no_gaps(punto, played, sql):
    assert sql("SELECT max(position) = count(*) AND min(position) = 1 FROM ledger.events") == [
        (True,)
    ]
    assert sql("SELECT FROM ledger.events GROUP BY stream HAVING max(version) <> count(*)") == []


def test_money_is_neither_made_nor_lost_in_any_currency(punto, played, sql):
    assert punto("accounts").code == 0
    balances = sql("""
        SELECT currency, sum(available_minor), sum(in_play_minor), sum(commission_due_minor)
        FROM projection.balances GROUP BY currency
    """)
    events = sql("""
        SELECT opened.state ->> 'currency', event.topic,
            sum((event.state ->> 'amount_minor')::bigint),
            sum((event.state ->> 'stake_minor')::bigint),
            sum((event.state ->> 'win_minor')::bigint),
            sum((event.state ->> 'commission_minor')::bigint)
        FROM ledger.events AS event
        JOIN ledger.events AS opened
            ON opened.stream = event.stream AND opened.topic = 'account.opened'
        GROUP BY 1, 2
    """)
    brought, won, charged, marked, collected = (defaultdict(int) for _ in range(5))
    for currency, topic, amount, stake, win, commission in events:
        match topic:
            case "account.funds_deposited":
                brought[currency] += amount
            case "account.funds_withdrawn":
                brought[currency] -= amount
            case "account.stake_lost":
                won[currency] += stake
            case "account.win_paid":
                won[currency] -= win
            case "account.commission_charged":
                charged[currency] += commission
            case "account.commission_marked":
                marked[currency] += commission
            case "account.due_collected":
                collected[currency] += commission
    assert {currency for currency, *_ in balances} == {"USD", "THB", "JPY"}
    for currency, available, in_play, due in balances:
        taken = won[currency] + charged[currency] + collected[currency]
        assert brought[currency] == available + in_play + taken
        assert marked[currency] == due + collected[currency]
    assert charged["USD"] > 0
    assert marked["THB"] > 0
    assert charged["JPY"] == 0


def test_a_file_that_is_not_there_is_refused_in_one_line(punto, tmp_path):
    assert "No such file" in punto("run", str(tmp_path / "nope")).refusal()


def test_a_directory_is_no_file(punto, tmp_path):
    assert "Is a directory" in punto("run", str(tmp_path)).refusal()


def test_a_file_that_cannot_be_read_is_refused_in_one_line(punto, tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may read every file")
    file = tmp_path / "secret"
    file.write_text("{}")
    file.chmod(0)
    assert "Permission denied" in punto("run", str(file)).refusal()


def test_a_file_whose_reading_fails_is_refused_in_one_line(punto):
    file = "/proc/self/mem"
    if not os.path.exists(file):
        pytest.skip(f"there is no {file} here")
    assert "Input/output error" in punto("run", file).refusal()


def test_a_database_that_does_not_answer_is_refused_in_one_line(punto, tmp_path):
    nowhere = f"postgresql://u:sesame@/d?host={tmp_path}"
    for arguments in (("run", "-"), ("tables",), ("audit",), ("db", "upgrade")):
        refusal = punto(*arguments, url=nowhere).refusal()
        assert refusal.startswith("No connection to the database: ")
        assert "sesame" not in refusal


@pytest.mark.parametrize("batch", ["2", "7", "1000"])
def test_commands_that_share_transactions_are_answered_as_they_are_alone(
    punto, make_url, evening, stored_events, batch
):
    lines = as_file(evening).splitlines()
    lines.insert(5, b"not JSON")
    lines.insert(9, b'{"command":"deposit","key":"of nobody"}')
    alone = punto("run", "-", stdin=b"\n".join(lines))
    elsewhere = make_url()
    together = punto("run", "-", "--batch", batch, stdin=b"\n".join(lines), url=elsewhere)

    assert (together.code, together.out) == (alone.code, alone.out)
    assert stored_events(elsewhere) == stored_events(punto.url)
