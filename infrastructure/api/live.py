"""The log as it grows: one thread reads it, and any number of readers follow at their own pace.

A reader has no queue that could grow. It has a position, from which it is given
what was said last, or, where it is further behind, what stands in the store.
"""

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec
import psycopg
from anyio.to_thread import run_sync
from eventsourcing.persistence import JSONTranscoder
from psycopg import Connection
from psycopg.rows import tuple_row

from domain.event import Entry, Unreadable
from domain.round import RoundOpened
from domain.shoe import ShoeOpened
from infrastructure.api.problems import Problem
from infrastructure.api.service import AWAY, Service, log
from infrastructure.store.errors import first_line
from infrastructure.store.mapper import EventMapper
from infrastructure.store.reader import LogReader
from infrastructure.store.traces import traceparents
from projections.runner import CHANNEL

KEPT_MAX = 10_000
"""So many of the latest events are kept for those who follow."""
KEPT_BYTES_MAX = 16 << 20
PAGE = 500
PLACES_MAX = 50_000
POLL_SECONDS = 0.5
KEEP_ALIVE_SECONDS = 15.0
READERS_MAX = 1_000

_PLACES = """
SELECT originator_id, convert_from(state, 'UTF8')::jsonb ->> 'table_id',
       convert_from(state, 'UTF8')::jsonb ->> 'shoe_id'
  FROM ledger.stored_events
 WHERE originator_id = ANY (%s) AND topic IN ('round.opened', 'shoe.opened')
"""
_CORRECTED = """
SELECT originator_id, convert_from(state, 'UTF8')::jsonb ->> 'round_id'
  FROM ledger.stored_events
 WHERE originator_id = ANY (%s) AND originator_version = 1
"""

Place = tuple[str | None, str | None]
"""The table and the shoe that a stream belongs to."""
NOWHERE: Place = (None, None)


@dataclass(frozen=True, slots=True)
class Said:
    """An event as readers get it, and what they choose it by."""

    position: int
    stream: str
    topic: str
    table_id: str | None
    shoe_id: str | None
    data: bytes

    @property
    def message(self) -> bytes:
        """The event as a server-sent one, whose id is its position."""
        return b"id: %d\ndata: %b\n\n" % (self.position, self.data)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which events a reader is given: those that everything that is set applies to."""

    tables: frozenset[str] | None = None
    shoe: str | None = None
    account: str | None = None
    types: frozenset[str] | None = None

    def takes(self, said: Said) -> bool:
        """Whether an event is one of them."""
        return (
            (self.tables is None or said.table_id in self.tables)
            and (self.shoe is None or said.shoe_id == self.shoe)
            and (self.account is None or said.stream == f"account:{self.account}")
            and (self.types is None or said.topic in self.types)
        )


class Places:
    """Knows the table and shoe of streams; they never change once they are known."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Place] = OrderedDict()

    def of_page(self, connection: Connection[Any], page: Sequence[Entry]) -> dict[str, Place]:
        """The places of all streams of a page."""
        for entry in page:
            if not isinstance(entry, Unreadable) and isinstance(entry.event, RoundOpened):
                self._know(entry.event.originator_id, entry.event.table_id, entry.event.shoe_id)
            if not isinstance(entry, Unreadable) and isinstance(entry.event, ShoeOpened):
                self._know(entry.event.originator_id, entry.event.table_id)
        streams = {_stream(entry) for entry in page}
        self._look_up(connection, streams)
        return {stream: self._of(stream) for stream in streams}

    def _of(self, stream: str) -> Place:
        kind, _, name = stream.partition(":")
        return (name, None) if kind == "table" else self._known.get(stream, NOWHERE)

    def _know(self, stream: str, table_id: str | None, shoe_id: str | None = None) -> None:
        if stream.startswith("shoe:"):
            shoe_id = stream.removeprefix("shoe:")
        self._known[stream] = (table_id, shoe_id)
        while len(self._known) > PLACES_MAX:
            self._known.popitem(last=False)

    def _look_up(self, connection: Connection[Any], streams: Iterable[str]) -> None:
        unknown = [
            stream
            for stream in streams
            if stream.startswith(("round:", "shoe:", "correction:")) and stream not in self._known
        ]
        if not unknown:
            return
        with connection.cursor(row_factory=tuple_row) as cursor:
            corrected: dict[str, str] = dict(
                cursor.execute(
                    _CORRECTED, [[each for each in unknown if each.startswith("correction:")]]
                ).fetchall()
            )
            rounds = [f"round:{round_id}" for round_id in corrected.values()]
            for stream, *place in cursor.execute(_PLACES, [[*unknown, *rounds]]).fetchall():
                self._know(stream, *place)
        for stream, round_id in corrected.items():
            if f"round:{round_id}" in self._known:
                self._know(stream, *self._known[f"round:{round_id}"])


class Live:
    """Follows the log for all readers of this process."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._places = Places()
        self._kept: list[Said] = []
        self._kept_bytes = 0
        self._position = 0
        self._news = asyncio.Event()
        self._readers = 0
        self._is_stopping = threading.Event()
        self._is_wanted = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="live", daemon=True)

    @property
    def readers(self) -> int:
        """How many streams are open."""
        return self._readers

    async def start(self) -> None:
        """Follows the log as soon as there is a reader."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def tell_readers(self) -> None:
        """Ends all streams, so that their connections do not hold up the end of the service."""
        self._is_stopping.set()
        self._is_wanted.set()
        self._news.set()

    async def stop(self) -> None:
        """Ends the thread."""
        self.tell_readers()
        await run_sync(self._thread.join)

    async def follow(
        self, after: int | None, wanted: Wanted, *, may_go_on: Callable[[], Awaitable[bool]]
    ) -> AsyncIterator[bytes]:
        """Server-sent events after a position, or from now on, as long as the service runs.

        `may_go_on` is asked now and then whether the reader may still read.

        A comment keeps the connection alive and tells the position that a
        reader has come to, where none of the events was for it.
        """
        if self._readers >= READERS_MAX:
            raise Problem("too_many_streams", "too many streams are open: try again")
        position = await run_sync(self._head) if after is None else after
        return self._stream(position, wanted, may_go_on)

    async def _stream(
        self, position: int, wanted: Wanted, may_go_on: Callable[[], Awaitable[bool]]
    ) -> AsyncIterator[bytes]:
        ask_again_at = 0.0
        self._readers += 1
        self._is_wanted.set()
        try:
            yield b"retry: 1000\n: from position %d on\n\n" % position
            while not self._is_stopping.is_set():
                if time.monotonic() > ask_again_at:
                    if not await may_go_on():
                        return
                    ask_again_at = time.monotonic() + KEEP_ALIVE_SECONDS
                news = self._news
                some = await self.after(position)
                if not some:
                    if not await _set_within(news, KEEP_ALIVE_SECONDS):
                        yield b"id: %d\n: still here\n\n" % position
                    continue
                position = some[-1].position
                messages = [said.message for said in some if wanted.takes(said)]
                if messages:
                    yield b"".join(messages)
            yield b": the service stops, come again\n\n"
        except Problem:
            # The store is away; the reader comes again and is told so.
            return
        finally:
            self._readers -= 1
            if not self._readers and not self._is_stopping.is_set():
                self._is_wanted.clear()

    async def after(self, position: int) -> Sequence[Said]:
        """The next events after a position, a page at most."""
        if position >= self._position:
            return ()
        if self._kept and position + 1 >= self._kept[0].position:
            start = position + 1 - self._kept[0].position
            return self._kept[start : start + PAGE]
        return await run_sync(self._from_store, position)

    def _head(self) -> int:
        with self._service.reading() as connection:
            return LogReader(connection).head()

    def _from_store(self, position: int) -> Sequence[Said]:
        with self._service.reading() as connection:
            return page_of(connection, Places(), position, PAGE)

    def _run(self) -> None:
        while not self._is_stopping.is_set():
            self._is_wanted.wait()
            try:
                self._read()
            except (*AWAY, psycopg.Error) as error:
                log.warning("the log is not followed: %s", first_line(error))
                self._is_stopping.wait(1.0)

    def _read(self) -> None:
        """Reads the log from its head on, as long as anybody follows it."""
        with self._service.database.connect() as connection:
            connection.execute(f"LISTEN {CHANNEL}")
            position = LogReader(connection).head()
            self._call(self._begin_at, position)
            while self._is_wanted.is_set() and not self._is_stopping.is_set():
                said = page_of(connection, self._places, position, PAGE)
                if said:
                    position = said[-1].position
                    self._call(self._take, said)
                    continue
                for _ in connection.notifies(timeout=POLL_SECONDS, stop_after=1):
                    pass

    def _call(self, what: Callable[[Any], None], argument: Any) -> None:
        assert self._loop is not None
        # The loop may have ended, where the service was not stopped in peace.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(what, argument)

    def _begin_at(self, position: int) -> None:
        self._kept, self._kept_bytes = [], 0
        self._position = position
        self._tell()

    def _take(self, said: Sequence[Said]) -> None:
        self._kept += said
        self._kept_bytes += sum(len(each.data) for each in said)
        while self._kept and (len(self._kept) > 2 * KEPT_MAX or self._kept_bytes > KEPT_BYTES_MAX):
            dropped, self._kept = self._kept[:KEPT_MAX], self._kept[KEPT_MAX:]
            self._kept_bytes -= sum(len(each.data) for each in dropped)
        self._position = said[-1].position
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


def page_of(connection: Connection[Any], places: Places, after: int, limit: int) -> Sequence[Said]:
    """The next events after a position in the store."""
    page = LogReader(connection).page(after, limit)
    if not page:
        return ()
    found = places.of_page(connection, page)
    traces = traceparents(connection, first=page[0].position, last=page[-1].position)
    return [said_of(entry, found[_stream(entry)], traces.get(entry.position)) for entry in page]


def said_of(entry: Entry, place: Place, traceparent: str | None) -> Said:
    """An event as readers get it; one that cannot be read says why."""
    stream = _stream(entry)
    if isinstance(entry, Unreadable):
        topic, version = "unreadable", entry.version
        state = msgspec.json.encode({"why": entry.why})
    else:
        stored = _MAPPER.to_stored_event(entry.event)
        version, topic, state = stored.originator_version, stored.topic, stored.state
    data = b'{"position":%d,"stream":%b,"version":%d,"event":"%b",%b%b' % (
        entry.position,
        msgspec.json.encode(stream),
        version,
        topic.encode(),
        b"" if traceparent is None else b'"traceparent":"%b",' % traceparent.encode(),
        state[1:],
    )
    return Said(entry.position, stream, topic, *place, data)


_MAPPER = EventMapper(JSONTranscoder())


def _stream(entry: Entry) -> str:
    return entry.stream if isinstance(entry, Unreadable) else entry.event.originator_id


async def _set_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
