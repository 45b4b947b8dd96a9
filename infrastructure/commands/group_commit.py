"""Group commit: callers in many threads share transactions, and each gets its own answers."""

from collections import deque
from collections.abc import Callable, Sequence
from threading import Condition, Lock, Thread

from infrastructure.casino import Casino
from infrastructure.commands.contract import Command
from infrastructure.commands.execution import Answer, Batch, Client, Request

COMMANDS_A_COMMIT_MAX = 500

PATIENCE_SECONDS = 0.0005
"""So long the next callers may take to come, while others are being stored."""


class GroupCommit:
    """Runs the commands of concurrent callers, in a thread between `start` and `stop`.

    It decides the commands of all that wait, in the order in which they came,
    while the group before is being stored; then it answers that group and sends
    the next one off. A refused command of one caller fails no other.
    """

    def __init__(
        self, casino: Casino, *, count_group: Callable[[int], None] = lambda _: None
    ) -> None:
        self._casino = casino
        self._count_group = count_group
        self._changed = Condition(Lock())
        self._waiting: deque[_Caller] = deque()
        self._awaited = 1
        self._is_open = False
        self._thread = Thread(target=self._run, name="group commit", daemon=True)

    def start(self) -> None:
        """Begins to run what callers bring."""
        self._is_open = True
        self._thread.start()

    def stop(self) -> None:
        """Ends once all who wait are answered."""
        with self._changed:
            self._is_open = False
            self._changed.notify()
        self._thread.join()

    def execute(self, commands: Sequence[Command], *, client: Client) -> list[Answer]:
        """Runs a client's commands together and answers each, in order, once they are stored."""
        caller = _Caller([Request(client, command) for command in commands])
        with self._changed:
            assert self._is_open, "there is nobody left to run commands"
            self._waiting.append(caller)
            if len(self._waiting) >= self._awaited:
                self._changed.notify()
        return caller.result()

    def _run(self) -> None:
        answered = being_stored = group = _Group(self._casino, [])
        try:
            while True:
                group = self._take_a_group(being_stored, len(answered.callers))
                if group.callers:
                    self._count_group(len(group.requests))
                    group.batch.decide(after=being_stored.batch if being_stored.callers else None)
                elif not being_stored.callers:
                    return
                being_stored.wait()
                group.batch.send_off()
                # Not before the next group is on its way, for they take this thread's time.
                being_stored.answer()
                answered, being_stored = being_stored, group
        finally:
            with self._changed:
                self._is_open = False
                left = {*self._waiting, *being_stored.callers, *group.callers}
            for caller in left:
                caller.error = RuntimeError("the thread that runs commands has ended")
                caller.is_answered.release()

    def _take_a_group(self, being_stored: "_Group", answered: int) -> "_Group":
        """Half of all that are about, those first that have waited longest.

        With more of them in one group, few would be left to be decided while it is stored.
        Nobody, where none has come while another group is being stored, or at the end.
        """
        with self._changed:
            if being_stored.callers:
                about = len(self._waiting) + answered + len(being_stored.callers)
                self._awaited = max(min((about + 1) // 2, len(self._waiting) + answered), 1)
                self._changed.wait_for(
                    lambda: len(self._waiting) >= self._awaited, PATIENCE_SECONDS
                )
            else:
                self._awaited = 1
                self._changed.wait_for(lambda: self._waiting or not self._is_open)
                about = len(self._waiting)
            callers: list[_Caller] = []
            size = 0
            while self._waiting and len(callers) < (about + 1) // 2:
                size += len(self._waiting[0].requests)
                if callers and size > COMMANDS_A_COMMIT_MAX:
                    break
                callers.append(self._waiting.popleft())
        return _Group(self._casino, callers)


class _Group:
    """Callers whose commands share a transaction."""

    def __init__(self, casino: Casino, callers: Sequence["_Caller"]) -> None:
        self._casino = casino
        self.callers = callers
        self.requests = [request for caller in callers for request in caller.requests]
        self.batch = Batch(casino, self.requests)

    def wait(self) -> None:
        """Waits until all is stored."""
        try:
            answers = iter(self.batch.answers())
        except Exception as error:
            if len(self.callers) == 1:
                self.callers[0].error = error
                return
            # What one of them broke is to fail that one alone.
            for caller in self.callers:
                _Group(self._casino, [caller]).wait()
            return
        for caller in self.callers:
            caller.answers = [next(answers) for _ in caller.requests]

    def answer(self) -> None:
        """Lets each caller have its answers."""
        for caller in self.callers:
            caller.is_answered.release()


class _Caller:
    """Whoever waits for answers: for the lock, that is, which is free once they are there."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self.requests = requests
        self.answers: list[Answer] = []
        self.error: Exception | None = None
        self.is_answered = Lock()
        self.is_answered.acquire()

    def result(self) -> list[Answer]:
        """Waits for the answers; raises what broke in place of them."""
        with self.is_answered:
            if self.error is not None:
                raise self.error
            return self.answers
