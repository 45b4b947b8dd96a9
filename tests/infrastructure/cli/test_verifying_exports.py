"""`punto feed verify --to DIR`: every record that is not the ledger's is named."""

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.infrastructure.cli.conftest import an_evening


@pytest.fixture
def exported(punto, tmp_path):
    """An evening's tables, in Parquet."""
    punto.run(an_evening())
    to = tmp_path / "reports"
    assert punto("export", "--to", str(to)).code == 0
    return to


@pytest.fixture
def verify(punto, exported):
    """The differences that are found, and that the exit code says so."""

    def differences():
        ran = punto("feed", "verify", "--to", str(exported), "--json")
        document = ran.document
        assert ran.code == (0 if document["ok"] else 1)
        assert document["count_differences"] == len(document["differences"])
        assert document["ok"] == (not document["differences"])
        return document["differences"]

    return differences


def largest(to, table):
    """The file of a table that has the most rows."""
    return max((to / table).glob("*/*.parquet"), key=lambda path: pq.read_metadata(path).num_rows)


def rewrite(to, table, change):
    """Writes a table's largest file again, after its rows were changed."""
    path = largest(to, table)
    rows = pq.read_table(path, partitioning=None)
    pq.write_table(pa.Table.from_pylist(change(rows.to_pylist()), rows.schema), path)
    return f"{table}/{path.parent.name}/{path.name}"


def test_an_export_that_nobody_touched_is_the_ledger(punto, exported, verify):
    assert verify() == []
    document = punto("feed", "verify", "--to", str(exported), "--json").document
    assert {line["table"] for line in document["ranges"]} == {
        path.name for path in exported.iterdir() if path.is_dir()
    }
    for line in document["ranges"]:
        assert line["ok"]
        assert line["ledger"] == line["downstream"]
    for sums in document["currencies"].values():
        assert sums["ledger"] == sums["downstream"]
        assert sums["ledger"]["postings.amount_minor"] == 0
    assert document["currencies"]["USD"]["ledger"]["bets.commission_minor"] == 1_67
    assert "No difference" in punto("feed", "verify", "--to", str(exported)).out


def test_a_verification_goes_as_far_as_the_export(punto, exported, verify):
    punto.run([{"command": "deposit", "key": "d", "account_id": "alice", "amount_minor": 1}])
    punto.run([{"command": "void_round", "key": "v", "round_id": "R4", "reason": "closing time"}])
    assert verify() == []
    document = punto("feed", "verify", "--to", str(exported), "--json").document
    assert document["behind"] == 4


@pytest.mark.parametrize("table", ["events", "rounds", "bets", "postings", "commission"])
def test_a_record_that_is_missing_is_named(exported, verify, table):
    gone = []

    def change(rows):
        gone.append(rows[1])
        return rows[:1] + rows[2:]

    rewrite(exported, table, change)
    (found,) = verify()
    assert (found["problem"], found["table"]) == ("missing", table)
    assert found["position"] == gone[0]["position"]


@pytest.mark.parametrize("table", ["events", "rounds", "bets", "postings", "accounts"])
def test_a_record_that_is_doubled_is_named(exported, verify, table):
    path = rewrite(exported, table, lambda rows: [*rows, rows[1]])
    (found,) = verify()
    assert (found["problem"], found["table"], found["path"]) == ("doubled", table, path)


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("events", "data", "{}"),
        ("events", "actor", "nobody"),
        ("rounds", "outcome", "tie"),
        ("bets", "win_minor", 1),
        ("postings", "amount_minor", -1),
        ("commission", "commission_minor", 7),
        ("accounts", "available_minor", 10**9),
    ],
)
def test_a_record_that_was_altered_is_named_with_what_differs(
    punto, exported, verify, table, column, value
):
    rewrite(exported, table, lambda rows: [rows[0] | {column: value}, *rows[1:]])
    (found,) = verify()
    assert (found["problem"], found["table"]) == ("altered", table)
    assert found["attributes"] == [column]
    assert column in punto("feed", "verify", "--to", str(exported)).out


@pytest.mark.parametrize("table", ["events", "bets", "postings"])
def test_records_in_another_order_are_named(exported, verify, table):
    positions = []

    def change(rows):
        positions.extend([rows[0]["position"], rows[-1]["position"]])
        return rows[::-1]

    rewrite(exported, table, change)
    (found,) = verify()
    assert (found["problem"], found["table"]) == ("reordered", table)
    assert positions[0] <= found["position"] <= positions[1]


def test_a_record_that_the_ledger_does_not_have_is_named(exported, verify):
    rewrite(exported, "bets", lambda rows: [*rows, rows[0] | {"position": 10**6, "bet_id": "?"}])
    (found,) = verify()
    assert (found["problem"], found["position"]) == ("not in the ledger", 10**6)


def test_records_in_the_folder_of_another_day_are_named(exported, verify):
    folder = largest(exported, "commission").parent
    folder.rename(folder.with_name("day=2020-01-01"))
    found = verify()
    assert {each["problem"] for each in found} == {"altered"}
    assert {tuple(each["attributes"]) for each in found} == {("day",)}


def test_a_file_that_is_gone_and_one_that_came_to_it_are_found(exported, verify):
    path = largest(exported, "bets")
    count = pq.read_metadata(path).num_rows
    content = path.read_bytes()
    path.unlink()
    assert [each["problem"] for each in verify()] == ["missing"] * count
    path.write_bytes(content)
    path.with_name("again.parquet").write_bytes(content)
    assert [each["problem"] for each in verify()] == ["doubled"] * count


@pytest.mark.parametrize("content", [b"", b"PAR1", b"nothing of the kind" * 99])
def test_a_file_that_cannot_be_read_is_named(exported, verify, content):
    path = largest(exported, "rounds")
    path.write_bytes(content)
    assert verify()[0]["problem"] == "unreadable"
    assert verify()[0]["path"] == str(path.relative_to(exported))


def test_a_csv_that_was_altered_is_found(punto, tmp_path):
    punto.run(an_evening())
    punto("export", "--to", str(tmp_path), "--format", "csv")
    for path in (tmp_path / "bets").glob("*/*.csv"):
        path.write_text(path.read_text().replace(",3333,", ",3334,"))
    ran = punto("feed", "verify", "--to", str(tmp_path), "--json")
    assert ran.code == 1
    assert {each["problem"] for each in ran.document["differences"]} == {"altered"}


def test_duckdb_may_write_the_same_rows_in_another_way(exported, verify):
    path = largest(exported, "accounts")
    duckdb.sql(f"COPY (FROM read_parquet('{path}', hive_partitioning=false)) TO '{path}.new'")
    path.with_name(f"{path.name}.new").replace(path)
    assert [each["problem"] for each in verify()] == ["unreadable"] + ["missing"] * 4


def test_a_stream_is_compared_or_a_folder_and_not_both(punto, tmp_path):
    assert "Which server?" in punto("feed", "verify").refusal()
    both = punto("feed", "verify", "--to", str(tmp_path), "--stream", "LEDGER")
    assert "--stream NAME or --to DIR" in both.refusal()
