"""Rebuilding: the new tables grow beside the old ones, which answer until the swap."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event, Thread
from time import sleep

import psycopg
import pytest

from projections.balances import Balances, accounts, balance
from projections.projection import ProjectionError
from projections.rounds import Rounds, rounds
from projections.runner import ALL, catch_up, positions, rebuild


@pytest.fixture
def live(connection, ledger, read_tables):
    """Twenty rounds, folded into the live tables; the rows of all tables."""
    ledger.play(rounds=20)
    catch_up(connection, ledger.source)
    return read_tables()


def spoil(connection):
    """Makes the live rows wrong, so that one can tell them from rebuilt ones."""
    connection.execute("UPDATE projection.balances SET available_minor = 7")
    connection.execute("UPDATE projection.rounds SET turnover_minor = 7")


@pytest.mark.parametrize("events_per_page", [7, 5_000])
def test_what_is_rebuilt_equals_what_was_live(
    connection, ledger, live, read_tables, events_per_page
):
    before = positions(connection)
    spoil(connection)
    rebuild(connection, ledger.source, events_per_page=events_per_page)
    assert read_tables() == live
    assert positions(connection) == before
    assert read_tables("projection_rebuild") == {}


def test_progress_tells_the_position_after_each_page(connection, ledger, live):
    seen = []
    rebuild(connection, ledger.source, progress=seen.append, events_per_page=300)
    assert seen == [*range(300, len(ledger.events), 300), len(ledger.events)]


def test_only_those_that_are_named_are_rebuilt(connection, ledger, live, read_tables):
    spoil(connection)
    rebuild(connection, ledger.source, ["rounds"])
    rows = read_tables()
    assert rows["rounds"] == live["rounds"]
    assert {row["available_minor"] for row in rows["balances"]} == {7}


def test_a_name_that_is_not_there_is_refused(connection, ledger):
    with pytest.raises(
        ProjectionError, match="no projection profits, only balances, days, journal,"
    ):
        rebuild(connection, ledger.source, ["profits"])


def test_a_ledger_that_was_never_folded_can_be_rebuilt(connection, ledger):
    ledger.play(rounds=2)
    rebuild(connection, ledger.source)
    assert {position for _, position in positions(connection)} == {len(ledger.events)}
    assert len(rounds(connection)) == 2


def test_rebuilt_tables_have_the_indexes_of_the_live_ones(connection, ledger, live):
    def indexes():
        return connection.execute(
            "SELECT indexname, replace(indexdef, 'projection_rebuild.', 'projection.')"
            " FROM pg_indexes WHERE schemaname = 'projection' ORDER BY 1"
        ).fetchall()

    before = indexes()
    rebuild(connection, ledger.source)
    assert indexes() == before


def test_the_old_rows_answer_until_the_swap(database, connection, ledger, live):
    spoil(connection)
    answers = []

    def source(after, limit):
        with database.connect() as reader:
            answers.append((balance(reader, "t1-a1").available_minor, len(rounds(reader))))
        return ledger.source(after, limit)

    rebuild(connection, source, events_per_page=100)
    assert len(answers) > 4
    # The last one is asked inside the swap, which waits at most for a page.
    assert set(answers) == {(7, 20)}
    assert balance(connection, "t1-a1").available_minor != 7


def test_live_folding_goes_on_during_a_rebuild(database, connection, ledger, live, read_tables):
    def source(after, limit):
        if after == 100:
            ledger.play(rounds=3, prefix="late-")
            with database.connect() as other:
                assert catch_up(other, ledger.source) > 0
                assert balance(other, "late-t1-a1") is not None
        return ledger.source(after, limit)

    rebuild(connection, source, events_per_page=100)
    assert {position for _, position in positions(connection)} == {len(ledger.events)}
    rebuilt = read_tables()
    rebuild(connection, ledger.source)
    assert read_tables() == rebuilt
    assert len(rebuilt["rounds"]) == 23


def test_what_is_stored_last_of_all_is_folded_in_the_swap(connection, ledger, live):
    head = len(ledger.events)
    pages = []

    def source(after, limit):
        pages.append(after)
        # Asked for the second time at the head, the swap has begun.
        if pages.count(head) == 2:
            ledger.open_account("late")
        return ledger.source(after, limit)

    rebuild(connection, source, events_per_page=head)
    assert balance(connection, "late").position == head + 1
    assert {position for _, position in positions(connection)} == {head + 1}


def test_a_rebuild_that_fails_leaves_the_old_rows_and_nothing_else(
    connection, ledger, live, read_tables
):
    class Failing(Rounds):
        def apply(self, rows, recorded):
            raise RuntimeError("not today")

    with pytest.raises(RuntimeError, match="not today"):
        rebuild(connection, ledger.source, projections=(Balances(), Failing()))
    assert read_tables() == live
    assert read_tables("projection_rebuild") == {}


def kill_after(database, ledger, position):
    """A rebuild whose server process is killed after a position."""
    with database.connect() as killed:
        process_id = killed.info.backend_pid

        def source(after, limit):
            if after >= position:
                with database.connect() as other:
                    other.execute("SELECT pg_terminate_backend(%s)", [process_id])
            return ledger.source(after, limit)

        with pytest.raises(psycopg.OperationalError):
            rebuild(killed, source, events_per_page=50)


def test_a_rebuild_that_was_killed_is_gone_on_with(database, connection, ledger, live, read_tables):
    before = positions(connection)
    kill_after(database, ledger, 200)
    assert len(read_tables("projection_rebuild")["rounds"]) > 1
    assert (read_tables(), positions(connection)) == (live, before)
    spoil(connection)
    asked_after = []

    def source(after, limit):
        asked_after.append(after)
        return ledger.source(after, limit)

    rebuild(connection, source)
    assert asked_after[0] == 200
    assert read_tables() == live
    assert read_tables("projection_rebuild") == {}


def test_a_rebuild_that_was_interrupted_is_gone_on_with(connection, ledger, live, read_tables):
    def interrupted(after, limit):
        if after >= 100:
            raise KeyboardInterrupt
        return ledger.source(after, limit)

    with pytest.raises(KeyboardInterrupt):
        rebuild(connection, interrupted, events_per_page=50)
    spoil(connection)
    rebuild(connection, lambda after, limit: ledger.source(after, limit) if after >= 100 else [])
    assert read_tables() == live


def test_what_was_built_of_other_read_models_or_versions_is_not_gone_on_with(
    database, connection, ledger, live, read_tables
):
    kill_after(database, ledger, 200)
    spoil(connection)
    rebuild(connection, ledger.source, ["rounds", "balances"])
    rows = read_tables()
    assert (rows["rounds"], rows["balances"]) == (live["rounds"], live["balances"])

    class Changed(Rounds):
        version = Rounds.version + 1

    kill_after(database, ledger, 200)
    rebuild(connection, ledger.source, projections=(Changed(),))
    assert read_tables()["rounds"] == live["rounds"]


def test_leftovers_of_tables_that_no_longer_exist_are_cleared(connection, ledger, live):
    connection.execute("CREATE TABLE projection_rebuild.of_old (name text)")
    rebuild(connection, ledger.source, ["tables"])
    assert connection.execute("SELECT to_regclass('projection_rebuild.of_old')").fetchone() == (
        None,
    )


def test_two_rebuilds_at_once_wait_for_each_other(database, connection, ledger, live, read_tables):
    start = Barrier(2)

    def run(_):
        with database.connect() as own:
            start.wait()
            rebuild(own, ledger.source, events_per_page=50)

    spoil(connection)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, range(2)))
    assert read_tables() == live


class NewBalances(Balances):
    """The next version: it has another column's worth of meaning."""

    version = Balances.version + 1
    folded = 0

    def apply(self, rows, recorded):
        NewBalances.folded += 1
        super().apply(rows, recorded)
        rows[self.key(recorded.event)].owed_minor = 1


NEW = tuple(NewBalances() if projection.name == "balances" else projection for projection in ALL)


def test_a_changed_logic_version_rebuilds(connection, ledger, live):
    spoil(connection)
    catch_up(connection, ledger.source, projections=NEW)
    assert {account.owed_minor for account in accounts(connection)} == {1}
    assert {line.turnover["USD"] for line in rounds(connection)} == {7}
    assert connection.execute(
        "SELECT version FROM projection.tracking WHERE name = 'balances'"
    ).fetchone() == (NewBalances.version,)


def test_a_changed_logic_version_rebuilds_once(database, ledger, live):
    start = Barrier(3)

    def run(_):
        with database.connect() as own:
            start.wait()
            catch_up(own, ledger.source, projections=NEW)

    NewBalances.folded = 0
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(run, range(3)))
    of_accounts = [each for each in ledger.events if each.event.TOPIC.startswith("account.")]
    assert NewBalances.folded == len(of_accounts)


def test_an_older_program_does_not_fold_into_what_a_newer_one_built(connection, ledger, live):
    catch_up(connection, ledger.source, projections=NEW)
    ledger.open_account("late")
    with pytest.raises(ProjectionError, match="balances was built by a newer program"):
        catch_up(connection, ledger.source)
    assert balance(connection, "late") is None


def test_an_older_program_stops_where_a_newer_one_takes_over(database, connection, ledger, live):
    def take_over(_):
        with database.connect() as newer:
            catch_up(newer, ledger.source, projections=NEW)

    ledger.play(rounds=1, prefix="late-")
    with pytest.raises(ProjectionError, match="balances was rebuilt by another version"):
        catch_up(connection, ledger.source, progress=take_over, events_per_page=5)
    assert {account.owed_minor for account in accounts(connection)} == {1}


def test_an_older_program_rebuilds_when_it_is_told_to(connection, ledger, live, read_tables):
    catch_up(connection, ledger.source, projections=NEW)
    rebuild(connection, ledger.source, ["balances"])
    assert read_tables() == live


def test_rights_that_were_given_on_a_table_survive(server, connection, ledger, live, make_role):
    role = make_role()
    connection.execute(f'GRANT USAGE ON SCHEMA projection TO "{role}"')
    connection.execute(f'GRANT SELECT ON projection.rounds TO "{role}"')
    rebuild(connection, ledger.source)
    try:
        for granted in (role, "puntobanco_reader"):
            assert connection.execute(
                "SELECT has_table_privilege(%s, 'projection.rounds', 'SELECT')", [granted]
            ).fetchone() == (True,)
        with psycopg.connect(server.url(user=role, database=connection.info.dbname)) as reader:
            assert len(rounds(reader)) == 20
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                accounts(reader)
    finally:
        connection.execute(f'REVOKE ALL ON projection.rounds FROM "{role}"')
        connection.execute(f'REVOKE ALL ON SCHEMA projection FROM "{role}"')


def test_a_long_reader_delays_the_swap_and_nobody_else(database, connection, ledger, live):
    spoil(connection)
    swapping = Event()

    def source(after, limit):
        if after == len(ledger.events):
            swapping.set()
        return ledger.source(after, limit)

    def run():
        with database.connect() as own:
            rebuild(own, source, ["rounds"], events_per_page=100)

    rebuilder = Thread(target=run)
    with database.connect(autocommit=False) as long_reader:
        rounds(long_reader)
        rebuilder.start()
        assert swapping.wait(10)
        sleep(0.7)
        assert rebuilder.is_alive()
        with database.connect() as reader:
            reader.execute("SET statement_timeout TO '5s'")
            assert {line.turnover["USD"] for line in rounds(reader)} == {7}
        ledger.open_account("late")
        assert catch_up(connection, ledger.source) == 1
    rebuilder.join(timeout=10)
    assert not rebuilder.is_alive()
    assert {line.turnover["USD"] for line in rounds(connection)} != {7}
