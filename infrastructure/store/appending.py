"""The one statement that appends: events and what stands beside them, under the lock, at a head."""

from collections.abc import Sequence
from typing import Any

import msgspec

from infrastructure.store.session import KeptState, Remembered, Row
from infrastructure.store.states import STATE_LOGIC

APPEND = """
SELECT ledger.append(
           %b::bigint, %b::text[], %b::bigint[], %b::text[], %b::bytea[],
           %b::text[], %b::text[], %b::text[], %b::text[], %b::bigint[],
           %b::text[], %b::bigint[], %b::integer, %b::bytea[],
           %b::bigint[], %b::bigint[], %b::text[]
       )
"""


def append_parameters(
    head: int,
    rows: Sequence[Row],
    accepted: Sequence[Remembered],
    states: Sequence[KeptState],
) -> tuple[Any, ...]:
    """What the statement takes."""
    traces = [each.trace for each in accepted if each.trace is not None]
    return (
        head,
        *([row[column] for row in rows] for column in range(4)),
        *columns(accepted),
        [each.position for each in accepted],
        [each.stream_id for each in states],
        [each.version for each in states],
        STATE_LOGIC,
        [each.state for each in states],
        *([trace[column] for trace in traces] for column in range(3)),
    )


def columns(remembered: Sequence[Remembered]) -> tuple[list[str], list[str], list[str], list[str]]:
    """Remembered answers as columns: clients, keys, hashes of fields, answers."""
    return (
        [each.client for each in remembered],
        [each.key for each in remembered],
        [msgspec.json.encode(each.fields).decode() for each in remembered],
        [msgspec.json.encode(each.answer).decode() for each in remembered],
    )
