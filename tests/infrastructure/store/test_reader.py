"""The log is read in bulk, page by page, to the same entries as event by event."""

from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from threading import get_ident
from typing import Any, Self

import psycopg
import pytest
from eventsourcing.persistence import JSONTranscoder, MapperDeserialisationError, StoredEvent

from domain.account import AccountOpened
from domain.event import EVENT_TYPES, Entry, Recorded, Unreadable
from infrastructure.store import reader as reader_module
from infrastructure.store.mapper import EventMapper, read_lines
from infrastructure.store.reader import LogReader

pytestmark = pytest.mark.tampers

MAPPER = EventMapper(JSONTranscoder())
GOLDEN = sorted((Path(__file__).parents[2] / "golden" / "events").iterdir())

Row = tuple[int, StoredEvent]
"""A stored event at its position."""

TOPIC = "account.funds_deposited"
STATE = b'{"at":"2026-01-01T20:15:00Z","actor":"dealer","key":"k13","amount_minor":500}'


def deposited(**changes: object) -> StoredEvent:
    fields = {"originator_id": "account:a", "originator_version": 1, "topic": TOPIC, "state": STATE}
    return StoredEvent(**{**fields, **changes})


def saying(more: bytes) -> StoredEvent:
    """A deposit whose state says something more."""
    return deposited(state=STATE[:-1] + b"," + more + b"}")


SOUND = deposited(originator_id="account:sound")

# What no page may be spoilt by. What makes two states or more broken stands in one row.
BROKEN: dict[str, list[StoredEvent]] = {
    "an unknown topic": [deposited(topic="account.tipped")],
    "a topic with an escape": [deposited(topic="account.funds\\u005fdeposited")],
    "a topic that ends its string": [deposited(topic=f'{TOPIC}","at":"2026-01-01T20:15:00Z')],
    "no state": [deposited(state=b"")],
    "half a state": [deposited(state=STATE[: len(STATE) // 2])],
    "one byte": [deposited(state=b"{")],
    "an empty object": [deposited(state=b"{}")],
    "another opening": [deposited(state=b"[" + STATE[1:])],
    "another ending": [deposited(state=STATE[:-1] + b"]")],
    "a blank before it": [deposited(state=b" " + STATE)],
    "more behind it": [deposited(state=STATE + b"}")],
    "two objects": [deposited(state=STATE + STATE)],
    "two objects on two lines": [deposited(state=STATE + b"\n" + STATE)],
    "two states that make two events together": [
        deposited(state=STATE + b"{"),
        deposited(state=b" " + STATE[1:], originator_version=2),
    ],
    "a newline within a text": [deposited(state=STATE.replace(b"dealer", b"dea\nler"))],
    "bytes that are no text": [deposited(state=STATE.replace(b"dealer", b"\xff"))],
    "half a surrogate pair": [deposited(state=STATE.replace(b"dealer", b"\\ud800"))],
    "a negative amount": [deposited(state=STATE.replace(b"500", b"-500"))],
    "an amount with decimals": [deposited(state=STATE.replace(b"500", b"5.0"))],
    "a time without an offset": [deposited(state=STATE.replace(b"00Z", b"00"))],
    "a time outside the calendar": [
        deposited(state=STATE.replace(b"2026-01-01T20:15:00Z", b"0001-01-01T00:00:00+07:00"))
    ],
    "an unknown field": [saying(b'"tip":1')],
    "another stream": [saying(b'"originator_id":"account:b"')],
    "another stream by an escaped name": [saying(b'"originator\\u005fid":"account:b"')],
    "another stream after a blank": [saying(b'"originator_id" : "account:b"')],
    "another topic": [saying(b'"topic":"account.funds_withdrawn"')],
    "another topic after a blank": [saying(b'"topic" : "account.funds_withdrawn"')],
    "another topic by an escaped name": [saying(b'"t\\u006fpic":"account.funds_withdrawn"')],
    "another version": [saying(b'"originator_version":2')],
    "a version that is none": [saying(b'"originator_version":"1"')],
    "a newer class_version": [saying(b'"class_version":2')],
    "a class_version that is none": [saying(b'"class_version":"x"')],
    "a card face down": [
        deposited(
            topic="round.card_dealt",
            state=STATE.replace(b'"amount_minor":500', b'"hand":"player","card":"??"'),
        )
    ],
    "a drawn card face down": [
        deposited(
            topic="shoe.cards_drawn",
            state=STATE.replace(b'"amount_minor":500', b'"round_id":"r","cards":["9H","??"]'),
        )
    ],
    "deep nesting": [
        deposited(
            topic="table.opened",
            state=STATE.replace(
                b'"amount_minor":500', b'"currency":"USD","rules":' + b"[" * 100_000
            ),
        )
    ],
    "rules that cannot be": [
        deposited(
            topic="table.opened",
            state=STATE.replace(b'"amount_minor":500', b'"currency":"USD","rules":{"decks":7.5}'),
        )
    ],
}

# What is written otherwise than this program does and is read all the same.
ODD: dict[str, list[StoredEvent]] = {
    "its own stream named": [saying(b'"originator_id":"account:a"')],
    "its own topic named": [saying(b'"topic":"account.funds_deposited"')],
    "its own version named": [saying(b'"originator_version":1')],
    "its class_version named": [saying(b'"class_version":1')],
    "blanks": [deposited(state=STATE.replace(b":", b": ").replace(b": 15: 00", b":15:00"))],
    "newlines": [deposited(state=STATE.replace(b',"', b'\n,\n"') + b"\n")],
    "an escaped name": [deposited(state=STATE.replace(b"amount_minor", b"amount\\u005fminor"))],
    "an escape in a text": [deposited(state=STATE.replace(b"dealer", b'a \\"b\\" \\\\u0041 \\n'))],
    "another order": [deposited(state=b'{"amount_minor":500,%b}' % STATE[1:-20])],
    "another offset": [deposited(state=STATE.replace(b"00Z", b"00+07:00"))],
    "a stream that JSON escapes": [deposited(originator_id='account:"a\\b/\u2028\tü')],
    "a stream that ends its string": [deposited(originator_id='account:a","key":"k')],
    "the name of a column in a text": [deposited(state=STATE.replace(b"dealer", b"originator_id"))],
}


@pytest.fixture
def connection(database, superuser_url) -> Iterator[psycopg.Connection]:
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        yield connection


def store(connection: psycopg.Connection, rows: Sequence[Row]) -> None:
    connection.cursor().executemany(
        "INSERT INTO ledger.stored_events"
        " (notification_id, originator_id, originator_version, topic, state)"
        " VALUES (%s, %s, %s, %s, %s)",
        [
            (position, each.originator_id, each.originator_version, each.topic, each.state)
            for position, each in rows
        ],
    )


def one_by_one(rows: Sequence[Row]) -> list[Entry]:
    """The entries as the mapper reads them, each by itself."""
    entries: list[Entry] = []
    for position, each in rows:
        try:
            entries.append(Recorded(position, MAPPER.to_domain_event(each)))
        except MapperDeserialisationError as error:
            stream, version = each.originator_id, each.originator_version
            entries.append(Unreadable(position, stream, version, str(error)))
    return entries


def numbered(events: Sequence[StoredEvent]) -> list[Row]:
    return list(enumerate(events, 1))


def golden(stream_id: str = "stream:1") -> list[StoredEvent]:
    return [
        StoredEvent(stream_id, version, path.stem.rpartition(".v")[0], path.read_bytes())
        for version, path in enumerate(GOLDEN, 1)
    ]


@pytest.fixture
def bulk(monkeypatch) -> list[bool]:
    """Whether each page so far was read in bulk."""
    told: list[bool] = []

    def watched(lines: bytes, count: int) -> object:
        events = read_lines(lines, count)
        told.append(events is not None)
        return events

    monkeypatch.setattr(reader_module, "read_lines", watched)
    return told


def test_every_golden_event_is_read_in_bulk_as_it_is_one_by_one(connection, bulk):
    rows = numbered(golden())
    store(connection, rows)

    page = LogReader(connection).page(0)

    assert page == one_by_one(rows)
    assert all(isinstance(entry, Recorded) for entry in page)
    assert [entry.event.TOPIC for entry in page] == [each.topic for _, each in rows]
    newest = {f"{topic}.v{EVENT_TYPES[topic].class_version}.json" for topic in EVENT_TYPES}
    assert bulk == [all(path.name in newest for path in GOLDEN)]


@pytest.mark.parametrize("name", BROKEN)
def test_a_page_with_one_broken_event_gives_all_others(connection, name):
    broken = BROKEN[name]
    rows = numbered([*golden("stream:1"), *broken, SOUND, *golden("stream:2")])
    store(connection, rows)

    page = LogReader(connection).page(0)

    assert page == one_by_one(rows)
    unreadable = [entry for entry in page if isinstance(entry, Unreadable)]
    first = len(GOLDEN) + 1
    assert [(each.position, each.stream, each.version) for each in unreadable] == [
        (position, each.originator_id, each.originator_version)
        for position, each in enumerate(broken, first)
    ]


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_event_alone_on_its_page_is_unreadable(connection, name):
    rows = numbered(BROKEN[name])
    store(connection, rows)

    page = LogReader(connection).page(0)

    assert page == one_by_one(rows)
    assert [type(entry) for entry in page] == [Unreadable] * len(rows)


@pytest.mark.parametrize("name", ODD)
def test_an_event_that_is_written_otherwise_is_read_as_it_is_one_by_one(connection, name):
    rows = numbered([*ODD[name], SOUND])
    store(connection, rows)

    page = LogReader(connection).page(0)

    assert page == one_by_one(rows)
    assert [type(entry) for entry in page] == [Recorded, Recorded]
    assert page[0].event.originator_id == ODD[name][0].originator_id
    assert str(page[0].event.at.tzinfo) == "UTC"


@pytest.mark.parametrize("piece_size", [1, 2, 500])
@pytest.mark.parametrize("positions", [(2, 3, 4), (1, 3, 4), (1, 2, 9), (5, 7, 11)])
def test_a_gap_in_the_positions_moves_no_event(connection, monkeypatch, positions, piece_size):
    monkeypatch.setattr(reader_module, "PIECE_SIZE", piece_size)
    rows = list(zip(positions, golden()[:3], strict=True))
    store(connection, rows)

    assert LogReader(connection).page(0) == one_by_one(rows)
    assert LogReader(connection).page(0, 2) == one_by_one(rows[:2])
    assert LogReader(connection).page(positions[0]) == one_by_one(rows[1:])
    assert LogReader(connection).page(positions[-1]) == []


def test_a_state_of_an_older_version_is_brought_to_the_newest_shape(connection, monkeypatch):
    def in_pounds(state):
        state["currency"] = "GBP"

    monkeypatch.setattr(AccountOpened, "class_version", 2)
    monkeypatch.setattr(AccountOpened, "upcast_v1_v2", in_pounds, raising=False)
    older = deposited(
        topic="account.opened", state=STATE.replace(b'"amount_minor":500', b'"currency":"USD"')
    )
    newest = MAPPER.to_stored_event(
        AccountOpened("account:b", 1, MAPPER.to_domain_event(older).at, "dealer", "k", "USD")
    )
    rows = numbered([older, newest, SOUND])
    store(connection, rows)

    page = LogReader(connection).page(0)

    assert page == one_by_one(rows)
    assert [entry.event.currency for entry in page[:2]] == ["GBP", "USD"]


@pytest.mark.parametrize("piece_size", [1, 3, 500])
def test_pages_give_every_event_once_whichever_page_is_broken(
    connection, monkeypatch, bulk, piece_size
):
    monkeypatch.setattr(reader_module, "PAGE_SIZE", 7)
    monkeypatch.setattr(reader_module, "PIECE_SIZE", piece_size)
    streams = (f"stream:{number}" for number in count())
    events = [each for _ in range(4) for each in golden(next(streams))]
    broken = [each for name in BROKEN for each in BROKEN[name]]
    for place, each in enumerate(broken):
        renamed = StoredEvent(f"account:{place}", 1, each.topic, each.state)
        events.insert(3 + 5 * place if place % 2 else len(events), renamed)
    rows = numbered(events)
    store(connection, rows)

    pages = list(LogReader(connection).pages())

    assert [entry for page in pages for entry in page] == one_by_one(rows)
    assert {len(page) for page in pages[:-1]} == {7}
    assert set(bulk) == {True, False}


class CursorOfOneThread(psycopg.Cursor[Any]):
    """Two threads that share a cursor may get each other's rows."""

    thread: int | None = None

    def execute(self, *arguments: Any, **options: Any) -> Self:
        assert self.thread in (None, get_ident())
        self.thread = get_ident()
        return super().execute(*arguments, **options)


def test_a_page_that_is_read_ahead_is_not_mixed_up_with_what_is_asked_meanwhile(
    connection, monkeypatch
):
    monkeypatch.setattr(reader_module, "PAGE_SIZE", 5)
    rows = numbered([*golden("round:1"), *BROKEN["half a state"], *golden("round:2")])
    store(connection, rows)
    connection.cursor_factory = CursorOfOneThread
    reader = LogReader(connection)
    entries = []
    for page in reader.pages():
        assert reader.head() == len(rows)
        assert reader.stream("round:1") == one_by_one(rows[: len(GOLDEN)])
        entries += page

    assert entries == one_by_one(rows)


def test_a_connection_that_ends_while_a_page_is_read_ahead_is_told_as_it_is_otherwise(
    connection, superuser_url, monkeypatch
):
    monkeypatch.setattr(reader_module, "PAGE_SIZE", 5)
    store(connection, numbered(golden()))
    with psycopg.connect(superuser_url, autocommit=True) as lost:
        pages = LogReader(lost).pages()
        next(pages)
        connection.execute("SELECT pg_terminate_backend(%s, 5000)", (lost.info.backend_pid,))
        with pytest.raises(psycopg.OperationalError):
            list(pages)


def test_a_page_that_the_server_refuses_to_read_ahead_is_told_as_it_is_otherwise(
    connection, monkeypatch
):
    monkeypatch.setattr(reader_module, "PAGE_SIZE", 5)
    store(connection, numbered(golden()))
    pages = LogReader(connection).pages()
    next(pages)
    connection.execute("SET statement_timeout = 1")
    with psycopg.connect(connection.info.dsn, autocommit=False) as other:
        other.execute("LOCK TABLE ledger.stored_events")
        with pytest.raises(psycopg.errors.QueryCanceled):
            list(pages)


def test_an_empty_log_has_no_page(connection):
    assert LogReader(connection).page(0) == []
    assert list(LogReader(connection).pages()) == []
    assert LogReader(connection).head() == 0
