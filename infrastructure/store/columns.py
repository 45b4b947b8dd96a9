"""Columns of many rows, sent to the database as binary arrays.

The library adapts a list value by value, in Python, which for the rows of one
round takes longer than the database does to store them. These lay an array out
in one go, by the library's own way to adapt a type.
"""

from collections.abc import Sequence
from struct import Struct, pack
from typing import Any, ClassVar

import psycopg
from psycopg.adapt import Dumper
from psycopg.postgres import types
from psycopg.pq import Format

# Dimensions, whether there are nulls, and the type of the elements; then the
# length of the one dimension and the index that it starts from.
_HEADER = Struct("!iiiii").pack
_LENGTH = Struct("!i").pack
_NUMBER_BYTES = 8


class Texts(tuple[str, ...]):
    """A column of texts."""

    __slots__ = ()


class Blobs(tuple[bytes, ...]):
    """A column of bytes."""

    __slots__ = ()


class Numbers(tuple[int, ...]):
    """A column of whole numbers of 64 bits."""

    __slots__ = ()


class _ColumnDumper(Dumper):
    format = Format.BINARY
    element: ClassVar[int]

    def _array(self, length: int, elements: bytes) -> bytes:
        if not length:
            return _HEADER(0, 0, self.element, 0, 0)[:12]
        return _HEADER(1, 0, self.element, length, 1) + elements


class _BlobsDumper(_ColumnDumper):
    element = types["bytea"].oid
    oid = types["bytea"].array_oid

    def dump(self, obj: Sequence[bytes]) -> bytes:
        parts = [b""] * (2 * len(obj))
        parts[::2] = [_LENGTH(len(blob)) for blob in obj]
        parts[1::2] = obj
        return self._array(len(obj), b"".join(parts))


class _TextsDumper(_BlobsDumper):
    element = types["text"].oid
    oid = types["text"].array_oid

    def dump(self, obj: Sequence[Any]) -> bytes:
        return super().dump(list(map(str.encode, obj)))


class _NumbersDumper(_ColumnDumper):
    element = types["int8"].oid
    oid = types["int8"].array_oid

    def dump(self, obj: Sequence[int]) -> bytes:
        with_lengths = [_NUMBER_BYTES] * (2 * len(obj))
        with_lengths[1::2] = obj
        return self._array(len(obj), pack("!" + "iq" * len(obj), *with_lengths))


psycopg.adapters.register_dumper(Texts, _TextsDumper)
psycopg.adapters.register_dumper(Blobs, _BlobsDumper)
psycopg.adapters.register_dumper(Numbers, _NumbersDumper)
