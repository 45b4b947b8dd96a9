"""`punto`: the ledger at the command line."""

import sys


def main() -> None:
    """Starts `punto`; an interrupt while it is loading its modules is no fault of theirs."""
    try:
        from infrastructure.cli.main import main as start
    except KeyboardInterrupt:
        sys.exit(130)
    start()
