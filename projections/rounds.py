"""The rounds: cards as they fell, outcome as declared, and how much was staked."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, assert_never, cast

from psycopg import Connection
from psycopg.rows import scalar_row

from domain.errors import Refused
from domain.event import DomainEvent, Recorded
from domain.round import (
    BetCancelled,
    BetPlaced,
    BetSettled,
    BettingClosed,
    CardDealt,
    CorrectionProposed,
    CorrectionRejected,
    RoundCorrected,
    RoundEvent,
    RoundOpened,
    RoundResolved,
    RoundSettled,
    RoundState,
    RoundVoided,
    ThirdCardDrawn,
)
from domain.tableau import Hand
from projections.projection import RowProjection, reading, topics_of


@dataclass(slots=True)
class RoundRow:
    """A row of `rounds`; a hand's cards are written with a space between them.

    `stakes` are those of the bets that can still be cancelled, by the bets' ids.
    """

    round_id: str
    table_id: str
    shoe_id: str
    number: int
    currency: str
    state: str
    opened_at: datetime
    opened_position: int
    player_cards: str = ""
    banker_cards: str = ""
    player_total: int | None = None
    banker_total: int | None = None
    outcome: str | None = None
    settled_at: datetime | None = None
    stakes: dict[str, int] = field(default_factory=dict)
    bets: int = 0
    turnover_minor: int = 0


class Rounds(RowProjection[RoundRow]):
    """A row for each round that was opened."""

    name = "rounds"
    version = 2
    tables = ("rounds",)
    topics = topics_of(RoundEvent)
    row_type = RoundRow
    key_column = "round_id"
    ddl = """
        CREATE TABLE rounds (
            round_id text COLLATE "C" PRIMARY KEY,
            table_id text COLLATE "C" NOT NULL,
            shoe_id text COLLATE "C" NOT NULL,
            number bigint NOT NULL,
            currency text COLLATE "C" NOT NULL,
            state text COLLATE "C" NOT NULL,
            player_cards text COLLATE "C" NOT NULL,
            banker_cards text COLLATE "C" NOT NULL,
            player_total integer,
            banker_total integer,
            outcome text COLLATE "C",
            stakes jsonb NOT NULL,
            bets bigint NOT NULL,
            turnover_minor numeric(38, 0) NOT NULL,
            opened_at timestamptz NOT NULL,
            settled_at timestamptz,
            opened_position bigint NOT NULL UNIQUE
        );
    """
    indexes = """
        CREATE INDEX IF NOT EXISTS rounds_by_table ON rounds (table_id, opened_position);
        CREATE INDEX IF NOT EXISTS rounds_by_shoe ON rounds (shoe_id, opened_position);
        CREATE INDEX IF NOT EXISTS rounds_by_time ON rounds USING brin (opened_at);
        CREATE INDEX IF NOT EXISTS rounds_interrupted ON rounds (opened_position)
            WHERE state NOT IN ('settled', 'void');
    """
    select = """
        SELECT round_id, table_id, shoe_id, number, currency, state, player_cards, banker_cards,
               player_total, banker_total, outcome, stakes, bets, turnover_minor, opened_at,
               settled_at, opened_position
          FROM rounds
         WHERE round_id = ANY (%(keys)b::text[])
    """
    upsert = """
        INSERT INTO rounds
        SELECT * FROM json_populate_recordset(NULL::rounds, %(rows)s)
        ON CONFLICT (round_id) DO UPDATE SET
            state = excluded.state,
            player_cards = excluded.player_cards,
            banker_cards = excluded.banker_cards,
            player_total = excluded.player_total,
            banker_total = excluded.banker_total,
            outcome = excluded.outcome,
            stakes = excluded.stakes,
            bets = excluded.bets,
            turnover_minor = excluded.turnover_minor,
            settled_at = excluded.settled_at
    """

    def key(self, event: DomainEvent) -> str:
        return event.originator_id.removeprefix("round:")

    def apply(self, rows: dict[str, RoundRow], recorded: Recorded) -> None:
        event = cast(RoundEvent, recorded.event)
        round_id = self.key(event)
        if isinstance(event, RoundOpened):
            row = RoundRow(
                round_id=round_id,
                table_id=event.table_id,
                shoe_id=event.shoe_id,
                number=event.number,
                currency=event.currency,
                state=RoundState.BETTING.value,
                opened_at=event.at,
                opened_position=recorded.position,
            )
            self.add(rows, row)
            return
        if isinstance(event, BetCancelled) and round_id not in rows:
            # A tombstone. The bet that it forbids will never be placed, so nothing is kept of it.
            return
        row = self.known(rows, round_id)
        match event:
            case BetPlaced():
                row.stakes[event.bet_id] = event.stake_minor
                row.bets += 1
                row.turnover_minor += event.stake_minor
            case BetCancelled():
                if event.bet_id in row.stakes:
                    row.bets -= 1
                    row.turnover_minor -= row.stakes.pop(event.bet_id)
            case BettingClosed():
                row.state = RoundState.DEALING.value
                row.stakes = {}
            case CardDealt() | ThirdCardDrawn():
                card = str(event.card)
                if event.hand is Hand.PLAYER:
                    row.player_cards = f"{row.player_cards} {card}".lstrip()
                else:
                    row.banker_cards = f"{row.banker_cards} {card}".lstrip()
            case RoundResolved():
                row.state = RoundState.RESOLVED.value
                row.player_total = event.player_total
                row.banker_total = event.banker_total
                row.outcome = event.outcome.value
            case BetSettled():
                pass
            case RoundSettled():
                row.state = RoundState.SETTLED.value
                row.settled_at = event.at
            case RoundVoided():
                row.state = RoundState.VOID.value
                row.stakes = {}
                row.turnover_minor = 0
            case CorrectionProposed() | CorrectionRejected():
                pass
            case RoundCorrected():
                _correct(row, event)
            case _:
                assert_never(event)


def _correct(row: RoundRow, event: RoundCorrected) -> None:
    """What holds after a correction; it was settled when it was settled first."""
    row.player_cards = " ".join(map(str, event.player))
    row.banker_cards = " ".join(map(str, event.banker))
    row.player_total = event.player_total
    row.banker_total = event.banker_total
    row.outcome = event.outcome.value
    row.turnover_minor = sum(bet.stake_minor for bet in event.bets)
    if event.is_void:
        row.state = RoundState.VOID.value
    else:
        row.bets = len(event.bets)


@dataclass(frozen=True, slots=True)
class RoundLine:
    """A round in a list. It holds nothing that differs between two stores of the same events.

    `bets` counts those that were not cancelled; `turnover` is what was staked
    with them, by currency, and nothing in a void round. Totals and outcome are
    the recorded ones, None until the deal is complete.
    """

    round_id: str
    table_id: str
    shoe_id: str
    number: int
    state: str
    player_cards: list[str]
    banker_cards: list[str]
    player_total: int | None
    banker_total: int | None
    outcome: str | None
    bets: int
    turnover: dict[str, int]
    opened_at: datetime
    settled_at: datetime | None


_ROUNDS = """
    SELECT round_id, table_id, shoe_id, number, state,
           string_to_array(player_cards, ' ') AS player_cards,
           string_to_array(banker_cards, ' ') AS banker_cards,
           player_total, banker_total, outcome, bets,
           jsonb_build_object(currency, turnover_minor) AS turnover,
           opened_at, settled_at
      FROM (
        SELECT *
          FROM projection.rounds
         WHERE (%(table)s::text IS NULL OR table_id = %(table)s)
           AND (%(shoe)s::text IS NULL OR shoe_id = %(shoe)s)
           AND (%(from)s::timestamptz IS NULL OR opened_at >= %(from)s)
           AND (%(to)s::timestamptz IS NULL OR opened_at < %(to)s)
           AND (%(after)s::bigint IS NULL OR opened_position > %(after)s)
           AND (%(ids)s::text[] IS NULL OR round_id = ANY (%(ids)s))
         ORDER BY opened_position DESC
         LIMIT %(limit)s::bigint
      ) AS newest
     ORDER BY opened_position
"""
_NEXT_ROUNDS = """
    SELECT round_id, table_id, shoe_id, number, state,
           string_to_array(player_cards, ' ') AS player_cards,
           string_to_array(banker_cards, ' ') AS banker_cards,
           player_total, banker_total, outcome, bets,
           jsonb_build_object(currency, turnover_minor) AS turnover,
           opened_at, settled_at
      FROM projection.rounds
     WHERE opened_position > %(after)s
       AND (%(tables)s::text[] IS NULL OR table_id = ANY (%(tables)s))
       AND (%(shoe)s::text IS NULL OR shoe_id = %(shoe)s)
     ORDER BY opened_position
     LIMIT %(limit)s
"""
_OPENED_POSITION = "SELECT opened_position FROM projection.rounds WHERE round_id = %(round_id)s"
_INTERRUPTED = """
    SELECT round_id
      FROM projection.rounds
     WHERE state NOT IN ('settled', 'void')
     ORDER BY opened_position
"""


def rounds(
    connection: Connection[Any],
    *,
    table: str | None = None,
    shoe: str | None = None,
    from_: datetime | None = None,
    to: datetime | None = None,
    limit: int | None = None,
    after: str | None = None,
    ids: Sequence[str] | None = None,
) -> list[RoundLine]:
    """The newest rounds that fit, at most `limit`, in the order in which they were opened.

    They were opened at `from_` or later, before `to`, and after the round
    `after`, which is refused where it is not known. `ids` names those wanted.
    """
    wanted = {"table": table, "shoe": shoe, "from": from_, "to": to, "limit": limit, "ids": ids}
    with reading(connection, RoundLine) as cursor:
        position = None if after is None else opened_position(connection, after)
        # Planned for these values: which of the conditions hold decides the index.
        cursor.execute(_ROUNDS, {**wanted, "after": position}, prepare=False)
        return cursor.fetchall()


def next_rounds(
    connection: Connection[Any],
    *,
    after: int,
    limit: int,
    tables: Sequence[str] | None = None,
    shoe: str | None = None,
) -> list[RoundLine]:
    """The first rounds that were opened after a position, at most `limit`, the oldest first."""
    wanted = {"after": after, "limit": limit, "tables": tables, "shoe": shoe}
    with reading(connection, RoundLine) as cursor:
        cursor.execute(_NEXT_ROUNDS, wanted, prepare=False)
        return cursor.fetchall()


def interrupted(connection: Connection[Any]) -> list[str]:
    """The rounds that are neither settled nor void, in the order in which they were opened."""
    with connection.cursor(row_factory=scalar_row) as cursor:
        return cursor.execute(_INTERRUPTED).fetchall()


def opened_position(connection: Connection[Any], round_id: str) -> int:
    """The position at which a round was opened; refused where it is not known."""
    with connection.cursor(row_factory=scalar_row) as cursor:
        position: int | None = cursor.execute(_OPENED_POSITION, {"round_id": round_id}).fetchone()
    if position is None:
        raise Refused("unknown_round", f"there is no round {round_id}", field="after")
    return position
