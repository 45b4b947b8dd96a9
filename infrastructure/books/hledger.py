"""The journal as hledger reads it, with its balances asserted at the end.

Every account and commodity is declared, so that `hledger check --strict`
accepts the file, and what this ledger calls them stands beside them.
"""

from collections.abc import Iterable, Iterator, Sequence

from domain.money import DECIMALS
from infrastructure.books.entries import decimal, entries, facts, subject
from infrastructure.books.names import book_name
from projections.postings import Posting, Total

_TYPES = {"Assets": "A", "Liabilities": "L", "Equity": "E", "Income": "R"}


def hledger(postings: Iterable[Posting], totals: Sequence[Total], position: int) -> Iterator[str]:
    """The lines of a journal of these postings, which come to these totals."""
    yield f"; The ledger as of position {position}"
    yield "decimal-mark ."
    for currency in sorted({total.currency for total in totals}):
        yield f"commodity 1000.{'0' * DECIMALS.get(currency, 0)} {currency}"
    for account in dict.fromkeys(total.account for total in totals):
        name = book_name(account)
        yield f"account {name}  ; type:{_TYPES[name.partition(':')[0]]}, original:{account}"
    for entry in entries(postings):
        first = entry[0]
        yield ""
        yield f"{first.day} * ({first.position}) {subject(first)}"
        yield "    ; " + ", ".join(f"{name}:{value}" for name, value in facts(first).items())
        for posting in entry:
            amount = decimal(posting.amount_minor, posting.currency)
            yield f"    {book_name(posting.account)}  {amount} {posting.currency}"
    if totals:
        yield ""
        yield f"{max(total.last_day for total in totals)} * the balances of the ledger"
        for total in totals:
            zero, balance = (decimal(amount, total.currency) for amount in (0, total.balance_minor))
            yield (
                f"    {book_name(total.account)}  {zero} {total.currency}"
                f" = {balance} {total.currency}"
            )
