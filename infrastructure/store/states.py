"""The states of accounts, kept beside the events so that a long stream need not be read whole.

Shoes and rounds are short. An account may have a hundred thousand events, and a
command on it is to cost what it costs on one with ten.
"""

import msgspec

from domain.account import Account
from infrastructure.store.session import KeptState

STATE_LOGIC = 1
"""Goes up with every change of `Account` or of what it does with an event; a state
that was kept by another logic is not used."""

EVENTS_A_STATE = 100


def is_due(account: Account, *, before: int) -> bool:
    """Whether the state is kept again, now that the version has gone up from `before`."""
    return account.version // EVENTS_A_STATE > before // EVENTS_A_STATE


def keep(account: Account) -> KeptState:
    """The state of an account as it is kept."""
    return KeptState(account.id, account.version, _ENCODER.encode(account))


def restore(kept: KeptState) -> Account:
    """The account as it was kept; its events go on from there."""
    account = _DECODER.decode(kept.state)
    assert (account.id, account.version) == (kept.stream_id, kept.version)
    return account


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Account)
