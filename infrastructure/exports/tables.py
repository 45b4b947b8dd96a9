"""The exported tables: their columns, what tells one row from another, and what adds up.

Amounts are int64 minor units beside their currency, times are UTC timestamps.
The gaming day is no column but a folder, `day=2026-01-31`, which every reader of
hive-partitioned tables takes for one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import pyarrow as pa

_TIME = pa.timestamp("us", tz="UTC")
_TYPES = {"at": _TIME, "opened_at": _TIME, "settled_at": _TIME, "own_day": pa.date32()} | {
    name: pa.int64() for name in ("position", "line", "version", "number", "bets")
}
_TYPES |= {"player_total": pa.int8(), "banker_total": pa.int8()}
_TYPES |= {name: pa.bool_() for name in ("is_reversal", "is_frozen", "is_closed")}
_OPTIONAL = {
    "account_id",
    "number",
    "round_id",
    "bet_id",
    "table_id",
    "shoe_id",
    "player_total",
    "banker_total",
    "outcome",
    "settled_at",
    "correction_id",
}


@dataclass(frozen=True, slots=True)
class Table:
    """A table: `key` are the columns that name a row, `sums` the amounts that are added up.

    Where `is_log` is set, each row stands for ever once it is written, in the
    order of positions; the rows of the others are as of the export.
    """

    name: str
    schema: Any
    key: tuple[str, ...]
    sums: tuple[str, ...]
    is_log: bool


def _table(
    name: str, columns: str, *, key: str, sums: str = "", required: str = "", is_log: bool = True
) -> Table:
    names = columns.split()
    schema = pa.schema(
        pa.field(
            each,
            pa.int64() if each.endswith("_minor") else _TYPES.get(each, pa.string()),
            nullable=each in _OPTIONAL and each not in required.split(),
        )
        for each in names
    )
    return Table(name, schema, tuple(key.split()), tuple(sums.split()), is_log)


EVENTS = _table(
    "events",
    "position stream version event at actor key data",
    key="position",
)
ROUNDS = _table(
    "rounds",
    "round_id table_id shoe_id number currency state player_cards banker_cards player_total"
    " banker_total outcome bets turnover_minor opened_at settled_at position",
    required="round_id table_id shoe_id number",
    key="round_id",
    sums="turnover_minor",
    is_log=False,
)
BETS = _table(
    "bets",
    "round_id bet_id account_id bet stake_minor win_minor commission_minor currency result"
    " is_reversal correction_id table_id shoe_id at own_day position line",
    required="round_id bet_id account_id table_id shoe_id",
    key="position line",
    sums="stake_minor win_minor commission_minor",
)
POSTINGS = _table(
    "postings",
    "position line account currency amount_minor event account_id number round_id bet_id"
    " table_id shoe_id at own_day",
    key="position line",
    sums="amount_minor",
)
COMMISSION = _table(
    "commission",
    "position line kind account_id round_id bet_id table_id shoe_id currency commission_minor"
    " at own_day",
    required="account_id round_id bet_id table_id shoe_id",
    key="position line",
    sums="commission_minor",
)
ACCOUNTS = _table(
    "accounts",
    "account_id currency available_minor in_play_minor commission_due_minor owed_minor"
    " is_frozen is_closed opened_at version position",
    required="account_id",
    key="account_id",
    sums="available_minor in_play_minor commission_due_minor owed_minor",
    is_log=False,
)

TABLES = (EVENTS, ROUNDS, BETS, POSTINGS, COMMISSION, ACCOUNTS)
BY_NAME = {table.name: table for table in TABLES}

Place = tuple[str, date]
"""A table's name and a gaming day: what one file holds."""


def batch_of(table: Table, rows: Sequence[tuple[Any, ...]]) -> Any:
    """Rows as a record batch of their table."""
    return batch_from(table, tuple(zip(*rows, strict=True)) or ((),) * len(table.schema))


def batch_from(table: Table, columns: Sequence[Sequence[Any]]) -> Any:
    """Columns as a record batch of their table."""
    return pa.RecordBatch.from_arrays(
        [
            pa.array(column, type=field.type)
            for column, field in zip(columns, table.schema, strict=True)
        ],
        schema=table.schema,
    )


def folder_of(day: date) -> str:
    """The folder of a gaming day within that of its table."""
    return f"day={day.isoformat()}"


def relative_path(place: Place, format_: str) -> str:
    """Where the file of a table and a day stands."""
    name, day = place
    return f"{name}/{folder_of(day)}/{name}.{format_}"
