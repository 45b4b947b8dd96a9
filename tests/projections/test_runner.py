"""Catching up: each event exactly once, however the pages fall and whoever folds them."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event, Thread
from time import monotonic, sleep

import psycopg
import pytest

from projections import balances, rounds, runner, shoes, tables
from projections.balances import Balances
from projections.projection import ProjectionError
from projections.rounds import Rounds
from projections.runner import ALL, catch_up, ensure, follow, positions, rebuild

NAMES = ["balances", "days", "journal", "rounds", "shoes", "tables"]


@pytest.fixture
def played(ledger):
    """Thirty rounds at two tables, two of them interrupted."""
    ledger.play(rounds=28)
    ledger.cancel_bet("b9", on="r30")
    ledger.open_round("r28", shoe="t1-s1")
    ledger.open_round("r29", shoe="t2-s1")
    return ledger


@pytest.fixture
def expected(connection, played, read_tables):
    """The rows after everything was folded at once; there are no tables afterwards."""
    catch_up(connection, played.source)
    rows = read_tables()
    for name in (*rows, "tracking", "parked"):
        connection.execute(f"DROP TABLE projection.{name}")
    return rows


def at(position):
    return [(name, position) for name in NAMES]


def test_the_rows_say_what_the_aggregates_say(connection, played):
    catch_up(connection, played.source)
    for account in balances.accounts(connection):
        state = played.aggregates[f"account:{account.account_id}"]
        assert account.version == state.version
        assert account.available_minor == state.available_minor
        assert account.in_play_minor == state.in_play_minor
        assert account.commission_due_minor == state.commission_due_minor
    for line in rounds.rounds(connection):
        state = played.aggregates[f"round:{line.round_id}"]
        assert line.state == state.state
        assert line.player_cards == [str(card) for card in state.player]
        assert line.banker_cards == [str(card) for card in state.banker]
        assert line.bets == len(set(state.bets) - state.cancelled)
    for line in shoes.shoes(connection):
        state = played.aggregates[f"shoe:{line.shoe_id}"]
        assert (line.rounds, line.cards_drawn) == (state.rounds, len(state.drawn))
    for line in tables.tables(connection):
        assert line.shoe_id == played.aggregates[f"table:{line.table_id}"].shoe_id


@pytest.mark.parametrize("events_per_page", [1, 2, 7, 5_000])
def test_the_size_of_the_pages_makes_no_difference(
    connection, played, expected, read_tables, events_per_page
):
    count = catch_up(connection, played.source, events_per_page=events_per_page)
    assert count == len(played.events)
    assert read_tables() == expected
    assert positions(connection) == at(len(played.events))


class Planned(Balances):
    """Asks the server how it would find some rows of a table that is small as yet."""

    def __init__(self):
        self.plans = []

    def fold(self, cursor, events):
        cursor.execute("EXPLAIN SELECT FROM balances WHERE account_id = ANY (%s)", [list("abcdef")])
        self.plans.append(cursor.fetchone()[0])
        super().fold(cursor, events)


def test_rows_are_found_by_their_keys_however_small_a_table_is(connection, played):
    """A plan is kept while the table grows: it must not be one that looks through all of it."""
    planned = Planned()
    catch_up(connection, played.source, projections=[planned])
    connection.execute("ANALYZE projection.balances")
    played.open_account("late")
    catch_up(connection, played.source, projections=[planned])
    rebuild(connection, played.source, projections=[planned])
    assert len(planned.plans) == 3
    assert not [plan for plan in planned.plans if plan.startswith("Seq Scan")]


def test_catching_up_twice_adds_nothing(connection, played, expected, read_tables):
    catch_up(connection, played.source)
    assert catch_up(connection, played.source) == 0
    assert read_tables() == expected
    assert positions(connection) == at(len(played.events))


def test_an_empty_ledger_is_caught_up_with(connection, ledger):
    assert catch_up(connection, ledger.source) == 0
    assert positions(connection) == at(0)
    assert rounds.rounds(connection) == []


def test_two_at_once_fold_each_event_once(database, played, expected, read_tables):
    start = Barrier(2)

    def run(_):
        with database.connect() as connection:
            start.wait()
            return catch_up(connection, played.source, events_per_page=3)

    with ThreadPoolExecutor(2) as pool:
        counts = list(pool.map(run, range(2)))
    assert sum(counts) == len(played.events)
    assert read_tables() == expected


def test_the_position_passes_events_that_nobody_wants(connection, ledger):
    ledger.open_account("a1", deposit_minor=1)
    catch_up(connection, ledger.source, projections=(Rounds(),))
    assert positions(connection) == [("rounds", 2)]


def test_one_that_lags_is_brought_up_first_and_all_go_on_together(connection, played, expected):
    catch_up(connection, lambda after, limit: played.events[after : min(40, after + limit)])
    ensure(connection)
    connection.execute("DELETE FROM projection.tracking WHERE name = 'rounds'")
    asked = []

    def source(after, limit):
        asked.append((after, limit))
        return played.source(after, limit)

    catch_up(connection, source)
    assert asked == [(0, 40), (40, 5_000)]
    assert positions(connection) == at(len(played.events))


def test_it_stops_where_it_is_told(connection, played):
    assert catch_up(connection, played.source, until=10, events_per_page=4) == 12
    assert positions(connection) == at(12)


def test_progress_tells_the_position_after_each_page(connection, played):
    seen = []
    catch_up(
        connection,
        lambda after, limit: played.events[after : min(10, after + limit)],
        progress=seen.append,
        events_per_page=4,
    )
    assert seen == [4, 8, 10]


def test_the_source_may_read_on_the_same_connection(connection, played, read_tables, expected):
    def source(after, limit):
        with connection.transaction():
            connection.execute("SELECT 1")
        return played.source(after, limit)

    catch_up(connection, source, events_per_page=100)
    assert read_tables() == expected
    connection.execute("UPDATE projection.balances SET available_minor = 7")
    runner.rebuild(connection, source, events_per_page=100)
    assert read_tables() == expected


def test_a_transaction_of_the_caller_is_not_worked_in(connection, played):
    with connection.transaction(), pytest.raises(AssertionError):
        catch_up(connection, played.source)


class Crashing(Balances):
    """Dies after the rows are written and before the commit."""

    def fold(self, cursor, events):
        super().fold(cursor, events)
        raise RuntimeError("the plug was pulled")


class Killed(Balances):
    """Loses its server process after the rows are written."""

    def fold(self, cursor, events):
        super().fold(cursor, events)
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")


@pytest.mark.parametrize(
    ("projection", "error"), [(Crashing(), RuntimeError), (Killed(), psycopg.OperationalError)]
)
def test_a_crash_between_fold_and_commit_leaves_rows_and_position(
    database, connection, played, read_tables, projection, error
):
    catch_up(connection, lambda after, limit: played.events[after : min(100, after + limit)])
    before = read_tables(), positions(connection)
    with database.connect() as crashing, pytest.raises(error):
        catch_up(crashing, played.source, projections=(projection,))
    assert (read_tables(), positions(connection)) == before
    catch_up(connection, played.source)
    assert positions(connection) == at(len(played.events))


@pytest.mark.parametrize("missing", [0, 7])
def test_a_gap_in_the_positions_is_refused(connection, played, missing):
    del played.events[missing]
    with pytest.raises(ProjectionError, match="after position 0 are not numbered without gaps"):
        catch_up(connection, played.source)
    assert positions(connection) == at(0)


def test_tables_are_made_once_by_whoever_comes_first(database, connection):
    start = Barrier(6)

    def run(_):
        with database.connect() as own:
            start.wait()
            ensure(own)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(run, range(6)))
    assert positions(connection) == at(0)


def test_rows_of_unknown_position_are_folded_anew(connection, played, read_tables, expected):
    catch_up(connection, played.source)
    connection.execute("DELETE FROM projection.tracking WHERE name = 'balances'")
    catch_up(connection, played.source)
    assert read_tables() == expected


def test_there_are_no_positions_before_there_are_read_models(connection):
    assert positions(connection) == []


def test_a_role_that_may_only_read_gets_every_answer(server, connection, played, make_role):
    catch_up(connection, played.source)
    role = make_role("IN ROLE puntobanco_reader")
    with psycopg.connect(server.url(user=role, database=connection.info.dbname)) as reader:
        reader.read_only = True
        assert positions(reader) == at(len(played.events))
        assert balances.balance(reader, "t1-a1") == balances.balance(connection, "t1-a1")
        assert balances.accounts(reader) == balances.accounts(connection)
        assert rounds.rounds(reader, after="r3") == rounds.rounds(connection, after="r3")
        assert rounds.interrupted(reader) == ["r28", "r29"]
        assert shoes.shoes(reader) == shoes.shoes(connection)
        assert tables.tables(reader) == tables.tables(connection)


@pytest.mark.parametrize(("poll_seconds", "notifies"), [(0.02, False), (30, True)])
def test_following_folds_what_is_stored_later(
    database, connection, ledger, monkeypatch, poll_seconds, notifies
):
    ledger.open_account("a1")
    ensure(connection)
    stop = Event()

    def run():
        with database.connect() as own:
            for _ in follow(own, ledger.source, poll_seconds=poll_seconds):
                if stop.is_set():
                    return

    follower = Thread(target=run)
    follower.start()
    try:
        for count in (1, 2, 3):
            deadline = monotonic() + 10
            while positions(connection) != at(count):
                assert monotonic() < deadline
                sleep(0.005)
            ledger.do("account:a1", "deposit", 1)
            if notifies:
                connection.execute(f"NOTIFY {runner.CHANNEL}")
    finally:
        stop.set()
        connection.execute(f"NOTIFY {runner.CHANNEL}")
        follower.join(timeout=10)
    assert not follower.is_alive()


def test_every_read_model_has_a_name_and_tables_of_its_own():
    assert sorted(projection.name for projection in ALL) == NAMES
    named = [table for projection in ALL for table in projection.tables]
    assert len(set(named)) == len(named)


def test_an_interrupt_is_not_lost_where_the_connection_has_ended(database, connection, ledger):
    with database.connect() as own:
        following = follow(own, ledger.source)
        next(following)
        connection.execute("SELECT pg_terminate_backend(%s, 10000)", [own.info.backend_pid])
        with pytest.raises(KeyboardInterrupt):
            following.throw(KeyboardInterrupt)
