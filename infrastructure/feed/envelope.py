"""What the feed says of each event: a CloudEvents 1.0 envelope in JSON, the same bytes at any time.

The envelope depends on the stored row, its trace and the source alone, so that what is
downstream can be compared with the ledger byte by byte. An event's `data` is
its state as it was stored, less what may be said about a person: accounts are
known by their ids alone.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import NamedTuple

import msgspec

SEQUENCE_DIGITS = 20

PRIVATE: Mapping[str, tuple[str, ...]] = {
    "account.frozen": ("reason",),
    "account.unfrozen": ("reason",),
    "account.closed": ("reason",),
}
"""Fields that stay in the ledger: free text about the player whose account it is."""


class StoredFact(NamedTuple):
    """An event as a row of the ledger."""

    position: int
    stream: str
    version: int
    topic: str
    state: bytes
    recorded_at: datetime


class Sent(NamedTuple):
    """An event on its way downstream."""

    position: int
    topic: str
    hash: str
    line: bytes


class Glance(msgspec.Struct):
    """What the envelope needs to know of a state; reading it checks that the whole is JSON."""

    at: str
    class_version: int = 1
    round_id: str | None = None
    shoe_id: str | None = None


_GLANCE = msgspec.json.Decoder(Glance)
_text = msgspec.json.encode


def public_data(topic: str, state: bytes) -> bytes:
    """An event's state without what stays in the ledger, as compact JSON."""
    if topic not in PRIVATE:
        return state
    fields = msgspec.json.decode(state)
    for name in PRIVATE[topic]:
        fields.pop(name, None)
    return msgspec.json.encode(fields)


def content_hash(*, topic: str, stream: str, version: int, data: bytes) -> str:
    """The SHA-256, in hex, of an event's topic, stream and version, a line each, and its data.

    `data` is what `public_data` gives.
    """
    return sha256(b"%b\n%b\n%d\n%b" % (topic.encode(), stream.encode(), version, data)).hexdigest()


def glance(state: bytes) -> Glance | None:
    """What a state says about itself; None where it is no state of any event."""
    try:
        state.decode()
        return _GLANCE.decode(state)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def schema_id(topic: str, version: int) -> str:
    """The URI of the JSON Schema of an event's data."""
    return f"urn:puntobanco:schema:{topic}:v{version}"


def envelope(
    fact: StoredFact,
    seen: Glance | None,
    *,
    source: str,
    partition: str,
    traceparent: str | None,
) -> Sent:
    """An event's envelope. `partition` is the shoe or the account that it belongs to.

    A state that is none of any event is passed on as it is, in base64: what is
    wrong with it is the audit's to say.
    """
    position, stream, version, topic, state, recorded_at = fact
    data = state if seen is None else public_data(topic, state)
    digest = content_hash(topic=topic, stream=stream, version=version, data=data)
    if seen is None:
        content = b'"datacontenttype":"application/octet-stream","data_base64":%b' % _text(data)
    else:
        content = b'"time":%b,"datacontenttype":"application/json","dataschema":%b,"data":%b' % (
            _text(seen.at),
            _text(schema_id(topic, seen.class_version)),
            data,
        )
    trace = b"" if traceparent is None else b'"traceparent":%b,' % _text(traceparent)
    line = (
        b'{"specversion":"1.0","id":"%d","source":%b,"type":%b,"subject":%b,'
        b'"sequence":"%020d","partitionkey":%b,"recordedtime":%b,"streamversion":%d,'
        b'"contenthash":"%b",%b%b}'
    ) % (
        position,
        _text(source),
        _text(topic),
        _text(stream),
        position,
        _text(partition),
        _text(recorded_at.astimezone(UTC)),
        version,
        digest.encode(),
        trace,
        content,
    )
    return Sent(position, topic, digest, line)
