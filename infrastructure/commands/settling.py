"""What a settlement and a collection do to the accounts."""

from collections.abc import Iterable

from domain.account import CommissionMarked
from domain.bets import Settlement
from domain.event import Stamp
from domain.round import Bet, Round
from infrastructure.casino import Book


def resolve(book: Book, round_: Round, bet: Bet, settlement: Settlement, stamp: Stamp) -> list[str]:
    """Resolves the stake of a bet; the account's name where commission was marked as due."""
    resolved = book.account(bet.account_id).resolve_stake(
        settlement,
        round_id=round_.name,
        bet_id=bet.id,
        collection=round_.rules.commission.collection,
        stamp=stamp,
    )
    book.record(*resolved)
    return [bet.account_id] if isinstance(resolved[-1], CommissionMarked) else []


def collect_commission(book: Book, account_ids: Iterable[str], stamp: Stamp) -> None:
    """Collects from each account what it has due, as far as its balance reaches."""
    ids = sorted(set(account_ids))
    book.fetch([f"account:{account_id}" for account_id in ids])
    for account_id in ids:
        account = book.account(account_id)
        due = account.commission_due_minor
        book.record(*account.collect(commission_minor=due, owed_minor=0, stamp=stamp))
