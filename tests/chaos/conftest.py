"""A ledger to be disturbed, and the dice that say when; a failure shows their seed."""

import secrets
from random import Random

import pytest

from infrastructure.commands import execution
from infrastructure.store.embedded import EmbeddedServer
from infrastructure.store.schema import LEDGER_ROLE


@pytest.fixture(autouse=True)
def _not_measured(unmeasured: None) -> None:
    """What is done a thousand times over is done elsewhere too, and measuring it takes longer."""


@pytest.fixture
def url(server: EmbeddedServer, database_name: str) -> str:
    """A fresh ledger on the server of the test run."""
    return server.url(user=LEDGER_ROLE, database=database_name)


@pytest.fixture
def random() -> Random:
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    return Random(seed)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands in this process are refused soon where the store is away."""
    monkeypatch.setattr(execution, "_PATIENCE_SECONDS", (0,))
