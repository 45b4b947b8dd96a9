"""The application: it loads aggregates, lets a command decide, and saves what was decided.

Nothing else in the program appends to the ledger.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, cast

from eventsourcing.application import Application
from eventsourcing.persistence import StoredEvent
from eventsourcing.utils import Environment

from domain.account import Account
from domain.correction import Correction
from domain.event import DomainEvent, check_order
from domain.round import Round
from domain.shoe import Shoe
from domain.site import SITE_ID, Site
from domain.table import Table
from infrastructure.store.mapper import PydanticMapper
from infrastructure.store.session import Beside, ClientKey, Remembered, Session, Sessions

Aggregate = Site | Table | Shoe | Round | Account | Correction

AGGREGATES_IN_MEMORY = 10_000

_NEW: dict[str, Callable[[str], Aggregate]] = {
    "table": Table,
    "shoe": Shoe,
    "round": Round,
    "account": Account,
    "correction": Correction,
}


class Book:
    """One turn's work: the aggregates as they stand in it, and the events decided so far.

    A command that is refused midway is undone by `undo`, and the commands
    before it in the same turn stand.
    """

    def __init__(
        self,
        session: Session,
        read: Callable[[StoredEvent], DomainEvent],
        known: Mapping[str, Aggregate],
    ) -> None:
        self.events: list[DomainEvent] = []
        self.remembered: list[Remembered] = []
        self.seeds: dict[str, bytes | None] = {}
        self.aggregates: dict[str, Aggregate] = {}
        self._session = session
        self._read = read
        self._known = known
        self._before: dict[str, Aggregate] = {}
        self._begun_at = 0
        self._seeds_before: dict[str, bytes | None] = {}
        self._seeds_read: dict[str, bytes] = {}

    @property
    def position(self) -> int:
        """The position of the latest event, those of this turn included."""
        return self._session.head + len(self.events)

    def recall(self, keys: Sequence[ClientKey]) -> dict[ClientKey, Remembered]:
        """The answers that clients' keys were given before this turn."""
        return self._session.recall(keys)

    def site(self) -> Site:
        return cast(Site, self._aggregate(SITE_ID))

    def table(self, table_id: str) -> Table:
        return cast(Table, self._aggregate(f"table:{table_id}"))

    def shoe(self, shoe_id: str) -> Shoe:
        return cast(Shoe, self._aggregate(f"shoe:{shoe_id}"))

    def round(self, round_id: str) -> Round:
        return cast(Round, self._aggregate(f"round:{round_id}"))

    def account(self, account_id: str) -> Account:
        return cast(Account, self._aggregate(f"account:{account_id}"))

    def correction(self, correction_id: str) -> Correction:
        return cast(Correction, self._aggregate(f"correction:{correction_id}"))

    def seed(self, shoe_id: str) -> bytes:
        """The seed of a shuffled shoe that is open."""
        seed = self.seeds.get(shoe_id) or self._seeds_read.get(shoe_id)
        if seed is None:
            seed = self._seeds_read[shoe_id] = self._session.seed(shoe_id)
        return seed

    def keep_seed(self, shoe_id: str, seed: bytes | None) -> None:
        """Stores a shoe's seed beside the events; None forgets it."""
        self.seeds[shoe_id] = seed

    def fetch(self, stream_ids: Collection[str]) -> None:
        """Brings streams into the turn in one go that would otherwise be loaded one by one."""
        missing = {
            stream_id
            for stream_id in stream_ids
            if stream_id not in self.aggregates and stream_id not in self._known
        }
        if not missing:
            return
        found = {stream_id: _new(stream_id) for stream_id in missing}
        for stored_event in self._session.load(missing):
            stream_id = str(stored_event.originator_id)
            found[stream_id] = _apply(found[stream_id], self._read(stored_event))
        self.aggregates.update(found)

    def record(self, *events: DomainEvent) -> None:
        """Takes events into the turn, each after the latest of its stream."""
        for event in events:
            aggregate = self._aggregate(event.originator_id)
            check_order(event.at, latest=aggregate.at)
            assert event.originator_version == aggregate.version + 1
            self._before.setdefault(aggregate.id, aggregate)
            self.aggregates[aggregate.id] = _apply(aggregate, event)
            self.events.append(event)

    def begin(self) -> None:
        """Starts a command: `undo` goes back to here."""
        self._before = {}
        self._begun_at = len(self.events)
        self._seeds_before = dict(self.seeds)

    def undo(self) -> None:
        """Takes back all that was recorded since `begin`."""
        self.aggregates.update(self._before)
        del self.events[self._begun_at :]
        self.seeds = self._seeds_before
        self.begin()

    def _aggregate(self, stream_id: str) -> Aggregate:
        aggregate = self.aggregates.get(stream_id) or self._known.get(stream_id)
        if aggregate is None:
            self.fetch((stream_id,))
            aggregate = self.aggregates[stream_id]
        return aggregate


class Casino(Application[str]):
    """The event-sourced application.

    Aggregates stay in memory between turns. A turn holds the ledger's one
    lock, so it sees at its start which streams others have added to since the
    last turn, and drops those: what it decides on is always the latest.
    `store_answered` says whether the last command reached the store.
    """

    name = ""
    env = {  # noqa: RUF012 - declared by the library
        "MAPPER_TOPIC": "infrastructure.store.mapper:PydanticMapper",
    }

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        super().__init__(env)
        self.store_answered = True
        self._in_turn = Lock()
        self._known: OrderedDict[str, Aggregate] = OrderedDict()
        self._known_at = 0

    def construct_env(self, name: str, env: Mapping[str, str] | None = None) -> Environment:
        """What this program says, and nothing of the process's environment.

        The library would let a variable there replace the mapper or encrypt the events.
        """
        return Environment(name, {**type(self).env, **(env or {})})

    @contextmanager
    def turn(self) -> Iterator[Book]:
        """A turn at the ledger: all that the book holds at the end is stored together.

        Where anything fails, or the answer to the commit is lost, nothing that
        was kept in memory is trusted any more.
        """
        with self._in_turn:
            try:
                with cast(Sessions, self.recorder).writing() as session:
                    self._drop_changed(session)
                    book = Book(session, self._read, self._known)
                    yield book
                    if book.events or book.remembered or book.seeds:
                        beside = Beside(book.remembered, book.seeds)
                        self.events.put(book.events, session=session, beside=beside)
                    head = session.head
            except BaseException:
                self._known.clear()
                self._known_at = 0
                raise
            self._keep(book.aggregates, head)

    def _read(self, stored_event: StoredEvent) -> DomainEvent:
        return cast(PydanticMapper, self.mapper).to_domain_event(stored_event)

    def _drop_changed(self, session: Session) -> None:
        if session.head == self._known_at:
            return
        changed = session.changed_since(self._known_at) if self._known else None
        if changed is None or session.head < self._known_at:
            self._known.clear()
        else:
            for stream_id in changed:
                self._known.pop(stream_id, None)
        self._known_at = session.head

    def _keep(self, aggregates: Mapping[str, Aggregate], head: int) -> None:
        for stream_id, aggregate in aggregates.items():
            if isinstance(aggregate, Round) and aggregate.is_finished:
                self._known.pop(stream_id, None)
                continue
            self._known[stream_id] = aggregate
            self._known.move_to_end(stream_id)
        while len(self._known) > AGGREGATES_IN_MEMORY:
            self._known.popitem(last=False)
        self._known_at = head


def _new(stream_id: str) -> Aggregate:
    if stream_id == SITE_ID:
        return Site()
    kind, _, _ = stream_id.partition(":")
    return _NEW[kind](stream_id)


def _apply(aggregate: Aggregate, event: Any) -> Aggregate:
    return aggregate.apply(event)
