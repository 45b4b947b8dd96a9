"""How many rounds a second the service takes over HTTP, beside the same in one process.

Sixteen connections, each with a table of its own, post `play_round` one by one and
wait for each answer; then as many lines to `POST /v1/commands` on one connection.
Beside both, sixteen threads that share group commits without a service between.
The slices of each take turns, each once the read models are up to date. The service
is a process of its own, and shares the machine with its client and PostgreSQL.
"""

import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from infrastructure.commands.contract import Command, PlayRound
from infrastructure.commands.execution import Client, execute
from infrastructure.commands.group_commit import GroupCommit
from infrastructure.store.embedded import EmbeddedServer
from scripts.bench import (
    RESULTS,
    TABLES,
    Bench,
    Result,
    accepted,
    grouped,
    in_threads,
    plan,
    seconds_of,
)

RUNS = 3
READ_BYTES = 1 << 16


def main() -> None:
    """Prints the figures, and adds them to those of the other benchmarks."""
    with tempfile.TemporaryDirectory(prefix="punto-bench-") as folder:
        server = EmbeddedServer(Path(folder) / "home")
        server.start()
        try:
            results = measure(Bench(server, Path(folder)))
        finally:
            server.stop()
    for name, each in results.items():
        line = f"{name:<16}{each['ours']:>8,} rounds/s, {each['ours'] / each['limit']:.2f} of"
        print(f"{line} {each['limit']:,} in one process; {each['milliseconds']}")
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({**known, **results}, indent=2) + "\n")


def measure(bench: Bench) -> dict[str, Result]:
    """The figures of `http_single` and `http_lines`: medians of slices in turns."""
    plans = [plan(seed=seed) for seed in (1, 2, 3)]
    size = min(len(rounds) for _, rounds in plans) // (RUNS * TABLES) * TABLES
    waits: list[float] = []
    rates = []
    with (
        bench.ledger() as (database, casino),
        grouped(casino) as together,
        _serving(bench.superuser_url(database)) as address,
    ):
        for opening, _ in plans:
            accepted(execute(casino, opening, client=Client("bench", is_bound_to_clock=False)))
        for first in range(0, RUNS * size, size):
            own, singles, lines = (rounds[first : first + size] for _, rounds in plans)
            seconds = []
            for work in (
                partial(_in_process, together, own),
                lambda: waits.extend(_one_by_one(address, singles)),  # noqa: B023
                partial(_as_lines, address, lines),
            ):
                _catch_up(address)
                seconds.append(seconds_of(work))
            rates.append([size / each for each in seconds])
    alone, single, bulk = map(statistics.median, zip(*rates, strict=True))
    hundredths = statistics.quantiles(waits, n=100)
    return {
        "http_single": {
            "ours": round(single),
            "limit": round(alone),
            "stock": None,
            "unit": "rounds/s",
            "milliseconds": f"p50 {hundredths[49] * 1e3:.1f} ms, p99 {hundredths[98] * 1e3:.1f} ms",
        },
        "http_lines": {
            "ours": round(bulk),
            "limit": round(alone),
            "stock": None,
            "unit": "rounds/s",
            "milliseconds": "",
        },
    }


@contextmanager
def _serving(url: str) -> Iterator[tuple[str, int]]:
    """The address of a service in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "infrastructure.cli.main", "serve", "--port", "0"],
        env=os.environ | {"PUNTO_DATABASE_URL": url},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:
            found = re.search(r'"Serving (http://[^"]+)"', line)
            if found:
                # A pipe that is full would hold the service up.
                threading.Thread(target=process.stderr.read, daemon=True).start()
                address = urlsplit(found[1])
                assert address.hostname
                assert address.port
                yield address.hostname, address.port
                break
    finally:
        process.terminate()
        process.wait()


def _catch_up(address: tuple[str, int]) -> None:
    """Waits until the read models are up to date, so that no slice pays for the one before."""
    host, port = address
    while True:
        status = httpx.get(f"http://{host}:{port}/v1/status", trust_env=False, timeout=60).json()
        if all(each["lag_events"] == 0 for each in status["projections"]):
            return
        time.sleep(0.1)


def _in_process(together: GroupCommit, rounds: Sequence[PlayRound]) -> None:
    def call(table: int) -> None:
        for each in rounds[table::TABLES]:
            accepted(together.execute([each], client=Client("bench")))

    in_threads(call)


def _one_by_one(address: tuple[str, int], rounds: Sequence[PlayRound]) -> list[float]:
    """Posts each table's rounds on a connection of its own; what each answer took, in seconds."""
    waits: list[float] = []

    def call(table: int) -> None:
        with socket.create_connection(address) as connection:
            for each in rounds[table::TABLES]:
                body = _body(each, "command", "key", "round_id")
                head = (
                    f"POST /v1/rounds/{each.round_id}/play HTTP/1.1\r\nHost: localhost\r\n"
                    f"Idempotency-Key: {each.key}\r\nContent-Type: application/json\r\n"
                    f"Content-Length: {len(body)}\r\n\r\n"
                )
                started = time.perf_counter()
                connection.sendall(head.encode() + body)
                answer = _receive(connection)
                waits.append(time.perf_counter() - started)
                assert b" 200 " in answer[:20], answer

    in_threads(call)
    return waits


def _as_lines(address: tuple[str, int], rounds: Sequence[PlayRound]) -> None:
    body = b"".join(_body(each) + b"\n" for each in rounds)
    with socket.create_connection(address) as connection:
        head = (
            "POST /v1/commands HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            f"Content-Type: application/x-ndjson\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        connection.sendall(head.encode() + body)
        answered = b"".join(iter(lambda: connection.recv(READ_BYTES), b""))
    assert answered.count(b'"ok":true') == len(rounds), answered[-2_000:]


def _body(command: Command, *left_out: str) -> bytes:
    text = command.model_dump_json(exclude=set(left_out), exclude_none=True)
    return text.encode()


def _receive(connection: socket.socket) -> bytes:
    """One whole answer of those that follow each other on a connection."""
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += connection.recv(READ_BYTES)
    head, _, body = answer.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    assert length
    while len(body) < int(length[1]):
        body += connection.recv(READ_BYTES)
    return head + body


if __name__ == "__main__":
    main()
