"""The sink that is a stream of NATS JetStream.

A stream holds the events of one source and nothing else, so an event's place
in the stream is its position in the ledger. A batch is stored whole or not at
all, and names the place behind which it belongs.
"""

import asyncio
import base64
import threading
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import msgspec
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import AuthorizationError, Error, NoRespondersError
from nats.js.api import AckPolicy, ConsumerConfig

from infrastructure.feed.envelope import Sent
from infrastructure.feed.errors import FeedError, Outrun, SinkAway
from infrastructure.feed.sink import Held, Kept
from infrastructure.feed.syncing import must_sync

BATCH_SIZE_MAX = 1_000
"""The server takes no larger one."""
CONNECT_SECONDS = 3
ANSWER_SECONDS = 15
CONTENT_TYPE = "application/cloudevents+json; charset=UTF-8"

_PUBLISHER = "Punto-Publisher"
_EXPECTED = "Nats-Expected-Last-Sequence"
_BATCH = "Nats-Batch-Id"
_IN_BATCH = "Nats-Batch-Sequence"
_COMMIT = "Nats-Batch-Commit"

_NO_STREAM = 10059
_WRONG_SEQUENCE = (10071, 10164)
_NO_MESSAGE = 10037
_FULL = (10023, 10028, 10047, 10077)
_FOR_A_WHILE = frozenset({408, 503, 504})

T = TypeVar("T")


class _Problem(msgspec.Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _State(msgspec.Struct):
    last_seq: int = 0


class _Config(msgspec.Struct):
    storage: str = ""
    allow_atomic: bool = False
    subjects: list[str] = []


class _Stored(msgspec.Struct):
    data: str = ""
    hdrs: str = ""


class _Answer(msgspec.Struct):
    """What the server answers to any request."""

    error: _Problem | None = None
    state: _State | None = None
    config: _Config | None = None
    message: _Stored | None = None
    seq: int = 0


class _Item(msgspec.Struct):
    """What is read of an item that is downstream."""

    id: str
    source: str
    contenthash: str


class _NotThere(FeedError):  # noqa: N818 - named after what is the case
    """There is no such stream, or no such message in it."""


_ANSWER = msgspec.json.Decoder(_Answer)
_ITEM = msgspec.json.Decoder(_Item)


@dataclass(frozen=True, kw_only=True)
class Place:
    """A stream of JetStream and how to get there.

    `monitors` are the addresses at which the servers say how they are set;
    `publisher` is the name of this run. Where it may be made, a stream has so
    many `replicas`.
    """

    url: str
    stream: str
    credentials: Path | None = None
    monitors: tuple[str, ...] = ()
    may_lose: bool = False
    replicas: int = 1
    publisher: str = ""

    @property
    def masked_url(self) -> str:
        """The addresses without names and passwords."""
        return ",".join(map(_masked, self.urls))

    @property
    def urls(self) -> list[str]:
        """Each server's address."""
        urls = [url.strip() for url in self.url.split(",") if url.strip()]
        return [url if "://" in url else f"nats://{url}" for url in urls]


class JetStream:
    """One session with a stream, which it makes unless it is `read_only`.

    Raises FeedError where the server may lose what it has confirmed.
    """

    def __init__(self, place: Place, *, read_only: bool = False) -> None:
        self._place = place
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="nats", daemon=True)
        self._thread.start()
        self._client: Client | None = None
        try:
            self._client = self._do(self._connect())
            if not read_only:
                self._do(self._prepare())
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._client is not None:
            with suppress(SinkAway):
                self._do(self._client.close())
        self._do(_end_tasks())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def last(self) -> Held | None:
        return self._do(self._last())

    def publish(self, items: Sequence[Sent], *, after: int) -> None:
        for begin in range(0, len(items), BATCH_SIZE_MAX):
            batch = items[begin : begin + BATCH_SIZE_MAX]
            self._do(self._publish(batch, after=after + begin))

    def kept(self) -> Iterator[Kept]:
        state = self._do(self._info()).state
        assert state is not None
        if state.last_seq == 0:
            return
        reading = self._do(self._subscribe())
        last = 0
        while last < state.last_seq:
            batch = self._do(self._fetch(reading))
            for message in batch:
                last = message.metadata.sequence.stream
                yield Kept(last, message.data)
            if not batch or batch[-1].metadata.num_pending == 0:
                break
        self._do(reading.unsubscribe())

    # What follows runs in the thread of the client.

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return task.result()
        except FeedError:
            raise
        except (Error, OSError, TimeoutError) as error:
            reason = str(error).removeprefix("nats: ") or type(error).__name__
            raise SinkAway(f"{self._place.masked_url} does not answer: {reason}") from None
        except BaseException:
            task.cancel()
            raise

    async def _connect(self) -> Client:
        failure: Exception | None = None
        for url in self._place.urls:
            client = Client()
            try:
                await client.connect(
                    url,
                    name="punto feed",
                    allow_reconnect=False,
                    # The library tries a first connection 60 times otherwise, with waits; and
                    # zero means without end.
                    max_reconnect_attempts=1,
                    reconnect_time_wait=0,
                    connect_timeout=CONNECT_SECONDS,
                    user_credentials=self._credentials(),
                    error_cb=_ignore,
                )
            except (Error, OSError, TimeoutError, ValueError) as error:
                # The library leaves a connection open whose greeting went wrong.
                await client.close()
                if isinstance(error, AuthorizationError) or "uthorization" in str(error):
                    raise FeedError(
                        f"{self._place.masked_url} does not let us in: wrong credentials"
                    ) from None
                failure = error
                continue
            return client
        raise SinkAway(f"{self._place.masked_url} does not answer: {_reason(failure)}")

    def _credentials(self) -> str | None:
        return None if self._place.credentials is None else str(self._place.credentials)

    async def _prepare(self) -> None:
        stream = self._place.stream
        if not self._place.may_lose:
            await must_sync(self._connected(), self._place.monitors)
        config = {
            "name": stream,
            "subjects": [f"{stream}.>"],
            "storage": "file",
            "retention": "limits",
            "discard": "new",
            "num_replicas": self._place.replicas,
            "allow_atomic": True,
            "deny_delete": True,
            "deny_purge": True,
        }
        try:
            info = await self._info()
        except _NotThere:
            info = await self._ask(f"$JS.API.STREAM.CREATE.{stream}", config)
        found = info.config
        assert found is not None
        if found.storage != "file" or not found.allow_atomic:
            raise FeedError(
                f"The stream {stream} has to be stored in files and to take atomic batches:"
                " set `storage: file` and `allow_atomic: true`"
            )

    async def _info(self) -> _Answer:
        return await self._ask(f"$JS.API.STREAM.INFO.{self._place.stream}", None)

    async def _last(self) -> Held | None:
        info = await self._info()
        assert info.state is not None
        last = info.state.last_seq
        if last == 0:
            return None
        stream = self._place.stream
        try:
            answer = await self._ask(f"$JS.API.STREAM.MSG.GET.{stream}", {"seq": last})
        except _NotThere:
            raise FeedError(
                f"The last message of {stream}, {last}, was deleted: nothing says any more how"
                " far the feed has come"
            ) from None
        assert answer.message is not None
        try:
            item = _ITEM.decode(base64.b64decode(answer.message.data))
            position = int(item.id)
        except ValueError:
            raise FeedError(f"The stream {stream} holds something else than this feed") from None
        if position != last:
            raise FeedError(
                f"The stream {stream} holds position {position} in place {last}, so it is not the"
                " ledger alone: `punto feed verify` says what is wrong"
            )
        headers = base64.b64decode(answer.message.hdrs).decode(errors="replace")
        is_own = f"{_PUBLISHER}: {self._place.publisher}\r\n" in headers
        return Held(position, item.contenthash, item.source, is_own)

    async def _publish(self, batch: Sequence[Sent], *, after: int) -> None:
        client = self._connected()
        stream = self._place.stream
        common = {"Content-Type": CONTENT_TYPE, _PUBLISHER: self._place.publisher}
        if len(batch) > 1:
            common[_BATCH] = uuid4().hex
        for number, item in enumerate(batch, 1):
            headers = dict(common)
            if number == 1:
                headers[_EXPECTED] = str(after)
            if len(batch) > 1:
                headers[_IN_BATCH] = str(number)
            if number < len(batch):
                await client.publish(f"{stream}.{item.topic}", item.line, headers=headers)
                continue
            if len(batch) > 1:
                headers[_COMMIT] = "1"
            answer = await client.request(
                f"{stream}.{item.topic}", item.line, timeout=ANSWER_SECONDS, headers=headers
            )
            stored = self._read(answer)
            if stored.seq != batch[-1].position:
                raise FeedError(
                    f"The stream {stream} has stored position {batch[-1].position} in place"
                    f" {stored.seq}: it holds something else than this feed"
                )

    async def _subscribe(self) -> Any:
        return (
            await self._connected()
            .jetstream(timeout=ANSWER_SECONDS)
            .pull_subscribe(
                "",
                stream=self._place.stream,
                config=ConsumerConfig(ack_policy=AckPolicy.NONE, mem_storage=True),
            )
        )

    async def _fetch(self, reading: Any) -> list[Msg]:
        messages: list[Msg] = await reading.fetch(BATCH_SIZE_MAX, timeout=ANSWER_SECONDS)
        return messages

    async def _ask(self, subject: str, request: object) -> _Answer:
        body = b"" if request is None else msgspec.json.encode(request)
        return self._read(await self._connected().request(subject, body, timeout=ANSWER_SECONDS))

    def _read(self, message: Msg) -> _Answer:
        try:
            answer = _ANSWER.decode(message.data)
        except msgspec.MsgspecError:
            raise SinkAway(f"{self._place.masked_url} answered with something else") from None
        problem = answer.error
        if problem is None:
            return answer
        if problem.err_code in (_NO_STREAM, _NO_MESSAGE):
            raise _NotThere(f"There is no {self._place.stream} at {self._place.masked_url}")
        if problem.err_code in _WRONG_SEQUENCE:
            raise Outrun(problem.description)
        text = f"{self._place.masked_url}: {problem.description}"
        if problem.err_code in _FULL or problem.code not in _FOR_A_WHILE:
            raise FeedError(text)
        raise SinkAway(text)

    def _connected(self) -> Client:
        assert self._client is not None
        return self._client


async def _end_tasks() -> None:
    """Ends what the client leaves running when its connection breaks."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _ignore(_error: Exception) -> None:
    """What is wrong with the connection is seen by whoever waits for an answer."""


def _masked(url: str) -> str:
    parts = urlsplit(url)
    _, at, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"***@{host}" if at else host))


def _reason(error: Exception | None) -> str:
    if isinstance(error, NoRespondersError):
        return "no JetStream there"
    return str(error).removeprefix("nats: ") or type(error).__name__
