"""The journal as beancount reads it, with its balances asserted at the end.

`bean-check` accepts the file. What this ledger calls an account stands with the
directive that opens it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta

from infrastructure.books.entries import decimal, entries, facts, subject
from infrastructure.books.names import book_name
from projections.postings import Posting, Total


def beancount(postings: Iterable[Posting], totals: Sequence[Total], position: int) -> Iterator[str]:
    """The lines of a ledger of these postings, which come to these totals."""
    yield f"; The ledger as of position {position}"
    if not totals:
        return
    first_day = min(total.first_day for total in totals)
    currencies: dict[str, list[str]] = defaultdict(list)
    for total in totals:
        currencies[total.account].append(total.currency)
    for currency in sorted({total.currency for total in totals}):
        yield f"{first_day} commodity {currency}"
    for account, held in currencies.items():
        yield f"{first_day} open {book_name(account)} {','.join(held)}"
        yield f'  original: "{account}"'
    for entry in entries(postings):
        first = entry[0]
        yield ""
        yield f'{first.day} * "{subject(first)}"'
        for name, value in facts(first).items():
            yield f'  {name}: "{value}"'
        for posting in entry:
            amount = decimal(posting.amount_minor, posting.currency)
            yield f"  {book_name(posting.account)}  {amount} {posting.currency}"
    yield ""
    day_after = max(total.last_day for total in totals) + timedelta(days=1)
    for total in totals:
        # Without a tolerance of its own, beancount lets a balance be off by a minor unit.
        balance = decimal(total.balance_minor, total.currency)
        yield f"{day_after} balance {book_name(total.account)}  {balance} ~ 0 {total.currency}"
