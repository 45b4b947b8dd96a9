"""The service with many readers at once, and with noise instead of requests."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from random import Random

import httpx
import pytest

from tests.chaos.load import loads
from tests.chaos.service import LINES, Service
from tests.chaos.size import COMMANDS_FOLLOWED, NOISE_SECONDS, SECONDS_MAX, SSE_READERS

GROWTH_BYTES_MAX = 200 * 1024 * 1024


@pytest.fixture
def service(url: str) -> Iterator[Service]:
    service = Service(url)
    with service.running():
        service.wait()
        yield service


def test_every_reader_sees_every_event_once_in_order_while_a_table_plays(
    service: Service, random: Random
) -> None:
    (load,) = loads(1, commands=COMMANDS_FOLLOWED, random=random)
    before = service.memory_bytes
    have_started = threading.Barrier(SSE_READERS + 1)
    is_played = threading.Event()
    head: list[int] = []

    def read() -> int:
        position = 0
        timeout = httpx.Timeout(SECONDS_MAX)
        with (
            httpx.Client(trust_env=False, timeout=timeout) as client,
            client.stream("GET", f"{service.address}/v1/events?after=0") as stream,
        ):
            have_started.wait(SECONDS_MAX)
            for line in stream.iter_lines():
                if line.startswith("data:"):
                    position += 1
                    assert json.loads(line.removeprefix("data:"))["position"] == position
                if is_played.is_set() and position >= head[0]:
                    break
        return position

    with ThreadPoolExecutor(SSE_READERS) as pool:
        reading = [pool.submit(read) for _ in range(SSE_READERS)]
        have_started.wait(SECONDS_MAX)
        for line in load.lines:
            give(service, line)
        head.append(last_position(service))
        is_played.set()
        # Whoever has seen all of it is woken by one more event, and ends.
        give(service, b'{"command":"open_account","key":"end","account_id":"E","currency":"USD"}\n')
        for each in reading:
            assert each.result(SECONDS_MAX) >= head[0]
    grown = service.memory_bytes - before
    print(f"{SSE_READERS} readers, {head[0]} events: {grown / 2**20:.0f} MiB more")
    assert grown < GROWTH_BYTES_MAX


def test_noise_leaves_the_service_alive_and_its_memory_bounded(
    service: Service, random: Random
) -> None:
    give(service, b'{"command":"open_account","key":"k","account_id":"A","currency":"USD"}\n')
    before = service.memory_bytes
    openings = (
        b"",
        b"POST /v1/commands HTTP/1.1\r\n",
        b"POST /v1/commands HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nX: ",
    )
    until = time.monotonic() + NOISE_SECONDS
    while time.monotonic() < until:
        address = ("127.0.0.1", service.port)
        with socket.create_connection(address, timeout=10) as connection, suppress(ConnectionError):
            connection.sendall(random.choice(openings) + random.randbytes(3_000))
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1_000)
    grown = service.memory_bytes - before
    print(f"{NOISE_SECONDS} seconds of noise: {grown / 2**20:.0f} MiB more")
    assert grown < GROWTH_BYTES_MAX
    found = httpx.get(f"{service.address}/v1/accounts/A", trust_env=False)
    assert found.status_code == 200


def give(service: Service, line: bytes) -> list[dict[str, object]]:
    """The answers to a line of commands."""
    answer = httpx.post(
        f"{service.address}/v1/commands",
        content=line,
        headers=LINES,
        timeout=SECONDS_MAX,
        trust_env=False,
    )
    return [json.loads(each) for each in answer.text.splitlines()]


def last_position(service: Service) -> int:
    """The position of the latest event."""
    answer = httpx.get(f"{service.address}/v1/feed?limit=1", timeout=SECONDS_MAX, trust_env=False)
    head = answer.json()["head"]
    assert isinstance(head, int)
    return head
