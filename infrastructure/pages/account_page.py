"""The pages of the accounts: the list, and a statement with the balance then and now."""

from dataclasses import dataclass
from datetime import datetime

from infrastructure.books.statement import Movement, Statement, statement
from infrastructure.pages.ledger import AskedLedger, NotThere, NotUnderstood
from infrastructure.pages.words import event_name
from projections import balances, postings
from projections.balances import AccountLine, Balance

ACCOUNTS_SHOWN = 500
MOVEMENTS_SHOWN = 200


@dataclass(frozen=True, slots=True)
class AccountView:
    """What the page of an account shows.

    `movements` are the newest of the statement, the latest first. `then` is the
    balance that was asked for, by a time or by a position; None where none was.
    """

    statement: Statement
    movements: tuple[Movement, ...]
    now: Balance
    then: Balance | None
    then_said: str | None


def newest_accounts(ledger: AskedLedger) -> list[AccountLine]:
    """The newest accounts, the latest first."""
    return balances.accounts(ledger.connection, limit=ACCOUNTS_SHOWN)[::-1]


def account_view(
    ledger: AskedLedger,
    account_id: str,
    *,
    from_: datetime | None = None,
    to: datetime | None = None,
    at: datetime | None = None,
    position: int | None = None,
) -> AccountView:
    """A statement of a period, and the balance as of a time or a position beside today's."""
    events = ledger.reader.stream(f"account:{account_id}")
    now = balances.balance(ledger.connection, account_id)
    if not events or now is None:
        raise NotThere(f"There is no account {account_id}.")
    found = statement(events, from_=from_, to=to)
    then, said = _then(ledger, account_id, at=at, position=position)
    return AccountView(
        statement=found,
        movements=found.movements[-MOVEMENTS_SHOWN:][::-1],
        now=now,
        then=then,
        then_said=said,
    )


def about(movement: Movement) -> str:
    """What a movement was, in words: what happened, and why where somebody said so."""
    said = event_name(movement.event)
    reason = movement.details.get("reason")
    return said if reason is None else f"{said}: {reason}"


def _then(
    ledger: AskedLedger, account_id: str, *, at: datetime | None, position: int | None
) -> tuple[Balance | None, str | None]:
    if at is not None and position is not None:
        raise NotUnderstood("A balance is as of a time or as of a position, not of both.")
    if position is not None:
        head = postings.position(ledger.connection)
        if position > head:
            raise NotUnderstood(f"The ledger has come to position {head}, not to {position}.")
        found = postings.balance_as_of(ledger.connection, account_id, position)
        return found, f"position {position}"
    if at is not None:
        return postings.balance_at(ledger.connection, account_id, at), "that time"
    return None, None
