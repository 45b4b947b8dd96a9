"""Events are stored as compact JSON under their topic, and read back as they were."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest
from eventsourcing.persistence import JSONTranscoder, MapperDeserialisationError, StoredEvent

from domain.account import CommissionCharged
from domain.event import EVENT_TYPES, DomainEvent
from infrastructure.store.mapper import EventMapper, facts, read_lines

MAPPER = EventMapper(JSONTranscoder())
CHARGED = CommissionCharged(
    originator_id="account:alice",
    originator_version=5,
    at=datetime(2026, 1, 1, 20, 15, tzinfo=UTC),
    actor="dealer",
    key="k13",
    round_id="R1",
    bet_id="B1",
    commission_minor=500,
)
STATE = (
    b'{"at":"2026-01-01T20:15:00Z","actor":"dealer","key":"k13",'
    b'"round_id":"R1","bet_id":"B1","commission_minor":500}'
)
GOLDEN = sorted((Path(__file__).parents[2] / "golden" / "events").iterdir())


def stored(state: bytes, topic: str = "account.commission_charged") -> StoredEvent:
    return StoredEvent("account:alice", 5, topic, state)


def line(state: bytes, topic: str = "account.commission_charged") -> bytes:
    """A stored event as the reader gets it for reading in bulk."""
    columns = f'"topic":"{topic}","originator_id":"account:alice","originator_version":5,'
    return state[:1] + columns.encode() + state[1:]


def golden_event(path: Path) -> DomainEvent:
    topic = path.stem.rpartition(".v")[0]
    return MAPPER.to_domain_event(stored(path.read_bytes(), topic))


@pytest.fixture
def upcast_event() -> Iterator[type[DomainEvent]]:
    class Greeted(DomainEvent):
        TOPIC: ClassVar[str] = "test.greeted"
        class_version: ClassVar[int] = 3
        words: str
        language: str

        @staticmethod
        def upcast_v1_v2(state: dict[str, Any]) -> None:
            state["words"] = state.pop("text")

        @staticmethod
        def upcast_v2_v3(state: dict[str, Any]) -> None:
            state["language"] = "en"

    yield Greeted
    del EVENT_TYPES["test.greeted"]


def test_the_state_leaves_out_what_stands_in_columns():
    assert MAPPER.to_stored_event(CHARGED) == stored(STATE)


def test_a_stored_event_is_read_as_it_was():
    assert MAPPER.to_domain_event(stored(STATE)) == CHARGED


def test_an_older_state_is_brought_to_the_newest_shape(upcast_event):
    common = b'{"at":"2026-01-01T20:15:00Z","actor":"a","key":"k"'
    first = MAPPER.to_domain_event(stored(common + b',"text":"hello"}', "test.greeted"))
    second = MAPPER.to_domain_event(
        stored(common + b',"words":"hello","class_version":2}', "test.greeted")
    )
    newest = MAPPER.to_stored_event(first)

    assert first == second
    assert newest.state.endswith(b',"words":"hello","language":"en","class_version":3}')
    assert MAPPER.to_domain_event(newest) == first


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (b"", "is not a JSON object"),
        (b"{}", "cannot be read"),
        (b"[]", "is not a JSON object"),
        (STATE[:-1], "truncated"),
        (STATE[:-2], "truncated"),
        (STATE[1:], "is not a JSON object"),
        (STATE + b"}", "JSON is malformed: trailing characters"),
        (STATE.replace(b"500", b"5.00"), "Expected `int`, got `float` - at `\\$.commission_minor`"),
        (STATE.replace(b"500", b"-500"), "Expected `int` >= 1 - at `\\$.commission_minor`"),
        (STATE.replace(b"500", b'500,"tip":1'), "unknown field `tip`"),
        (
            STATE.replace(b"2026-01-01T20:15:00Z", b"2026-01-01T20:15:00"),
            "timezone component - at `\\$.at`",
        ),
        (STATE.replace(b"500", b'500,"class_version":"x"'), "cannot be read"),
        (STATE.replace(b"500", b'500,"class_version":99'), "newer than this program"),
        (STATE.replace(b"500", b'500,"originator_id":"account:bob"'), "another one"),
        (STATE.replace(b"500", b'500,"originator_version":1'), "another one"),
        (STATE.replace(b"500", b'500,"originator\\u005fid":"account:bob"'), "another one"),
        (STATE.replace(b"500", b'500,"originator_id" : "account:bob"'), "another one"),
        (STATE.replace(b"500", b'500,"topic":"account.commission_marked"'), "at `\\$.topic`"),
        (STATE.replace(b"dealer", b"\xff"), "UTF-8"),
        (STATE.replace(b"dealer", b"\\ud800"), "cannot be read"),
        (STATE.replace(b"dealer", b"dea\nler"), "JSON is malformed"),
    ],
)
def test_a_state_that_no_event_has_is_named(state, why):
    with pytest.raises(MapperDeserialisationError, match=why) as error:
        MAPPER.to_domain_event(stored(state))
    assert "event 5 of account:alice (account.commission_charged)" in str(error.value)


def test_rules_that_cannot_be_are_named_in_one_line():
    state = b'{"at":"2026-01-01T20:15:00Z","actor":"a","key":"k","currency":"USD","rules":%b}'
    for rules, why in (
        (b'{"decks":7.0}', "decks: Input should be a valid integer - at `$.rules`"),
        (b'{"decks":10}', "decks: Input should be less than or equal to 8 - at `$.rules`"),
        (b'{"tip":9}', "tip: Extra inputs are not permitted - at `$.rules`"),
        (b"8", "Input should be an object - at `$.rules`"),
    ):
        with pytest.raises(MapperDeserialisationError) as error:
            MAPPER.to_domain_event(stored(state % rules, "table.opened"))
        assert str(error.value).endswith(f"(table.opened) cannot be read: {why}")


@pytest.mark.parametrize("opening", [b"[", b'{"x":'])
@pytest.mark.parametrize(
    ("topic", "fields"),
    [
        ("table.opened", b'"currency":"USD","rules":'),
        ("round.card_dealt", b'"hand":"player","card":'),
        ("test.greeted", b'"words":"hello","language":'),
    ],
)
def test_a_state_that_is_nested_too_deeply_is_named(topic, fields, opening, upcast_event):
    state = b'{"at":"2026-01-01T20:15:00Z","actor":"a","key":"k",' + fields + opening * 100_000
    with pytest.raises(MapperDeserialisationError, match="cannot be read"):
        MAPPER.to_domain_event(stored(state, topic))


def test_an_older_state_that_lacks_what_its_upcast_needs_is_named(upcast_event):
    state = b'{"at":"2026-01-01T20:15:00Z","actor":"a","key":"k"}'
    with pytest.raises(MapperDeserialisationError, match="cannot be read: 'text'"):
        MAPPER.to_domain_event(stored(state, "test.greeted"))


def test_facts_are_the_state_as_plain_values():
    assert facts(CHARGED) == json.loads(STATE)
    assert list(facts(CHARGED)) == list(json.loads(STATE))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_facts_of_each_golden_event_are_its_file(path):
    assert facts(golden_event(path)) == json.loads(path.read_bytes())


def test_lines_are_read_in_bulk():
    assert read_lines(line(STATE) + b"\n" + line(STATE), 2) == [CHARGED, CHARGED]
    assert read_lines(line(STATE), 1) == [CHARGED]


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_each_golden_event_is_read_in_bulk_as_it_is_one_by_one(path):
    state = path.read_bytes()
    topic = path.stem.rpartition(".v")[0]
    if b'"class_version"' in state or EVENT_TYPES[topic].class_version > 1:
        pytest.skip("older and newer versions are read one by one")
    assert read_lines(line(state, topic), 1) == [golden_event(path)]


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        (b"", 1),
        (line(STATE), 2),
        (line(STATE) + b"\n" + line(STATE), 1),
        (line(STATE) + b" " + line(STATE), 1),
        (line(STATE) + line(STATE), 1),
        (b"[" + line(STATE)[1:], 1),
        (line(STATE)[:-1], 1),
        (line(STATE, "account.tipped"), 1),
        (line(STATE, "account.commission\\u005fcharged"), 1),
        (line(STATE.replace(b"500", b"-500")), 1),
        (line(STATE.replace(b"500", b'500,"tip":1')), 1),
        (line(STATE.replace(b"500", b'500,"class_version":1')), 1),
        (line(STATE.replace(b"500", b'500,"class_version" : 1')), 1),
        (line(STATE.replace(b"500", b'500,"topic":"account.commission_marked"')), 1),
        (line(STATE.replace(b"500", b'500,"topic" : "account.commission_marked"')), 1),
        (line(STATE.replace(b"500", b'500,"t\\u006fpic":"account.commission_marked"')), 1),
        (line(STATE.replace(b"500", b'500,"originator_id":"account:bob"')), 1),
        (line(STATE.replace(b"500", b'500,"originator_id" : "account:bob"')), 1),
        (line(STATE.replace(b"500", b'500,"originator\\u005fid":"account:bob"')), 1),
        (line(STATE.replace(b"500", b'500,"originator_version":1')), 1),
        (line(STATE.replace(b"00Z", b"00+01:00")), 1),
        # Two states that are none, and would be two events where one line ran into the next.
        (line(STATE + b"{") + b"\n" + line(STATE), 2),
        (line(STATE[:-1] + b',"tip":') + b"\n" + line(STATE + b"}"), 2),
    ],
)
def test_lines_that_are_not_just_as_this_program_writes_them_are_not_read_in_bulk(lines, count):
    assert read_lines(lines, count) is None


def test_a_state_that_names_its_own_topic_is_read_in_bulk_as_it_is_one_by_one():
    state = STATE.replace(b"500", b'500,"topic":"account.commission_charged"')

    assert read_lines(line(state), 1) == [MAPPER.to_domain_event(stored(state))] == [CHARGED]


def test_a_state_of_an_older_version_is_not_read_in_bulk_though_it_has_the_newest_shape(
    monkeypatch,
):
    def in_cents(state: dict[str, Any]) -> None:
        state["commission_minor"] *= 100

    monkeypatch.setattr(CommissionCharged, "class_version", 2)
    monkeypatch.setattr(CommissionCharged, "upcast_v1_v2", in_cents, raising=False)

    assert read_lines(line(STATE), 1) is None
    assert MAPPER.to_domain_event(stored(STATE)).commission_minor == 500_00


def test_a_topic_that_no_event_has_is_named():
    with pytest.raises(MapperDeserialisationError, match="unknown topic"):
        MAPPER.to_domain_event(stored(STATE, "account.tipped"))
