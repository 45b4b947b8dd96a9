"""Events are stored as compact JSON under their topic, and read back as they were."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, ClassVar

import pytest
from eventsourcing.persistence import JSONTranscoder, MapperDeserialisationError, StoredEvent

from domain.account import CommissionCharged
from domain.event import EVENT_TYPES, DomainEvent
from infrastructure.store.mapper import PydanticMapper

MAPPER = PydanticMapper(JSONTranscoder())
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


def stored(state: bytes, topic: str = "account.commission_charged") -> StoredEvent:
    return StoredEvent("account:alice", 5, topic, state)


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
        (STATE[:-1], "Invalid JSON"),
        (STATE[:-2], "Invalid JSON"),
        (STATE[1:], "is not a JSON object"),
        (STATE + b"}", "Invalid JSON"),
        (STATE.replace(b"500", b"5.00"), "commission_minor: .* valid integer"),
        (STATE.replace(b"500", b"-500"), "commission_minor: .* greater than 0"),
        (STATE.replace(b"500", b'500,"tip":1'), "tip: Extra inputs"),
        (STATE.replace(b"2026-01-01T20:15:00Z", b"2026-01-01T20:15:00"), "timezone"),
        (STATE.replace(b"500", b'500,"class_version":"x"'), "cannot be read"),
        (STATE.replace(b"500", b'500,"class_version":99'), "newer than this program"),
        (STATE.replace(b"500", b'500,"originator_id":"account:bob"'), "another one"),
        (STATE.replace(b"500", b'500,"originator_version":1'), "another one"),
    ],
)
def test_a_state_that_no_event_has_is_named(state, why):
    with pytest.raises(MapperDeserialisationError, match=why) as error:
        MAPPER.to_domain_event(stored(state))
    assert "event 5 of account:alice (account.commission_charged)" in str(error.value)


def test_a_topic_that_no_event_has_is_named():
    with pytest.raises(MapperDeserialisationError, match="unknown topic"):
        MAPPER.to_domain_event(stored(STATE, "account.tipped"))
