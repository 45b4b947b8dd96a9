"""What each account has, has in play, and owes, as of its latest transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, assert_never, cast

from psycopg import Connection
from psycopg.rows import scalar_row

from domain.account import (
    AccountClosed,
    AccountEvent,
    AccountFrozen,
    AccountOpened,
    AccountReopened,
    AccountUnfrozen,
    CommissionCharged,
    CommissionMarked,
    DueCollected,
    FundsDeposited,
    FundsWithdrawn,
    SettlementReversed,
    StakeLost,
    StakePlaced,
    StakeReturned,
    WinPaid,
)
from domain.event import DomainEvent, Recorded
from projections.projection import RowProjection, reading, topics_of


@dataclass(slots=True)
class BalanceRow:
    """A row of `balances`."""

    account_id: str
    currency: str
    available_minor: int
    in_play_minor: int
    commission_due_minor: int
    owed_minor: int
    is_frozen: bool
    is_closed: bool
    opened_at: datetime
    opened_position: int
    version: int


class Balances(RowProjection[BalanceRow]):
    """A row for each account."""

    name = "balances"
    version = 2
    tables = ("balances",)
    topics = topics_of(AccountEvent)
    row_type = BalanceRow
    key_column = "account_id"
    ddl = """
        CREATE TABLE balances (
            account_id text COLLATE "C" PRIMARY KEY,
            currency text COLLATE "C" NOT NULL,
            available_minor numeric(38, 0) NOT NULL,
            in_play_minor numeric(38, 0) NOT NULL,
            commission_due_minor numeric(38, 0) NOT NULL,
            owed_minor numeric(38, 0) NOT NULL,
            is_frozen boolean NOT NULL,
            is_closed boolean NOT NULL,
            opened_at timestamptz NOT NULL,
            opened_position bigint NOT NULL UNIQUE,
            version bigint NOT NULL
        )
    """
    select = """
        SELECT account_id, currency, available_minor, in_play_minor, commission_due_minor,
               owed_minor, is_frozen, is_closed, opened_at, opened_position, version
          FROM balances
         WHERE account_id = ANY (%(keys)b::text[])
    """
    upsert = """
        INSERT INTO balances
        SELECT * FROM json_populate_recordset(NULL::balances, %(rows)s)
        ON CONFLICT (account_id) DO UPDATE SET
            available_minor = excluded.available_minor,
            in_play_minor = excluded.in_play_minor,
            commission_due_minor = excluded.commission_due_minor,
            owed_minor = excluded.owed_minor,
            is_frozen = excluded.is_frozen,
            is_closed = excluded.is_closed,
            version = excluded.version
    """

    def key(self, event: DomainEvent) -> str:
        return event.originator_id.removeprefix("account:")

    def apply(self, rows: dict[str, BalanceRow], recorded: Recorded) -> None:
        event = cast(AccountEvent, recorded.event)
        account_id = self.key(event)
        if isinstance(event, AccountOpened):
            row = BalanceRow(
                account_id=account_id,
                currency=event.currency,
                available_minor=0,
                in_play_minor=0,
                commission_due_minor=0,
                owed_minor=0,
                is_frozen=False,
                is_closed=False,
                opened_at=event.at,
                opened_position=recorded.position,
                version=event.originator_version,
            )
            self.add(rows, row)
            return
        row = self.known(rows, account_id)
        row.version = event.originator_version
        match event:
            case FundsDeposited():
                row.available_minor += event.amount_minor
            case FundsWithdrawn():
                row.available_minor -= event.amount_minor
            case StakePlaced():
                row.available_minor += (event.owed_minor or 0) - event.stake_minor
                row.in_play_minor += event.stake_minor
                row.owed_minor += event.owed_minor or 0
            case StakeLost():
                row.in_play_minor -= event.stake_minor
            case StakeReturned():
                row.in_play_minor -= event.stake_minor
                row.available_minor += event.stake_minor
            case WinPaid():
                row.in_play_minor -= event.stake_minor
                row.available_minor += event.stake_minor + event.win_minor
            case CommissionCharged():
                row.available_minor -= event.commission_minor
            case CommissionMarked():
                row.commission_due_minor += event.commission_minor
            case DueCollected():
                row.available_minor -= event.commission_minor + event.owed_minor
                row.commission_due_minor -= event.commission_minor
                row.owed_minor -= event.owed_minor
            case SettlementReversed():
                row.available_minor += event.refunded_minor + event.owed_minor - event.taken_minor
                row.in_play_minor += event.stake_minor
                row.commission_due_minor -= event.unmarked_minor
                row.owed_minor += event.owed_minor
            case AccountFrozen():
                row.is_frozen = True
            case AccountUnfrozen():
                row.is_frozen = False
            case AccountClosed():
                row.is_closed = True
            case AccountReopened():
                row.is_closed = False
                row.is_frozen = True
            case _:
                assert_never(event)


@dataclass(frozen=True, slots=True)
class Balance:
    """An account's balance as of a position of the ledger."""

    account_id: str
    currency: str
    available_minor: int
    in_play_minor: int
    commission_due_minor: int
    owed_minor: int
    position: int


@dataclass(frozen=True, slots=True)
class AccountLine:
    """An account in a list; `version` is the number of its latest transaction."""

    account_id: str
    currency: str
    available_minor: int
    in_play_minor: int
    commission_due_minor: int
    owed_minor: int
    is_frozen: bool
    is_closed: bool
    opened_at: datetime
    version: int


_BALANCE = """
    SELECT account_id, currency, available_minor, in_play_minor, commission_due_minor, owed_minor,
           tracking.position
      FROM projection.balances
      JOIN projection.tracking ON tracking.name = 'balances'
     WHERE account_id = %(account_id)s
"""
_ACCOUNTS = """
    SELECT account_id, currency, available_minor, in_play_minor, commission_due_minor, owed_minor,
           is_frozen, is_closed, opened_at, version
      FROM (
        SELECT *
          FROM projection.balances
         ORDER BY opened_position DESC
         LIMIT %(limit)s::bigint
      ) AS newest
     ORDER BY opened_position
"""


def balance(connection: Connection[Any], account_id: str) -> Balance | None:
    """An account's balance; None where there is no such account."""
    with reading(connection, Balance) as cursor:
        return cursor.execute(_BALANCE, {"account_id": account_id}).fetchone()


def accounts(connection: Connection[Any], *, limit: int | None = None) -> list[AccountLine]:
    """The newest accounts, at most `limit`, in the order in which they were opened."""
    with reading(connection, AccountLine) as cursor:
        return cursor.execute(_ACCOUNTS, {"limit": limit}).fetchall()


_NEXT_ACCOUNTS = """
    SELECT account_id, currency, available_minor, in_play_minor, commission_due_minor, owed_minor,
           is_frozen, is_closed, opened_at, version
      FROM projection.balances
     WHERE opened_position > %(after)s
       AND (%(ids)s::text[] IS NULL OR account_id = ANY (%(ids)s))
     ORDER BY opened_position
     LIMIT %(limit)s
"""
_OPENED_POSITION = "SELECT opened_position FROM projection.balances WHERE account_id = %s"


def next_accounts(
    connection: Connection[Any], *, after: int = 0, limit: int, ids: Sequence[str] | None = None
) -> list[AccountLine]:
    """The first accounts that were opened after a position, at most `limit`, the oldest first."""
    wanted = {"after": after, "limit": limit, "ids": ids}
    with reading(connection, AccountLine) as cursor:
        return cursor.execute(_NEXT_ACCOUNTS, wanted, prepare=False).fetchall()


def opened_position(connection: Connection[Any], account_id: str) -> int | None:
    """The position at which an account was opened; None where it is not known."""
    with connection.cursor(row_factory=scalar_row) as cursor:
        return cursor.execute(_OPENED_POSITION, [account_id]).fetchone()
