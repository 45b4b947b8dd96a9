"""The ledger's accounts in the hierarchy and the spelling of other programs' books.

beancount allows letters, digits and `-` in a part of an account's name, and a
part starts with a capital or a digit; hledger allows that too. Each id has one
spelling of its own: `-` stands before the letter of what beancount does not
allow, and a lower-case first letter is a capital with `-l` at the end.
"""

from domain.books import (
    CAGE,
    COMMISSION,
    COMMISSION_DUE,
    HOUSE,
    IN_PLAY,
    OWED,
    WALLET,
    WIN,
)

_SPELT = {"-": "--", ".": "-p", "_": "-u", ":": "-c"}
_PLAIN = {CAGE: "Assets:Cage", HOUSE: "Equity:House"}
_KINDS = {
    WALLET: "Liabilities:Players:",
    IN_PLAY: "Liabilities:InPlay:",
    COMMISSION: "Income:Commission:",
    COMMISSION_DUE: "Assets:CommissionDue:",
    OWED: "Assets:Owed:",
}


def book_name(account: str) -> str:
    """The name of a ledger account in books that have a hierarchy."""
    if account in _PLAIN:
        return _PLAIN[account]
    kind, _, name = account.partition(":")
    if f"{kind}:" == WIN:
        # The last part is what was staked on, which has no colon in it; a table's id may.
        table_id, _, bet = name.rpartition(":")
        on = "".join(word.capitalize() for word in bet.split("_"))
        return f"Income:Win:{spelt(table_id)}:{on}"
    return _KINDS[f"{kind}:"] + spelt(name)


def spelt(name: str) -> str:
    """An id as a part of an account's name; no two ids become one."""
    letters = "".join(
        letter if letter.isascii() and letter.isalnum() else _SPELT.get(letter, _code(letter))
        for letter in name
    )
    first = letters[:1]
    if first == "-" or not first:
        return f"X{letters}-x"
    if first.islower():
        return f"{first.upper()}{letters[1:]}-l"
    return letters


def _code(letter: str) -> str:
    """A letter that no id has, but that somebody wrote into a ledger."""
    return f"-h{ord(letter):06x}"
