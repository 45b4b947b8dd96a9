"""Columns of many rows, sent to the database as binary arrays.

The library adapts a list value by value, in Python, which for the rows of one
round takes longer than the database does to store them. These lay an array out
in one go, and `Texts` and `Blobs` do so by the library's own way to adapt a type.
"""

from collections.abc import Collection
from struct import Struct, pack

import psycopg
from psycopg.adapt import Dumper
from psycopg.postgres import types
from psycopg.pq import Format

# Dimensions, whether there are nulls, and the type of the elements; then the
# length of the one dimension and the index that it starts from.
_HEADER = Struct("!iiiii").pack
_EMPTY = Struct("!iii").pack
_LENGTH = Struct("!i").pack
_NUMBER_BYTES = 8
_TEXT, _BLOB, _NUMBER = (types[name] for name in ("text", "bytea", "int8"))


class Texts(tuple[str, ...]):
    """A column of texts."""

    __slots__ = ()


class Blobs(tuple[bytes, ...]):
    """A column of bytes."""

    __slots__ = ()


def texts(values: Collection[str]) -> bytes:
    """A column of texts, laid out."""
    # Streams and topics come again and again; each is laid out once.
    elements = {value: _element(value.encode()) for value in set(values)}
    return _array(_TEXT.oid, len(values), b"".join([elements[value] for value in values]))


def blobs(values: Collection[bytes]) -> bytes:
    """A column of bytes, laid out."""
    return _array(_BLOB.oid, len(values), b"".join(map(_element, values)))


def numbers(values: Collection[int]) -> bytes:
    """A column of whole numbers of 64 bits, laid out."""
    with_lengths = [_NUMBER_BYTES] * (2 * len(values))
    with_lengths[1::2] = values
    return _array(_NUMBER.oid, len(values), pack("!" + "iq" * len(values), *with_lengths))


def _element(value: bytes) -> bytes:
    return _LENGTH(len(value)) + value


def _array(element: int, length: int, elements: bytes) -> bytes:
    if not length:
        return _EMPTY(0, 0, element)
    return _HEADER(1, 0, element, length, 1) + elements


class _TextsDumper(Dumper):
    format = Format.BINARY
    oid = _TEXT.array_oid

    def dump(self, obj: Texts) -> bytes:
        return texts(obj)


class _BlobsDumper(Dumper):
    format = Format.BINARY
    oid = _BLOB.array_oid

    def dump(self, obj: Blobs) -> bytes:
        return blobs(obj)


psycopg.adapters.register_dumper(Texts, _TextsDumper)
psycopg.adapters.register_dumper(Blobs, _BlobsDumper)
