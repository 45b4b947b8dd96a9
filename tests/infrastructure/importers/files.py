"""Files of recorded rounds as another system writes them, and what the ledger makes of them."""

import io
from typing import Any

from infrastructure.casino import Casino
from infrastructure.importers.layouts import POINTS_CSV
from infrastructure.importers.reading import RecordedRound, read_rounds
from infrastructure.store.mapper import facts as state_of

HEADER = (
    "b total,player total,pcard1,pcard2,pcard3,bcard1,bcard2,bcard3,outcome,rounds,"
    "banker streak,player streak,tie streak,shoe number"
)


def row(shoe: int, number: int, *, cards: str = "0,7,,8,0,", outcome: str = "banker win") -> str:
    return f"8,7,{cards},{outcome},{number},1,0,0,{shoe}"


def rows_of(lengths: dict[int, int]) -> list[str]:
    """The rows of some shoes, each with so many rounds."""
    return [
        row(shoe, number) for shoe, length in lengths.items() for number in range(1, length + 1)
    ]


def read(*rows: str) -> list[RecordedRound]:
    text = "\n".join((HEADER, *rows)) + "\n"
    return read_rounds(io.BytesIO(text.encode()), POINTS_CSV)


def shoes(lengths: dict[int, int]) -> list[RecordedRound]:
    return read(*rows_of(lengths))


def facts(casino: Casino) -> list[dict[str, Any]]:
    """Every event there is, in the order of the ledger, without the time of the import."""
    notifications = casino.recorder.select_notifications(1, 1_000_000)
    events = [casino.mapper.to_domain_event(each) for each in notifications]
    return [
        {
            "topic": event.TOPIC,
            "originator_id": event.originator_id,
            "originator_version": event.originator_version,
            **{name: value for name, value in state_of(event).items() if name != "at"},
        }
        for event in events
    ]
