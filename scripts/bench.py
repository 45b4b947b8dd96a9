"""The benchmarks: what the ledger does a second, beside the machine and the stock library.

Every figure is the median of runs that take turns, on one server, fsync on:

- `ours`: the way that `punto` goes.
- `limit`: bare psycopg with the same rows. For what appends, binary COPY into a
  table of the same shape, as many rounds a commit as the figure allows; for what
  reads, the server's own ordered COPY to nowhere; for a rebuild, COPY of the
  finished rows with their indexes; for the audit, reading and decoding alone; for
  an export, COPY to Arrow to Parquet without our decoding.
- `stock`: the eventsourcing library's own application, recorder, reading and
  tracking, for the same work: the same rounds decided by the same domain on
  aggregates in memory, the same events by the same mapper. Beside a rebuild it is
  its ProjectionRunner with the least that a projection does, a tracking row for
  each event, shared out over as many projections as we have.

`long_account` is a command on an account with 100,000 events, from a process that has
nothing in memory, and its limit the same on one with ten.

`growth` says what an event costs, in microseconds, in ledgers of different sizes.
`make bench` prints a table, writes build/bench.json, and says which ratio has
fallen by more than a quarter since those in scripts/bench_ratios.json.
"""

import gc
import json
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
from eventsourcing.application import Application
from eventsourcing.persistence import JSONTranscoder, StoredEvent, Tracking
from eventsourcing.postgres import PostgresTrackingRecorder
from eventsourcing.projection import Projection, ProjectionRunner
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import tuple_row

from domain.cards import parse_card
from domain.event import DomainEvent, Stamp
from domain.rules import STANDARD_RULES
from infrastructure.audit.audit import audit
from infrastructure.casino import Book, Casino
from infrastructure.commands.contract import Command, Deposit, OpenAccount, PlayRound
from infrastructure.commands.execution import execute, execute_in_batches
from infrastructure.commands.group_commit import GroupCommit
from infrastructure.commands.handlers import HANDLERS
from infrastructure.importers.importing import import_rounds
from infrastructure.importers.layouts import LAYOUTS
from infrastructure.importers.reading import read_rounds
from infrastructure.settings import Settings
from infrastructure.simulation import CLIENT, Play, simulate
from infrastructure.store.connection import Database, open_database
from infrastructure.store.embedded import EmbeddedServer
from infrastructure.store.mapper import EventMapper
from infrastructure.store.reader import LogReader
from infrastructure.store.session import ClientKey, Found, Remembered
from projections import runner
from scripts import bench_export

TABLES, SEATS, SHOES = 16, 7, 24
ROUNDS_A_COMMIT, IMPORTED_ROUNDS_A_COMMIT = 50, 250
RUNS = 3
# The library's recorder hangs on a save of some 1,500 events or more.
STOCK_ROUNDS_A_SAVE = 25
STOCK_PROJECTED_EVENTS = 1_000
LONG_ACCOUNT_EVENTS = 100_000
COLD_COMMANDS = 50
GROWTH = (10_000, 100_000, 1_000_000)
WORSE = 0.75
RESULTS = Path(__file__).parent.parent / "build" / "bench.json"
RATIOS = Path(__file__).parent / "bench_ratios.json"

Result = dict[str, Any]
Row = tuple[str, int, str, bytes]

_COLUMNS = "originator_id, originator_version, topic, state, notification_id"
_EVENTS = f"SELECT {_COLUMNS} FROM ledger.stored_events ORDER BY notification_id"
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
    _print(results)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    for warning in _worse(results, json.loads(RATIOS.read_text())):
        print(warning)


class Bench:
    """One run over one server; each part works in a database of its own."""

    def __init__(self, server: EmbeddedServer, folder: Path) -> None:
        self._server = server
        self._folder = folder
        self._databases = 0
        self._results: dict[str, Result] = {}

    def run(self) -> dict[str, Result]:
        """The figures by name: ours, limit, stock and unit."""
        self.append_single()
        self.append_threads()
        self.append_batched()
        with self.ledger() as (database, casino):
            simulate(casino, tables=1, shoes=SHOES, seats=SEATS, seed=1, batch=ROUNDS_A_COMMIT)
            with database.connect() as connection:
                self.read_fold(database, connection)
                self.rebuild(database, connection)
                self.audit(connection)
                csv = _as_csv(connection, self._folder / "rounds.csv")
        self.import_rounds(csv)
        self.long_account()
        self.growth()
        return self._results

    def append_single(self) -> None:
        def ours(casino: Casino, rounds: Sequence[PlayRound]) -> None:
            for each in rounds:
                accepted(execute(casino, [each], client=CLIENT))

        def stock(tables: "list[_StockTable]", rounds: Sequence[PlayRound]) -> None:
            for each in rounds:
                tables[0].play_in_two_saves(each)

        self._append("append_single", ours, stock, stock_tables=1, rounds_a_commit=1)

    def append_threads(self) -> None:
        def ours(casino: Casino, rounds: Sequence[PlayRound]) -> None:
            def call(table: int) -> None:
                for each in rounds[table::TABLES]:
                    accepted(together.execute([each], client=CLIENT))

            with grouped(casino) as together:
                in_threads(call)

        def stock(tables: "list[_StockTable]", rounds: Sequence[PlayRound]) -> None:
            def call(table: int) -> None:
                for each in rounds[table::TABLES]:
                    tables[table].play_in_two_saves(each)

            in_threads(call)

        self._append(
            "append_threads", ours, stock, stock_tables=TABLES, rounds_a_commit=ROUNDS_A_COMMIT
        )

    def append_batched(self) -> None:
        def ours(casino: Casino, rounds: Sequence[PlayRound]) -> None:
            for _, answers in execute_in_batches(casino, in_commits(rounds), client=CLIENT):
                accepted(answers)

        def stock(tables: "list[_StockTable]", rounds: Sequence[PlayRound]) -> None:
            for first in range(0, len(rounds), STOCK_ROUNDS_A_SAVE):
                tables[0].play_in_one_save(rounds[first : first + STOCK_ROUNDS_A_SAVE])

        self._append("append_batched", ours, stock, stock_tables=1, rounds_a_commit=ROUNDS_A_COMMIT)

    def _append(
        self,
        name: str,
        ours: Callable[[Casino, Sequence[PlayRound]], None],
        stock: "Callable[[list[_StockTable], Sequence[PlayRound]], None]",
        *,
        stock_tables: int,
        rounds_a_commit: int,
    ) -> None:
        """Plays the same rounds a slice at a time: ours, then the same rows bare, then stock."""
        opening, rounds = plan()
        # Neither what is loaded (as in `punto`) nor the rounds to come are garbage to look for.
        gc.freeze()
        rates: list[tuple[float, float, float]] = []
        with self.ledger() as (database, casino), self._stock() as (application, _):
            accepted(execute(casino, opening, client=CLIENT))
            tables = [_StockTable(application) for _ in range(stock_tables)]
            for place, table in enumerate(tables):
                table.open(opening, share=place, of=stock_tables)
            size = len(rounds) // (RUNS * TABLES) * TABLES
            with database.connect() as connection:
                _must_sync(connection)
                for run in range(RUNS):
                    part = rounds[run * size : (run + 1) * size]
                    head = LogReader(connection).head()
                    seconds = [seconds_of(lambda: ours(casino, part))]  # noqa: B023 - called at once
                    rows = _rows_after(connection, head)
                    seconds.append(_copy(connection, rows, len(part), rounds_a_commit))
                    seconds.append(seconds_of(lambda: stock(tables, part)))  # noqa: B023
                    rates.append((size / seconds[0], size / seconds[1], size / seconds[2]))
        self._report(name, *map(statistics.median, zip(*rates, strict=True)), unit="rounds/s")

    def read_fold(self, database: Database, connection: psycopg.Connection[Any]) -> None:
        head = LogReader(connection).head()
        with (
            self._stock() as (application, _),
            psycopg.connect(self.superuser_url(database), autocommit=True) as superuser,
        ):
            events = [StoredEvent(*row) for row in _rows_after(connection, 0)]
            for first in range(0, len(events), 1_000):
                application.recorder.insert_events(events[first : first + 1_000])

            def limit() -> None:
                superuser.execute(f"COPY ({_EVENTS}) TO '/dev/null' WITH (FORMAT binary)")

            def stock() -> None:
                counts: Counter[str] = Counter()
                start: int | None = 1
                while start is not None:
                    page = application.recorder.select_notifications(start, 5_000)
                    counts.update(application.mapper.to_domain_event(n).TOPIC for n in page)
                    start = page[-1].id + 1 if page else None
                assert counts.total() == head

            times = _medians(lambda: _read_and_fold(connection, head), limit, stock)
        self._report("read_fold", *(head / each for each in times), unit="events/s")

    def rebuild(self, database: Database, connection: psycopg.Connection[Any]) -> None:
        head = LogReader(connection).head()
        runner.catch_up(connection, LogReader(connection).page)
        tables = [table for each in runner.ALL for table in each.tables]
        with self._stock() as (application, environment):
            rows = _rows_after(connection, 0)[:STOCK_PROJECTED_EVENTS]
            application.recorder.insert_events([StoredEvent(*row) for row in rows])
            stock = len(rows) / seconds_of(lambda: _project_stock(environment)) / len(runner.ALL)
        times = _medians(
            lambda: _rebuild(database, connection), lambda: _copy_finished(connection, tables)
        )
        self._report("rebuild", *(head / each for each in times), stock, unit="events/s")

    def audit(self, connection: psycopg.Connection[Any]) -> None:
        head = LogReader(connection).head()
        reader = LogReader(connection)
        times = _medians(lambda: _audit(reader), lambda: [None for _ in reader.pages()])
        self._report("audit", *(head / each for each in times), None, unit="events/s")

    def import_rounds(self, csv: Path) -> None:
        recorded = read_rounds(csv, LAYOUTS["points-csv"])
        rates: list[tuple[float, float]] = []
        for _ in range(RUNS):
            with self.ledger() as (database, casino), database.connect() as connection:
                seconds = seconds_of(lambda: import_rounds(casino, recorded, table_id="T"))
                rows = _rows_after(connection, 0)
                bare = _copy(connection, rows, len(recorded), IMPORTED_ROUNDS_A_COMMIT)
                rates.append((len(recorded) / seconds, len(recorded) / bare))
        ours, limit = map(statistics.median, zip(*rates, strict=True))
        self._report("import", ours, limit, None, unit="rounds/s")

    def long_account(self) -> None:
        def deposits(account_id: str, numbers: range) -> list[Command]:
            return [
                Deposit(
                    command="deposit", key=f"{account_id}{n}", account_id=account_id, amount_minor=1
                )
                for n in numbers
            ]

        seconds: dict[str, list[float]] = {"short": [], "long": []}
        with self.ledger() as (database, casino):
            for account_id, events in (("short", 10), ("long", LONG_ACCOUNT_EVENTS)):
                opening = OpenAccount(
                    command="open_account", key=account_id, account_id=account_id, currency="USD"
                )
                accepted(execute(casino, [opening], client=CLIENT))
                for first in range(1, events, 500):
                    numbers = range(first, min(first + 500, events))
                    accepted(execute(casino, deposits(account_id, numbers), client=CLIENT))
            for number in range(COLD_COMMANDS):
                for account_id, own in seconds.items():
                    command = deposits(account_id, range(-number - 1, -number))
                    with self.casino(database) as cold:
                        own.append(seconds_of(partial(execute, cold, command, client=CLIENT)))
        short, long = (statistics.median(own) for own in seconds.values())
        self._report("long_account", 1 / long, 1 / short, None, unit="commands/s")

    def growth(self) -> None:
        """What an event costs to append, read, rebuild and audit as the ledger grows."""
        with self.ledger() as (database, casino), database.connect() as connection:
            seed = 0
            for size in GROWTH:
                while LogReader(connection).head() < size:
                    seed += 1
                    simulate(casino, tables=1, shoes=3, seats=SEATS, seed=seed, batch=50)
                opening, rounds = plan(seed=size)
                accepted(execute(casino, opening, client=CLIENT))
                before = LogReader(connection).head()
                started = time.perf_counter()
                for _, answers in execute_in_batches(casino, in_commits(rounds), client=CLIENT):
                    accepted(answers)
                appended = time.perf_counter() - started
                head = LogReader(connection).head()
                self._grown("append_batched", size, appended / (head - before))
                runner.catch_up(connection, LogReader(connection).page)
                reader = LogReader(connection)
                for name, work in (
                    ("read_fold", lambda: _read_and_fold(connection, head)),  # noqa: B023
                    ("rebuild", lambda: _rebuild(database, connection)),
                    ("audit", lambda: _audit(reader)),  # noqa: B023
                ):
                    self._grown(name, size, seconds_of(work) / head)
            folder = self._folder / "export"
            folder.mkdir()
            self._results["export"] = bench_export.measure(database.conninfo, folder)

    def _grown(self, name: str, events: int, seconds: float) -> None:
        self._results[name].setdefault("growth", {})[str(events)] = round(seconds * 1e6, 2)

    def _report(
        self, name: str, ours: float, limit: float, stock: float | None, *, unit: str
    ) -> None:
        self._results[name] = {
            "ours": round(ours),
            "limit": round(limit),
            "stock": None if stock is None else round(stock),
            "unit": unit,
        }

    @contextmanager
    def ledger(self) -> Iterator[tuple[Database, Casino]]:
        settings = Settings.model_validate({"database_url": self._new_database()})
        with open_database(settings) as database, self.casino(database) as casino:
            yield database, casino

    def casino(self, database: Database) -> Casino:
        """The application on a database, with nothing in memory yet."""
        return Casino(
            {
                "PERSISTENCE_MODULE": "infrastructure.store.factory",
                "PUNTO_CONNINFO": database.conninfo,
            }
        )

    @contextmanager
    def _stock(self) -> Iterator[tuple[Application[str], dict[str, str]]]:
        parts = conninfo_to_dict(self._new_database())
        environment = {
            "PERSISTENCE_MODULE": "eventsourcing.postgres",
            "MAPPER_TOPIC": "infrastructure.store.mapper:EventMapper",
            "ORIGINATOR_ID_TYPE": "text",
            "POSTGRES_DBNAME": str(parts["dbname"]),
            "POSTGRES_HOST": str(parts["host"]),
            "POSTGRES_USER": str(parts["user"]),
            "POSTGRES_PASSWORD": "",
            "POSTGRES_MAX_OVERFLOW": str(TABLES),
        }
        with Application[str](environment) as application:
            yield application, environment

    def _new_database(self) -> str:
        self._databases += 1
        name = f"bench_{self._databases}"
        with psycopg.connect(self._server.url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self._server.url(database=name)

    def superuser_url(self, database: Database) -> str:
        return self._server.url(database=str(conninfo_to_dict(database.conninfo)["dbname"]))


class _TracksAlone(Projection[PostgresTrackingRecorder]):
    name = "tracks_alone"

    def process_event(self, domain_event: Any, tracking: Tracking) -> None:  # noqa: ARG002
        self.view.insert_tracking(tracking)


def _project_stock(environment: dict[str, str]) -> None:
    with ProjectionRunner(
        application_class=Application[str],
        projection_class=_TracksAlone,
        view_class=PostgresTrackingRecorder,
        env=environment,
    ) as projecting:
        projecting.wait(STOCK_PROJECTED_EVENTS, timeout=600)


class _StockTable:
    """A table whose rounds are decided in memory by our domain and stored by the stock library."""

    def __init__(self, application: Application[str]) -> None:
        self._application = application
        self._book = Book(_Nowhere(), EventMapper(JSONTranscoder()), {}, {})

    def open(self, commands: Sequence[Command], *, share: int, of: int) -> None:
        """Decides all of the opening, and stores this table's share of it."""
        events = [event for command in commands for event in self._decide(command)]
        streams = sorted({event.originator_id for event in events})
        own = set(streams[share::of])
        for event in events:
            if event.originator_id in own:
                self._application.save(event)

    def play_in_two_saves(self, command: PlayRound) -> None:
        events = self._decide(command)
        half = len(events) // 2
        self._application.save(*events[:half])
        self._application.save(*events[half:])

    def play_in_one_save(self, commands: Sequence[PlayRound]) -> None:
        self._application.save(*[each for command in commands for each in self._decide(command)])

    def _decide(self, command: Command) -> list[DomainEvent]:
        stamp = Stamp(command.at or datetime.now(UTC), command.actor or "bench", command.key)
        self._book.begin()
        HANDLERS[type(command)](self._book, command, stamp)
        events, self._book.events = self._book.events, []
        return events


class _Nowhere:
    """A session with nothing in it and nothing behind it."""

    head = 0

    def recall(
        self, keys: Sequence[ClientKey], stream_ids: Collection[str]
    ) -> tuple[dict[ClientKey, Remembered], Sequence[Found]]:
        raise AssertionError((keys, stream_ids))

    def load(self, stream_ids: Collection[str]) -> Sequence[Found]:  # noqa: ARG002
        return ()

    def seed(self, shoe_id: str) -> bytes:
        raise AssertionError(shoe_id)


def plan(*, seed: int = 1) -> tuple[list[Command], list[PlayRound]]:
    """A shoe at each table: what opens them, and their rounds in turns.

    The rounds have no time of their own, since tables do not play in turns there.
    """
    opening: list[Command] = []
    rounds: list[list[PlayRound]] = []
    play = Play(seed, tables=TABLES, shoes=1, seats=SEATS, currency="USD", rules=STANDARD_RULES)
    for command in play.commands():
        if isinstance(command, PlayRound):
            if command.round_id.endswith("-R1"):
                rounds.append([])
            rounds[-1].append(command.model_copy(update={"at": None}))
        elif not type(command).__name__.startswith("Close"):
            opening.append(command)
    fewest = min(len(own) for own in rounds)
    return opening, [own[place] for place in range(fewest) for own in rounds]


def accepted(answers: Sequence[dict[str, Any]]) -> None:
    for answer in answers:
        assert answer["ok"], answer


@contextmanager
def grouped(casino: Casino) -> Iterator[GroupCommit]:
    """Group commit for as long as the block lasts."""
    together = GroupCommit(casino)
    together.start()
    try:
        yield together
    finally:
        together.stop()


def in_commits(rounds: Sequence[PlayRound]) -> Iterator[Sequence[PlayRound]]:
    """The rounds in the portions of one commit each."""
    for first in range(0, len(rounds), ROUNDS_A_COMMIT):
        yield rounds[first : first + ROUNDS_A_COMMIT]


def in_threads(call: Callable[[int], None]) -> None:
    with ThreadPoolExecutor(TABLES) as pool:
        for _ in pool.map(call, range(TABLES)):
            pass


def seconds_of(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _medians(*works: Callable[[], Any]) -> list[float]:
    """The seconds that each takes, the median of runs in turns."""
    runs = [[seconds_of(work) for work in works] for _ in range(RUNS)]
    return [statistics.median(each) for each in zip(*runs, strict=True)]


def _must_sync(connection: psycopg.Connection[Any]) -> None:
    for setting in ("fsync", "synchronous_commit", "full_page_writes"):
        with connection.cursor(row_factory=tuple_row) as cursor:
            assert cursor.execute(f"SHOW {setting}").fetchone() == ("on",), setting


def _rows_after(connection: psycopg.Connection[Any], position: int) -> list[Row]:
    with connection.cursor(row_factory=tuple_row, binary=True) as cursor:
        cursor.execute(
            "SELECT originator_id, originator_version, topic, state FROM ledger.stored_events"
            " WHERE notification_id > %s ORDER BY notification_id",
            [position],
        )
        return cursor.fetchall()


def _copy(
    connection: psycopg.Connection[Any], rows: Sequence[Row], rounds: int, rounds_a_commit: int
) -> float:
    """The seconds that binary COPY of these rows takes, shared out evenly over the rounds."""
    connection.execute("DROP TABLE IF EXISTS projection.copied")
    connection.execute("CREATE TABLE projection.copied (LIKE ledger.stored_events INCLUDING ALL)")
    commits = -(-rounds // rounds_a_commit)
    bounds = [len(rows) * place // commits for place in range(commits + 1)]
    started = time.perf_counter()
    for first, last in pairwise(bounds):
        with connection.cursor().copy(
            f"COPY projection.copied ({_COLUMNS}) FROM STDIN WITH (FORMAT binary)"
        ) as target:
            target.set_types(["text", "int8", "text", "bytea", "int8"])
            for position in range(first, last):
                target.write_row((*rows[position], position + 1))
    return time.perf_counter() - started


def _read_and_fold(connection: psycopg.Connection[Any], head: int) -> None:
    counts: Counter[str] = Counter()
    for page in LogReader(connection).pages():
        counts.update([each.event.TOPIC for each in page])  # type: ignore[union-attr]
    assert counts.total() == head


def _rebuild(database: Database, connection: psycopg.Connection[Any]) -> None:
    with database.connect() as beside, LogReader(beside).reading_ahead() as page:
        runner.rebuild(connection, page)


def _audit(reader: LogReader) -> None:
    audit(reader.pages(), reader.naming_rounds, reader.entries)


def _copy_finished(connection: psycopg.Connection[Any], tables: Sequence[str]) -> None:
    """Makes the read models' tables with their indexes from rows that are there already."""
    for table in tables:
        connection.execute("DROP TABLE IF EXISTS projection.finished")
        connection.execute(
            f"CREATE TABLE projection.finished (LIKE projection.{table} INCLUDING ALL)"
        )
        with connection.cursor().copy(f"COPY projection.{table} TO STDOUT (FORMAT binary)") as c:
            blocks = list(c)
        with connection.cursor().copy("COPY projection.finished FROM STDIN (FORMAT binary)") as c:
            for block in blocks:
                c.write(block)
    connection.execute("DROP TABLE IF EXISTS projection.finished")


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


def _points(cards: str) -> list[int | str]:
    """The points of a hand in three columns, the last one empty where it has two cards."""
    points: list[int | str] = [parse_card(card).points for card in cards.split()]
    return [*points, *[""] * (3 - len(points))]


def _print(results: dict[str, Result]) -> None:
    print(f"{'':<16}{'ours':>10}{'limit':>11}{'ratio':>7}{'stock':>9}{'times':>7}  unit")
    for name, each in results.items():
        line = f"{name:<16}{each['ours']:>10,}{each['limit']:>11,}"
        line += f"{each['ours'] / each['limit']:>7.2f}"
        if each["stock"] is not None:
            line += f"{each['stock']:>9,}{each['ours'] / each['stock']:>7.1f}"
        else:
            line += " " * 16
        print(f"{line}  {each['unit']}")
    sizes = [f"{size:>12,}" for size in GROWTH]
    print(f"\n{'us an event at':<16}{''.join(sizes)} events")
    for name, each in results.items():
        if "growth" in each:
            costs = [f"{each['growth'][str(size)]:>12}" for size in GROWTH]
            print(f"{name:<16}{''.join(costs)}")


def _worse(results: dict[str, Result], recorded: dict[str, dict[str, float]]) -> Iterator[str]:
    for name, ratios in recorded.items():
        for beside, ratio in ratios.items():
            now = results[name]["ours"] / results[name][beside]
            if now < WORSE * ratio:
                yield f"{name} fell by more than a quarter: {ratio:.2f} -> {now:.2f} of {beside}"


if __name__ == "__main__":
    main()
