"""The one statement that appends: events and what stands beside them, under the lock, at a head.

It is prepared when a connection is made, and goes past psycopg's cursors: they
wait for the answer at once, and take longer to adapt what is laid out already.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Any

import msgspec
from psycopg import Connection, generators
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, Format

from infrastructure.store.columns import Texts, blobs, numbers, texts
from infrastructure.store.session import Columns, KeptState, Remembered
from infrastructure.store.states import STATE_LOGIC

PREPARE_APPEND = """
PREPARE append AS
SELECT ledger.append(
           $1::bigint, $2::text[], $3::bigint[], $4::text[], $5::bytea[],
           $6::text[], $7::text[], $8::text[], $9::text[], $10::bigint[],
           $11::text[], $12::bigint[], $13::integer, $14::bytea[],
           $15::bigint[], $16::bigint[], $17::text[]
       )
"""

_NAME = b"append"
_FORMATS = [Format.BINARY] * 17
_BIGINT = Struct("!q").pack
_INTEGER = Struct("!i").pack
_NONE = (None, None, None)
_TRUE = b"\x01"


Values = Sequence[bytes | None]
"""The values of the statement, laid out."""


def lay_out_append(
    head: int, events: Columns, accepted: Sequence[Remembered], states: Sequence[KeptState]
) -> Values:
    """All that the statement appends after a head."""
    return (
        _BIGINT(head),
        *_events(events),
        *_answers(accepted),
        *_kept(states),
        *_traces(accepted),
    )


def send_append(connection: Connection[Any], values: Values) -> None:
    """Sends the statement, and does not wait for its answer."""
    connection.pgconn.send_query_prepared(_NAME, values, _FORMATS, Format.BINARY)
    connection.wait(generators.send(connection.pgconn))


def is_appended(connection: Connection[Any]) -> bool:
    """Waits for the statement's answer: whether all is stored, or nothing for the head is another.

    Raises psycopg's errors. One that the server met at the commit comes after
    a result that looks like a success.
    """
    results = connection.wait(generators.fetch_many(connection.pgconn))
    for result in results:
        if result.status != ExecStatus.TUPLES_OK:
            raise error_from_result(result)
    return bool(results[0].get_value(0, 0) == _TRUE)


def columns(remembered: Sequence[Remembered]) -> tuple[Texts, Texts, Texts, Texts]:
    """Remembered answers as columns: clients, keys, hashes of fields, answers."""
    return (
        Texts([each.client for each in remembered]),
        Texts([each.key for each in remembered]),
        Texts([msgspec.json.encode(each.fields).decode() for each in remembered]),
        Texts([msgspec.json.encode(each.answer).decode() for each in remembered]),
    )


def _events(events: Columns) -> tuple[bytes, ...]:
    return (
        texts(events.streams),
        numbers(events.versions),
        texts(events.topics),
        blobs(events.states),
    )


def _answers(accepted: Sequence[Remembered]) -> tuple[bytes, ...]:
    positions = [each.position for each in accepted if each.position is not None]
    return *map(texts, columns(accepted)), numbers(positions)


def _kept(states: Sequence[KeptState]) -> tuple[bytes | None, ...]:
    if not states:
        return None, None, _INTEGER(STATE_LOGIC), None
    streams, versions, encoded = zip(*states, strict=True)
    return texts(streams), numbers(versions), _INTEGER(STATE_LOGIC), blobs(encoded)


def _traces(accepted: Sequence[Remembered]) -> tuple[bytes | None, ...]:
    traces = [each.trace for each in accepted if each.trace is not None]
    if not traces:
        return _NONE
    first, last, traceparents = zip(*traces, strict=True)
    return numbers(first), numbers(last), texts(traceparents)
