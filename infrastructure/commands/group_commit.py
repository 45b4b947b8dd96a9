"""Group commit: callers in many threads share transactions, and each gets its own answers."""

from collections import deque
from collections.abc import Sequence
from threading import Lock

from infrastructure.casino import Casino
from infrastructure.commands.contract import Command
from infrastructure.commands.execution import Answer, Client, Request, execute_requests

COMMANDS_A_COMMIT_MAX = 500


class GroupCommit:
    """Runs the commands of concurrent callers.

    While one transaction is committed the next callers queue up. Whoever of
    them comes first to the lock then runs the commands of all that wait, in the
    order in which they came, in one transaction. A refused command of one fails
    no other.
    """

    def __init__(self, casino: Casino) -> None:
        self._casino = casino
        self._waiting: deque[_Caller] = deque()
        self._lead = Lock()

    def execute(self, commands: Sequence[Command], *, client: Client) -> list[Answer]:
        """Runs a client's commands together and answers each, in order, once they are stored."""
        caller = _Caller([Request(client, command) for command in commands])
        self._waiting.append(caller)
        while not caller.is_done:
            with self._lead:
                if not caller.is_done:
                    self._run_those_that_wait()
        return caller.result()

    def _run_those_that_wait(self) -> None:
        group = [self._waiting.popleft()]
        size = len(group[0].requests)
        while self._waiting and size + len(self._waiting[0].requests) <= COMMANDS_A_COMMIT_MAX:
            group.append(self._waiting.popleft())
            size += len(group[-1].requests)
        try:
            self._run(group)
        except BaseException:
            # This thread is interrupted, and the others are not.
            self._waiting.extendleft(caller for caller in reversed(group) if not caller.is_done)
            raise

    def _run(self, group: Sequence["_Caller"]) -> None:
        requests = [request for caller in group for request in caller.requests]
        try:
            answers = iter(execute_requests(self._casino, requests))
        except Exception as error:
            if len(group) == 1:
                group[0].error = error
                return
            # What one of them broke is to fail that one alone.
            for caller in group:
                self._run([caller])
            return
        for caller in group:
            caller.answers = [next(answers) for _ in caller.requests]


class _Caller:
    def __init__(self, requests: Sequence[Request]) -> None:
        self.requests = requests
        self.answers: list[Answer] | None = None
        self.error: Exception | None = None

    @property
    def is_done(self) -> bool:
        return self.answers is not None or self.error is not None

    def result(self) -> list[Answer]:
        if self.error is not None:
            raise self.error
        assert self.answers is not None
        return self.answers
