"""Entries of the journal: the postings of one event, and amounts as other programs write them."""

from collections.abc import Iterable, Iterator
from itertools import groupby

from domain.money import DECIMALS
from projections.postings import Posting


def entries(postings: Iterable[Posting]) -> Iterator[list[Posting]]:
    """The postings of each event together."""
    for _, entry in groupby(postings, key=lambda posting: posting.position):
        yield list(entry)


def decimal(amount_minor: int, currency: str) -> str:
    """An amount with the currency's decimals and nothing between its digits: `1234.50`."""
    decimals = DECIMALS.get(currency, 0)
    whole, fraction = divmod(abs(amount_minor), 10**decimals)
    sign = "-" if amount_minor < 0 else ""
    return f"{sign}{whole}.{fraction:0{decimals}}" if decimals else f"{sign}{whole}"


def subject(posting: Posting) -> str:
    """What an entry is about, as its description says it."""
    about = [
        f"{name} {value}"
        for name, value in (
            ("account", posting.account_id),
            ("round", posting.round_id),
            ("bet", posting.bet_id),
        )
        if value is not None
    ]
    return ", ".join([posting.event, *about])


def facts(posting: Posting) -> dict[str, str]:
    """What stands beside an entry, each fact under a name of its own."""
    found = {
        "position": str(posting.position),
        "happened": posting.at.isoformat(),
        "player": posting.account_id,
        "transaction": None if posting.number is None else str(posting.number),
        "round": posting.round_id,
        "bet": posting.bet_id,
        "table": posting.table_id,
        "shoe": posting.shoe_id,
        "own_day": None if posting.own_day == posting.day else posting.own_day.isoformat(),
    }
    return {name: value for name, value in found.items() if value is not None}
