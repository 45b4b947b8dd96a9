"""The service on a real socket and a real database, and clients with keys."""

import dataclasses
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from infrastructure.api import service
from infrastructure.api.application import make_application
from infrastructure.api.keys import create_key
from infrastructure.api.roles import Role
from infrastructure.api.server import Server, bind
from infrastructure.api.service import Service
from infrastructure.cli.ledger import casino_on
from infrastructure.store.connection import Database
from tests.infrastructure.following import FollowerInAThread
from tests.infrastructure.proxy import Proxy


class Api:
    """A client of the service; each write has a key of its own unless one is named."""

    def __init__(self, url: str, key: str | None = None) -> None:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self.url = url
        self.client = httpx.Client(base_url=url, headers=headers, timeout=30, trust_env=False)
        self._count = 0

    def get(self, path: str, **kwargs: Any) -> httpx.Response:
        return self.client.get(path, **kwargs)

    def post(
        self, path: str, body: Any = None, *, key: str | None = None, **headers: str
    ) -> httpx.Response:
        self._count += 1
        given = {"Idempotency-Key": key or f"k{self._count}", "Content-Type": "application/json"}
        content = json.dumps({} if body is None else body)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.post(path, content=content, headers={**given, **named})

    def lines(self, *commands: Any) -> list[Any]:
        """Gives commands by the line."""
        texts = [each if isinstance(each, str) else json.dumps(each) for each in commands]
        response = self.client.post(
            "/v1/commands",
            content="\n".join(texts),
            headers={"Content-Type": "application/x-ndjson"},
        )
        assert response.status_code == 200, response.text
        return [json.loads(line) for line in response.text.splitlines()]

    def done(self, path: str, body: Any = None, **kwargs: Any) -> Any:
        """Posts what is to succeed, and gives its result."""
        response = self.post(path, body, **kwargs)
        assert response.status_code == 200, response.text
        return response.json()["result"]


@pytest.fixture(autouse=True)
def in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Services follow in a thread, unless a module of tests has a fixture of this name."""
    monkeypatch.setattr(service, "Follower", FollowerInAThread)


@contextmanager
def serving(database: Database, **options: Any) -> Iterator[tuple[str, Server]]:
    """The service in a thread of its own: its address, and the server."""
    is_ready = threading.Event()
    with bind("127.0.0.1", 0) as listening, casino_on(database) as casino:
        application = make_application(Service(database, casino, **options))
        server = Server(application, ready=is_ready.set)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread.start()
        assert is_ready.wait(30)
        try:
            yield url, server
        finally:
            server.should_exit = True
            thread.join(60)
            assert not thread.is_alive()


@pytest.fixture
def wire(database: Database, tmp_path: Path) -> Iterator[Proxy]:
    """The way to the database, which can be cut."""
    with Proxy(tmp_path, database.conninfo) as wire:
        yield wire


@pytest.fixture
def behind_the_wire(database: Database, wire: Proxy) -> Iterator[Api]:
    """A service that reaches its database over the wire."""
    with serving(dataclasses.replace(database, conninfo=wire.conninfo)) as (url, _):
        api = Api(url)
        with api.client:
            yield api


@pytest.fixture
def url(database: Database) -> Iterator[str]:
    with serving(database) as (url, _):
        yield url


@pytest.fixture
def api(url: str) -> Iterator[Api]:
    """Whoever calls where there are no keys."""
    api = Api(url)
    with api.client:
        yield api


@pytest.fixture
def holding(database: Database, url: str) -> Iterator[Callable[..., Api]]:
    """Makes clients that hold a key of a role."""
    made: list[Api] = []

    def hold(role: str, *, owner: str | None = None, **options: Any) -> Api:
        if role == "table":
            options.setdefault("tables", ["T1"])
        if role == "player":
            options.setdefault("account", "P1")
        with database.connect() as connection:
            _, key = create_key(connection, owner=owner or role, role=Role(role), **options)
        made.append(Api(url, key))
        return made[-1]

    yield hold
    for api in made:
        api.client.close()


def open_tables(api: Api, *table_ids: str) -> None:
    """Opens tables, a shuffled shoe at each, and the account P1 with 1,000.00 USD."""
    api.done("/v1/accounts", {"account_id": "P1", "currency": "USD"})
    api.done("/v1/accounts/P1/deposits", {"amount_minor": 1_000_00})
    for table_id in table_ids or ("T1",):
        api.done("/v1/tables", {"table_id": table_id, "currency": "USD"})
        shoe = {"shoe_id": f"S-{table_id}", "table_id": table_id, "source": "shuffled"}
        api.done("/v1/shoes", shoe)


def play(api: Api, round_id: str, table_id: str = "T1", **kwargs: Any) -> Any:
    """Plays a round with one bet on the banker."""
    bet = {"bet_id": "B1", "account_id": "P1", "bet": "banker", "stake_minor": 10_00}
    path = f"/v1/rounds/{round_id}/play"
    return api.done(path, {"shoe_id": f"S-{table_id}", "bets": [bet]}, **kwargs)
