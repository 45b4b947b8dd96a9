"""The benchmarks: what the ledger does a second, beside what the machine can do.

Each figure stands beside bare psycopg doing the same to the same rows in the
same run: COPY of them in batches of as many rows for what writes, an ordered
SELECT of them for what reads. `python scripts/bench.py` takes a minute or two
and writes build/bench.json.
"""

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from domain.cards import parse_card
from infrastructure.audit.audit import audit
from infrastructure.casino import Casino
from infrastructure.importers.importing import import_rounds
from infrastructure.importers.layouts import LAYOUTS
from infrastructure.importers.reading import read_rounds
from infrastructure.settings import Settings
from infrastructure.simulation import simulate
from infrastructure.store.connection import Database, open_database
from infrastructure.store.embedded import EmbeddedServer
from infrastructure.store.reader import LogReader
from projections import runner

SHOES, SEATS = 10, 7
ROUNDS_A_COMMIT = 20
RUNS = 3
RESULTS = Path(__file__).parent.parent / "build" / "bench.json"

_HEADER = (
    "b total,player total,pcard1,pcard2,pcard3,bcard1,bcard2,bcard3,outcome,rounds,"
    "banker streak,player streak,tie streak,shoe number\n"
)
_ROUNDS = """
SELECT shoe_id, number, player_cards, banker_cards, player_total, banker_total, outcome
  FROM projection.rounds
 ORDER BY opened_position
"""
_EVENTS = """
SELECT originator_id, originator_version, topic, state, notification_id
  FROM ledger.stored_events
 ORDER BY notification_id
"""


def main() -> None:
    """Runs every benchmark and prints a table."""
    with tempfile.TemporaryDirectory(prefix="punto-bench-") as home:
        server = EmbeddedServer(Path(home) / "home")
        server.start()
        try:
            results = _measure(server, Path(home))
        finally:
            server.stop()
    print(f"{'':<20}{'ours':>12}{'limit':>12}{'ratio':>8}  unit")
    for name, each in results.items():
        ratio = each["ours"] / each["limit"]
        print(
            f"{name:<20}{each['ours']:>12,.0f}{each['limit']:>12,.0f}{ratio:>8.2f}  {each['unit']}"
        )
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")


def _measure(server: EmbeddedServer, folder: Path) -> dict[str, dict[str, Any]]:
    with _ledger(server, "simulated") as (database, casino):
        simulated = _timed(
            lambda: simulate(
                casino, tables=1, shoes=SHOES, seats=SEATS, seed=1, batch=ROUNDS_A_COMMIT
            )
        )
        with database.connect() as connection:
            print(
                f"PostgreSQL {connection.info.server_version // 10000}, fsync {_fsync(connection)}"
            )
            events = _head(connection)
            rounds = simulated.value.rounds
            copied = _copy_limit(connection, events_a_commit=events // rounds * ROUNDS_A_COMMIT)
            caught_up = _timed(lambda: runner.catch_up(connection, LogReader(connection).page))
            read = _best(lambda: connection.execute(_EVENTS).fetchall())
            audited = _best(lambda: audit(LogReader(connection).pages(), _nothing))
            rebuilt = _best(lambda: runner.rebuild(connection, LogReader(connection).page))
            csv = _as_csv(connection, folder / "rounds.csv")
    with _ledger(server, "imported") as (database, casino):
        recorded = read_rounds(csv, LAYOUTS["points-csv"])
        imported = _timed(lambda: import_rounds(casino, recorded, table_id="T"))
        with database.connect() as connection:
            imported_events = _head(connection)
            import_copied = _copy_limit(connection, events_a_commit=2_500)
    copying, import_copying = events / copied, imported_events / import_copied
    return {
        "simulate": _figure(rounds / simulated.seconds, rounds / copied, "rounds/s"),
        "simulate_events": _figure(events / simulated.seconds, copying, "events/s"),
        "import": _figure(
            len(recorded) / imported.seconds, len(recorded) / import_copied, "rounds/s"
        ),
        "import_events": _figure(imported_events / imported.seconds, import_copying, "events/s"),
        "catch_up": _figure(events / caught_up.seconds, events / read, "events/s"),
        "rebuild": _figure(events / rebuilt, events / read, "events/s"),
        "audit": _figure(events / audited, events / read, "events/s"),
    }


class _Timed:
    def __init__(self, value: Any, seconds: float) -> None:
        self.value = value
        self.seconds = seconds


def _timed(work: Callable[[], Any]) -> _Timed:
    started = time.perf_counter()
    value = work()
    return _Timed(value, time.perf_counter() - started)


def _best(work: Callable[[], Any]) -> float:
    return statistics.median(_timed(work).seconds for _ in range(RUNS))


def _figure(ours: float, limit: float, unit: str) -> dict[str, Any]:
    return {"ours": round(ours), "limit": round(limit), "unit": unit}


@contextmanager
def _ledger(server: EmbeddedServer, name: str) -> Iterator[tuple[Database, Casino]]:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    settings = Settings.model_validate({"database_url": server.url(database=name)})
    with open_database(settings) as database:
        casino = Casino(
            {
                "PERSISTENCE_MODULE": "infrastructure.store.factory",
                "PUNTO_CONNINFO": database.conninfo,
            }
        )
        try:
            yield database, casino
        finally:
            casino.close()


def _head(connection: psycopg.Connection[Any]) -> int:
    return LogReader(connection).head()


def _fsync(connection: psycopg.Connection[Any]) -> str:
    row = connection.execute("SHOW fsync").fetchone()
    assert row is not None
    return str(row[0])


def _copy_limit(connection: psycopg.Connection[Any], *, events_a_commit: int) -> float:
    """Seconds that COPY takes for the ledger's events into a table of the same shape."""
    rows = connection.cursor(row_factory=tuple_row).execute(_EVENTS).fetchall()
    seconds = []
    for run in range(RUNS):
        table = f"projection.copy_{run}"
        connection.execute(f"CREATE TABLE {table} (LIKE ledger.stored_events INCLUDING ALL)")
        columns = "originator_id, originator_version, topic, state, notification_id"
        started = time.perf_counter()
        for first in range(0, len(rows), events_a_commit):
            cursor = connection.cursor()
            with cursor.copy(f"COPY {table} ({columns}) FROM STDIN WITH (FORMAT binary)") as copy:
                copy.set_types(["text", "int8", "text", "bytea", "int8"])
                for row in rows[first : first + events_a_commit]:
                    copy.write_row(row)
        seconds.append(time.perf_counter() - started)
        connection.execute(f"DROP TABLE {table}")
    return statistics.median(seconds)


def _as_csv(connection: psycopg.Connection[Any], path: Path) -> Path:
    """The simulated rounds as another system would have recorded them: points alone."""
    shoes: dict[str, int] = {}
    with path.open("w") as file:
        file.write(_HEADER)
        for shoe, number, player, banker, player_total, banker_total, outcome in connection.execute(
            _ROUNDS
        ):
            words = "tie" if outcome == "tie" else f"{outcome} win"
            hands = [*_points(player), *_points(banker)]
            row = [banker_total, player_total, *hands, words, number, 0, 0, 0]
            row.append(shoes.setdefault(shoe, len(shoes) + 1))
            file.write(",".join(str(value) for value in row) + "\n")
    return path


def _points(cards: str) -> list[str]:
    points = [str(parse_card(card).points) for card in cards.split()]
    return points + [""] * (3 - len(points))


def _nothing(_round_id: str) -> list[Any]:
    return []


if __name__ == "__main__":
    main()
