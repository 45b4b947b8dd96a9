"""After any sequence of commands the commission is the same by every way of counting it."""

from collections import Counter
from datetime import timedelta

import pytest

from domain.account import CommissionCharged, CommissionMarked, SettlementReversed
from domain.event import Recorded
from infrastructure.casino import Casino
from infrastructure.cli.ledger import OpenLedger
from infrastructure.cli.reporting import reconcile_ledger
from infrastructure.store.connection import Database
from projections import runner
from projections.commission import CommissionBy, commission
from projections.day_report import day_calendar, day_report
from tests.simulation.generator import START
from tests.simulation.model import Ledger
from tests.simulation.playing import COMMANDS_A_SEQUENCE, play, sequence

SEQUENCES = 25


@pytest.fixture
def played(database: Database) -> OpenLedger:
    """A ledger in which many sequences were played, one after another."""
    casino = Casino(
        {
            "PERSISTENCE_MODULE": "infrastructure.store.factory",
            "PUNTO_CONNINFO": database.conninfo,
        }
    )
    start, model = START, Ledger()
    try:
        for seed in range(SEQUENCES):
            generator = sequence(seed, prefix=f"{seed}-", start=start)
            play(casino, model, generator, 2 * COMMANDS_A_SEQUENCE)
            start = generator.now + timedelta(minutes=1)
    finally:
        casino.close()
    with database.connect() as connection:
        ledger = OpenLedger(database, connection)
        ledger.catch_up()
        yield ledger


def _charged(ledger: OpenLedger) -> Counter[str]:
    """Charged plus marked less taken back, by account, from the events themselves."""
    sums: Counter[str] = Counter()
    for page in ledger.reader.pages():
        for entry in page:
            assert isinstance(entry, Recorded)
            event = entry.event
            account_id = event.originator_id.removeprefix("account:")
            if isinstance(event, CommissionCharged | CommissionMarked):
                sums[account_id] += event.commission_minor
            elif isinstance(event, SettlementReversed):
                sums[account_id] -= event.refunded_minor + event.unmarked_minor
    return sums


def test_cards_events_and_ledger_agree_and_so_do_the_reports(played: OpenLedger) -> None:
    reconciled = reconcile_ledger(played)
    assert reconciled.differences == ()
    recomputed = sum(sums["recomputed_minor"] for sums in reconciled.currencies.values())
    charged = _charged(played)
    assert recomputed == sum(charged.values()) > 0

    by_account = Counter(
        {
            line.key: line.commission_minor
            for line in commission(played.connection, CommissionBy.ACCOUNT)
        }
    )
    assert +by_account == +charged
    for by in CommissionBy:
        lines = commission(played.connection, by)
        assert sum(line.commission_minor for line in lines) == recomputed


def test_a_day_starts_with_what_the_day_before_left_in_play(played: OpenLedger) -> None:
    connection = played.connection
    first = day_calendar(connection).day_of(START)
    left: dict[tuple[str, str], int] = {}
    for days in range(-1, 4):
        report = day_report(connection, first + timedelta(days=days))
        shoes = {(line.key, line.currency): line for line in report.shoes}
        starts = {key: line.in_play_start_minor for key, line in shoes.items()}
        assert {key: minor for key, minor in starts.items() if minor} == left
        left = {key: line.in_play_end_minor for key, line in shoes.items()}
        left = {key: minor for key, minor in left.items() if minor}
    in_play = connection.execute("SELECT sum(in_play_minor) FROM projection.balances").fetchone()
    assert in_play == (sum(left.values()),)


def test_the_live_tables_are_those_of_a_rebuild(played: OpenLedger) -> None:
    assert runner.check(played.connection, played.reader.page) == []
