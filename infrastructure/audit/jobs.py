"""Audits a ledger in several processes, which together say what one would have said.

Each has a connection of its own, and all see the ledger as it was at one moment.
First they judge ranges of it; what these leave over is judged here; then they
follow the accounts. Where one of them ends early, nothing is said at all.
"""

import os
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from typing import Any, NamedTuple, cast

import psycopg

from infrastructure.audit.accounts import AccountsAuditor, Tangled, ToCollect
from infrastructure.audit.audit import EXAMPLES_MAX, Known
from infrastructure.audit.findings import Report, Tally
from infrastructure.audit.ranges import Gatherer, Part, RangeAuditor
from infrastructure.audit.source import Source, reading
from infrastructure.spawning import spawn
from infrastructure.store.errors import first_line

Watch = Callable[[int, int], None]
"""Is told how many events were read of how many there are to read."""


class AuditIncomplete(Exception):  # noqa: N818 - it says what is the case, as Refused does
    """The audit ended early, so that there is no verdict. The message is one line."""


class _Range(NamedTuple):
    """The events after a position and up to another, to be judged."""

    after: int
    until: int

    def do(self, source: Source, known: Known, watch: Callable[[int], None]) -> Part:
        auditor = RangeAuditor(known, examples_max=EXAMPLES_MAX)
        for page in source.reader.pages(self.after, until=self.until):
            auditor.see_all(page)
            watch(len(page))
        return auditor.part()


class _Accounts(NamedTuple):
    """The accounts from one stream on and before another, to be followed."""

    first: str
    end: str
    to_collect: Sequence[ToCollect]

    def do(self, source: Source, _: Known, watch: Callable[[int], None]) -> Tally:
        tally = Tally(examples_max=EXAMPLES_MAX)
        kept = source.kept(self.first, self.end)
        auditor = AccountsAuditor(tally, kept=kept, to_collect=self.to_collect)
        for page in source.accounts(self.first, self.end):
            auditor.see_all(page)
            watch(len(page))
        auditor.finish()
        return tally


_Task = _Range | _Accounts


def audit_with_jobs(
    source: Source,
    known: Known,
    conninfo: str,
    *,
    jobs: int,
    can_read_states: bool,
    history_faults: Sequence[str],
    head: int,
    watch: Watch,
) -> Report:
    """Audits everything in so many processes.

    Raises Tangled where only one of them could, and AuditIncomplete where one
    of them ended before its work was done.
    """
    ranges = [_Range(*each) for each in source.cut(jobs)]
    accounts, account_events = source.cut_accounts(jobs)
    gatherer = Gatherer(
        source.reader.naming_rounds,
        source.reader.entries,
        history_faults=history_faults,
        examples_max=EXAMPLES_MAX,
        known=known,
    )
    done = 0

    def count(events: int) -> None:
        nonlocal done
        done += events
        watch(done, max(head + account_events, done))

    with _crew(jobs, (conninfo, source.export(), can_read_states), count) as crew:
        for part in crew.do(ranges):
            gatherer.take_in(part, source.at(part.leftovers))
        gatherer.must_be_whole()
        to_collect = gatherer.to_collect
        for tally in crew.do([_Accounts(*each, to_collect) for each in accounts]):
            gatherer.take_in_accounts(tally)
    return gatherer.finish(head=head)


class _Crew:
    """The processes at work."""

    def __init__(self, pipes: Sequence[Pipe], count: Callable[[int], None]) -> None:
        self._pipes = pipes
        self._count = count

    def do(self, tasks: Sequence[_Task]) -> list[Any]:
        """Shares out the tasks; what each came to, in their order."""
        waiting = list(enumerate(tasks))[::-1]
        working: dict[Pipe, int] = {}
        results: dict[int, Any] = {}
        idle = list(self._pipes)
        try:
            while len(results) < len(tasks):
                while waiting and idle:
                    number, task = waiting.pop()
                    pipe = idle.pop(0)
                    with suppress(ConnectionError):
                        # Where it has ended already, what it left behind says why.
                        pipe.send(task)
                    working[pipe] = number
                for ready in wait(list(working)):
                    pipe = cast(Pipe, ready)
                    kind, content = pipe.recv()
                    if kind == "read":
                        self._count(content)
                        continue
                    results[working.pop(pipe)] = _result(kind, content)
                    idle.append(pipe)
        except (EOFError, ConnectionError):
            raise AuditIncomplete(
                "A process of the audit ended before its work was done, so there is no verdict:"
                " ask again, with fewer jobs where memory is short"
            ) from None
        return [results[number] for number in range(len(tasks))]


def _result(kind: str, content: Any) -> Any:
    if kind == "tangled":
        raise Tangled
    if kind == "failed":
        raise AuditIncomplete(f"The store failed during the audit: {content}")
    if kind == "broken":
        raise RuntimeError(f"in a process of the audit:\n{content}")
    return content


@contextmanager
def _crew(
    jobs: int, arguments: tuple[str, str, bool], count: Callable[[int], None]
) -> Iterator[_Crew]:
    """Processes that are gone when the block ends, however it ends."""
    processes = []
    pipes: list[Pipe] = []
    try:
        for _ in range(jobs):
            process, pipe = spawn(_work, *arguments)
            processes.append(process)
            pipes.append(pipe)
        yield _Crew(pipes, count)
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.join()
        for pipe in pipes:
            pipe.close()


def _work(pipe: Pipe, conninfo: str, snapshot: str, can_read_states: bool) -> None:  # noqa: FBT001
    """What each process does: one task after another, until nobody gives any more."""
    try:
        with (
            psycopg.connect(conninfo, autocommit=True) as connection,
            reading(connection, can_read_states=can_read_states, snapshot=snapshot) as source,
        ):
            known = source.known()
            while True:
                task: _Task = pipe.recv()
                pipe.send(("done", task.do(source, known, lambda read: pipe.send(("read", read)))))
    except Tangled:
        pipe.send(("tangled", None))
    except psycopg.Error as error:
        pipe.send(("failed", first_line(error)))
    except (EOFError, ConnectionError):
        # Whoever asked has gone. The reader's thread may still wait for the server.
        os._exit(1)
    except Exception:
        pipe.send(("broken", traceback.format_exc()))
