"""`punto`: the ledger at the command line."""

import os
import sys


def main() -> None:
    """Starts `punto`; an interrupt while it is loading its modules is no fault of theirs."""
    # A stream that the shell closed is one that nobody writes to or reads from.
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115 - open until the end
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    try:
        from infrastructure.cli.main import main as start
    except KeyboardInterrupt:
        sys.exit(130)
    start()
