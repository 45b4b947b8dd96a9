"""What the journal answers: entries, the trial balance, and a balance at a position or a time."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime
from typing import Any

from psycopg import Connection
from psycopg.rows import class_row, scalar_row

from projections.balances import Balance
from projections.projection import exact, reading

ROWS_PER_FETCH = 2_000


@dataclass(frozen=True, slots=True)
class Posting:
    """A posting: an amount, positive where it is a debit, and the account's balance after it.

    `event` made the entry, as transaction `number` of the player's account
    `account_id`. The other columns are as the journal describes them.
    """

    position: int
    line: int
    account: str
    currency: str
    amount_minor: int
    balance_minor: int
    event: str
    account_id: str | None
    number: int | None
    round_id: str | None
    bet_id: str | None
    table_id: str | None
    shoe_id: str | None
    at: datetime
    day: date
    own_day: date
    holds_from: datetime


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which entries are asked for: those up to a position that all of these apply to.

    `account` is an account of the ledger that has a posting in them,
    `account_id` a player's account that they were made by, and `day` the gaming
    day in whose books they stand.
    """

    until: int
    account: str | None = None
    account_id: str | None = None
    round_id: str | None = None
    day: date | None = None


@dataclass(frozen=True, slots=True)
class Total:
    """What the postings that were asked for make of one account, and their days."""

    account: str
    currency: str
    balance_minor: int
    first_day: date
    last_day: date


@dataclass(frozen=True, slots=True)
class LedgerBalance:
    """An account's balance by its postings, and as it was kept from posting to posting."""

    account: str
    currency: str
    balance_minor: int
    kept_minor: int


_WANTED = """
      FROM projection.journal AS posting
     WHERE position <= %(until)s
       AND (%(account)s::text IS NULL OR position IN (
               SELECT position FROM projection.journal WHERE account = %(account)s
           ))
       AND (%(account_id)s::text IS NULL OR account_id = %(account_id)s)
       AND (%(round_id)s::text IS NULL OR round_id = %(round_id)s)
       AND (%(day)s::date IS NULL OR day = %(day)s)
"""
_POSTINGS = f"""
    SELECT position, line, account, currency, amount_minor, balance_minor, topic AS event,
           account_id, number, round_id, bet_id, table_id, shoe_id, at, day, own_day, holds_from
    {_WANTED}
     ORDER BY position, line
"""
_NEXT_POSTINGS = f"""
    SELECT position, line, account, currency, amount_minor, balance_minor, topic AS event,
           account_id, number, round_id, bet_id, table_id, shoe_id, at, day, own_day, holds_from
    {_WANTED}
       AND position > %(after)s
     ORDER BY position, line
     LIMIT %(limit)s
"""
_TOTALS = f"""
    SELECT account, currency, sum(amount_minor) AS balance_minor,
           min(day) AS first_day, max(day) AS last_day
    {_WANTED}
     GROUP BY account, currency
     ORDER BY account, currency
"""
_TRIAL_BALANCE = """
    SELECT account, currency, coalesce(posted.balance_minor, 0) AS balance_minor,
           coalesce(kept.balance_minor, 0) AS kept_minor
      FROM (
        SELECT account, currency, sum(amount_minor) AS balance_minor
          FROM projection.journal
         GROUP BY account, currency
      ) AS posted
      FULL JOIN projection.journal_accounts AS kept USING (account, currency)
     ORDER BY account, currency
"""
_HAS_ACCOUNT = "SELECT EXISTS (SELECT FROM projection.journal_accounts WHERE account = %s)"
_POSITION = "SELECT position FROM projection.tracking WHERE name = 'journal'"
_BALANCE = """
    SELECT account_id, currency,
           coalesce(-sum(amount_minor) FILTER (
               WHERE account = 'player:' || account_id), 0) AS available_minor,
           coalesce(-sum(amount_minor) FILTER (
               WHERE starts_with(account, 'in_play:')), 0) AS in_play_minor,
           coalesce(sum(amount_minor) FILTER (
               WHERE account = 'commission_due:' || account_id), 0) AS commission_due_minor,
           coalesce(sum(amount_minor) FILTER (
               WHERE account = 'owed:' || account_id), 0) AS owed_minor,
           %(position)s::bigint AS position
      FROM projection.balances AS opened
      LEFT JOIN (
        SELECT account_id, account, amount_minor
          FROM projection.journal
         WHERE account_id = %(account_id)s
           AND {until}
      ) AS posting USING (account_id)
     WHERE account_id = %(account_id)s AND {opened}
     GROUP BY account_id, currency
"""
_BALANCE_AS_OF = _BALANCE.format(
    until="position <= %(position)s", opened="opened_position <= %(position)s"
)
_BALANCE_AT = _BALANCE.format(until="holds_from <= %(at)s", opened="opened_at <= %(at)s")


def postings(connection: Connection[Any], wanted: Wanted) -> Iterator[Posting]:
    """The postings of the entries that are asked for, in order; reads a part at a time."""
    with (
        connection.transaction(),
        connection.cursor("postings", binary=True, row_factory=class_row(Posting)) as cursor,
    ):
        exact(cursor)
        cursor.itersize = ROWS_PER_FETCH
        cursor.execute(_POSTINGS, asdict(wanted))
        yield from cursor


def next_postings(
    connection: Connection[Any], wanted: Wanted, after: int, limit: int
) -> list[Posting]:
    """The first postings after a position: `limit` of them, and one more where there are more."""
    with reading(connection, Posting) as cursor:
        parameters = {**asdict(wanted), "after": after, "limit": limit + 1}
        return cursor.execute(_NEXT_POSTINGS, parameters, prepare=False).fetchall()


def totals(connection: Connection[Any], wanted: Wanted) -> list[Total]:
    """What the entries that are asked for come to, account by account."""
    with reading(connection, Total) as cursor:
        return cursor.execute(_TOTALS, asdict(wanted), prepare=False).fetchall()


def trial_balance(connection: Connection[Any]) -> list[LedgerBalance]:
    """Every account of the ledger, by name."""
    with reading(connection, LedgerBalance) as cursor:
        return cursor.execute(_TRIAL_BALANCE).fetchall()


def has_account(connection: Connection[Any], account: str) -> bool:
    """Whether the ledger has an account of this name, such as `cage` or `player:P1`."""
    with connection.cursor(row_factory=scalar_row) as cursor:
        return bool(cursor.execute(_HAS_ACCOUNT, [account]).fetchone())


def position(connection: Connection[Any]) -> int:
    """The position that the journal has come to."""
    with connection.cursor(row_factory=scalar_row) as cursor:
        found: int | None = cursor.execute(_POSITION).fetchone()
    assert found is not None
    return found


def balance_as_of(connection: Connection[Any], account_id: str, position: int) -> Balance | None:
    """What the ledger knew of an account at a position; None where it was not open then.

    No event after it makes any difference, so the answer never changes.
    """
    with reading(connection, Balance) as cursor:
        parameters = {"account_id": account_id, "position": position}
        return cursor.execute(_BALANCE_AS_OF, parameters).fetchone()


def balance_at(connection: Connection[Any], account_id: str, at: datetime) -> Balance | None:
    """What was true of an account at a time, by all that is known now; None where it was not open.

    A correction holds from the end of its round on, so it moves every answer
    about a time since then. What it took and was already spent shows as owed
    from the moment at which it was missing. Commission that it refunded counts
    as available from the end of the round on, and stays due until it was paid.
    """
    with reading(connection, Balance) as cursor:
        parameters = {"account_id": account_id, "at": at, "position": position(connection)}
        found = cursor.execute(_BALANCE_AT, parameters).fetchone()
    if found is None:
        return None
    missing_minor = max(-found.available_minor, 0)
    return replace(
        found,
        available_minor=found.available_minor + missing_minor,
        owed_minor=found.owed_minor + missing_minor,
    )
