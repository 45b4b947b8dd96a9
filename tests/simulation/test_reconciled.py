"""After any sequence of commands the commission is the same by every way of counting it.

`PUNTO_SEQUENCES` says how many sequences are played of each kind, in hundreds.
"""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from uuid import uuid4

import psycopg
import pytest

from domain.account import CommissionCharged, CommissionMarked, SettlementReversed
from domain.event import DomainEvent, Recorded
from infrastructure.casino import Casino
from infrastructure.cli.ledger import OpenLedger
from infrastructure.cli.reporting import reconcile_ledger
from infrastructure.settings import Settings
from infrastructure.store.connection import Database, open_database
from infrastructure.store.embedded import EmbeddedServer
from infrastructure.store.schema import LEDGER_ROLE
from projections import runner
from projections.commission import CommissionBy, commission
from projections.day_report import day_report
from tests.conftest import TEMPLATE
from tests.simulation import moneymaking
from tests.simulation.model import Ledger
from tests.simulation.playing import COMMANDS_A_SEQUENCE, play, sequence

SEEDS = max(int(os.environ.get("PUNTO_SEQUENCES", "1000")) // 250, 1)
DEFERRING = (2, 14, 38)
"""Seeds of sequences in which commission is marked."""


@contextmanager
def casino_on(database: Database) -> Iterator[Casino]:
    settings = {
        "PERSISTENCE_MODULE": "infrastructure.store.factory",
        "PUNTO_CONNINFO": database.conninfo,
    }
    casino = Casino(settings)
    try:
        yield casino
    finally:
        casino.close()


@contextmanager
def asked(database: Database) -> Iterator[OpenLedger]:
    with database.connect() as connection:
        ledger = OpenLedger(database, connection)
        ledger.catch_up()
        yield ledger


@pytest.fixture(scope="module")
def played(server: EmbeddedServer) -> Iterator[OpenLedger]:
    """A ledger in which much commission was made, and much of it corrected."""
    name = f"test_{uuid4().hex}"
    with psycopg.connect(server.url(), autocommit=True) as superuser:
        superuser.execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
        url = server.url(user=LEDGER_ROLE, database=name)
        with open_database(Settings.model_validate({"database_url": url})) as database:
            with casino_on(database) as casino:
                moneymaking.make_money(casino, seed=1, commands=500)
            with asked(database) as ledger:
                yield ledger
        superuser.execute(f"DROP DATABASE {name} WITH (FORCE)")


def events(ledger: OpenLedger) -> Iterator[DomainEvent]:
    for page in ledger.reader.pages():
        for entry in page:
            assert isinstance(entry, Recorded)
            yield entry.event


def charged(ledger: OpenLedger) -> Counter[str]:
    """Charged plus marked less taken back, by account, from the events themselves."""
    sums: Counter[str] = Counter()
    for event in events(ledger):
        account_id = event.originator_id.removeprefix("account:")
        if isinstance(event, CommissionCharged | CommissionMarked):
            sums[account_id] += event.commission_minor
        elif isinstance(event, SettlementReversed):
            sums[account_id] -= event.refunded_minor + event.unmarked_minor
    return sums


@pytest.mark.parametrize("seed", range(SEEDS))
def test_cards_events_and_ledger_agree_after_any_money_making(
    database: Database, seed: int
) -> None:
    with casino_on(database) as casino:
        moneymaking.make_money(casino, seed=seed, commands=150)
    with asked(database) as ledger:
        assert reconcile_ledger(ledger).differences == ()


@pytest.mark.parametrize("seed", [*DEFERRING, *range(SEEDS)])
def test_cards_events_and_ledger_agree_after_any_sequence(database: Database, seed: int) -> None:
    with casino_on(database) as casino:
        play(casino, Ledger(), sequence(seed), 2 * COMMANDS_A_SEQUENCE)
    with asked(database) as ledger:
        assert reconcile_ledger(ledger).differences == ()


def test_the_money_making_defers_collects_corrects_and_comes_late(played: OpenLedger) -> None:
    assert {
        "account.commission_charged",
        "account.commission_marked",
        "account.due_collected",
        "account.settlement_reversed",
        "account.frozen",
        "round.corrected",
        "shoe.closed",
        "site.gaming_day_closed",
    } <= {event.TOPIC for event in events(played)}
    late = played.connection.execute("SELECT FROM projection.day_play WHERE own_day < day")
    assert late.fetchone() is not None


def test_the_reports_agree_with_the_events(played: OpenLedger) -> None:
    by_account = Counter(
        {
            line.key: line.commission_minor
            for line in commission(played.connection, CommissionBy.ACCOUNT)
        }
    )
    assert by_account
    assert +by_account == +charged(played)
    totals = {
        by: Counter(
            {
                currency: sum(
                    line.commission_minor
                    for line in commission(played.connection, by)
                    if line.currency == currency
                )
                for currency in ("USD", "JPY", "KWD")
            }
        )
        for by in CommissionBy
    }
    assert len(set(map(str, totals.values()))) == 1


def test_the_days_add_up_to_everything(played: OpenLedger) -> None:
    lines = commission(played.connection, CommissionBy.DAY)
    days = {date.fromisoformat(line.key) for line in lines}
    assert len(days) > 3
    added: Counter[str] = Counter()
    for day in sorted(days):
        reconciled = reconcile_ledger(played, day=day)
        assert reconciled.ok
        for currency, sums in reconciled.currencies.items():
            reported = [
                line.commission_minor
                for line in lines
                if (line.key, line.currency) == (day.isoformat(), currency)
            ]
            assert sums["recomputed_minor"] == sum(reported)
            added[currency] += sum(reported)
    everything = reconcile_ledger(played).currencies
    assert added == Counter({name: sums["ledger_minor"] for name, sums in everything.items()})


def test_a_day_starts_with_what_the_day_before_left_in_play(played: OpenLedger) -> None:
    day = date(2026, 3, 27)
    left: dict[tuple[str, str], int] = {}
    for _ in range(30):
        report = day_report(played.connection, day)
        shoes = {(line.key, line.currency): line for line in report.shoes}
        starts = {key: line.in_play_start_minor for key, line in shoes.items()}
        assert {key: minor for key, minor in starts.items() if minor} == left
        left = {key: line.in_play_end_minor for key, line in shoes.items()}
        left = {key: minor for key, minor in left.items() if minor}
        day += timedelta(days=1)
    in_play = played.connection.execute("SELECT sum(in_play_minor) FROM projection.balances")
    assert in_play.fetchone() == (sum(left.values()),)


def test_the_live_tables_are_those_of_a_rebuild(played: OpenLedger) -> None:
    assert runner.check(played.connection, played.reader.page) == []
