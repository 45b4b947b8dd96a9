"""The shoes: where they stand, what was burned and drawn, and whether they are closed."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, assert_never, cast

from psycopg import Connection
from psycopg.rows import scalar_row

from domain.event import DomainEvent, Recorded
from domain.shoe import (
    CardsBurned,
    CardsDrawn,
    CutCardReached,
    DrawCorrected,
    RoundStarted,
    ShoeClosed,
    ShoeEvent,
    ShoeOpened,
)
from projections.projection import RowProjection, reading, topics_of


@dataclass(slots=True)
class ShoeRow:
    """A row of `shoes`; cards are counted as drawn when their round has ended."""

    shoe_id: str
    table_id: str
    decks: int
    source: str
    state: str
    rounds: int
    cards_drawn: int
    cards_burned: int
    cut_card_is_out: bool
    opened_at: datetime
    closed_at: datetime | None
    opened_position: int


class Shoes(RowProjection[ShoeRow]):
    """A row for each shoe."""

    name = "shoes"
    version = 2
    tables = ("shoes",)
    topics = topics_of(ShoeEvent)
    row_type = ShoeRow
    key_column = "shoe_id"
    ddl = """
        CREATE TABLE shoes (
            shoe_id text COLLATE "C" PRIMARY KEY,
            table_id text COLLATE "C" NOT NULL,
            decks integer NOT NULL,
            source text COLLATE "C" NOT NULL,
            state text COLLATE "C" NOT NULL,
            rounds bigint NOT NULL,
            cards_drawn bigint NOT NULL,
            cards_burned bigint NOT NULL,
            cut_card_is_out boolean NOT NULL,
            opened_at timestamptz NOT NULL,
            closed_at timestamptz,
            opened_position bigint NOT NULL UNIQUE
        );
        CREATE INDEX shoes_by_table ON shoes (table_id, opened_position);
    """
    select = """
        SELECT shoe_id, table_id, decks, source, state, rounds, cards_drawn, cards_burned,
               cut_card_is_out, opened_at, closed_at, opened_position
          FROM shoes
         WHERE shoe_id = ANY (%(keys)b::text[])
    """
    upsert = """
        INSERT INTO shoes
        SELECT * FROM json_populate_recordset(NULL::shoes, %(rows)s)
        ON CONFLICT (shoe_id) DO UPDATE SET
            state = excluded.state,
            rounds = excluded.rounds,
            cards_drawn = excluded.cards_drawn,
            cards_burned = excluded.cards_burned,
            cut_card_is_out = excluded.cut_card_is_out,
            closed_at = excluded.closed_at
    """

    def key(self, event: DomainEvent) -> str:
        return event.originator_id.removeprefix("shoe:")

    def apply(self, rows: dict[str, ShoeRow], recorded: Recorded) -> None:
        event = cast(ShoeEvent, recorded.event)
        shoe_id = self.key(event)
        if isinstance(event, ShoeOpened):
            row = ShoeRow(
                shoe_id=shoe_id,
                table_id=event.table_id,
                decks=event.decks,
                source=event.source,
                state="open",
                rounds=0,
                cards_drawn=0,
                cards_burned=0,
                cut_card_is_out=False,
                opened_at=event.at,
                closed_at=None,
                opened_position=recorded.position,
            )
            self.add(rows, row)
            return
        row = self.known(rows, shoe_id)
        match event:
            case CardsBurned():
                row.cards_burned += len(event.cards)
            case RoundStarted():
                # Another system may have numbered its rounds with gaps.
                row.rounds += 1
            case CardsDrawn():
                row.cards_drawn += len(event.cards)
            case DrawCorrected():
                row.cards_drawn += len(event.cards) - len(event.instead_of)
            case CutCardReached():
                row.cut_card_is_out = True
            case ShoeClosed():
                row.state = "closed"
                row.closed_at = event.at
            case _:
                assert_never(event)


@dataclass(frozen=True, slots=True)
class ShoeLine:
    """A shoe in a list; `state` is open or closed."""

    shoe_id: str
    table_id: str
    decks: int
    source: str
    state: str
    rounds: int
    cards_drawn: int
    cards_burned: int
    cut_card_is_out: bool
    opened_at: datetime
    closed_at: datetime | None


_SHOES = """
    SELECT shoe_id, table_id, decks, source, state, rounds, cards_drawn, cards_burned,
           cut_card_is_out, opened_at, closed_at
      FROM projection.shoes
     WHERE %(table)s::text IS NULL OR table_id = %(table)s
     ORDER BY opened_position
"""
_NEXT_SHOES = """
    SELECT shoe_id, table_id, decks, source, state, rounds, cards_drawn, cards_burned,
           cut_card_is_out, opened_at, closed_at
      FROM projection.shoes
     WHERE opened_position > %(after)s
       AND (%(tables)s::text[] IS NULL OR table_id = ANY (%(tables)s))
       AND (%(ids)s::text[] IS NULL OR shoe_id = ANY (%(ids)s))
     ORDER BY opened_position
     LIMIT %(limit)s
"""
_OPENED_POSITION = "SELECT opened_position FROM projection.shoes WHERE shoe_id = %s"


def next_shoes(
    connection: Connection[Any],
    *,
    after: int = 0,
    limit: int,
    tables: Sequence[str] | None = None,
    ids: Sequence[str] | None = None,
) -> list[ShoeLine]:
    """The first shoes that were opened after a position, at most `limit`, the oldest first."""
    wanted = {"after": after, "limit": limit, "tables": tables, "ids": ids}
    with reading(connection, ShoeLine) as cursor:
        return cursor.execute(_NEXT_SHOES, wanted, prepare=False).fetchall()


def opened_position(connection: Connection[Any], shoe_id: str) -> int | None:
    """The position at which a shoe was opened; None where it is not known."""
    with connection.cursor(row_factory=scalar_row) as cursor:
        return cursor.execute(_OPENED_POSITION, [shoe_id]).fetchone()


def shoes(connection: Connection[Any], *, table: str | None = None) -> list[ShoeLine]:
    """Every shoe, or those of one table, in the order in which they were opened."""
    with reading(connection, ShoeLine) as cursor:
        return cursor.execute(_SHOES, {"table": table}).fetchall()
