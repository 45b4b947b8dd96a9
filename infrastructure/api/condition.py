"""How the ledger stands, looked up in bounded time: may the service be sent requests?"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import psycopg
from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from psycopg import Connection

from infrastructure.store.connection import Database, may_write
from infrastructure.store.errors import StoreError
from infrastructure.store.reader import LogReader
from infrastructure.store.schema import guard_faults
from projections import parking, runner, tracking

CHECKS = ("database", "history", "projections")
"""The database answers; the history is guarded and can be added to; the read models follow."""

LOOK_SECONDS_MAX = 2.5
LAG_EVENTS_MAX = 10_000
_CONNECT_SECONDS_MAX = 2
_STATEMENT_MS_MAX = 2_000

log = logging.getLogger("punto.ready")


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a read model has come."""

    name: str
    lag_events: int
    parked: int


@dataclass(frozen=True, slots=True)
class Condition:
    """How the ledger stands; `faults` says of each check that is not passed why.

    A check that could not be made, as the database is away, is not passed.
    """

    faults: Mapping[str, str] = field(default_factory=dict)
    head: int | None = None
    projections: tuple[Standing, ...] = ()


class Inspector:
    """Looks how the ledger stands; those who ask at the same time share one look."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._looking: asyncio.Task[Condition] | None = None
        self._faults: Mapping[str, str] = {}

    async def look(self) -> Condition:
        """How it stands now. A database that does not answer in time counts as away."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        try:
            async with asyncio.timeout(LOOK_SECONDS_MAX):
                return await asyncio.shield(self._looking)
        except TimeoutError:
            return _away("does not answer in time")

    async def _look(self) -> Condition:
        # In a thread beside those that requests may have taken up.
        condition = await run_sync(_inspect, self._database, limiter=CapacityLimiter(1))
        if condition.faults != self._faults:
            self._faults = condition.faults
            level = logging.WARNING if condition.faults else logging.INFO
            fields = {"ready": not condition.faults, "checks": dict(condition.faults)}
            log.log(level, "readiness has changed", extra={"fields": fields})
        return condition


def _inspect(database: Database) -> Condition:
    # On a connection of its own: one of the pool may wait for ever on a network that is cut.
    bounds = {"connect_timeout": _CONNECT_SECONDS_MAX, "tcp_user_timeout": _STATEMENT_MS_MAX}
    try:
        with database.connect(**bounds) as connection:
            connection.execute(f"SET statement_timeout = {_STATEMENT_MS_MAX}")
            return _condition(connection)
    except (psycopg.Error, StoreError):
        return _away("does not answer")


def _away(how: str) -> Condition:
    unknown = dict.fromkeys(CHECKS, "cannot be told without the database")
    return Condition({**unknown, "database": how})


def _condition(connection: Connection[Any]) -> Condition:
    faults = {}
    if not may_write(connection):
        faults["history"] = "may only be read from here"
    elif guard_faults(connection):
        faults["history"] = "is not protected: `punto audit` says why"
    head = LogReader(connection).head()
    tracked = {row.name: row for row in tracking.tracked(connection)}
    parked = parking.counts(connection)
    standings = []
    for projection in runner.ALL:
        row = tracked.get(projection.name)
        lag_events = max(head - row.position, 0) if row else head
        standings.append(Standing(projection.name, lag_events, parked.get(projection.name, 0)))
        if row is None or row.version != projection.version:
            faults["projections"] = f"{projection.name} is being built"
        elif lag_events > LAG_EVENTS_MAX:
            faults["projections"] = f"{projection.name} is {lag_events} events behind"
    return Condition(faults, head, tuple(standings))
