"""Does one command and stays in the middle of it, with the lock of the head, until it is told.

`python -m tests.chaos.holder URL LINE SECONDS`: says `holding`, reads a line,
goes on, and prints the answer. The server ends a transaction that is idle for
so many seconds.
"""

import json
import sys
from datetime import datetime

from infrastructure.casino import Casino
from infrastructure.commands.contract import read_command
from infrastructure.commands.execution import Client, execute, system_clock
from infrastructure.store import factory


def main(url: str, line: str, seconds: str) -> None:
    factory.IDLE_IN_TRANSACTION_SECONDS_MAX = int(seconds)
    told: list[str] = []

    def clock() -> datetime:
        # The time is asked for in the middle of the turn.
        if not told:
            print("holding", flush=True)
            told.append(sys.stdin.readline())
        return system_clock()

    env = {"PERSISTENCE_MODULE": "infrastructure.store.factory", "PUNTO_CONNINFO": url}
    with Casino(env) as casino:
        (answer,) = execute(
            casino, [read_command(line.encode())], client=Client("cli", clock=clock)
        )
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
