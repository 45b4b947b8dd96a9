"""An account's statement: what it had, each transaction in order, and what that came to.

It is made from the account's own events, so that it needs no read model, and
the same period of the same events gives the same bytes.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, cast

from domain.account import Account, AccountEvent, AccountOpened
from domain.event import DomainEvent, Recorded


@dataclass(frozen=True, slots=True)
class Holding:
    """What an account has, has in play, and owes, in minor units."""

    available_minor: int
    in_play_minor: int
    commission_due_minor: int
    owed_minor: int


@dataclass(frozen=True, slots=True)
class Movement:
    """A transaction, numbered by the account's version, and the balance before and after it.

    `amount_minor` is what it added to the available balance. `details` are what
    else the event says: the round, the bet, the stake, the reason.
    """

    number: int
    position: int
    at: datetime
    event: str
    actor: str
    amount_minor: int
    before_minor: int
    after_minor: int
    after: Holding
    details: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Statement:
    """The movements of a period: at `from_` or later, and before `to`.

    `position` is that of the account's latest transaction before the end of the
    period; nothing that is recorded after it changes what stands here.
    """

    account_id: str
    currency: str
    from_: datetime | None
    to: datetime | None
    position: int
    opening: Holding
    movements: tuple[Movement, ...]
    closing: Holding

    def to_json(self) -> dict[str, Any]:
        """The statement with the names of its period as the command line has them."""
        document = asdict(self)
        return {
            "account_id": document.pop("account_id"),
            "currency": document.pop("currency"),
            "from": document.pop("from_"),
            **document,
        }


def statement(
    events: Sequence[Recorded], *, from_: datetime | None = None, to: datetime | None = None
) -> Statement:
    """The statement of an account by all of its events."""
    account = Account(events[0].event.originator_id)
    position, opening = 0, _holding(account)
    movements: list[Movement] = []
    for recorded in events:
        if to is not None and recorded.event.at >= to:
            break
        before, account = account, account.apply(cast(AccountEvent, recorded.event))
        position = recorded.position
        if from_ is not None and recorded.event.at < from_:
            opening = _holding(account)
        else:
            movements.append(_movement(recorded, before, account))
    opened = events[0].event
    return Statement(
        account_id=account.name,
        currency=opened.currency if isinstance(opened, AccountOpened) else account.currency,
        from_=from_,
        to=to,
        position=position,
        opening=opening,
        movements=tuple(movements),
        closing=_holding(account),
    )


def _movement(recorded: Recorded, before: Account, after: Account) -> Movement:
    position, event = recorded
    return Movement(
        number=event.originator_version,
        position=position,
        at=event.at,
        event=event.TOPIC,
        actor=event.actor,
        amount_minor=after.available_minor - before.available_minor,
        before_minor=before.available_minor,
        after_minor=after.available_minor,
        after=_holding(after),
        details=_details(event),
    )


def _details(event: DomainEvent) -> dict[str, Any]:
    """What an event says beside what every event does."""
    names = type(event).__annotations__.keys() - {"TOPIC", "class_version"}
    found = {name: getattr(event, name) for name in sorted(names)}
    return {name: value for name, value in found.items() if value is not None}


def _holding(account: Account) -> Holding:
    return Holding(
        available_minor=account.available_minor,
        in_play_minor=account.in_play_minor,
        commission_due_minor=account.commission_due_minor,
        owed_minor=account.owed_minor,
    )
