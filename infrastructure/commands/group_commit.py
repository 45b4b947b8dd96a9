"""Group commit: callers in many threads share transactions, and each gets its own answers."""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock

from infrastructure.casino import Casino
from infrastructure.commands.contract import Command
from infrastructure.commands.execution import Answer, Client, Request, execute_requests

COMMANDS_A_COMMIT_MAX = 500


class GroupCommit:
    """Runs the commands of concurrent callers.

    One of the callers leads. It runs the commands of all that wait, in the
    order in which they came, in one transaction, and hands the lead to the
    first of those that have come meanwhile as soon as all is decided, so that
    one group is decided while the one before is being stored. A refused
    command of one fails no other.
    """

    def __init__(
        self, casino: Casino, *, count_group: Callable[[int], None] = lambda _: None
    ) -> None:
        self._casino = casino
        self._count_group = count_group
        self._guard = Lock()
        self._waiting: deque[_Caller] = deque()
        self._is_led = False
        self._running = 0

    def execute(self, commands: Sequence[Command], *, client: Client) -> list[Answer]:
        """Runs a client's commands together and answers each, in order, once they are stored."""
        caller = _Caller([Request(client, command) for command in commands])
        with self._guard:
            self._waiting.append(caller)
            if not self._is_led:
                self._call_the_next()
        while not caller.is_done:
            try:
                caller.call.acquire()
            except BaseException:
                self._leave(caller)
                raise
            if caller.is_to_lead:
                self._lead(caller)
        return caller.result()

    def _lead(self, leader: "_Caller") -> None:
        try:
            self._run_those_that_wait(leader)
        finally:
            self._hand_over(leader)

    def _hand_over(self, leader: "_Caller") -> None:
        """Gives the lead to the first of those that wait, unless that is done."""
        with self._guard:
            if leader.is_to_lead:
                leader.is_to_lead = False
                self._call_the_next()

    def _call_the_next(self) -> None:
        self._is_led = bool(self._waiting)
        if self._waiting:
            self._waiting[0].is_to_lead = True
            self._waiting[0].call.release()

    def _leave(self, caller: "_Caller") -> None:
        """Takes back what an interrupted caller waits for, unless it is being run already."""
        with self._guard:
            if caller in self._waiting:
                self._waiting.remove(caller)
                if caller.is_to_lead:
                    self._call_the_next()

    def _run_those_that_wait(self, leader: "_Caller") -> None:
        group = self._take_a_group(leader)
        try:
            self._run(group, when_decided=partial(self._hand_over, leader))
        except BaseException:
            # This thread is interrupted, and the others are not.
            with self._guard:
                self._waiting.extendleft(
                    each for each in reversed(group) if each is not leader and not each.is_done
                )
                if not self._is_led:
                    self._call_the_next()
            raise
        finally:
            with self._guard:
                self._running -= len(group)
            for caller in group:
                if caller.is_done:
                    caller.call.release()

    def _take_a_group(self, leader: "_Caller") -> list["_Caller"]:
        """The leader and those that have waited longest: half of all, as the rest comes next.

        With more of them in one group, few would be left to be decided while it is stored.
        """
        with self._guard:
            callers_max = (len(self._waiting) + self._running + 1) // 2
            # Those that an interrupted leader has put back may stand before this one.
            self._waiting.remove(leader)
            group = [leader]
            size = len(leader.requests)
            while self._waiting and len(group) < callers_max:
                size += len(self._waiting[0].requests)
                if size > COMMANDS_A_COMMIT_MAX:
                    break
                group.append(self._waiting.popleft())
            self._running += len(group)
        return group

    def _run(self, group: Sequence["_Caller"], when_decided: Callable[[], None]) -> None:
        requests = [request for caller in group for request in caller.requests]
        self._count_group(len(requests))
        try:
            answers = iter(execute_requests(self._casino, requests, when_decided=when_decided))
        except Exception as error:
            if len(group) == 1:
                group[0].error = error
                return
            # What one of them broke is to fail that one alone.
            for caller in group:
                self._run([caller], when_decided)
            return
        for caller in group:
            caller.answers = [next(answers) for _ in caller.requests]


class _Caller:
    """Whoever waits, by taking `call`, which is free once it has its answers or is to lead."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self.requests = requests
        self.answers: list[Answer] | None = None
        self.error: Exception | None = None
        self.is_to_lead = False
        self.call = Lock()
        self.call.acquire()

    @property
    def is_done(self) -> bool:
        return self.answers is not None or self.error is not None

    def result(self) -> list[Answer]:
        if self.error is not None:
            raise self.error
        assert self.answers is not None
        return self.answers
