"""The tables: their currency, the rules in force, the shoe that is on them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, assert_never, cast

from psycopg import Connection
from psycopg.rows import scalar_row

from domain.event import DomainEvent, Recorded
from domain.round import RoundOpened
from domain.table import RulesChanged, ShoePlaced, ShoeRemoved, TableEvent, TableOpened
from projections.projection import RowProjection, reading, topics_of

_Wanted = TableEvent | RoundOpened


@dataclass(slots=True)
class TableRow:
    """A row of `tables`; `rounds` counts all that were opened, void ones too."""

    table_id: str
    currency: str
    rules_version: int
    variant: str
    decks: int
    shoe_id: str | None
    rounds: int
    opened_at: datetime
    opened_position: int


class Tables(RowProjection[TableRow]):
    """A row for each table."""

    name = "tables"
    version = 1
    tables = ("tables",)
    topics = topics_of(_Wanted)
    row_type = TableRow
    key_column = "table_id"
    ddl = """
        CREATE TABLE tables (
            table_id text COLLATE "C" PRIMARY KEY,
            currency text COLLATE "C" NOT NULL,
            rules_version bigint NOT NULL,
            variant text COLLATE "C" NOT NULL,
            decks integer NOT NULL,
            shoe_id text COLLATE "C",
            rounds bigint NOT NULL,
            opened_at timestamptz NOT NULL,
            opened_position bigint NOT NULL UNIQUE
        )
    """
    select = """
        SELECT table_id, currency, rules_version, variant, decks, shoe_id, rounds, opened_at,
               opened_position
          FROM tables
         WHERE table_id = ANY (%(keys)b::text[])
    """
    upsert = """
        INSERT INTO tables
        SELECT * FROM json_populate_recordset(NULL::tables, %(rows)s)
        ON CONFLICT (table_id) DO UPDATE SET
            rules_version = excluded.rules_version,
            variant = excluded.variant,
            decks = excluded.decks,
            shoe_id = excluded.shoe_id,
            rounds = excluded.rounds
    """

    def key(self, event: DomainEvent) -> str:
        if isinstance(event, RoundOpened):
            return event.table_id
        return event.originator_id.removeprefix("table:")

    def apply(self, rows: dict[str, TableRow], recorded: Recorded) -> None:
        event = cast(_Wanted, recorded.event)
        table_id = self.key(event)
        if isinstance(event, TableOpened):
            row = TableRow(
                table_id=table_id,
                currency=event.currency,
                rules_version=1,
                variant=event.rules.variant.value,
                decks=event.rules.decks,
                shoe_id=None,
                rounds=0,
                opened_at=event.at,
                opened_position=recorded.position,
            )
            self.add(rows, row)
            return
        row = self.known(rows, table_id)
        match event:
            case RulesChanged():
                row.rules_version = event.rules_version
                row.variant = event.rules.variant.value
                row.decks = event.rules.decks
            case ShoePlaced():
                row.shoe_id = event.shoe_id
            case ShoeRemoved():
                row.shoe_id = None
            case RoundOpened():
                row.rounds += 1
            case _:
                assert_never(event)


@dataclass(frozen=True, slots=True)
class TableLine:
    """A table in a list; `shoe_id` is the shoe that is on it."""

    table_id: str
    currency: str
    rules_version: int
    variant: str
    decks: int
    shoe_id: str | None
    rounds: int
    opened_at: datetime


_TABLES = """
    SELECT table_id, currency, rules_version, variant, decks, shoe_id, rounds, opened_at
      FROM projection.tables
     ORDER BY opened_position
"""
_NEXT_TABLES = """
    SELECT table_id, currency, rules_version, variant, decks, shoe_id, rounds, opened_at
      FROM projection.tables
     WHERE opened_position > %(after)s
       AND (%(ids)s::text[] IS NULL OR table_id = ANY (%(ids)s))
     ORDER BY opened_position
     LIMIT %(limit)s
"""
_OPENED_POSITION = "SELECT opened_position FROM projection.tables WHERE table_id = %s"


def next_tables(
    connection: Connection[Any], *, after: int = 0, limit: int, ids: Sequence[str] | None = None
) -> list[TableLine]:
    """The first tables that were opened after a position, at most `limit`, the oldest first."""
    wanted = {"after": after, "limit": limit, "ids": ids}
    with reading(connection, TableLine) as cursor:
        return cursor.execute(_NEXT_TABLES, wanted, prepare=False).fetchall()


def opened_position(connection: Connection[Any], table_id: str) -> int | None:
    """The position at which a table was opened; None where it is not known."""
    with connection.cursor(row_factory=scalar_row) as cursor:
        return cursor.execute(_OPENED_POSITION, [table_id]).fetchone()


def tables(connection: Connection[Any]) -> list[TableLine]:
    """Every table, in the order in which they were opened."""
    with reading(connection, TableLine) as cursor:
        return cursor.execute(_TABLES).fetchall()
