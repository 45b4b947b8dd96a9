"""Audits accounts by themselves, each by its own stream, beside the ranges of a ledger."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, cast

from domain.account import AccountEvent
from domain.event import Entry, Recorded
from infrastructure.audit.findings import Tally
from infrastructure.audit.wallets import ACCOUNT_EVENTS, Wallets
from infrastructure.store.session import KeptState

_ACCOUNT_EVENTS = frozenset(ACCOUNT_EVENTS)


class Tangled(Exception):  # noqa: N818 - it says what is the case, as Refused does
    """A ledger in which parts cannot be told from each other: it must be seen in one go."""


class ToCollect(NamedTuple):
    """The accounts of which a shoe's commission is to be collected by a position."""

    position: int
    shoe_id: str
    names: list[str]


class AccountsAuditor:
    """Follows accounts, given their events stream by stream, each in the order of its versions."""

    def __init__(
        self, tally: Tally, *, kept: Mapping[str, KeptState], to_collect: Iterable[ToCollect]
    ) -> None:
        self._wallets = Wallets(tally, kept=kept)
        self._to_collect: dict[str, list[tuple[int, str]]] = {}
        for position, shoe_id, names in to_collect:
            for name in names:
                self._to_collect.setdefault(f"account:{name}", []).append((position, shoe_id))
        self._stream = ""
        self._position = 0
        self._due: list[tuple[int, str]] = []

    def see_all(self, entries: Iterable[Entry]) -> None:
        """Takes in the next events.

        Raises Tangled where the versions of a stream come in another order than
        its positions, or where its events are none of an account.
        """
        for entry in entries:
            position = entry.position
            stream = entry.event.originator_id if isinstance(entry, Recorded) else entry.stream
            if stream != self._stream:
                self._turn_to(stream)
            elif position < self._position:
                raise Tangled
            self._position = position
            if self._due:
                self._collect(before=position)
            if not isinstance(entry, Recorded):
                self._wallets.see_unreadable(entry)
            elif type(entry.event) in _ACCOUNT_EVENTS:
                self._wallets.see(position, cast(AccountEvent, entry.event))
            else:
                raise Tangled

    def finish(self) -> None:
        """Ends the last stream, and finds the states that were kept of no events at all."""
        self._turn_to("")
        self._wallets.finish()

    def _turn_to(self, stream: str) -> None:
        self._collect(before=None)
        self._wallets.leave(self._stream)
        self._stream = stream
        self._due = sorted(self._to_collect.get(stream, ()), reverse=True)

    def _collect(self, *, before: int | None) -> None:
        while self._due and (before is None or self._due[-1][0] < before):
            position, shoe_id = self._due.pop()
            name = self._stream.removeprefix("account:")
            self._wallets.check_collected(position, shoe_id, [name])
