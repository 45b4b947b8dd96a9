"""How long an event takes from its commit to a subscriber of NATS JetStream.

Measured beside the least that can be done: a process-wide LISTEN, the row's
state fetched by its position and published, without envelope, fence or batch.
"""

import asyncio
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from uuid import uuid4

import nats
import psycopg

from infrastructure.cli.ledger import casino_on
from infrastructure.commands.contract import read_command
from infrastructure.commands.execution import Client, execute
from infrastructure.feed.jetstream import JetStream, Place
from infrastructure.feed.log import FeedLog
from infrastructure.feed.publishing import Publisher
from infrastructure.settings import Settings
from infrastructure.store.connection import Database, open_database
from tests.infrastructure.nats import NatsServer

EVENTS = 200
_STATE = """
SELECT state
  FROM ledger.stored_events
 WHERE notification_id > %s
 ORDER BY notification_id
 LIMIT 1
"""


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        NatsServer(Path(folder) / "nats") as server,
        open_database(Settings.model_validate({"home": Path(folder) / "home"})) as database,
    ):
        bare = _median(database, server, "BARE", partial(_bare, database, server))
        ours = _median(database, server, "FEED", partial(_feed, database, server))
    print(f"commit to subscriber: {ours * 1e3:.2f} ms")
    print(f"  bare LISTEN and publish: {bare * 1e3:.2f} ms ({ours / bare:.2f} of it)")


def _feed(database: Database, server: NatsServer) -> None:
    place = Place(url=server.url, stream="FEED", monitors=(server.monitor,), publisher=uuid4().hex)
    with database.connect() as connection:
        source = FeedLog(connection).source
    Publisher(database.connect, partial(JetStream, place), source=source, say=lambda _: None).run(
        wait=True
    )


def _bare(database: Database, server: NatsServer) -> None:
    async def publish() -> None:
        client = await nats.connect(server.url, allow_reconnect=False, error_cb=_ignore)
        stream = client.jetstream()
        await stream.add_stream(name="BARE", subjects=["BARE.>"])
        connect = partial(psycopg.AsyncConnection.connect, database.conninfo, autocommit=True)
        listening, reading = await connect(), await connect()
        await listening.execute("LISTEN stored_events")
        position = 0
        async for _ in listening.notifies():
            for (state,) in await (await reading.execute(_STATE, [position])).fetchall():
                await stream.publish("BARE.event", state)
                position += 1

    # The server is gone at the end.
    with suppress(psycopg.OperationalError):
        asyncio.run(publish())


def _median(
    database: Database, server: NatsServer, stream: str, publish: Callable[[], None]
) -> float:
    """The median of the seconds between a commit's return and the message."""
    threading.Thread(target=publish, daemon=True).start()
    arrived: list[float] = []
    threading.Thread(
        target=lambda: asyncio.run(_subscribe(server, stream, arrived)), daemon=True
    ).start()
    time.sleep(2)
    took = []
    with casino_on(database) as casino:
        for number in range(EVENTS):
            account = f"{stream}-{number}"
            line = (
                f'{{"command":"open_account","key":"{account}","account_id":"{account}",'
                '"currency":"USD"}'
            )
            before = len(arrived)
            execute(casino, [read_command(line.encode())], client=Client("bench"))
            committed = time.perf_counter()
            while len(arrived) == before:
                time.sleep(0.0001)
            took.append(arrived[-1] - committed)
            time.sleep(0.005)
    return statistics.median(took)


async def _subscribe(server: NatsServer, stream: str, arrived: list[float]) -> None:
    client = await nats.connect(server.url, allow_reconnect=False, error_cb=_ignore)

    async def on_message(_message: object) -> None:
        arrived.append(time.perf_counter())

    await client.subscribe(f"{stream}.>", cb=on_message)
    await asyncio.Event().wait()


async def _ignore(_error: Exception) -> None:
    """The server is gone at the end, and that is all that is ever wrong."""


if __name__ == "__main__":
    main()
