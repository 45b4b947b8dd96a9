"""The one statement that appends: events and what stands beside them, under the lock, at a head."""

from collections.abc import Sequence
from typing import Any

import msgspec

from infrastructure.store.columns import Blobs, Numbers, Texts
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
        Texts([row[0] for row in rows]),
        Numbers([row[1] for row in rows]),
        Texts([row[2] for row in rows]),
        Blobs([row[3] for row in rows]),
        *columns(accepted),
        Numbers([each.position for each in accepted if each.position is not None]),
        Texts([each.stream_id for each in states]),
        Numbers([each.version for each in states]),
        STATE_LOGIC,
        Blobs([each.state for each in states]),
        Numbers([trace.first_position for trace in traces]),
        Numbers([trace.last_position for trace in traces]),
        Texts([trace.traceparent for trace in traces]),
    )


def columns(remembered: Sequence[Remembered]) -> tuple[Texts, Texts, Texts, Texts]:
    """Remembered answers as columns: clients, keys, hashes of fields, answers."""
    return (
        Texts([each.client for each in remembered]),
        Texts([each.key for each in remembered]),
        Texts([msgspec.json.encode(each.fields).decode() for each in remembered]),
        Texts([msgspec.json.encode(each.answer).decode() for each in remembered]),
    )
