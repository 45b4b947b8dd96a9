"""The service killed at any moment while several clients give it commands."""

import json
import threading
import time
from random import Random

import httpx

from tests.chaos.books import check_finished, check_whole
from tests.chaos.load import Answer, Load, Undisturbed, loads, same
from tests.chaos.service import LINES, Service
from tests.chaos.size import SECONDS_MAX, SERVICE_KILLS, TIMES

CLIENTS = 4


def test_a_service_that_is_killed_at_any_moment_loses_nothing_and_does_nothing_twice(
    url: str, random: Random
) -> None:
    files = loads(CLIENTS, commands=60 * TIMES, random=random)
    undisturbed = Undisturbed(files, client="local")
    service = Service(url)
    clients = [HttpClient(load, service.address, Random(random.random())) for load in files]
    with service.running():
        for client in clients:
            client.thread.start()
        for _ in range(SERVICE_KILLS):
            answered = sum(len(client.answers) for client in clients)
            until = time.monotonic() + SECONDS_MAX
            while any(client.thread.is_alive() for client in clients):
                assert time.monotonic() < until, "the clients get no answers"
                # Each start is to do some work before it is killed, and some is to be left.
                if sum(len(client.answers) for client in clients) > answered + TIMES:
                    break
                time.sleep(0.001)
            time.sleep(random.random() / 20)
            service.kill()
            check_whole(url, undisturbed)
            service.start()
        for client in clients:
            client.thread.join(SECONDS_MAX)
            assert not client.thread.is_alive()

    assert sum(client.times_lost for client in clients) > 0
    for client in clients:
        assert [answer["key"] for answer in client.answers] == client.keys
        for answer in client.answers:
            expected = undisturbed.answers[answer["key"]]
            assert same(answer, expected, but=("replayed", "position"))
    check_finished(url, undisturbed)


class HttpClient:
    """Sends its commands a few at a time, each request again until all of it is answered."""

    def __init__(self, load: Load, address: str, random: Random) -> None:
        self.answers: list[Answer] = []
        self.times_lost = 0
        self.thread = threading.Thread(target=self._run, daemon=True)
        self._load = load
        self._address = address
        self._random = random

    @property
    def keys(self) -> list[str]:
        return [command["key"] for command in self._load.commands]

    def _run(self) -> None:
        lines = self._load.lines
        with httpx.Client(trust_env=False, timeout=SECONDS_MAX) as client:
            while len(self.answers) < len(lines):
                first = len(self.answers)
                count = self._random.randrange(1, 6)
                self.answers += self._send(client, lines[first : first + count])

    def _send(self, client: httpx.Client, lines: list[bytes]) -> list[Answer]:
        while True:
            try:
                answer = client.post(
                    f"{self._address}/v1/commands", content=b"".join(lines), headers=LINES
                )
                answers = [json.loads(line) for line in answer.text.splitlines()]
            except httpx.TransportError:
                answers = []
            if len(answers) == len(lines):
                return answers
            self.times_lost += 1
            time.sleep(0.02)
