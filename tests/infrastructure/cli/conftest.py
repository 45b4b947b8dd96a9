"""`punto` as its users have it: in this process or in one of its own, on a fresh database."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from infrastructure.cli.main import run
from infrastructure.store.embedded import EmbeddedServer
from infrastructure.store.schema import LEDGER_ROLE
from tests.conftest import assert_money_in_equals_money_out

REPOSITORY = Path(__file__).resolve().parents[3]
TEMPLATE = "template_ledger"
SEED = bytes(range(32)).hex()


@dataclass(frozen=True)
class Ran:
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[Any]:
        """Every line of stdout, which is JSON."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def document(self) -> Any:
        """The one line of stdout, which is JSON."""
        (document,) = self.lines
        return document

    def refusal(self) -> str:
        """The one line that says why nothing was done; it is neither a question nor a bug."""
        assert self.code == 2, self
        (line,) = self.err.splitlines()
        assert line.startswith("punto: "), line
        assert "bug" not in line
        return line.removeprefix("punto: ")


class Punto:
    """Runs commands in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
        self._monkeypatch = monkeypatch
        self.url = url

    def __call__(self, *arguments: str, stdin: bytes = b"", url: str | None = None) -> Ran:
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
        with self._monkeypatch.context() as patched:
            patched.setenv("PUNTO_DATABASE_URL", url or self.url)
            patched.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
            patched.setattr(sys, "stdout", out)
            patched.setattr(sys, "stderr", err)
            code = run(arguments)
        texts = []
        for stream in (out, err):
            stream.flush()
            texts.append(stream.buffer.getvalue().decode())  # type: ignore[attr-defined]
        return Ran(code, *texts)

    def run(self, commands: Sequence[dict[str, Any]], *, url: str | None = None) -> list[Any]:
        """Runs commands from standard input and gives the answers."""
        return self("run", "-", stdin=as_file(commands), url=url).lines


def as_file(commands: Sequence[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(command).encode() + b"\n" for command in commands)


@pytest.fixture
def url(server: EmbeddedServer, database_name: str) -> str:
    return server.url(user=LEDGER_ROLE, database=database_name)


@pytest.fixture
def make_url(server: EmbeddedServer, make_database: Callable[..., str]) -> Callable[[], str]:
    """Gives the address of another database with an empty ledger."""
    return lambda: server.url(user=LEDGER_ROLE, database=make_database(template=TEMPLATE))


@pytest.fixture
def punto(
    monkeypatch: pytest.MonkeyPatch, url: str, request: pytest.FixtureRequest
) -> Iterator[Punto]:
    """`punto` in this process; money in equals money out after a test that does not tamper."""
    yield Punto(monkeypatch, url)
    if not {"sql", "tamper"} & set(request.fixturenames):
        with psycopg.connect(url) as connection:
            assert_money_in_equals_money_out(connection)


@pytest.fixture
def start_punto(url: str) -> Iterator[Callable[..., "subprocess.Popen[bytes]"]]:
    """Starts `punto` in a process of its own, which is gone at the end of the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str, **environment: str) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen(
            [sys.executable, "-m", "infrastructure.cli.main", *arguments],
            cwd=REPOSITORY,
            env={**os.environ, "PUNTO_DATABASE_URL": url, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,  # as a shell does, so that a signal to all of it is none to the tests
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def punto_process(
    start_punto: Callable[..., "subprocess.Popen[bytes]"],
) -> Callable[..., Ran]:
    """Runs `punto` to its end in a process of its own."""

    def run_to_its_end(*arguments: str, stdin: bytes = b"", **environment: str) -> Ran:
        process = start_punto(*arguments, **environment)
        out, err = process.communicate(stdin, timeout=60)
        return Ran(process.returncode, out.decode(), err.decode())

    return run_to_its_end


@pytest.fixture
def sql(superuser_url: str) -> Iterator[Callable[..., list[tuple[Any, ...]]]]:
    """Asks the database itself, as its superuser."""
    with psycopg.connect(superuser_url, autocommit=True) as connection:

        def ask(statement: str, *parameters: object) -> list[tuple[Any, ...]]:
            cursor = connection.execute(statement.encode(), parameters or None)
            return cursor.fetchall() if cursor.description else []

        yield ask


@pytest.fixture
def stored_events() -> Callable[[str], list[tuple[Any, ...]]]:
    """Everything that a store holds but the time at which it was recorded."""

    def read(url: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(url) as connection:
            return connection.execute("""
                SELECT notification_id, originator_id, originator_version, topic, state
                FROM ledger.stored_events ORDER BY notification_id
            """).fetchall()

    return read


class Script:
    """Writes commands, each with a key and a time of its own."""

    def __init__(self) -> None:
        self.commands: list[dict[str, Any]] = []
        self._at = datetime.now(UTC).replace(microsecond=0) - timedelta(days=1)

    def add(self, command: str, **fields: Any) -> None:
        self._at += timedelta(seconds=1)
        key = f"k{len(self.commands) + 1}"
        self.commands.append({"command": command, "key": key, "at": self._at.isoformat(), **fields})

    def bet(self, round_id: str, account_id: str, bet: str, stake_minor: int) -> None:
        self.add("place_bet", round_id=round_id, **_bet(round_id, account_id, bet, stake_minor))

    def play(self, round_id: str, shoe_id: str, *bets: tuple[str, str, int], **cards: Any) -> None:
        named = [_bet(round_id, *bet) for bet in bets]
        self.add("play_round", round_id=round_id, shoe_id=shoe_id, bets=named, **cards)


def _bet(round_id: str, account_id: str, bet: str, stake_minor: int) -> dict[str, Any]:
    return {
        "bet_id": f"{round_id}-{account_id}-{bet}",
        "account_id": account_id,
        "bet": bet,
        "stake_minor": stake_minor,
    }


def an_evening() -> list[dict[str, Any]]:
    """Three currencies, both kinds of shoe and of commission, and one round interrupted.

    Every command is accepted.
    """
    script = Script()
    script.add("set_gaming_day", zone="Asia/Bangkok", starts_at="06:00")
    script.add("open_table", table_id="T1", currency="USD")
    script.add(
        "open_table",
        table_id="T2",
        currency="THB",
        rules={"commission": {"collection": "deferred", "increment_minor": 25}},
    )
    script.add("open_table", table_id="T3", currency="JPY", rules={"variant": "no_commission"})
    for account_id, currency, amount_minor in (
        ("alice", "USD", 500_00),
        ("bob", "USD", 400_00),
        ("chai", "THB", 90_000_00),
        ("dao", "JPY", 1_000_000),
    ):
        script.add("open_account", account_id=account_id, currency=currency)
        script.add("deposit", account_id=account_id, amount_minor=amount_minor)
    script.add("freeze_account", account_id="bob", reason="a look at [his] papers, see [/b]")
    script.add("unfreeze_account", account_id="bob", reason="papers in order :thumbs_up:")

    script.add("open_shoe", shoe_id="S1", table_id="T1", source="physical")
    script.add("burn_cards", shoe_id="S1", cards=["2C", "??", "??"])
    script.add("open_round", round_id="R1", shoe_id="S1")
    script.bet("R1", "alice", "banker", 33_33)
    script.bet("R1", "bob", "player", 50_00)
    script.bet("R1", "bob", "tie", 5_00)
    script.bet("R1", "alice", "player_pair", 1_00)
    script.add("cancel_bet", round_id="R1", bet_id="R1-alice-player_pair")
    script.add("close_betting", round_id="R1")
    script.add("deal", round_id="R1", cards=["4D", "3S", "AH"])
    script.add("deal", round_id="R1", cards=["QC", "7S", "5S"])
    script.add("settle_round", round_id="R1")
    # A tie pays eight to one and the others push.
    bets = (("alice", "banker", 20_00), ("bob", "player", 10_00), ("bob", "tie", 2_00))
    script.play("R2", "S1", *bets, cards=["9S", "9H", "KD", "KC"])
    script.add("open_round", round_id="R3", shoe_id="S1")
    script.bet("R3", "alice", "player", 15_00)
    script.add("close_betting", round_id="R3")
    script.add("deal", round_id="R3", cards=["7S", "2H"])
    script.add("void_round", round_id="R3", reason="misdeal")

    script.add("open_shoe", shoe_id="S2", table_id="T2", source="shuffled", seed=SEED)
    script.add("open_shoe", shoe_id="S3", table_id="T3", source="shuffled", seed=SEED[::-1])
    for number in range(1, 6):
        script.play(f"P{number}", "S2", ("chai", "banker", 1_234_56), ("chai", "tie", 100_00))
        script.play(f"Q{number}", "S3", ("dao", "banker", 9_999), ("dao", "player_pair", 500))
    script.add("close_shoe", shoe_id="S2")
    script.add("withdraw", account_id="alice", amount_minor=100_00)

    script.add("open_round", round_id="R4", shoe_id="S1")
    script.bet("R4", "alice", "banker", 12_34)
    return script.commands


@pytest.fixture
def evening() -> list[dict[str, Any]]:
    return an_evening()


@pytest.fixture
def a_script() -> Script:
    return Script()


@pytest.fixture
def played(punto: Punto, evening: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The evening is in the ledger; the answers."""
    answers = punto.run(evening)
    assert [answer for answer in answers if not answer["ok"]] == []
    return answers
