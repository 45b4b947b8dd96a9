"""The application: it loads aggregates, lets a command decide, and saves what was decided.

Nothing else in the program appends to the ledger.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, Protocol, cast

from eventsourcing.application import Application
from eventsourcing.utils import Environment

from domain.account import Account
from domain.correction import Correction
from domain.event import DomainEvent, check_order
from domain.round import Round
from domain.shoe import Shoe
from domain.site import SITE_ID, Site
from domain.table import Table
from infrastructure.store.mapper import EventMapper
from infrastructure.store.session import (
    AttemptSession,
    Beside,
    ClientKey,
    Columns,
    Found,
    KeptState,
    NotUpToDate,
    Remembered,
    Session,
    Sessions,
    TurnSession,
)
from infrastructure.store.states import is_due, keep, restore

Aggregate = Site | Table | Shoe | Round | Account | Correction

AGGREGATES_IN_MEMORY = 10_000

_NEW: dict[str, Callable[[str], Aggregate]] = {
    "table": Table,
    "shoe": Shoe,
    "round": Round,
    "account": Account,
    "correction": Correction,
}


class _Aggregates(dict[str, Any]):
    """Aggregates by their streams; one that is asked for and not there is brought in."""

    def __init__(self, fetch: Callable[[Collection[str]], None]) -> None:
        super().__init__()
        self._fetch = fetch

    def __missing__(self, stream_id: str) -> Any:
        self._fetch((stream_id,))
        return self[stream_id]


class Book:
    """One turn's work: the aggregates as they stand in it, and the events decided so far.

    A command that is refused midway is undone by `undo`, and the commands
    before it in the same turn stand.
    """

    def __init__(
        self,
        session: Session,
        mapper: EventMapper,
        known: "Known",
        known_seeds: dict[str, bytes],
    ) -> None:
        self.events: list[DomainEvent] = []
        self.remembered: list[Remembered] = []
        self.seeds: dict[str, bytes | None] = {}
        self.aggregates = _Aggregates(self.fetch)
        self._session = session
        self._mapper = mapper
        self._known = known
        self._before: dict[str, Aggregate] = {}
        self._begun_at = 0
        self._seeds_before: dict[str, bytes | None] = {}
        self._known_seeds = known_seeds
        self._at_first: dict[str, Aggregate] = {}

    @property
    def position(self) -> int:
        """The position of the latest event, those of this turn included."""
        return self._session.head + len(self.events)

    def recall(
        self, keys: Sequence[ClientKey], stream_ids: Collection[str]
    ) -> dict[ClientKey, Remembered]:
        """The answers that clients' keys were given before this turn; it fetches as well."""
        missing = self._take_known(stream_ids)
        remembered, found = self._session.recall(keys, missing)
        self._bring_in(missing, found)
        return remembered

    def site(self) -> Site:
        site: Site = self.aggregates[SITE_ID]
        return site

    def table(self, table_id: str) -> Table:
        table: Table = self.aggregates["table:" + table_id]
        return table

    def shoe(self, shoe_id: str) -> Shoe:
        shoe: Shoe = self.aggregates["shoe:" + shoe_id]
        return shoe

    def round(self, round_id: str) -> Round:
        round_: Round = self.aggregates["round:" + round_id]
        return round_

    def account(self, account_id: str) -> Account:
        account: Account = self.aggregates["account:" + account_id]
        return account

    def correction(self, correction_id: str) -> Correction:
        correction: Correction = self.aggregates["correction:" + correction_id]
        return correction

    def seed(self, shoe_id: str) -> bytes:
        """The seed of a shuffled shoe that is open."""
        seed = self.seeds.get(shoe_id) or self._known_seeds.get(shoe_id)
        if seed is None:
            seed = self._known_seeds[shoe_id] = self._session.seed(shoe_id)
        return seed

    def keep_seed(self, shoe_id: str, seed: bytes | None) -> None:
        """Stores a shoe's seed beside the events; None forgets it."""
        self.seeds[shoe_id] = seed

    def fetch(self, stream_ids: Collection[str]) -> None:
        """Brings streams into the turn in one go that would otherwise be loaded one by one."""
        missing = self._take_known(stream_ids)
        if missing:
            self._bring_in(missing, self._session.load(missing))

    def record(self, *events: DomainEvent) -> None:
        """Takes events into the turn, each after the latest of its stream."""
        aggregates, before = self.aggregates, self._before
        for event in events:
            stream_id = event.originator_id
            aggregate = aggregates[stream_id]
            # The events of a command share their time, and need no comparison.
            if event.at is not aggregate.at:
                check_order(event.at, latest=aggregate.at)
            assert event.originator_version == aggregate.version + 1
            before.setdefault(stream_id, aggregate)
            aggregates[stream_id] = aggregate.apply(event)
        self.events += events

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

    def brought(self) -> tuple[Columns, Beside]:
        """All that the turn has brought, as it is stored."""
        states = [
            keep(aggregate)
            for stream_id, aggregate in self.aggregates.items()
            if isinstance(aggregate, Account)
            and is_due(aggregate, before=self._at_first[stream_id].version)
        ]
        # The library's way to store events checks each against a protocol and makes
        # two objects of it, which takes longer than all the rest of storing it.
        return self._mapper.to_columns(self.events), Beside(self.remembered, states, self.seeds)

    def _take_known(self, stream_ids: Collection[str]) -> set[str]:
        """Takes streams that are in memory into the turn; returns those that are not."""
        missing = set()
        for stream_id in stream_ids:
            if stream_id not in self.aggregates:
                known = self._known.get(stream_id)
                if known is None:
                    missing.add(stream_id)
                else:
                    self._at_first[stream_id] = self.aggregates[stream_id] = known
        return missing

    def _bring_in(self, missing: set[str], found: Sequence[Found]) -> None:
        aggregates: dict[str, Any] = {stream_id: _new(stream_id) for stream_id in missing}
        for each in found:
            if isinstance(each, KeptState):
                aggregates[each.stream_id] = restore(each)
            else:
                event = self._mapper.to_domain_event(each)
                aggregates[event.originator_id] = aggregates[event.originator_id].apply(event)
        self._at_first.update(aggregates)
        self.aggregates.update(aggregates)


class Attempt:
    """A turn's work that is decided without the lock, and is checked where it is stored.

    `head_before` is the head that it rests on, `head` the one that it comes to
    with all that was brought.
    """

    def __init__(self, session: AttemptSession, book: Book) -> None:
        self.book = book
        self.head_before = session.head
        self._session = session

    @property
    def head(self) -> int:
        return self._session.head

    def bring(self) -> None:
        """Makes all that was decided ready to be sent off, after which nothing more is decided.

        Raises NotUpToDate where only a turn can tell whether it may be stored.
        """
        self._session.bring(*self.book.brought())

    def send_off(self) -> None:
        """Sends it off, without waiting until it is stored."""
        self._session.send_off()

    def arrive(self) -> None:
        """Waits until what was sent off is stored; raises NotUpToDate where it was not taken."""
        self._session.arrive()


class Known(Protocol):
    """The aggregates that are in memory. Another thread may add some and drop others."""

    def get(self, stream_id: str, /) -> Aggregate | None:
        """The aggregate of a stream; None where it is not in memory."""
        ...


class _Overlaid:
    """What is known, and before that what another turn has made of it."""

    def __init__(self, above: Mapping[str, Aggregate], below: Known) -> None:
        self._above = above
        self._below = below

    def get(self, stream_id: str, /) -> Aggregate | None:
        return self._above.get(stream_id) or self._below.get(stream_id)


class Casino(Application[str]):
    """The event-sourced application.

    Aggregates stay in memory between turns. A turn holds the ledger's one
    lock, so it sees at its start which streams others have added to since the
    last turn, and drops those: what it decides on is always the latest. An
    attempt decides without that lock and is checked where it is stored; the
    next one may be decided meanwhile, on what that is to come to. `store_answered`
    says whether the last command reached the store.
    """

    name = ""
    env = {  # noqa: RUF012 - declared by the library
        "MAPPER_TOPIC": "infrastructure.store.mapper:EventMapper",
    }

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        super().__init__(env)
        self.store_answered = True
        self._deciding = Lock()
        self._known: OrderedDict[str, Aggregate] = OrderedDict()
        self._known_at = 0
        self._known_seeds: dict[str, bytes] = {}

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
        with self._deciding:
            try:
                with self._sessions.writing() as session:
                    self._drop_changed(session)
                    book = self._book(session, self._known)
                    yield book
                    session.append(*book.brought())
                    head = session.head
            except BaseException:
                self._forget()
                raise
            self._keep(book, head)

    @contextmanager
    def attempt(self, *, new_streams: Collection[str], after: Attempt | None) -> Iterator[Attempt]:
        """A turn that rests on what is kept in memory, and that the block decides and brings.

        It is to begin the `new_streams`, which are taken not to be there. Decided
        `after` another attempt that is being stored, it rests on what that is to
        come to, and may be stored once that is. Raises NotUpToDate where only a
        turn can tell.
        """
        with self._deciding:
            known: Known = self._known
            head = self._known_at
            if not self._known or (after is not None and after.head_before != head):
                raise NotUpToDate
            if after is not None:
                # A copy, for the attempt itself holds what it was decided after.
                known = _Overlaid(dict(after.book.aggregates), self._known)
                head = after.head
            session = self._sessions.attempting(head, new_streams=new_streams)
            yield Attempt(session, self._book(session, known))

    def send_off(self, attempt: Attempt) -> None:
        """Sends off what an attempt has brought, without waiting until it is stored."""
        with self._trusting_memory_no_more():
            attempt.send_off()

    def confirm(self, attempt: Attempt) -> None:
        """Waits until an attempt that was sent off is stored.

        Raises NotUpToDate where what it rested on did not hold; nothing was stored then.
        """
        with self._trusting_memory_no_more():
            attempt.arrive()
        with self._deciding:
            # Where a turn has come in between it has dropped what this one changed.
            if self._known_at == attempt.head_before:
                self._keep(attempt.book, attempt.head)

    @property
    def _sessions(self) -> Sessions:
        return cast(Sessions, self.recorder)

    def _book(self, session: Session, known: Known) -> Book:
        return Book(session, cast(EventMapper, self.mapper), known, self._known_seeds)

    @contextmanager
    def _trusting_memory_no_more(self) -> Iterator[None]:
        """Forgets where the store fails; what is only not up to date a turn finds out."""
        try:
            yield
        except NotUpToDate:
            raise
        except BaseException:
            with self._deciding:
                self._forget()
            raise

    def _forget(self) -> None:
        self._known = OrderedDict()
        self._known_seeds = {}
        self._known_at = 0

    def _drop_changed(self, session: TurnSession) -> None:
        if session.head == self._known_at:
            return
        changed = session.changed_since(self._known_at) if self._known else None
        if changed is None or session.head < self._known_at:
            self._forget()
        else:
            for stream_id in changed:
                self._known.pop(stream_id, None)
        self._known_at = session.head

    def _keep(self, book: Book, head: int) -> None:
        for shoe_id, seed in book.seeds.items():
            if seed is None:
                self._known_seeds.pop(shoe_id, None)
            else:
                self._known_seeds[shoe_id] = seed
        if len(self._known_seeds) > AGGREGATES_IN_MEMORY:
            self._known_seeds.clear()
        for stream_id, aggregate in book.aggregates.items():
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
