"""Follows the log live."""

import time
from collections.abc import Iterator

from domain.errors import Refused
from domain.event import Recorded
from domain.round import RoundSettled, RoundState, RoundVoided
from infrastructure.cli.ledger import AWAY, OpenLedger, say
from infrastructure.store.errors import first_line
from projections import rounds, runner

_ENDED = (RoundState.SETTLED, RoundState.VOID)
_PAUSE_SECONDS = 0.5


def follow_rounds(
    ledger: OpenLedger, *, table: str | None, shoe: str | None, after: int
) -> Iterator[rounds.RoundLine]:
    """Each round that ends after a position, in the order in which they end.

    A store that goes away is waited for, however long that takes.
    """
    if not ledger.database.can_write:
        raise Refused(
            "invalid_command", "--follow keeps the projections, and this role may only read"
        )
    is_away = False
    while True:
        try:
            if is_away:
                ledger.reconnect()
            for position, lines in _ended(ledger, after=after, table=table, shoe=shoe):
                is_away = False
                after = position
                yield from lines
        except AWAY as error:
            if not is_away:
                say(f"The store is away, and the rounds go on when it is back: {first_line(error)}")
            is_away = True
            time.sleep(_PAUSE_SECONDS)


def _ended(
    ledger: OpenLedger, *, after: int, table: str | None, shoe: str | None
) -> Iterator[tuple[int, list[rounds.RoundLine]]]:
    """The rounds that ended, a page at a time, and the position up to which that holds.

    The log says which have ended, for another process may have folded them.
    """
    for _ in runner.follow(ledger.connection, ledger.reader.page):
        folded = min(position for _, position in runner.positions(ledger.connection))
        while after < folded:
            page = ledger.reader.page(after, folded - after)
            ended = [
                entry.event.originator_id.removeprefix("round:")
                for entry in page
                if isinstance(entry, Recorded)
                and isinstance(entry.event, RoundSettled | RoundVoided)
            ]
            lines = rounds.rounds(ledger.connection, table=table, shoe=shoe, ids=ended)
            # The end of a round may be parked, and what it came to is then not known.
            lines = [line for line in lines if line.state in _ENDED]
            after = page[-1].position
            yield after, sorted(lines, key=lambda line: ended.index(line.round_id))
