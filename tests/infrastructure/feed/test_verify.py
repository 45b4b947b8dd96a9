"""What was done to the items downstream is named, whatever it was."""

import pytest

from infrastructure.cli.ledger import casino_on
from infrastructure.commands.contract import read_command
from infrastructure.commands.execution import Client, execute
from infrastructure.feed.log import FeedLog
from infrastructure.feed.sink import Kept
from infrastructure.feed.source import start_incarnation
from infrastructure.feed.verify import Comparison

EVENTS = 40


@pytest.fixture
def log(database):
    """A ledger of an account and its deposits."""
    lines = [
        b'{"command":"open_account","key":"k","account_id":"a","currency":"USD"}',
        *(
            b'{"command":"deposit","key":"k%d","account_id":"a","amount_minor":%d}' % (n, n)
            for n in range(2, EVENTS + 1)
        ),
    ]
    with casino_on(database) as casino:
        execute(casino, [read_command(line) for line in lines], client=Client("cli"))
    with database.connect() as connection:
        yield FeedLog(connection)


@pytest.fixture
def lines(log):
    return [sent.line for sent in log.page(0)]


def compare(log, lines):
    comparison = Comparison(log)
    comparison.compare((Kept(place, line) for place, line in enumerate(lines, 1)), lambda _: None)
    return comparison.to_json()


def test_a_faithful_copy_has_no_difference(log, lines):
    document = compare(log, lines)
    assert (document["ok"], document["position"], document["behind"]) == (True, EVENTS, 0)
    assert document["ranges"][0]["ok"]
    sums = {"account.funds_deposited.amount_minor": sum(range(2, EVENTS + 1))}
    assert document["currencies"] == {"USD": {"ledger": sums, "downstream": sums}}


def test_missing_records_are_named_and_their_amounts_are_missing_too(log, lines):
    document = compare(log, lines[:9] + lines[11:20] + lines[21:])
    assert document["differences"] == [
        {"problem": "missing", "from": 10, "to": 11},
        {"problem": "missing", "from": 21, "to": 21},
    ]
    (sides,) = document["currencies"].values()
    missing = 10 + 11 + 21
    (ledger,), (downstream,) = (sides[side].values() for side in ("ledger", "downstream"))
    assert ledger - downstream == missing
    assert not document["ranges"][0]["ok"]


def test_a_doubled_record_is_named(log, lines):
    document = compare(log, [*lines[:12], lines[4], *lines[12:]])
    assert document["differences"] == [{"problem": "doubled", "position": 5, "place": 13}]
    assert document["ranges"][0]["downstream"]["count"] == EVENTS + 1


def test_a_reordered_record_is_named(log, lines):
    lines[6], lines[7] = lines[7], lines[6]
    document = compare(log, lines)
    assert document["differences"] == [{"problem": "reordered", "position": 7, "place": 8}]
    assert not document["ranges"][0]["ok"]


@pytest.mark.parametrize(
    ("old", "new", "attributes"),
    [
        (b'"amount_minor":17', b'"amount_minor":18', ["data.amount_minor"]),
        (b'"actor":"cli"', b'"actor":"eve"', ["data.actor"]),
        (b'"partitionkey":"account:a"', b'"partitionkey":"account:b"', ["partitionkey"]),
        (b'"id":"17"', b'"id":"7"', ["id"]),
        (b'"id":"17"', b'"id":"7000"', ["id"]),
        (b'"specversion":"1.0",', b'"specversion": "1.0",', ["written differently"]),
    ],
)
def test_an_altered_record_is_named_with_what_differs(log, lines, old, new, attributes):
    assert old in lines[16]
    lines[16] = lines[16].replace(old, new)
    document = compare(log, lines)
    assert document["differences"] == [
        {"problem": "altered", "position": 17, "place": 17, "attributes": attributes}
    ]


def test_what_is_no_item_and_what_the_ledger_never_held_are_named(log, lines):
    invented = lines[-1].replace(b'"id":"40"', b'"id":"41"').replace(b'hash":"', b'hash":"0')
    document = compare(log, [*lines[:5], b"garbage", *lines[5:], invented])
    assert document["differences"] == [
        {"problem": "unreadable", "place": 6},
        {"problem": "not in the ledger", "position": 41, "place": EVENTS + 2},
    ]


def test_items_of_another_store_are_named_as_one_run(log, lines, database):
    with database.connect() as connection:
        start_incarnation(connection, site=None)
        document = compare(FeedLog(connection), lines)
    (difference,) = document["differences"]
    assert difference == {
        "problem": "foreign", "place": 1, "until_place": EVENTS, "source": log.source
    }  # fmt: skip
    assert not document["ok"]
