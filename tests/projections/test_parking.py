"""Parking: what a read model cannot fold waits with its stream, and everything else goes on."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC
from random import Random
from threading import Barrier

import psycopg
import pytest
from msgspec.structs import replace
from psycopg.rows import tuple_row

from domain.event import Recorded, Unreadable
from projections import parking
from projections.balances import Balances
from projections.projection import ProjectionError
from projections.rounds import rounds
from projections.runner import ALL, catch_up, check, parked, positions, rebuild, retry

NAMES = ["balances", "days", "journal", "rounds", "shoes", "tables"]
OF_ACCOUNTS = ["balances", "journal"]


@pytest.fixture
def played(ledger):
    """Twenty rounds at two tables."""
    ledger.play(rounds=20)
    return ledger


@pytest.fixture
def expected(connection, played, read_tables):
    """The rows of a ledger in order; there are no tables afterwards."""
    catch_up(connection, played.source)
    rows = read_tables()
    for name in (*rows, "tracking", "parked"):
        connection.execute(f"DROP TABLE projection.{name}")
    return rows


def of_stream(ledger, stream):
    readable = [each for each in ledger.events if isinstance(each, Recorded)]
    return [each for each in readable if each.event.originator_id == stream]


def undecodable(recorded):
    stream, version = recorded.event.originator_id, recorded.event.originator_version
    return Unreadable(recorded.position, stream, version, "it is\x00 not\x1b[2J JSON")


def unfit(recorded):
    """The same event as another one, of an account that was never opened."""
    event = replace(recorded.event, originator_id="account:nobody")
    return recorded._replace(event=event)


def put(ledger, entry):
    """Puts an entry in the place of another one, and returns that."""
    before = ledger.events[entry.position - 1]
    ledger.events[entry.position - 1] = entry
    return before


@pytest.fixture
def broken(played, expected):
    """The fourth event of an account cannot be decoded; its events from there on."""
    after = of_stream(played, "account:t1-a1")[3:]
    put(played, undecodable(after[0]))
    return after


def keys(connection):
    return [(row.name, row.position) for row in parked(connection)]


def parked_for(connection, name):
    return [row for row in parked(connection) if row.name == name]


def compared(connection):
    return [row[:-1] for row in parked(connection)]


def of_each(*read_models, events):
    return [(name, each.position) for each in events for name in read_models]


def without(rows, *accounts):
    kept = [row for row in rows["balances"] if row["account_id"] not in accounts]
    # The running balances of the house know nothing of what is parked either.
    others = {name: rows[name] for name in rows if not name.startswith("journal")}
    return {**others, "balances": kept}


@pytest.mark.parametrize("events_per_page", [1, 7, 5_000])
def test_what_cannot_be_decoded_is_parked_with_what_follows_it_and_the_rest_is_right(
    connection, played, broken, expected, read_tables, events_per_page
):
    assert catch_up(connection, played.source, events_per_page=events_per_page) == len(
        played.events
    )
    assert positions(connection) == [(name, len(played.events)) for name in NAMES]
    assert keys(connection) == of_each(*OF_ACCOUNTS, events=broken)
    first, second, *_ = parked_for(connection, "balances")
    assert (first.stream, first.version, first.topic) == ("account:t1-a1", 4, None)
    assert first.why == "it is? not?[2J JSON"
    assert second.topic == broken[1].event.TOPIC
    assert second.why == f"it follows position {first.position}"
    assert first.parked_at.tzinfo is UTC
    rows = read_tables()
    assert without(rows, "t1-a1") == without(expected, "t1-a1")
    (row,) = [row for row in rows["balances"] if row["account_id"] == "t1-a1"]
    assert row["version"] == 3


@pytest.mark.parametrize("events_per_page", [1, 7, 5_000])
def test_what_does_not_fit_is_parked_with_what_follows_it_and_the_rest_is_right(
    connection, played, expected, read_tables, events_per_page
):
    strays = [put(played, unfit(each)) for each in of_stream(played, "account:t2-a2")[-2:]]
    catch_up(connection, played.source, events_per_page=events_per_page)
    assert keys(connection) == of_each(*OF_ACCOUNTS, events=strays)
    first, second = parked_for(connection, "balances")
    assert first.why.endswith("of account:nobody: nobody was never opened")
    assert second.why == f"it follows position {first.position}"
    assert without(read_tables(), "t2-a2") == without(expected, "t2-a2")


def test_what_is_stored_later_in_the_stream_is_parked_too(connection, played, broken):
    catch_up(connection, played.source)
    played.open_account("late", deposit_minor=1)
    played.do("account:t1-a1", "deposit", 1)
    assert catch_up(connection, played.source) == 3
    assert keys(connection)[-2:] == [(name, len(played.events)) for name in OF_ACCOUNTS]
    assert len(keys(connection)) == 2 * (len(broken) + 1)


def test_what_several_read_models_want_is_parked_for_each(connection, played, expected):
    opened = of_stream(played, "round:r3")[0]
    put(played, undecodable(opened))
    catch_up(connection, played.source)
    assert [key for key in keys(connection) if key[1] == opened.position] == [
        ("days", opened.position),
        ("journal", opened.position),
        ("rounds", opened.position),
        ("tables", opened.position),
    ]
    of_rounds = [row for row in parked(connection) if row.name == "rounds"]
    assert {row.stream for row in of_rounds} == {"round:r3"}
    counts = parking.counts(connection)
    assert (counts["rounds"], counts["tables"]) == (len(of_rounds), 1)
    assert parking.count_events(connection) == len({row.position for row in parked(connection)})
    assert [line.round_id for line in rounds(connection)] == [
        f"r{number}" for number in range(20) if number != 3
    ]


def test_what_nobody_reads_in_a_stream_that_nobody_wants_is_passed(connection, ledger):
    ledger.events.append(Unreadable(1, "vault:v1", 1, "unknown topic"))
    assert catch_up(connection, ledger.source) == 1
    assert parked(connection) == []


def test_rows_that_the_database_refuses_are_parked(connection, played):
    class Refusing(Balances):
        upsert = "INSERT INTO balances SELECT json_array_elements(%(rows)s) ->> 'account_id', NULL"

    played.events = played.events[:8]
    catch_up(connection, played.source, projections=(Refusing(),))
    assert keys(connection)
    assert "violates not-null constraint" in parked(connection)[0].why


def test_a_name_that_no_table_can_hold_is_parked_in_every_read_model(connection, played):
    opened = of_stream(played, "round:r0")[0]
    put(played, opened._replace(event=replace(opened.event, table_id="t\0")))
    catch_up(connection, played.source)
    assert {name for name, position in keys(connection) if position == opened.position} == {
        "days",
        "journal",
        "rounds",
        "tables",
    }


def test_a_name_that_is_too_long_for_an_index_is_parked(connection, played):
    opened = of_stream(played, "round:r0")[0]
    name = Random(1).randbytes(6_000).hex()
    put(played, opened._replace(event=replace(opened.event, table_id=name)))
    catch_up(connection, played.source)
    assert ("tables", opened.position) in keys(connection)


def test_amounts_that_come_to_more_than_can_be_written_down_are_parked(connection, played):
    first = next(
        each
        for each in of_stream(played, "account:t1-a1")
        if each.event.TOPIC == "account.funds_deposited"
    )
    for ahead in (0, 1):
        version = first.event.originator_version + ahead
        event = replace(first.event, originator_version=version, amount_minor=9 * 10**4299)
        put(played, Recorded(first.position + ahead, event))
    catch_up(connection, played.source)
    assert {("balances", first.position), ("journal", first.position)} <= set(keys(connection))


def test_a_retry_after_the_repair_gives_what_a_fresh_fold_gives(
    connection, played, broken, expected, read_tables
):
    catch_up(connection, played.source, events_per_page=50)
    put(played, broken[0])
    assert retry(connection, played.source, events_per_page=7) == 2 * len(broken)
    assert parked(connection) == []
    assert read_tables() == expected
    assert catch_up(connection, played.source) == 0
    assert retry(connection, played.source) == 0


@pytest.mark.parametrize("stream", ["table:t1", "shoe:t1-s1", "round:r0", "account:t1-a1"])
def test_a_retry_repairs_whatever_hung_on_the_first_event_of_a_stream(
    connection, played, expected, read_tables, stream
):
    first = of_stream(played, stream)[0]
    put(played, undecodable(first))
    catch_up(connection, played.source, events_per_page=50)
    assert read_tables() != expected
    put(played, first)
    retry(connection, played.source, events_per_page=7)
    assert (parked(connection), read_tables()) == ([], expected)


def test_a_retry_of_what_is_still_broken_changes_nothing(connection, played, broken, read_tables):
    catch_up(connection, played.source)
    before = parked(connection), read_tables()
    assert retry(connection, played.source) == 0
    assert (parked(connection), read_tables()) == before


def test_a_retry_goes_as_far_as_the_next_one_that_is_broken(
    connection, played, broken, read_tables, expected
):
    later = put(played, undecodable(broken[3]))
    catch_up(connection, played.source)
    put(played, broken[0])
    assert retry(connection, played.source) == 2 * 3
    assert keys(connection) == of_each(*OF_ACCOUNTS, events=broken[3:])
    assert parked(connection)[2].why == f"it follows position {later.position}"
    put(played, later)
    assert retry(connection, played.source) == 2 * (len(broken) - 3)
    assert read_tables() == expected


def test_a_rebuild_equals_what_is_live_with_parked_events(connection, played, broken, read_tables):
    put(played, undecodable(of_stream(played, "round:r3")[0]))
    catch_up(connection, played.source, events_per_page=50)
    before = compared(connection), read_tables(), positions(connection)
    assert check(connection, played.source) == []
    rebuild(connection, played.source, events_per_page=7)
    assert (compared(connection), read_tables(), positions(connection)) == before


def test_a_rebuild_replaces_what_was_parked_by_what_it_had_to_park(
    connection, played, broken, read_tables, expected
):
    round_opened = put(played, undecodable(of_stream(played, "round:r3")[0]))
    catch_up(connection, played.source)
    put(played, broken[0])
    put(played, round_opened)
    rebuild(connection, played.source, ["balances"])
    assert {row.name for row in parked(connection)} == {"days", "journal", "rounds", "tables"}
    rebuild(connection, played.source)
    assert (parked(connection), read_tables()) == ([], expected)


@pytest.mark.parametrize("error", [RuntimeError, psycopg.OperationalError])
def test_a_crash_between_parking_and_commit_parks_nothing(
    database, connection, played, broken, read_tables, monkeypatch, error
):
    catch_up(connection, played.source, until=20, events_per_page=5)
    before = keys(connection), read_tables(), positions(connection)
    park = parking._park

    def crash(own, *arguments):
        park(own, *arguments)
        if error is RuntimeError:
            raise error
        own.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    with database.connect() as crashing, monkeypatch.context() as patched:
        patched.setattr(parking, "_park", crash)
        with pytest.raises(error):
            catch_up(crashing, played.source)
    assert (keys(connection), read_tables(), positions(connection)) == before
    catch_up(connection, played.source)
    assert keys(connection) == of_each(*OF_ACCOUNTS, events=broken)


def test_a_retry_that_crashes_leaves_everything_parked(
    database, connection, played, broken, read_tables
):
    catch_up(connection, played.source)
    before = keys(connection), read_tables()
    put(played, broken[0])

    class Crashing(Balances):
        def fold(self, cursor, events):
            super().fold(cursor, events)
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    with database.connect() as crashing, pytest.raises(psycopg.OperationalError):
        retry(crashing, played.source, projections=(Crashing(),))
    assert (keys(connection), read_tables()) == before


def at_once(database, *jobs):
    start = Barrier(len(jobs))

    def run(job):
        with database.connect() as own:
            start.wait()
            return job(own)

    with ThreadPoolExecutor(len(jobs)) as pool:
        return list(pool.map(run, jobs))


def test_two_at_once_park_each_event_once(
    database, connection, played, broken, expected, read_tables
):
    def job(own):
        return catch_up(own, played.source, events_per_page=3)

    assert sum(at_once(database, job, job)) == len(played.events)
    assert keys(connection) == of_each(*OF_ACCOUNTS, events=broken)
    assert without(read_tables(), "t1-a1") == without(expected, "t1-a1")


def test_catching_up_and_two_retries_at_once_fold_each_event_once(
    database, connection, played, broken, read_tables
):
    catch_up(connection, played.source)
    put(played, broken[0])
    played.play(rounds=3, prefix="late-")
    for _ in range(20):
        played.do("account:t1-a1", "deposit", 1)
    counts = at_once(
        database,
        lambda own: catch_up(own, played.source, events_per_page=3) * 0,
        lambda own: retry(own, played.source),
        lambda own: retry(own, played.source),
    )
    assert sum(counts) + retry(connection, played.source) >= len(broken)
    assert parked(connection) == []
    rows = read_tables()
    rebuild(connection, played.source)
    assert read_tables() == rows


def test_a_ledger_that_ends_before_a_parked_event_is_refused(connection, played, broken):
    catch_up(connection, played.source)
    del played.events[10:]
    with pytest.raises(ProjectionError, match="where the ledger has not come to"):
        retry(connection, played.source)


def test_read_models_from_before_there_was_parking_get_the_table(connection, played):
    catch_up(connection, played.source)
    connection.execute("DROP TABLE projection.parked")
    assert (parked(connection), parking.counts(connection)) == ([], {})
    assert parking.count_events(connection) == 0
    played.open_account("late")
    assert catch_up(connection, played.source) == 1
    assert connection.execute("TABLE projection.parked").fetchall() == []


def leftovers(connection):
    with connection.cursor(row_factory=tuple_row) as cursor:
        return cursor.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'projection_rebuild'"
        ).fetchall()


@pytest.mark.parametrize("events_per_page", [7, 5_000])
def test_a_check_finds_rows_that_were_altered_by_hand(
    connection, played, read_tables, events_per_page
):
    catch_up(connection, played.source)
    assert check(connection, played.source, events_per_page=events_per_page) == []
    connection.execute("UPDATE projection.balances SET owed_minor = 1 WHERE account_id = 't1-a1'")
    connection.execute("DELETE FROM projection.rounds WHERE round_id IN ('r1', 'r2')")
    before = read_tables()
    assert check(connection, played.source, events_per_page=events_per_page) == [
        ("balances", "balances", 1, 1),
        ("rounds", "rounds", 0, 2),
    ]
    assert check(connection, played.source, ["shoes", "tables"]) == []
    assert (read_tables(), leftovers(connection)) == (before, [])


def test_a_check_compares_at_the_position_of_the_live_rows(connection, played, read_tables):
    catch_up(connection, played.source, until=100, events_per_page=50)
    catch_up(connection, played.source, projections=ALL[:1])
    before = positions(connection)
    assert len({position for _, position in before}) == 2
    assert check(connection, played.source, events_per_page=30) == []
    assert positions(connection) == before


def test_a_check_is_not_disturbed_by_live_folding(database, connection, played):
    catch_up(connection, played.source)

    def source(after, limit):
        if after == 40:
            played.open_account(f"late{len(played.events)}")
            with database.connect() as other:
                catch_up(other, played.source)
        return played.source(after, limit)

    assert check(connection, source, events_per_page=20) == []


def test_a_check_finds_what_is_parked_though_it_fits_by_now(connection, played, broken):
    catch_up(connection, played.source)
    put(played, broken[0])
    differences = check(connection, played.source)
    of_the_journal = [each for each in differences if each.name == "journal"]
    assert ("journal", "parked", len(broken), 0) in of_the_journal
    assert differences == [
        ("balances", "balances", 1, 1),
        ("balances", "parked", len(broken), 0),
        *of_the_journal,
    ]


def test_a_check_of_what_another_version_folded_is_refused(connection, played):
    class Newer(Balances):
        version = Balances.version + 1

    catch_up(connection, played.source)
    with pytest.raises(ProjectionError, match="by another version"):
        check(connection, played.source, projections=(Newer(),))
    assert leftovers(connection) == []


def test_a_check_of_what_is_ahead_of_the_ledger_is_refused(connection, played):
    catch_up(connection, played.source)
    del played.events[50:]
    with pytest.raises(ProjectionError, match="where the ledger has not come to"):
        check(connection, played.source, events_per_page=20)
    assert leftovers(connection) == []
