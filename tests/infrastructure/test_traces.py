"""A trace that commands came with is told of their events, always the same, and of no others."""

import json

import jsonschema
import psycopg
import pytest

from infrastructure.cli.ledger import casino_on
from infrastructure.commands.contract import read_command
from infrastructure.commands.execution import Client, execute
from infrastructure.feed.log import FeedLog
from infrastructure.feed.schemas import schemas
from infrastructure.feed.sink import Kept
from infrastructure.feed.verify import Comparison

ONE = f"00-{1:032x}-{1:016x}-01"
OTHER = f"00-{2:032x}-{2:016x}-00"
OPEN = {"command": "open_account", "key": "open", "account_id": "a", "currency": "USD"}


def deposit(number):
    return {
        "command": "deposit", "key": f"d{number}", "account_id": "a", "amount_minor": number
    }  # fmt: skip


@pytest.fixture
def give(database):
    """Gives commands in one transaction, which came with a trace or without."""
    with casino_on(database) as casino:

        def run(traceparent, *commands):
            read = [read_command(json.dumps(command).encode()) for command in commands]
            return execute(casino, read, client=Client("pit", traceparent=traceparent))

        yield run


@pytest.fixture
def feed(database):
    with database.connect() as connection:
        yield FeedLog(connection)


def told(feed):
    """The trace of each event, by its position."""
    return [json.loads(sent.line).get("traceparent") for sent in feed.page(0)]


def test_events_have_the_trace_of_their_command_and_others_have_none(give, feed):
    give(None, OPEN)
    give(ONE, deposit(1))
    give(None, deposit(2))
    give(OTHER, deposit(3), deposit(4))
    assert told(feed) == [None, ONE, None, OTHER, OTHER]


def test_every_event_of_a_command_has_its_trace(give, feed):
    give(ONE, {"command": "open_table", "key": "t", "table_id": "T1", "currency": "USD"}, OPEN)
    give(None, deposit(100))
    shoe = {"command": "open_shoe", "key": "s", "shoe_id": "S", "table_id": "T1"}
    give(None, {**shoe, "source": "shuffled"})
    bet = {"bet_id": "B", "account_id": "a", "bet": "tie", "stake_minor": 5}
    round_ = {"command": "play_round", "key": "r", "round_id": "R", "shoe_id": "S", "bets": [bet]}
    before = feed.head()
    [answer] = give(OTHER, round_)
    assert told(feed)[before:] == [OTHER] * (answer["position"] - before)


def test_commands_that_are_sent_ahead_of_their_commit_have_their_trace_too(give, feed):
    give(None, OPEN)
    give(ONE, *map(deposit, range(1, 400)))
    assert told(feed) == [None] + [ONE] * 399


def test_a_command_that_records_nothing_gives_its_trace_to_no_event(give, feed):
    give(None, OPEN)
    nothing_due = {"command": "collect_due", "key": "due", "account_id": "a"}
    refused = {**OPEN, "key": "other"}
    answers = give(ONE, OPEN, nothing_due, refused)
    assert [answer["ok"] for answer in answers] == [True, True, False]
    assert told(feed) == [None]


def test_a_page_that_begins_anywhere_has_the_same_bytes(give, feed):
    give(None, OPEN)
    for number in range(1, 12):
        give(ONE if number % 3 else None, deposit(number))
    whole = [sent.line for sent in feed.page(0)]
    for after in range(len(whole)):
        assert [sent.line for sent in feed.page(after, 3)] == whole[after : after + 3]


def test_an_event_with_a_trace_is_as_the_schema_of_the_envelope_says(give, feed):
    give(ONE, OPEN)
    [sent] = feed.page(0)
    jsonschema.validate(json.loads(sent.line), dict(schemas())["envelope.v1.json"])


def test_a_trace_that_was_altered_downstream_is_named(give, feed):
    give(ONE, OPEN)
    [sent] = feed.page(0)
    comparison = Comparison(feed)
    altered = sent.line.replace(ONE.encode(), OTHER.encode())
    comparison.compare([Kept(1, altered)], lambda _: None)
    [difference] = comparison.to_json()["differences"]
    assert (difference["problem"], difference["attributes"]) == ("altered", ["traceparent"])


def test_a_program_of_the_version_before_still_records(database, feed):
    with database.connect() as connection:
        row = connection.execute(
            "SELECT ledger.append(0, %s::text[], %s::bigint[], %s::text[], %s::bytea[],"
            " '{}', '{}', '{}', '{}', '{}', '{}', '{}', 1, '{}')",
            [["account:a"], [1], ["account.opened"], [b'{"at":"2026-01-02T03:04:05Z"}']],
        ).fetchone()
    assert row == (True,)
    assert told(feed) == [None]


@pytest.mark.tampers
def test_what_is_no_trace_is_not_stored(superuser_url, database):
    with psycopg.connect(superuser_url) as connection, pytest.raises(psycopg.errors.CheckViolation):
        connection.execute("INSERT INTO ledger.traces VALUES (1, 1, 'x')")
