"""The benchmarks: what the ledger does a second, beside the machine and the stock library.

Every figure stands beside two of the same run on the same server, fsync on:

- `limit`: bare psycopg with the same rows. For what appends, binary COPY into a
  table of the same shape, as many rounds a commit as the figure allows; for what
  reads, the server's own ordered COPY to nowhere; for a rebuild, COPY of the
  finished rows with their indexes; for the audit, reading and decoding alone.
- `stock`: the eventsourcing library's own recorder with the same events, its own
  way to read them, and, beside a rebuild, the least that its projections do: a
  transaction with a tracking row for each event. It decides nothing.

The events of a run, those of its set-up included, are shared out evenly over its
rounds where COPY or the stock recorder store them round by round.

`make bench` prints a table, writes build/bench.json and takes about a minute.
"""

import json
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from eventsourcing.application import Application
from eventsourcing.persistence import StoredEvent, Tracking
from eventsourcing.postgres import PostgresFactory, PostgresTrackingRecorder
from eventsourcing.utils import Environment
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import tuple_row

from domain.cards import parse_card
from domain.event import Recorded
from domain.rules import STANDARD_RULES
from infrastructure.audit.audit import audit
from infrastructure.casino import Casino
from infrastructure.commands.contract import PlayRound
from infrastructure.commands.execution import execute
from infrastructure.commands.group_commit import GroupCommit
from infrastructure.importers.importing import import_rounds
from infrastructure.importers.layouts import LAYOUTS
from infrastructure.importers.reading import read_rounds
from infrastructure.settings import Settings
from infrastructure.simulation import CLIENT, Play, simulate
from infrastructure.store.connection import Database, open_database
from infrastructure.store.embedded import EmbeddedServer
from infrastructure.store.reader import LogReader
from projections import runner

SHOES, SEATS, THREADS = 6, 7, 16
ROUNDS_A_COMMIT = 50
RUNS = 3
# The library's recorder hangs on a save of some 1,500 events or more.
STOCK_EVENTS_A_SAVE_MAX = 1_000
STOCK_PROJECTED_EVENTS = 2_000
RESULTS = Path(__file__).parent.parent / "build" / "bench.json"

Row = tuple[str, int, str, bytes, int]

_EVENTS = """
SELECT originator_id, originator_version, topic, state, notification_id
  FROM ledger.stored_events
 ORDER BY notification_id
"""
_ROUNDS = """
SELECT shoe_id, number, player_cards, banker_cards, player_total, banker_total, outcome
  FROM projection.rounds
 ORDER BY opened_position
"""
_HEADER = (
    "b total,player total,pcard1,pcard2,pcard3,bcard1,bcard2,bcard3,outcome,rounds,"
    "banker streak,player streak,tie streak,shoe number\n"
)


def main() -> None:
    """Runs every benchmark, prints a table and writes the results."""
    with tempfile.TemporaryDirectory(prefix="punto-bench-") as folder:
        server = EmbeddedServer(Path(folder) / "home")
        server.start()
        try:
            results = Bench(server, Path(folder)).run()
        finally:
            server.stop()
    print(f"{'':<16}{'ours':>10}{'limit':>10}{'ratio':>7}{'stock':>9}{'times':>7}  unit")
    for name, each in results.items():
        line = f"{name:<16}{each['ours']:>10,}{each['limit']:>10,}"
        line += f"{each['ours'] / each['limit']:>7.2f}"
        if each["stock"] is not None:
            line += f"{each['stock']:>9,}{each['ours'] / each['stock']:>7.1f}"
        else:
            line += " " * 16
        print(f"{line}  {each['unit']}")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")


class Bench:
    """One run over one server; each part works in a database of its own."""

    def __init__(self, server: EmbeddedServer, folder: Path) -> None:
        self._server = server
        self._folder = folder
        self._databases = 0
        self._results: dict[str, dict[str, Any]] = {}

    def run(self) -> dict[str, dict[str, Any]]:
        """The figures by name: ours, limit, stock and unit."""
        self._append_single()
        self._append_threads()
        with self._ledger() as (database, casino):
            rounds = self._append_batched(database, casino)
            with database.connect() as connection:
                self._read_fold(connection)
                self._rebuild(connection)
                self._audit(connection)
                csv = _as_csv(connection, self._folder / "rounds.csv")
        self._import(csv, rounds)
        return self._results

    def _append_single(self) -> None:
        with self._ledger() as (database, casino):
            rounds = _set_up(casino, tables=4)
            ours = _rate(rounds, lambda each: execute(casino, [each], client=CLIENT))
            rows = _round_by_round(database, len(rounds))
            limit = self._copy(database, rows, rounds_a_commit=1)
        stock = self._stock_saves(rows, lambda save: [_each(rows, save)])
        self._report("append_single", ours, limit, stock, "rounds/s")

    def _append_threads(self) -> None:
        with self._ledger() as (database, casino):
            rounds = _set_up(casino, tables=THREADS)
            by_table = [rounds[table::THREADS] for table in range(THREADS)]
            together = GroupCommit(casino)

            def call(own: Sequence[PlayRound]) -> None:
                for each in own:
                    together.execute([each], client=CLIENT)

            ours = len(rounds) / _in_threads(by_table, call)
            rows = _round_by_round(database, len(rounds))
            limit = self._copy(database, rows, rounds_a_commit=ROUNDS_A_COMMIT)
        own = [rows[table::THREADS] for table in range(THREADS)]
        stock = self._stock_saves(rows, lambda save: [_each(each, save) for each in own])
        self._report("append_threads", ours, limit, stock, "rounds/s")

    def _append_batched(self, database: Database, casino: Casino) -> int:
        started = time.perf_counter()
        report = simulate(casino, tables=1, shoes=SHOES, seats=SEATS, seed=1, batch=ROUNDS_A_COMMIT)
        ours = report.rounds / (time.perf_counter() - started)
        rows = _round_by_round(database, report.rounds)
        limit = self._copy(database, rows, rounds_a_commit=ROUNDS_A_COMMIT)
        at_once = max(1, STOCK_EVENTS_A_SAVE_MAX // max(len(each) for each in rows))

        def in_saves(save: Callable[[list[StoredEvent]], Any]) -> list[Callable[[], None]]:
            def run() -> None:
                for first in range(0, len(rows), at_once):
                    save([event for each in rows[first : first + at_once] for event in each])

            return [run]

        stock = self._stock_saves(rows, in_saves)
        self._report("append_batched", ours, limit, stock, "rounds/s")
        return report.rounds

    def _read_fold(self, connection: psycopg.Connection[Any]) -> None:
        head = LogReader(connection).head()

        def ours() -> None:
            counts: Counter[str] = Counter()
            for page in LogReader(connection).pages():
                counts.update(each.event.TOPIC for each in page if isinstance(each, Recorded))
            assert counts.total() == head

        def limit() -> None:
            with connection.cursor().copy(f"COPY ({_EVENTS}) TO STDOUT WITH (FORMAT binary)") as c:
                for _ in c:
                    pass

        with self._stock() as (application, _), connection.cursor(row_factory=tuple_row) as cursor:
            events = [StoredEvent(*row[:4]) for row in cursor.execute(_EVENTS)]
            for first in range(0, len(events), STOCK_EVENTS_A_SAVE_MAX):
                application.recorder.insert_events(events[first : first + STOCK_EVENTS_A_SAVE_MAX])

            def stock() -> None:
                counts: Counter[str] = Counter()
                start: int | None = 1
                while start is not None:
                    page = application.recorder.select_notifications(start, 5_000)
                    counts.update(application.mapper.to_domain_event(n).TOPIC for n in page)
                    start = page[-1].id + 1 if page else None
                assert counts.total() == head

            times = [_median(each) for each in (ours, limit, stock)]
        self._report("read_fold", *(head / each for each in times), "events/s")

    def _rebuild(self, connection: psycopg.Connection[Any]) -> None:
        head = LogReader(connection).head()
        runner.catch_up(connection, LogReader(connection).page)
        ours = _median(lambda: runner.rebuild(connection, LogReader(connection).page))
        tables = [table for each in runner.ALL for table in each.tables]
        limit = _median(lambda: _copy_finished(connection, tables))
        with self._stock() as (_, factory):
            recorder = factory.tracking_recorder(PostgresTrackingRecorder)
            started = time.perf_counter()
            for position in range(1, STOCK_PROJECTED_EVENTS + 1):
                recorder.insert_tracking(Tracking("rounds", position))
            stock = STOCK_PROJECTED_EVENTS / (time.perf_counter() - started)
        self._report("rebuild", head / ours, head / limit, stock, "events/s")

    def _audit(self, connection: psycopg.Connection[Any]) -> None:
        head = LogReader(connection).head()
        reader = LogReader(connection)
        ours = _median(lambda: audit(reader.pages(), reader.naming_rounds, reader.entries))
        limit = _median(lambda: [None for _ in reader.pages()])
        self._report("audit", head / ours, head / limit, None, "events/s")

    def _import(self, csv: Path, rounds: int) -> None:
        with self._ledger() as (database, casino):
            recorded = read_rounds(csv, LAYOUTS["points-csv"])
            started = time.perf_counter()
            import_rounds(casino, recorded, table_id="T")
            ours = rounds / (time.perf_counter() - started)
            rows = _round_by_round(database, rounds)
            limit = self._copy(database, rows, rounds_a_commit=250)
        self._report("import", ours, limit, None, "rounds/s")

    def _report(self, name: str, ours: float, limit: float, stock: float | None, unit: str) -> None:
        self._results[name] = {
            "ours": round(ours),
            "limit": round(limit),
            "stock": None if stock is None else round(stock),
            "unit": unit,
        }

    def _copy(
        self, database: Database, rows: Sequence[Sequence[StoredEvent]], *, rounds_a_commit: int
    ) -> float:
        """Rounds a second of binary COPY into a table of the same shape."""
        with database.connect() as connection:
            fsync = connection.execute("SHOW fsync").fetchone()
            assert fsync == ("on",)

            def copy() -> None:
                connection.execute("DROP TABLE IF EXISTS projection.copied")
                connection.execute(
                    "CREATE TABLE projection.copied (LIKE ledger.stored_events INCLUDING ALL)"
                )
                position = 0
                for first in range(0, len(rows), rounds_a_commit):
                    with connection.cursor().copy(
                        "COPY projection.copied (originator_id, originator_version, topic, state,"
                        " notification_id) FROM STDIN WITH (FORMAT binary)"
                    ) as target:
                        target.set_types(["text", "int8", "text", "bytea", "int8"])
                        for each in rows[first : first + rounds_a_commit]:
                            for event in each:
                                position += 1
                                target.write_row(
                                    (
                                        event.originator_id,
                                        event.originator_version,
                                        event.topic,
                                        event.state,
                                        position,
                                    )
                                )

            rate = len(rows) / _median(copy)
            connection.execute("DROP TABLE projection.copied")
        return rate

    def _stock_saves(
        self,
        rows: Sequence[Sequence[StoredEvent]],
        plan: Callable[[Callable[[list[StoredEvent]], Any]], list[Callable[[], None]]],
    ) -> float:
        """Rounds a second of the library's own recorder; each planned call has a thread."""
        with self._stock() as (application, _):
            calls = plan(application.recorder.insert_events)
            return len(rows) / _in_threads(calls, lambda call: call())

    @contextmanager
    def _ledger(self) -> Iterator[tuple[Database, Casino]]:
        settings = Settings.model_validate({"database_url": self._new_database()})
        with open_database(settings) as database:
            environment = {
                "PERSISTENCE_MODULE": "infrastructure.store.factory",
                "PUNTO_CONNINFO": database.conninfo,
            }
            with Casino(environment) as casino:
                yield database, casino

    @contextmanager
    def _stock(self) -> Iterator[tuple[Application[str], PostgresFactory]]:
        parts = conninfo_to_dict(self._new_database())
        environment = {
            "PERSISTENCE_MODULE": "eventsourcing.postgres",
            "MAPPER_TOPIC": "infrastructure.store.mapper:EventMapper",
            "ORIGINATOR_ID_TYPE": "text",
            "POSTGRES_DBNAME": str(parts["dbname"]),
            "POSTGRES_HOST": str(parts["host"]),
            "POSTGRES_USER": str(parts["user"]),
            "POSTGRES_PASSWORD": "",
            "POSTGRES_MAX_OVERFLOW": str(THREADS),
        }
        application = Application[str](environment)
        factory = PostgresFactory(Environment("", {**os.environ, **environment}))
        try:
            yield application, factory
        finally:
            factory.close()
            application.close()

    def _new_database(self) -> str:
        self._databases += 1
        name = f"bench_{self._databases}"
        with psycopg.connect(self._server.url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self._server.url(database=name)


def _set_up(casino: Casino, *, tables: int) -> list[PlayRound]:
    """Does all of a simulation but its rounds and closings, and gives the rounds in turns.

    They have no time of their own, since tables do not play in turns there.
    """
    rounds: list[list[PlayRound]] = []
    simulation = Play(1, tables=tables, shoes=1, seats=SEATS, currency="USD", rules=STANDARD_RULES)
    for command in simulation.commands():
        if isinstance(command, PlayRound):
            if command.round_id.endswith("-R1"):
                rounds.append([])
            rounds[-1].append(command.model_copy(update={"at": None}))
        elif not type(command).__name__.startswith("Close"):
            (answer,) = execute(casino, [command], client=CLIENT)
            assert answer["ok"], answer
    fewest = min(len(own) for own in rounds)
    return [own[place] for place in range(fewest) for own in rounds]


def _rate(rounds: Sequence[PlayRound], run: Callable[[PlayRound], list[dict[str, Any]]]) -> float:
    started = time.perf_counter()
    for each in rounds:
        (answer,) = run(each)
        assert answer["ok"], answer
    return len(rounds) / (time.perf_counter() - started)


def _round_by_round(database: Database, rounds: int) -> list[list[StoredEvent]]:
    """The ledger's events in as many parts as there are rounds, in order."""
    with database.connect() as connection, connection.cursor(row_factory=tuple_row) as cursor:
        events = [StoredEvent(*row[:4]) for row in cursor.execute(_EVENTS)]
    size, more = divmod(len(events), rounds)
    parts, first = [], 0
    for part in range(rounds):
        last = first + size + (part < more)
        parts.append(events[first:last])
        first = last
    return parts


def _each(
    rows: Sequence[Sequence[StoredEvent]], save: Callable[[list[StoredEvent]], Any]
) -> Callable[[], None]:
    """Saves round by round, each in two saves: before the deal and after."""

    def run() -> None:
        for each in rows:
            half = len(each) // 2
            save(list(each[:half]))
            save(list(each[half:]))

    return run


def _in_threads(parts: Sequence[Any], call: Callable[[Any], None]) -> float:
    """The seconds that all parts take, each in a thread of its own."""
    started = time.perf_counter()
    with ThreadPoolExecutor(len(parts)) as pool:
        for _ in pool.map(call, parts):
            pass
    return time.perf_counter() - started


def _median(work: Callable[[], Any]) -> float:
    seconds = []
    for _ in range(RUNS):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def _copy_finished(connection: psycopg.Connection[Any], tables: Sequence[str]) -> None:
    """Makes the read models' tables with their indexes from rows that are there already."""
    for table in tables:
        connection.execute("DROP TABLE IF EXISTS projection.finished")
        connection.execute(
            f"CREATE TABLE projection.finished (LIKE projection.{table} INCLUDING ALL)"
        )
        with connection.cursor().copy(f"COPY projection.{table} TO STDOUT (FORMAT binary)") as c:
            rows = b"".join(bytes(part) for part in c)
        with connection.cursor().copy("COPY projection.finished FROM STDIN (FORMAT binary)") as c:
            c.write(rows)
        connection.execute("DROP TABLE projection.finished")


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


if __name__ == "__main__":
    main()
