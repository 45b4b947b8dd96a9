"""Writers in threads that send each command again until the store is there for it."""

import json
import time
from concurrent.futures import Future, ThreadPoolExecutor

from infrastructure.casino import Casino
from infrastructure.commands.contract import read_command
from infrastructure.commands.execution import Client, execute
from tests.chaos.load import Answer, Load, Undisturbed, same
from tests.chaos.size import SECONDS_MAX


class Insistent:
    """Writers that send each command until the store is there for it."""

    def __init__(self, url: str, files: list[Load]) -> None:
        self.answers: dict[str, Answer] = {}
        self.times_away = 0
        self.reasons: set[str] = set()
        self._url = url
        self._pool = ThreadPoolExecutor(len(files))
        self._running: list[Future[None]] = [self._pool.submit(self._run, load) for load in files]

    @property
    def is_running(self) -> bool:
        return not all(each.done() for each in self._running)

    def finish(self) -> None:
        for each in self._running:
            each.result(SECONDS_MAX)
        self._pool.shutdown()

    def check(self, undisturbed: Undisturbed) -> None:
        """Every command was answered as if nothing had happened."""
        assert self.answers.keys() == undisturbed.answers.keys()
        for key, answer in self.answers.items():
            assert same(answer, undisturbed.answers[key], but=("replayed", "position"))

    def _run(self, load: Load) -> None:
        env = {"PERSISTENCE_MODULE": "infrastructure.store.factory", "PUNTO_CONNINFO": self._url}
        with Casino(env) as casino:
            casino.recorder.datastore.pool.timeout = 0.2
            for line in load.lines:
                answer = self._send(casino, line)
                self.answers[answer["key"]] = json.loads(json.dumps(answer))

    def _send(self, casino: Casino, line: bytes) -> Answer:
        until = time.monotonic() + SECONDS_MAX
        while time.monotonic() < until:
            (answer,) = execute(casino, [read_command(line)], client=Client("cli"))
            if answer["ok"] or answer["error"]["code"] != "store_unavailable":
                return answer
            self.times_away += 1
            self.reasons.add(answer["error"]["message"])
        raise AssertionError(f"it is away for too long: {answer}")
