"""Every refusal through `punto run`: its code, and nothing stored."""

import json

import pytest

from tests.simulation.test_error_codes import CASES, Case

# The other tests of these cases have a clock of their own, and this one the real one.
OF_ANY_TIME = [
    case
    for case in CASES
    if not any(isinstance(line, dict) and "at" in line for line in case.lines)
]
IN_THE_FUTURE = Case(
    "in the future",
    [{"command": "open_account", "account_id": "a", "currency": "USD", "at": "2999-01-01T00:00Z"}],
    "time_out_of_bounds",
)
ONE_A_CODE = {case.code: case for case in reversed([*OF_ANY_TIME, IN_THE_FUTURE])}


def as_line(fields, number):
    if isinstance(fields, bytes):
        return fields
    return json.dumps({"key": f"k{number}", **fields}).encode()


@pytest.mark.parametrize("code", sorted(ONE_A_CODE))
def test_what_must_not_be_done_is_refused_and_stores_nothing(punto, sql, code):
    *before, last = (as_line(line, n) for n, line in enumerate(ONE_A_CODE[code].lines))
    assert punto("run", "-", stdin=b"\n".join(before)).code == 0
    (stored,) = sql("SELECT count(*) FROM ledger.stored_events")

    ran = punto("run", "-", stdin=last)

    assert (ran.code, ran.document["ok"]) == (1, False)
    assert ran.document["error"]["code"] == code
    assert sql("SELECT count(*) FROM ledger.stored_events") == [stored]


def test_no_code_is_left_out():
    assert set(ONE_A_CODE) == {case.code for case in CASES}
