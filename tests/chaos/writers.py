"""`punto` in processes of its own that may be killed at any moment."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

from tests.chaos.load import Answer, Load, same
from tests.chaos.size import SECONDS_MAX

REPOSITORY = Path(__file__).resolve().parents[2]
STORE_AWAY = 2


def start_python(module: str, *arguments: str, **options: object) -> "subprocess.Popen[bytes]":
    """Starts a module of this repository."""
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.Popen(command, cwd=REPOSITORY, **options)  # type: ignore[call-overload]


def punto(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[bytes]":
    """Runs `punto` to its end."""
    return subprocess.run(
        [sys.executable, "-m", "infrastructure.cli.main", *arguments],
        cwd=REPOSITORY,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=SECONDS_MAX,
        check=False,
    )


class Writer:
    """Runs one file, as often as it takes, and keeps every answer that came through."""

    def __init__(self, load: Load, folder: Path, **environment: str) -> None:
        self.load = load
        self.starts = 0
        self._environment = environment
        self._file = folder / f"{load.commands[0]['key']}.ndjson"
        self._file.write_bytes(b"".join(load.lines))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Runs the file from its first line."""
        self.starts += 1
        with self._path(self.starts).open("wb") as out, self._complaints().open("wb") as complaints:
            self._process = start_python(
                "infrastructure.cli.main",
                "run",
                str(self._file),
                env={**os.environ, **self._environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=complaints,
            )

    def wait_for(self, answers: int) -> None:
        """Waits until this start has given so many answers, or has ended."""
        until = time.monotonic() + SECONDS_MAX
        while self.is_running and self.answered < answers:
            assert time.monotonic() < until, "the writer hangs"
            time.sleep(0.002)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def answered(self) -> int:
        """How many answers this start has given."""
        return self._path(self.starts).read_bytes().count(b"\n") if self.starts else 0

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def finish(self) -> list[Answer]:
        """Runs on to the end of the file, again where the store was away for too long."""
        until = time.monotonic() + SECONDS_MAX
        while True:
            assert self._process is not None
            code = self._process.wait(max(until - time.monotonic(), 0.1))
            said = self._complaints().read_text()
            assert "Traceback" not in said, said
            assert "bug" not in said, said
            if code != STORE_AWAY:
                answers = self._answers(self.starts)
                assert len(answers) == len(self.load.commands), said
                return answers
            self.start()

    def acknowledged(self) -> list[Answer]:
        """Every answer that any start has given, but that the store was away."""
        every = [self._answers(start) for start in range(1, self.starts + 1)]
        return [each for answers in every for each in answers if not _is_away(each)]

    def _path(self, start: int) -> Path:
        return self._file.with_suffix(f".{start}.answers")

    def _complaints(self) -> Path:
        return self._file.with_suffix(f".{self.starts}.complaints")

    def _answers(self, start: int) -> list[Answer]:
        whole = self._path(start).read_bytes().split(b"\n")[:-1]
        return [json.loads(line) for line in whole]


def finish(writers: Sequence[Writer]) -> None:
    """Lets every writer come to its end, and what it said before hold."""
    with ThreadPoolExecutor(len(writers)) as pool:
        for writer, last in zip(writers, pool.map(Writer.finish, writers), strict=True):
            final = {answer["key"]: answer for answer in last}
            for answer in writer.acknowledged():
                assert same(answer, final[answer["key"]])


def run_and_kill(writer: Writer, *, kills: int, random: Random) -> None:
    """Kills a writer so many times, each time somewhere in what is left of its file."""
    done = 0
    for left in range(kills, 0, -1):
        writer.start()
        share = (len(writer.load.commands) - done) // (left + 1)
        writer.wait_for(done + random.randrange(-share, share + 1))
        time.sleep(random.random() / 50)
        writer.kill()
        done = max(done, writer.answered)
    writer.start()


def _is_away(answer: Answer) -> bool:
    return not answer["ok"] and answer["error"]["code"] == "store_unavailable"
