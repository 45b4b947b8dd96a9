"""The commission in the ledger: what the journal posted to `commission` and `commission_due`."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import Any, NamedTuple

from psycopg import Connection

from domain.account import CommissionCharged, CommissionMarked, DueCollected, SettlementReversed
from domain.books import COMMISSION, COMMISSION_DUE
from infrastructure.audit.reconciliation.comparison import Item
from projections.projection import reading

_TOPICS = [
    event.TOPIC for event in (CommissionCharged, CommissionMarked, DueCollected, SettlementReversed)
]
"""What moves commission. A closing entry, which rolls it into the house, is none of them."""

_POSTINGS = """
    SELECT account, currency, amount_minor, account_id, round_id, bet_id, shoe_id, day
      FROM projection.journal
     WHERE position > %(after)s
       AND position <= %(until)s
       AND topic = ANY (%(topics)s::text[])
       AND (starts_with(account, %(commission)s) OR starts_with(account, %(due)s))
     ORDER BY position, line
"""


class LedgerAmount(NamedTuple):
    """A posting on `commission` or `commission_due`, in minor units.

    Credits to `commission` are positive, and debits to `commission_due`.
    """

    is_due: bool
    item: Item
    amount_minor: int


@dataclass(frozen=True, slots=True)
class _Posting:
    account: str
    currency: str
    amount_minor: int
    account_id: str | None
    round_id: str | None
    bet_id: str | None
    shoe_id: str | None
    day: date


def ledger_amounts(connection: Connection[Any], after: int, until: int) -> Iterable[LedgerAmount]:
    """The postings of commission after a position, up to and with another."""
    wanted = {"after": after, "until": until, "topics": _TOPICS}
    with reading(connection, _Posting) as cursor:
        cursor.execute(_POSTINGS, {**wanted, "commission": COMMISSION, "due": COMMISSION_DUE})
        return list(map(_amount, cursor))


def _amount(posting: _Posting) -> LedgerAmount:
    is_due = posting.account.startswith(COMMISSION_DUE)
    item = Item(
        currency=posting.currency,
        table=None if is_due else posting.account.removeprefix(COMMISSION),
        shoe=None if is_due else posting.shoe_id,
        account=posting.account.removeprefix(COMMISSION_DUE) if is_due else posting.account_id,
        day=posting.day.isoformat(),
        round=posting.round_id,
        bet=posting.bet_id,
    )
    return LedgerAmount(is_due, item, posting.amount_minor if is_due else -posting.amount_minor)
