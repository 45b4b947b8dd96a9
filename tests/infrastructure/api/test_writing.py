"""Writes over HTTP: the same commands, the same answers, and how refusals become statuses."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import get_args

import pytest

from domain.errors import RefusalCode
from infrastructure.api.problems import STATUS
from infrastructure.api.writes import WRITES
from infrastructure.commands.contract import COMMANDS
from tests.infrastructure.api.conftest import open_tables, play
from tests.infrastructure.cli.test_error_codes import ONE_A_CODE

PATHS = {write.command: write for write in WRITES}


def post_command(api, fields, key):
    """Posts a command's fields to where it belongs."""
    fields = dict(fields)
    write = PATHS[fields.pop("command")]
    path = write.path.format(**{name: fields.pop(name) for name in write.in_path})
    return api.post(path, fields, key=key)


def test_every_command_has_a_path():
    assert sorted(PATHS) == sorted(COMMANDS)


def test_every_code_of_the_contract_has_a_status():
    assert set(get_args(RefusalCode)) <= set(STATUS)


# A line that is not a command has no path to be posted to.
WITH_PATHS = {
    code: case.lines
    for code, case in ONE_A_CODE.items()
    if all(isinstance(line, dict) and line.get("command") in PATHS for line in case.lines)
}


@pytest.mark.parametrize("code", sorted(WITH_PATHS))
def test_a_refusal_has_the_status_of_its_code(api, code):
    *before, last = enumerate(WITH_PATHS[code])
    for number, fields in before:
        key = fields.get("key", f"c{number}")
        given = {name: value for name, value in fields.items() if name != "key"}
        assert post_command(api, given, key).status_code == 200

    number, fields = last
    given = {name: value for name, value in fields.items() if name != "key"}
    answer = post_command(api, given, fields.get("key", f"c{number}"))

    assert answer.status_code == STATUS[code], answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == code


def test_a_write_without_an_idempotency_key_is_refused(api):
    answer = api.client.post(
        "/v1/tables", json={"table_id": "T1", "currency": "USD"}, headers={"Accept": "*/*"}
    )
    assert (answer.status_code, answer.json()["code"]) == (400, "idempotency_key_missing")


def test_a_key_of_other_characters_is_refused(api):
    answer = api.post("/v1/tables", {"table_id": "T1", "currency": "USD"}, key="a b")
    assert (answer.status_code, answer.json()["field"]) == (400, "key")


def test_the_same_request_again_gets_the_same_answer(api):
    body = {"table_id": "T1", "currency": "USD"}
    first = api.post("/v1/tables", body, key="once").json()
    again = api.post("/v1/tables", body, key='"once"').json()
    assert again == {**first, "replayed": True}


def test_the_same_key_with_other_content_is_refused_by_name_of_the_field(api):
    api.done("/v1/tables", {"table_id": "T1", "currency": "USD"}, key="once")
    answer = api.post("/v1/tables", {"table_id": "T1", "currency": "EUR"}, key="once")
    assert answer.status_code == 422
    assert (answer.json()["code"], answer.json()["field"]) == ("key_reused", "currency")


def test_of_fifty_duplicates_at_once_one_is_new_and_all_have_its_answer(api):
    open_tables(api)
    with ThreadPoolExecutor(50) as pool:
        answers = list(
            pool.map(
                lambda _: api.post(
                    "/v1/accounts/P1/deposits", {"amount_minor": 5}, key="dup"
                ).json(),
                range(50),
            )
        )
    assert sorted(answer["replayed"] for answer in answers) == [False] + [True] * 49
    assert len({json.dumps({**answer, "replayed": None}) for answer in answers}) == 1
    assert api.get("/v1/accounts/P1/balance").json()["available_minor"] == 1_000_05


def test_a_refusal_is_remembered_like_an_answer(api):
    api.post("/v1/accounts/P9/deposits", {"amount_minor": 5}, key="again")
    again = api.post("/v1/accounts/P9/deposits", {"amount_minor": 5}, key="again")
    assert (again.status_code, again.json()["replayed"]) == (404, True)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ('{"amount_minor": 5, "account_id": "P1"}', "account_id"),
        ('{"amount_minor": 5, "key": "k"}', "key"),
        ('{"amount_minor": 5, "command": "withdraw"}', "command"),
        ('{"amount_minor": 5, "amount_minor": 6}', None),
        ('{"amount_minor": 5.0}', "amount_minor"),
        ('{"amount_minor": 5, "note": "x"}', "note"),
        ("[]", None),
        ("{", None),
    ],
)
def test_a_body_is_read_as_strictly_as_a_line(api, body, field):
    headers = {"Idempotency-Key": "k", "Content-Type": "application/json"}
    answer = api.client.post("/v1/accounts/P1/deposits", content=body, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_command")
    assert answer.json().get("field") == field


def test_commands_by_the_line_are_answered_in_order_each_for_itself(api):
    open_tables(api)
    deposit = {"command": "deposit", "account_id": "P1", "amount_minor": 1}
    answers = api.lines(
        {**deposit, "key": "l1"}, "nonsense", {**deposit, "key": "l2", "account_id": "P9"},
        {**deposit, "key": "l1"}, {**deposit, "key": "l3"},
    )  # fmt: skip
    assert [answer["key"] for answer in answers] == ["l1", None, "l2", "l1", "l3"]
    assert [answer["ok"] for answer in answers] == [True, False, False, True, True]
    assert answers[1]["error"]["line"] == 2
    assert answers[3] == {**answers[0], "replayed": True}


def test_many_lines_are_answered_while_they_come(api):
    open_tables(api)
    commands = [
        {"command": "deposit", "key": f"d{number}", "account_id": "P1", "amount_minor": 1}
        for number in range(2_000)
    ]
    answers = api.lines(*commands)
    assert [answer["key"] for answer in answers] == [command["key"] for command in commands]
    assert answers[-1]["result"]["available_minor"] == 1_000_00 + 2_000


def test_a_line_that_is_too_long_is_refused_and_the_next_one_is_not(api):
    open_tables(api)
    deposit = {"command": "deposit", "key": "l1", "account_id": "P1", "amount_minor": 1}
    long, short = api.lines('{"x":"' + "a" * (3 << 20) + '"}', deposit)
    assert long["error"]["code"] == "invalid_command"
    assert short["ok"]


def test_a_round_goes_from_open_to_settled(api):
    open_tables(api)
    api.done("/v1/rounds", {"round_id": "R1", "shoe_id": "S-T1"})
    bet = {"bet_id": "B1", "account_id": "P1", "bet": "player", "stake_minor": 500}
    api.done("/v1/rounds/R1/bets", bet)
    api.done("/v1/rounds/R1/bets", {**bet, "bet_id": "B2"})
    assert api.done("/v1/rounds/R1/bets/B2/cancel")["returned_minor"] == 500
    api.done("/v1/rounds/R1/close-betting")
    api.done("/v1/rounds/R1/deal")
    settled = api.done("/v1/rounds/R1/settle")
    shown = api.get("/v1/rounds/R1").json()
    assert (shown["state"], shown["outcome"]) == ("settled", settled["outcome"])
    assert shown["findings"] == []


def test_a_settled_round_has_an_etag_until_it_is_corrected(api):
    open_tables(api)
    play(api, "R1")
    first = api.get("/v1/rounds/R1")
    known = {"If-None-Match": first.headers["etag"]}
    assert api.get("/v1/rounds/R1", headers=known).status_code == 304
    proposal = {"correction_id": "C1", "reason": "misread", "void": True, "actor": "ann"}
    api.done("/v1/rounds/R1/corrections", proposal)
    api.done("/v1/corrections/C1/approve", {"actor": "bob"})
    assert api.get("/v1/rounds/R1", headers=known).status_code == 200
