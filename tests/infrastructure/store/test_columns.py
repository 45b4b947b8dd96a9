"""Columns as the database gets them: what was sent is what is there."""

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infrastructure.store import columns
from infrastructure.store.columns import Blobs, Texts

texts = st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",))))
blobs = st.lists(st.binary())
numbers = st.lists(st.integers(-(2**63), 2**63 - 1))


@pytest.fixture(scope="module")
def connection(server):
    with psycopg.connect(server.url(), autocommit=True) as connection:
        yield connection


@given(texts, blobs, numbers)
def test_columns_arrive_as_they_were_sent(connection, some_texts, some_blobs, some_numbers):
    arrived = connection.execute(
        "SELECT %b, %b", (Texts(some_texts), Blobs(some_blobs)), binary=True
    ).fetchone()
    assert arrived == (some_texts, some_blobs)
    result = connection.pgconn.exec_params(
        b"SELECT $1::bigint[]", [columns.numbers(some_numbers)], param_formats=[1]
    )
    assert result.get_value(0, 0).decode() == "{" + ",".join(map(str, some_numbers)) + "}"


def test_the_database_knows_their_types(connection):
    sent = (Texts("a"), Blobs([b"b"]))
    kinds = "SELECT pg_typeof(%b)::text, pg_typeof(%b)::text"
    assert connection.execute(kinds, sent).fetchone() == ("text[]", "bytea[]")


def test_a_column_without_rows_is_an_empty_array(connection):
    query = "SELECT cardinality(%b), array_ndims(%b), %b = ARRAY[]::text[]"
    assert connection.execute(query, [Texts()] * 3).fetchone() == (0, None, True)
