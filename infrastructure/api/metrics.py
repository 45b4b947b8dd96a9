"""The figures of the service, as Prometheus reads them.

Labels are of few kinds: templates of routes, names of commands and codes of
refusals. No id of a player, a round or a key is ever among them.
"""

import collections
from collections.abc import Iterator, Sequence
from importlib.metadata import version

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    Info,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from infrastructure.api.condition import CHECKS, Condition
from infrastructure.api.roles import name_of
from infrastructure.commands.answers import Answer
from infrastructure.commands.contract import Command

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
GROUP_SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500)
NO_COMMAND = "none"
"""What stands for the name of a command that could not be read."""
ACCEPTED, REPLAYED = "accepted", "replayed"


class Metrics:
    """What one service has counted since it started."""

    def __init__(self) -> None:
        own = self._registry = CollectorRegistry()
        self._requests = Counter(
            "punto_http_requests",
            "Requests that were answered.",
            ["route", "method", "status"],
            registry=own,
        )
        self._seconds = Histogram(
            "punto_http_request_seconds",
            "How long they took, up to the end of the answer.",
            ["route", "method"],
            buckets=SECONDS,
            registry=own,
        )
        self._commands = Counter(
            "punto_commands",
            "Commands by what became of them: accepted, replayed, or the code of the refusal.",
            ["command", "outcome"],
            registry=own,
        )
        self._group_sizes = Histogram(
            "punto_group_commands",
            "How many commands shared a transaction.",
            buckets=GROUP_SIZES,
            registry=own,
        )
        Info("punto_build", "What runs.", registry=own).info({"version": version("puntobanco")})
        ProcessCollector(registry=own)

    def count_request(self, *, route: str, method: str, status: int, seconds: float) -> None:
        """Counts an answered request."""
        method = method if method in METHODS else "other"
        self._requests.labels(route, method, status).inc()
        self._seconds.labels(route, method).observe(seconds)

    def count_group(self, size: int) -> None:
        """Counts commands that share a transaction."""
        self._group_sizes.observe(size)

    def count_commands(self, commands: Sequence[Command], answers: Sequence[Answer]) -> None:
        """Counts commands by their answers."""
        found = collections.Counter(map(_outcome, commands, answers))
        for labels, count in found.items():
            self._commands.labels(*labels).inc(count)

    def count_refused(self, code: str) -> None:
        """Counts what was refused before it was a command."""
        self._commands.labels(NO_COMMAND, code).inc()

    def exposition(self, condition: Condition, *, readers: int) -> bytes:
        """All of it in the text format, beside how the ledger stands and who follows it."""
        return generate_latest(self._registry) + generate_latest(_Standing(condition, readers))


def _outcome(command: Command, answer: Answer) -> tuple[str, str]:
    if answer["replayed"]:
        return name_of(command), REPLAYED
    return name_of(command), ACCEPTED if answer["ok"] else answer["error"]["code"]


class _Standing(Collector):
    """The figures that are looked up when they are asked for."""

    def __init__(self, condition: Condition, readers: int) -> None:
        self._condition = condition
        self._readers = readers

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "punto_event_stream_readers",
            "Readers that follow the events of this process.",
            value=self._readers,
        )
        ready = GaugeMetricFamily(
            "punto_ready", "Whether a check of /readyz is passed.", labels=["check"]
        )
        for check in CHECKS:
            ready.add_metric([check], check not in self._condition.faults)
        yield ready
        if self._condition.head is not None:
            yield GaugeMetricFamily(
                "punto_head_position", "The position of the latest event.", self._condition.head
            )
        lag = GaugeMetricFamily(
            "punto_projection_lag_events",
            "How many events a projection is behind.",
            labels=["projection"],
        )
        parked = GaugeMetricFamily(
            "punto_parked_events",
            "How many events a projection could not fold.",
            labels=["projection"],
        )
        for standing in self._condition.projections:
            lag.add_metric([standing.name], standing.lag_events)
            parked.add_metric([standing.name], standing.parked)
        yield from (lag, parked)
