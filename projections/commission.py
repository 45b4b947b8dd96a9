"""The commission by table, shoe, account or gaming day, from the measures of the days."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from psycopg import Connection

from projections.projection import reading


class CommissionBy(StrEnum):
    """What commission is added up by."""

    TABLE = "table"
    SHOE = "shoe"
    ACCOUNT = "account"
    DAY = "day"


@dataclass(frozen=True, slots=True)
class CommissionLine:
    """What was charged and marked, less what corrections took back, in minor units.

    `winning_banker_stakes_minor` and `bets` are of the Banker bets that have
    won, whatever the table's variant takes from them.
    """

    key: str
    currency: str
    commission_minor: int
    winning_banker_stakes_minor: int
    bets: int


_COMMISSION = """
    SELECT key, currency, commission_minor, winning_banker_stakes_minor, bets
      FROM (
        SELECT {key} AS key, currency,
               sum(commission_minor) AS commission_minor,
               sum(won_minor) AS winning_banker_stakes_minor,
               sum(won_bets)::bigint AS bets
          FROM projection.day_play
         WHERE bet = 'banker'
         GROUP BY 1, 2
        HAVING bool_or(commission_minor <> 0 OR won_bets <> 0)
      ) AS totals
     ORDER BY key COLLATE "C", currency
"""
_KEYS = {
    CommissionBy.TABLE: "table_id",
    CommissionBy.SHOE: "shoe_id",
    CommissionBy.ACCOUNT: "account_id",
    CommissionBy.DAY: "to_char(day, 'YYYY-MM-DD')",
}


def commission(connection: Connection[Any], by: CommissionBy) -> list[CommissionLine]:
    """The totals of everything that commission was due on, in the order of the keys.

    A day is the one in which the round was settled; what a correction changed
    stands in that of the correction.
    """
    with reading(connection, CommissionLine) as cursor:
        return cursor.execute(_COMMISSION.format(key=_KEYS[by]).encode()).fetchall()
