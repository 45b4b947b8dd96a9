"""Follows the log live."""

from collections.abc import Iterator

from domain.errors import Refused
from domain.event import Recorded
from domain.round import RoundSettled, RoundState, RoundVoided
from infrastructure.cli.ledger import OpenLedger
from projections import rounds, runner

_ENDED = (RoundState.SETTLED, RoundState.VOID)


def follow_rounds(
    ledger: OpenLedger, *, table: str | None, shoe: str | None
) -> Iterator[rounds.RoundLine]:
    """Each round as it ends, from now on, in the order in which they end.

    The log says which have ended, for another process may have folded them.
    """
    if not ledger.database.can_write:
        raise Refused(
            "invalid_command", "--follow keeps the projections, and this role may only read"
        )
    seen = ledger.reader.head()
    for _ in runner.follow(ledger.connection, ledger.reader.page):
        folded = min(position for _, position in runner.positions(ledger.connection))
        while seen < folded:
            page = ledger.reader.page(seen, folded - seen)
            seen = page[-1].position
            ended = [
                entry.event.originator_id.removeprefix("round:")
                for entry in page
                if isinstance(entry, Recorded)
                and isinstance(entry.event, RoundSettled | RoundVoided)
            ]
            lines = rounds.rounds(ledger.connection, table=table, shoe=shoe, ids=ended)
            # The end of a round may be parked, and what it came to is then not known.
            lines = [line for line in lines if line.state in _ENDED]
            yield from sorted(lines, key=lambda line: ended.index(line.round_id))
