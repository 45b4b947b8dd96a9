"""A key belongs to its client, and its first answer is given again for ever."""

import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from infrastructure.casino import Casino
from infrastructure.commands.contract import NotACommand, read_command
from infrastructure.commands.execution import Client, execute
from infrastructure.store.connection import Database
from tests.simulation.generator import START
from tests.simulation.playing import head, in_memory, notifications

Answer = dict[str, Any]

OPENED = {"command": "open_account", "key": "k1", "account_id": "a", "currency": "USD"}
DEPOSIT = {"command": "deposit", "key": "k2", "account_id": "a", "amount_minor": 500}
WITHDRAWAL = {"command": "withdraw", "key": "k3", "account_id": "a", "amount_minor": 501}
TABLE = {"command": "open_table", "key": "k4", "table_id": "t", "currency": "USD"}
SHOE = {"command": "open_shoe", "key": "k5", "shoe_id": "s", "table_id": "t"}
PHYSICAL = {**SHOE, "source": "physical"}
ROUND = {"command": "open_round", "key": "k6", "round_id": "r", "shoe_id": "s"}
BET = {"command": "place_bet", "key": "k7", "bet_id": "b", "round_id": "r", "account_id": "a"}
BET |= {"bet": "banker", "stake_minor": 100}
CANCELLATION = {"command": "cancel_bet", "key": "k8", "bet_id": "b", "round_id": "r"}


class Desk:
    """Sends commands as a client, a second after each other."""

    def __init__(self, casino: Casino) -> None:
        self.casino = casino
        self.now = START

    def send(self, command: Answer | bytes, *, client: str = "cli") -> Answer:
        self.now += timedelta(seconds=1)
        line = command if isinstance(command, bytes) else json.dumps(command).encode()
        clerk = Client(client, clock=self._clock)
        return execute(self.casino, [read_command(line)], client=clerk)[0]

    def _clock(self) -> datetime:
        return self.now


@pytest.fixture
def desk() -> Desk:
    return Desk(in_memory())


def test_the_same_command_again_gets_its_first_answer_and_stores_nothing(desk: Desk) -> None:
    desk.send(OPENED)
    first = desk.send(DEPOSIT)
    desk.send({**DEPOSIT, "key": "another"})
    before = head(desk.casino)

    again = desk.send(DEPOSIT)

    assert again == {**first, "replayed": True}
    assert again["result"]["available_minor"] == 500
    assert head(desk.casino) == before


def test_a_time_that_was_filled_in_does_not_make_another_command(desk: Desk) -> None:
    desk.send(OPENED)
    first = desk.send(DEPOSIT)
    desk.now += timedelta(days=400)

    assert desk.send(DEPOSIT) == {**first, "replayed": True}


def test_an_old_time_is_not_checked_again(desk: Desk) -> None:
    opened = {**OPENED, "at": START.isoformat()}
    first = desk.send(opened)
    desk.now += timedelta(days=400)

    assert desk.send(opened) == {**first, "replayed": True}


@pytest.mark.parametrize(
    "line",
    [
        b'{"amount_minor": 500, "account_id": "a", "key": "k2", "command": "deposit"}',
        b' {"command":"deposit","key":"k2","account_id":"a","amount_minor":500}\r\n',
        rb'{"command": "deposit", "key": "k2", "account_id": "\u0061", "amount_minor": 500}',
    ],
    ids=["in another order", "with other blanks", "with other escapes"],
)
def test_the_same_fields_written_otherwise_are_the_same_command(desk: Desk, line: bytes) -> None:
    desk.send(OPENED)
    first = desk.send(DEPOSIT)

    assert desk.send(line) == {**first, "replayed": True}


def test_the_same_instant_at_another_offset_is_the_same_command(desk: Desk) -> None:
    first = desk.send({**OPENED, "at": "2026-03-01T10:00:00Z"})

    again = desk.send({**OPENED, "at": "2026-03-01T12:00:00.000+02:00"})

    assert again == {**first, "replayed": True}


@pytest.mark.parametrize("at", ["2026-03-01T12:00:00+02:00", "2026-03-01 06:30:00.0-03:30"])
def test_a_time_is_recorded_in_utc_whatever_offset_it_was_given_in(desk: Desk, at: str) -> None:
    desk.send({**OPENED, "at": at})

    (opened,) = notifications(desk.casino)

    assert opened.state.startswith(b'{"at":"2026-03-01T10:00:00Z",')


def test_rules_in_another_order_are_the_same_rules(desk: Desk) -> None:
    rules = {"decks": 6, "odds": {"player": [1, 1], "tie": [9, 1]}}
    turned = {"odds": {"tie": [9, 1], "player": [1, 1]}, "decks": 6}
    first = desk.send({**TABLE, "rules": rules})

    assert desk.send({**TABLE, "rules": turned}) == {**first, "replayed": True}


@pytest.mark.parametrize(
    ("other", "field"),
    [
        ({**DEPOSIT, "amount_minor": 501}, "amount_minor"),
        ({**DEPOSIT, "account_id": "b"}, "account_id"),
        ({**DEPOSIT, "command": "withdraw"}, "command"),
        ({**DEPOSIT, "actor": "dealer-7"}, "actor"),
        ({**DEPOSIT, "at": START.isoformat()}, "at"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_another_content_under_the_same_key_is_refused_by_its_field(
    desk: Desk, other: Answer, field: str
) -> None:
    desk.send(OPENED)
    first = desk.send(DEPOSIT)
    before = head(desk.casino)

    refused = desk.send(other)

    assert (refused["ok"], refused["replayed"]) == (False, False)
    assert (refused["error"]["code"], refused["error"]["field"]) == ("key_reused", field)
    assert head(desk.casino) == before
    assert desk.send(DEPOSIT) == {**first, "replayed": True}


def test_cards_in_another_order_are_another_command(desk: Desk) -> None:
    desk.send(TABLE)
    desk.send(PHYSICAL)
    burn = {"command": "burn_cards", "key": "k", "shoe_id": "s", "cards": ["2S", "AS", "KD"]}
    desk.send(burn)

    refused = desk.send({**burn, "cards": ["AS", "2S", "KD"]})

    assert (refused["error"]["code"], refused["error"]["field"]) == ("key_reused", "cards")


def test_a_refusal_is_remembered_though_the_reason_is_gone(desk: Desk) -> None:
    desk.send(OPENED)
    desk.send(DEPOSIT)
    refused = desk.send(WITHDRAWAL)
    assert refused["error"]["code"] == "insufficient_funds"
    desk.send({**DEPOSIT, "key": "more"})

    assert desk.send(WITHDRAWAL) == {**refused, "replayed": True}
    assert desk.send({**WITHDRAWAL, "key": "new"})["ok"]


def test_another_content_after_a_refusal_is_refused_by_its_field(desk: Desk) -> None:
    refused = desk.send(DEPOSIT)
    assert refused["error"]["code"] == "unknown_account"
    desk.send(OPENED)

    reused = desk.send({**DEPOSIT, "amount_minor": 1})

    assert (reused["error"]["code"], reused["error"]["field"]) == ("key_reused", "amount_minor")


def test_a_time_out_of_bounds_is_remembered(desk: Desk) -> None:
    early = {**OPENED, "at": (START + timedelta(hours=1)).isoformat()}
    refused = desk.send(early)
    assert refused["error"]["code"] == "time_out_of_bounds"
    desk.now += timedelta(hours=1)

    assert desk.send(early) == {**refused, "replayed": True}


def test_a_line_that_could_not_be_read_is_not_remembered(desk: Desk) -> None:
    with pytest.raises(NotACommand) as unreadable:
        desk.send({**OPENED, "currency": "XYZ"})

    assert unreadable.value.key == "k1"
    answer = desk.send(OPENED)
    assert (answer["ok"], answer["replayed"]) == (True, False)


def test_a_command_that_does_not_fit_its_shoe_is_not_remembered(desk: Desk) -> None:
    desk.send(TABLE)
    refused = desk.send({**PHYSICAL, "seed": "00" * 32})
    assert refused["error"]["code"] == "invalid_command"

    answer = desk.send(PHYSICAL)

    assert (answer["ok"], answer["replayed"]) == (True, False)


def test_a_reused_key_is_not_remembered(desk: Desk) -> None:
    desk.send(OPENED)
    other = {**OPENED, "currency": "JPY"}

    assert desk.send(other) == desk.send(other)
    assert desk.send(other)["replayed"] is False


def test_a_key_belongs_to_its_client(desk: Desk) -> None:
    desk.send(OPENED)
    desk.send(DEPOSIT)

    answer = desk.send(DEPOSIT, client="floor")

    assert (answer["ok"], answer["replayed"]) == (True, False)
    assert answer["result"]["available_minor"] == 1000


def test_another_content_under_the_key_of_another_client_is_done(desk: Desk) -> None:
    desk.send(OPENED)

    assert desk.send({**OPENED, "account_id": "b"}, client="floor")["ok"]


def test_in_one_transaction_the_second_of_the_same_gets_the_first_answer(desk: Desk) -> None:
    commands = [
        read_command(json.dumps(command).encode())
        for command in (OPENED, DEPOSIT, DEPOSIT, {**DEPOSIT, "amount_minor": 1}, OPENED)
    ]

    answers = execute(desk.casino, commands, client=Client("cli", clock=desk._clock))

    assert answers[2] == {**answers[1], "replayed": True}
    assert answers[3]["error"]["code"] == "key_reused"
    assert answers[4] == {**answers[0], "replayed": True}
    assert head(desk.casino) == 2


def test_a_refused_command_takes_nothing_back_of_those_around_it(desk: Desk) -> None:
    commands = [
        read_command(json.dumps(command).encode())
        for command in (OPENED, DEPOSIT, WITHDRAWAL, {**WITHDRAWAL, "key": "k", "amount_minor": 1})
    ]

    answers = execute(desk.casino, commands, client=Client("cli", clock=desk._clock))

    assert [answer["ok"] for answer in answers] == [True, True, False, True]
    assert answers[3]["result"]["available_minor"] == 499


def test_a_drawn_seed_gives_the_same_cards_again_and_is_not_told(desk: Desk) -> None:
    desk.send(TABLE)
    shuffled = {**SHOE, "source": "shuffled"}
    first = desk.send(shuffled)

    assert desk.send(shuffled) == {**first, "replayed": True}
    assert "seed" not in first["result"]


def test_a_shoe_opened_again_with_another_seed_is_another_command(desk: Desk) -> None:
    desk.send(TABLE)
    shuffled = {**SHOE, "source": "shuffled", "seed": "00" * 32}
    desk.send(shuffled)

    refused = desk.send({**shuffled, "seed": "01" * 32})

    assert (refused["error"]["code"], refused["error"]["field"]) == ("key_reused", "seed")
    assert "00" * 32 not in json.dumps(refused)


def test_a_bet_after_its_tombstone_is_refused(desk: Desk) -> None:
    for command in (OPENED, DEPOSIT, TABLE, PHYSICAL, ROUND):
        assert desk.send(command)["ok"]
    cancelled = desk.send(CANCELLATION)
    assert cancelled["result"]["returned_minor"] == 0

    late = desk.send(BET)

    assert late["error"]["code"] == "bet_cancelled"
    assert desk.send(BET) == {**late, "replayed": True}
    assert desk.send(CANCELLATION) == {**cancelled, "replayed": True}


def test_a_tombstone_older_than_its_round_holds(desk: Desk) -> None:
    assert desk.send(CANCELLATION)["ok"]
    for command in (OPENED, DEPOSIT, TABLE, PHYSICAL):
        assert desk.send(command)["ok"]
    assert desk.send(BET)["error"]["code"] in ("bet_cancelled", "unknown_round")
    assert desk.send(ROUND)["ok"]

    assert desk.send({**BET, "key": "late"})["error"]["code"] == "bet_cancelled"
    assert desk.send({**BET, "key": "fresh", "bet_id": "b2"})["ok"]


def test_a_tombstone_holds_in_its_own_round_only(desk: Desk) -> None:
    for command in (OPENED, DEPOSIT, TABLE, PHYSICAL, ROUND):
        assert desk.send(command)["ok"]
    assert desk.send({**CANCELLATION, "round_id": "r2"})["ok"]

    assert desk.send(BET)["ok"]


def test_a_cancelled_bet_gives_its_stake_back_once(desk: Desk) -> None:
    for command in (OPENED, DEPOSIT, TABLE, PHYSICAL, ROUND, BET):
        assert desk.send(command)["ok"]

    first = desk.send(CANCELLATION)
    desk.send(CANCELLATION)
    desk.send({**CANCELLATION, "key": "again"})

    assert first["result"]["returned_minor"] == 100
    closing = desk.send({**WITHDRAWAL, "key": "out", "amount_minor": 500})
    assert closing["result"]["available_minor"] == 0


def test_postgresql_remembers_after_the_application_has_gone(database: Database) -> None:
    address = {
        "PERSISTENCE_MODULE": "infrastructure.store.factory",
        "PUNTO_CONNINFO": database.conninfo,
    }
    with Casino(address) as casino:
        desk = Desk(casino)
        first = [desk.send(command) for command in (OPENED, DEPOSIT, WITHDRAWAL)]

    with Casino(address) as casino:
        desk = Desk(casino)
        again = [desk.send(command) for command in (OPENED, DEPOSIT, WITHDRAWAL)]
        reused = desk.send({**WITHDRAWAL, "amount_minor": 1})

    assert again == [{**answer, "replayed": True} for answer in first]
    assert (reused["error"]["code"], reused["error"]["field"]) == ("key_reused", "amount_minor")


@pytest.mark.parametrize("field", ["at", "actor"])
def test_a_field_that_is_null_is_one_that_was_left_out(desk: Desk, field: str) -> None:
    first = desk.send({**OPENED, field: None})

    assert desk.send(OPENED) == {**first, "replayed": True}


@pytest.mark.parametrize("zone", ["localtime", "Factory"])
def test_a_zone_that_is_no_place_is_refused(zone: str) -> None:
    line = {"command": "set_gaming_day", "key": "k", "zone": zone, "starts_at": "06:00"}
    with pytest.raises(NotACommand) as refused:
        read_command(json.dumps(line).encode())
    assert refused.value.field == "zone"
