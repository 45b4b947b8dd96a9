"""The ledger's store in memory: the same sessions without a database.

It keeps nothing after the process ends. The library wants exactly one factory class in
this module, so its own is imported by the name of its module.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from threading import RLock
from typing import Any

from eventsourcing import popo
from eventsourcing.persistence import ApplicationRecorder, StoredEvent

from infrastructure.store.session import (
    Beside,
    ClientKey,
    Columns,
    Found,
    NotUpToDate,
    Remembered,
    TurnSession,
    columns_of,
)

_REFUSALS_ARE_KEPT = timedelta(days=30)


class MemoryRecorder(popo.POPOApplicationRecorder):
    """Keeps events, remembered answers and seeds in plain Python objects."""

    def __init__(self) -> None:
        super().__init__()
        self._turn = RLock()
        self.answers: dict[ClientKey, tuple[Remembered, datetime]] = {}
        self.seeds: dict[str, bytes] = {}

    def insert_events(
        self,
        stored_events: Sequence[StoredEvent],
        *,
        session: TurnSession | None = None,
        beside: Beside | None = None,
        **_: Any,
    ) -> Sequence[int] | None:
        """Appends events in the session that is given, or in one of their own."""
        if session is None:
            with self.writing() as own:
                return self.insert_events(stored_events, session=own, beside=beside)
        first = session.head + 1
        session.append(columns_of(stored_events), beside or Beside())
        return list(range(first, first + len(stored_events)))

    def insert_now(self, events: Columns) -> None:
        """Appends events to the log; the caller has the turn."""
        columns = (events.streams, events.versions, events.topics, events.states)
        super().insert_events([StoredEvent(*row) for row in zip(*columns, strict=True)])

    @contextmanager
    def writing(self) -> Iterator["MemorySession"]:
        with self._turn:
            yield MemorySession(self)

    def attempting(
        self,
        head: int,
        *,
        new_streams: Collection[str],  # noqa: ARG002 - memory is asked at no cost
    ) -> "MemoryAttempt":
        return MemoryAttempt(self, head)


class MemorySession:
    """A turn at the head in memory. It appends at once, so nothing may fail after an append."""

    def __init__(self, recorder: MemoryRecorder) -> None:
        self._recorder = recorder

    @property
    def head(self) -> int:
        return self._recorder.max_notification_id() or 0

    def recall(
        self, keys: Sequence[ClientKey], stream_ids: Collection[str]
    ) -> tuple[dict[ClientKey, Remembered], Sequence[Found]]:
        oldest = datetime.now(UTC) - _REFUSALS_ARE_KEPT
        found = {key: self._recorder.answers.get(key) for key in keys}
        remembered = {
            key: each[0]
            for key, each in found.items()
            if each is not None and (each[0].position is not None or each[1] > oldest)
        }
        return remembered, self.load(stream_ids)

    def load(self, stream_ids: Collection[str]) -> Sequence[Found]:
        return [
            event
            for stream_id in sorted(stream_ids)
            for event in self._recorder.select_events(stream_id)
        ]

    def changed_since(self, position: int) -> set[str] | None:
        events = self._recorder.select_notifications(position + 1, self.head - position)
        return {str(event.originator_id) for event in events}

    def seed(self, shoe_id: str) -> bytes:
        return self._recorder.seeds[shoe_id]

    def append(self, events: Columns, beside: Beside) -> None:
        self._recorder.insert_now(events)
        now = datetime.now(UTC)
        for each in beside.remembered:
            self._recorder.answers[each.client, each.key] = (each, now)
        for shoe_id, seed in beside.seeds.items():
            if seed is None:
                self._recorder.seeds.pop(shoe_id, None)
            else:
                self._recorder.seeds[shoe_id] = seed


class MemoryAttempt(MemorySession):
    """A turn on what is known as of a head, which it finds only where it appends."""

    def __init__(self, recorder: MemoryRecorder, head: int) -> None:
        super().__init__(recorder)
        self._head = head
        self._brought: tuple[Columns, Beside] | None = None

    @property
    def head(self) -> int:
        return self._head + (len(self._brought[0]) if self._brought else 0)

    def seed(self, shoe_id: str) -> bytes:
        if shoe_id not in self._recorder.seeds:
            raise NotUpToDate
        return super().seed(shoe_id)

    def bring(self, events: Columns, beside: Beside) -> None:
        self._brought = events, beside

    def send_off(self) -> None:
        if self._brought is None:
            raise NotUpToDate

    def arrive(self) -> None:
        if self._brought is None:
            raise NotUpToDate
        events, beside = self._brought
        with self._recorder.writing() as now:
            keys = [(each.client, each.key) for each in beside.remembered]
            if now.head != self._head or now.recall(keys, ())[0]:
                raise NotUpToDate
            now.append(events, beside)


class Factory(popo.POPOFactory):
    """Makes the store in memory."""

    def application_recorder(self) -> ApplicationRecorder:
        return MemoryRecorder()
