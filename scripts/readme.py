"""Runs every command of the README and writes its real output beneath it.

`python scripts/readme.py` renews README.md. The files that the commands read
stand in it too, each under a comment that names it. Times and the address of
the embedded database are put as an example, for they differ from run to run.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"

_FILE = re.compile(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", re.DOTALL)
_CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)
_COMMAND = re.compile(r"^\$ (.+)$", re.MULTILINE)
_DIFFERS = (
    (re.compile(r"host=[^&\s]+"), "host=%2Fhome%2Fyou%2F.local%2Fshare%2Fpuntobanco%2Fpostgres"),
    (re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "2026-11-29T20:15:00.000000Z"),
    (re.compile(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d"), "2026-11-29 20:15:00"),
    (re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.…"), "2026-11-29T20:15:00.…"),
    (
        re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+\+00:00"),
        "2026-11-29T20:15:00.000000+00:00",
    ),
    (re.compile(r"punto_[0-9a-f]{12}_[\w-]{43}"), "punto_5f1c0a9be2d4_…"),
    (re.compile(r"\b(?!0{12})[0-9a-f]{12}\b"), "5f1c0a9be2d4"),
    (re.compile(r'"request_id":"[0-9a-f]{32}"'), '"request_id":"1c8f4e0d7a6b45329e0fb1a2c3d4e5f6"'),
    (re.compile(r'"ms":[\d.]+'), '"ms":4.217'),
    (
        re.compile(r"urn:puntobanco:main:[0-9a-f-]{36}"),
        "urn:puntobanco:main:5f0c7a52-9d3e-4b8a-a1c6-2e7d40b9f813",
    ),
    # The days of the simulation are always the same.
    (re.compile(r"(?!2026-01-0[123])20\d\d-\d\d-\d\d"), "2026-11-29"),
)


def files(text: str) -> dict[str, str]:
    """The files that the README shows, by name."""
    return dict(_FILE.findall(text))


def with_outputs(text: str, run: Callable[[str], str]) -> str:
    """The README with what `run` answers beneath each command."""

    def rewritten(block: re.Match[str]) -> str:
        commands = _COMMAND.findall(block[1])
        return "```console\n" + "".join(f"$ {c}\n{_steady(run(c))}" for c in commands) + "```"

    return _CONSOLE.sub(rewritten, text)


def _steady(output: str) -> str:
    for pattern, example in _DIFFERS:
        output = pattern.sub(example, output)
    return "\n".join(line.rstrip() for line in output.splitlines()) + "\n"


def runner(folder: Path, text: str) -> Callable[[str], str]:
    """Runs commands in a folder with the README's files and a ledger of its own."""
    for name, content in files(text).items():
        (folder / name).write_text(content)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PUNTO_")},
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PUNTO_HOME": str(folder / "home"),
        "COLUMNS": "100",
    }

    def run(command: str) -> str:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout

    return run


def stop_serving(run: Callable[[str], str]) -> None:
    """Ends the service that the README started, where a command of it did not."""
    run("kill $(cat serve.pid)")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        before = README.read_text()
        run = runner(Path(temporary), before)
        try:
            README.write_text(with_outputs(before, run))
        finally:
            stop_serving(run)
