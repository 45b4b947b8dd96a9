"""A ledger in memory, filled by the aggregates' own commands, and the tables folded from it."""

import hashlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from msgspec.structs import replace
from psycopg.rows import dict_row

from domain.account import Account
from domain.bets import RETURNED, BetKind, Result, Settlement
from domain.cards import parse_card
from domain.event import Recorded, Stamp
from domain.round import Round
from domain.rules import STANDARD_RULES, Rules
from domain.shoe import Shoe
from domain.table import Table
from infrastructure.settings import Settings
from infrastructure.store.connection import Database, open_database
from infrastructure.store.embedded import EmbeddedServer
from infrastructure.store.schema import LEDGER_ROLE, upgrade

START = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)

KINDS = {"table": Table, "shoe": Shoe, "round": Round, "account": Account}


class Ledger:
    """Aggregates and their events, one a second, in the order of their positions."""

    def __init__(self) -> None:
        self.events: list[Recorded] = []
        self.aggregates: dict[str, Any] = {}
        self.seeds: dict[str, bytes] = {}

    def source(self, after: int, limit: int) -> Sequence[Recorded]:
        return self.events[after : after + limit]

    def at(self, position: int) -> datetime:
        return START + timedelta(seconds=position)

    def do(self, stream_id: str, command: str, *arguments: Any, **named: Any) -> Any:
        """Does a command of an aggregate and records its events."""
        aggregate = self._aggregate(stream_id)
        stamp = Stamp(at=self.at(len(self.events) + 1), actor="dealer-7", key="key-1")
        answer = getattr(aggregate, command)(*arguments, **named, stamp=stamp)
        for event in answer if isinstance(answer, tuple) else (answer,):
            at = self.at(len(self.events) + 1)
            recorded = Recorded(len(self.events) + 1, replace(event, at=at))
            self.events.append(recorded)
            self.aggregates[stream_id] = self._aggregate(stream_id).apply(recorded.event)
        return self.aggregates[stream_id]

    def _aggregate(self, stream_id: str) -> Any:
        kind, _, _ = stream_id.partition(":")
        return self.aggregates.get(stream_id) or KINDS[kind](stream_id)

    def open_account(self, name: str, *, deposit_minor: int = 0, currency: str = "USD") -> None:
        self.do(f"account:{name}", "open", currency)
        if deposit_minor:
            self.do(f"account:{name}", "deposit", deposit_minor)

    def open_table(self, name: str, *, rules: Rules = STANDARD_RULES) -> None:
        self.do(f"table:{name}", "open", "USD", rules=rules)

    def open_shoe(self, name: str, *, table: str) -> None:
        """A shuffled shoe, whose seed is made from its name."""
        self.seeds[name] = hashlib.sha256(name.encode()).digest()
        self.do(f"table:{table}", "place_shoe", name)
        named = {"decks": 8, "seed": self.seeds[name], "seed_given": True}
        self.do(f"shoe:{name}", "open_shuffled", table, **named)

    def close_shoe(self, name: str) -> None:
        shoe = self.do(f"shoe:{name}", "close", seed=self.seeds[name])
        self.do(f"table:{shoe.table_id}", "remove_shoe", name)

    def open_round(self, name: str, *, shoe: str) -> None:
        of_shoe = self.do(f"shoe:{shoe}", "start_round", name, after_cut_card=1)
        table = self.aggregates[f"table:{of_shoe.table_id}"]
        self.do(
            f"round:{name}",
            "open",
            table_id=table.name,
            shoe_id=shoe,
            number=of_shoe.rounds,
            currency=table.currency,
            rules_version=table.rules_version,
            rules=table.rules,
        )

    def bet(self, name: str, kind: BetKind, *, on: str, account: str, stake_minor: int) -> None:
        bet = {"bet_id": name, "stake_minor": stake_minor}
        self.do(f"account:{account}", "place_stake", round_id=on, **bet)
        self.do(f"round:{on}", "place_bet", kind, account_id=account, **bet)

    def cancel_bet(self, name: str, *, on: str) -> None:
        bet = self._aggregate(f"round:{on}").bets.get(name)
        self.do(f"round:{on}", "cancel_bet", name)
        if bet is not None:
            self._resolve(bet.account_id, RETURNED, on=on, bet_id=name)

    def deal(self, name: str, *cards: str) -> None:
        """Deals these cards, or all that the tableau demands from a shuffled shoe."""
        round_ = self._aggregate(f"round:{name}")
        dealt = tuple(parse_card(card) for card in cards)
        while round_.declared is None:
            shoe = self.aggregates[f"shoe:{round_.shoe_id}"]
            in_round = {"in_round": len(round_.dealt), "seed": self.seeds.get(shoe.name, b"")}
            dealing = dealt or shoe.next_cards(4 if not round_.dealt else 1, **in_round)
            round_ = self.do(f"round:{name}", "deal", dealing, irregular=None)
            if dealt:
                break

    def settle(self, name: str) -> None:
        round_ = self._aggregate(f"round:{name}")
        settled = self.do(f"round:{name}", "settle")
        for bet in round_.open_bets:
            self._resolve(bet.account_id, settled.bets[bet.id].settlement, on=name, bet_id=bet.id)
        self.do(f"shoe:{round_.shoe_id}", "end_round", round_.dealt)

    def void(self, name: str) -> None:
        round_ = self._aggregate(f"round:{name}")
        self.do(f"round:{name}", "void", "a card was exposed")
        for bet in round_.open_bets:
            self._resolve(bet.account_id, RETURNED, on=name, bet_id=bet.id)
        self.do(f"shoe:{round_.shoe_id}", "end_round", round_.dealt)

    def _resolve(self, account: str, settlement: Settlement, *, on: str, bet_id: str) -> None:
        assert settlement.result is not Result.OPEN
        rules = self.aggregates[f"round:{on}"].rules
        named = {"round_id": on, "bet_id": bet_id, "collection": rules.commission.collection}
        self.do(f"account:{account}", "resolve_stake", settlement, **named)

    def play(self, *, rounds: int, tables: Sequence[str] = ("t1", "t2"), prefix: str = "") -> None:
        """Opens tables and plays rounds at them in turns, each with three bets of two players."""
        tables = [prefix + table for table in tables]
        for table in tables:
            self.open_table(table)
            self.open_shoe(f"{table}-s1", table=table)
            for seat in "12":
                self.open_account(f"{table}-a{seat}", deposit_minor=100_000_00)
        for number in range(rounds):
            table = tables[number % len(tables)]
            name = f"{prefix}r{number}"
            self.open_round(name, shoe=f"{table}-s1")
            one, two = f"{table}-a1", f"{table}-a2"
            self.bet("b1", BetKind.BANKER, on=name, account=one, stake_minor=100_15 + number)
            self.bet("b2", BetKind.PLAYER, on=name, account=two, stake_minor=50_00)
            self.bet("b3", BetKind.TIE, on=name, account=two, stake_minor=5_00)
            if number % 5 == 1:
                self.cancel_bet("b3", on=name)
            self.do(f"round:{name}", "close_betting")
            self.deal(name)
            if number % 7 == 2:
                self.void(name)
            else:
                self.settle(name)


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture(scope="session")
def database_of_all(server: EmbeddedServer) -> Iterator[Database]:
    """One database for all tests here: no event is stored in it, and read models drop fast."""
    name = f"test_{uuid4().hex}"
    with psycopg.connect(server.url(), autocommit=True) as superuser:
        superuser.execute(f"CREATE DATABASE {name}")
        with psycopg.connect(server.url(database=name), autocommit=True) as connection:
            upgrade(connection)
        url = server.url(user=LEDGER_ROLE, database=name)
        with open_database(Settings.model_validate({"database_url": url})) as database:
            yield database
        superuser.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def database(database_of_all: Database) -> Database:
    """A database without any read model."""
    with database_of_all.connect() as connection:
        tables = connection.execute(
            "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables"
            " WHERE schemaname IN ('projection', 'projection_rebuild')"
        ).fetchall()
        for (table,) in tables:
            connection.execute(f"DROP TABLE {table}")
    return database_of_all


@pytest.fixture
def connection(database: Database) -> Iterator[psycopg.Connection]:
    with database.connect() as connection:
        yield connection


@pytest.fixture
def read_tables(database: Database):
    """All rows of all read models, by table."""

    def read(schema: str = "projection") -> dict[str, list[dict[str, Any]]]:
        with database.connect(row_factory=dict_row) as connection:
            names = connection.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = %s"
                " AND tablename NOT IN ('tracking', 'parked')",
                [schema],
            ).fetchall()
            return {
                name["tablename"]: connection.execute(
                    f"SELECT * FROM {schema}.{name['tablename']} ORDER BY opened_position"
                ).fetchall()
                for name in names
            }

    return read
