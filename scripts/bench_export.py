"""The export's benchmark: all tables, beside COPY to Arrow to Parquet without our decoding.

`limit` copies the stored events as they are, and the postings, the rounds and the
accounts from their read models, into files of one each; bets and commission have
no table that could be copied, so they cost it nothing. Each runs in a process of
its own, which tells how long it took and how much memory it needed.

`python scripts/bench_export.py` makes a ledger of about a million events first, which takes
minutes; `make bench` measures the one that it has.
"""

import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from infrastructure.casino import Casino
from infrastructure.exports.exporting import export
from infrastructure.exports.projected import BLOCK_BYTES, CopySource
from infrastructure.settings import Settings
from infrastructure.simulation import simulate
from infrastructure.store.connection import open_database
from infrastructure.store.embedded import EmbeddedServer
from infrastructure.store.reader import LogReader
from projections import runner

RUNS = 3
TABLES, SHOES, SEATS = 4, 74, 7

_COPIED = {
    "events": """
        SELECT notification_id, originator_id, originator_version, topic,
               convert_from(state, 'UTF8') AS state
          FROM ledger.stored_events
         ORDER BY notification_id
    """,
    "postings": """
        SELECT position, line, account, currency, amount_minor::bigint AS amount_minor, topic,
               account_id, number, round_id, bet_id, table_id, shoe_id,
               (extract(epoch FROM at) * 1000000)::bigint AS at, own_day, day
          FROM projection.journal
         ORDER BY position, line
    """,
    "rounds": "SELECT * FROM projection.rounds ORDER BY opened_position",
    "accounts": "SELECT * FROM projection.balances ORDER BY opened_position",
}


def measure(conninfo: str, folder: Path) -> dict[str, Any]:
    """Events a second of the export and of the limit, their ratio, and the export's memory."""
    ours, limit = [], []
    for _ in range(RUNS):
        ours.append(_in_a_process("ours", conninfo, folder))
        limit.append(_in_a_process("limit", conninfo, folder))
    with psycopg.connect(conninfo, autocommit=True) as connection:
        events = LogReader(connection).head()
    return {
        "ours": round(events / statistics.median(each["seconds"] for each in ours)),
        "limit": round(events / statistics.median(each["seconds"] for each in limit)),
        "stock": None,
        "unit": "events/s",
        "events": events,
        "memory_mb": max(each["memory_mb"] for each in ours),
    }


def _in_a_process(what: str, conninfo: str, folder: Path) -> dict[str, Any]:
    to = folder / what
    shutil.rmtree(to, ignore_errors=True)
    command = [sys.executable, "-m", "scripts.bench_export", what, conninfo, str(to)]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, check=True, cwd=Path(__file__).parent.parent
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _run(what: str, conninfo: str, to: Path) -> None:
    with psycopg.connect(conninfo, autocommit=True) as connection:
        started = time.perf_counter()
        if what == "ours":
            export(connection, to)
        else:
            to.mkdir()
            for name, select in _COPIED.items():
                _copy(connection, select, to / f"{name}.parquet")
        seconds = time.perf_counter() - started
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps({"seconds": seconds, "memory_mb": memory_mb}))


def _copy(connection: psycopg.Connection[Any], select: str, path: Path) -> None:
    statement = f"COPY ({select}) TO STDOUT WITH (FORMAT csv, HEADER)"
    with connection.cursor().copy(statement.encode()) as copy:
        reader = pacsv.open_csv(
            CopySource(iter(copy)),
            read_options=pacsv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES),
        )
        with pq.ParquetWriter(path, reader.schema, compression="zstd") as writer:
            for batch in reader:
                writer.write_table(pa.Table.from_batches([batch]))


def main() -> None:
    """Makes a ledger of about a million events, measures, and prints the figures."""
    with (
        tempfile.TemporaryDirectory(prefix="punto-bench-export-") as folder,
        EmbeddedServer(Path(folder) / "home") as server,
        open_database(Settings.model_validate({"database_url": server.url()})) as database,
    ):
        environment = {
            "PERSISTENCE_MODULE": "infrastructure.store.factory",
            "PUNTO_CONNINFO": database.conninfo,
        }
        with Casino(environment) as casino:
            simulate(casino, tables=TABLES, shoes=SHOES, seats=SEATS, seed=1, batch=50)
        with database.connect() as connection:
            runner.catch_up(connection, LogReader(connection).page)
        print(json.dumps(measure(database.conninfo, Path(folder)), indent=2))


if __name__ == "__main__":
    if sys.argv[1:]:
        _run(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
    else:
        main()
