"""The pages over a real ledger: a simulated shoe, and a table with a round of every kind."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import Any
from uuid import uuid4

import httpx
import psycopg
import pytest

from domain.cards import parse_card
from domain.tableau import Outcome
from infrastructure.api.application import make_application
from infrastructure.api.server import Server, bind
from infrastructure.api.service import Service
from infrastructure.cli.ledger import casino_on
from infrastructure.commands.contract import RecordRound, read_command
from infrastructure.commands.execution import Client, execute
from infrastructure.pages.route import tell
from infrastructure.pages.router import pages_router
from infrastructure.settings import Settings
from infrastructure.simulation import simulate
from infrastructure.store.connection import Database, open_database
from infrastructure.store.embedded import EmbeddedServer
from infrastructure.store.schema import LEDGER_ROLE, upgrade

AT = "2026-01-02T12:00:00Z"


def evening() -> Iterator[dict[str, Any]]:
    """At table T1: a settled round, a corrected one, a void one and one that goes on."""
    yield {"command": "open_table", "table_id": "T1", "currency": "USD"}
    for account in ("alice", "bob"):
        yield {"command": "open_account", "account_id": account, "currency": "USD"}
        yield {"command": "deposit", "account_id": account, "amount_minor": 1_000_00}
    yield {"command": "open_shoe", "shoe_id": "S1", "table_id": "T1", "source": "physical"}
    yield {"command": "burn_cards", "shoe_id": "S1", "cards": ["2H", "??", "??"]}
    for number in (1, 2):
        yield {
            "command": "play_round",
            "round_id": f"R{number}",
            "shoe_id": "S1",
            "cards": ["4D", "3S", "AH", "QC", "7S", "5S"],
            "bets": [
                {"bet_id": "B1", "account_id": "alice", "bet": "banker", "stake_minor": 100_00},
                {"bet_id": "B2", "account_id": "bob", "bet": "player", "stake_minor": 50_00},
            ],
        }
    yield {
        "command": "propose_correction",
        "correction_id": "C1",
        "round_id": "R2",
        "reason": "the <last> card was misread",
        "actor": "pit-1",
        "cards": ["4D", "3S", "AH", "QC", "7S", "8S"],
    }
    yield {"command": "approve_correction", "correction_id": "C1", "actor": "pit-2"}
    yield {"command": "open_round", "round_id": "R3", "shoe_id": "S1"}
    yield {"command": "void_round", "round_id": "R3", "reason": "a card was exposed"}
    yield {"command": "open_round", "round_id": "R4", "shoe_id": "S1"}
    yield {
        "command": "place_bet",
        "bet_id": "B1",
        "round_id": "R4",
        "account_id": "alice",
        "bet": "banker",
        "stake_minor": 123_45,
    }
    yield {"command": "close_betting", "round_id": "R4"}
    yield {"command": "deal", "round_id": "R4", "cards": ["9D", "KS", "9H"]}
    yield {"command": "open_table", "table_id": "elsewhere", "currency": "USD"}
    yield {
        "command": "open_shoe",
        "shoe_id": "E1",
        "table_id": "elsewhere",
        "source": "physical",
    }


def recorded_elsewhere() -> RecordRound:
    """A round of another system, whose Banker drew against a natural."""
    cards = {"player": ("9?", "0?"), "banker": ("5?", "A?", "3?")}
    return RecordRound(
        key="recorded",
        at=datetime.fromisoformat(AT),
        round_id="E1.1",
        shoe_id="E1",
        number=1,
        **{hand: tuple(map(parse_card, texts)) for hand, texts in cards.items()},
        player_total=9,
        banker_total=9,
        outcome=Outcome.TIE,
        recorded_from="a simulator",
    )


@pytest.fixture(scope="session")
def make_ledger(server: EmbeddedServer) -> Iterator[Callable[[], Database]]:
    """Makes ledgers that several tests look at and none of them writes to."""
    with psycopg.connect(server.url(), autocommit=True) as superuser, ExitStack() as opened:

        def make() -> Database:
            name = f"test_{uuid4().hex}"
            superuser.execute(f"CREATE DATABASE {name}")
            opened.callback(superuser.execute, f"DROP DATABASE {name} WITH (FORCE)")
            with psycopg.connect(server.url(database=name), autocommit=True) as connection:
                upgrade(connection)
            url = server.url(user=LEDGER_ROLE, database=name)
            settings = Settings.model_validate({"database_url": url})
            database = opened.enter_context(open_database(settings))
            play(database)
            return database

        yield make


@pytest.fixture(scope="session")
def ledger_to_look_at(make_ledger: Callable[[], Database]) -> Database:
    """The ledger of most of the tests here."""
    return make_ledger()


def play(database: Database) -> None:
    """A simulated shoe, and the evening at T1."""
    commands = [
        read_command(
            json.dumps({"key": str(number), "at": AT, "actor": "dealer-1", **command}).encode()
        )
        for number, command in enumerate(evening())
    ]
    commands.append(recorded_elsewhere())
    with casino_on(database) as casino:
        simulate(casino, tables=1, shoes=1, seats=2, seed=7, batch=80)
        answers = execute(casino, commands, client=Client("test", is_bound_to_clock=False))
    assert all(answer["ok"] for answer in answers), answers


@contextmanager
def serving_pages(database: Database, **options: Any) -> Iterator[str]:
    """The service with its pages on loopback, as browsers reach it; gives its address."""
    is_ready = threading.Event()
    with bind("127.0.0.1", 0) as listening, casino_on(database) as casino:
        routers = [pages_router(**options)]
        application = make_application(Service(database, casino), routers=routers, tell=tell)
        server = Server(application, ready=is_ready.set)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        assert is_ready.wait(30)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(60)
            assert not thread.is_alive()


@pytest.fixture(scope="session")
def address(ledger_to_look_at: Database) -> Iterator[str]:
    with serving_pages(ledger_to_look_at) as address:
        yield address


@pytest.fixture
def browser(address: str) -> Iterator[httpx.Client]:
    """Somebody who looks at the pages, where no keys are kept."""
    headers = {"Accept-Language": "en-GB"}
    with httpx.Client(base_url=address, headers=headers, timeout=30, trust_env=False) as client:
        yield client
