"""Processes that this one starts to work beside it, and the pipes that lead to them."""

import multiprocessing
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection as Pipe
from multiprocessing.context import SpawnProcess
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def spawn(work: Callable[..., None], *arguments: Any) -> tuple[SpawnProcess, Pipe]:
    """Starts a process that does some work, with its end of a pipe and the arguments.

    Gives the process and our end. What it is given goes through a pipe as well, and
    stands on no command line. It is for us to end it: no signal but a kill does, and
    where we end first, it finds its pipe closed.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=(theirs, *arguments), daemon=True)
    try:
        with _undisturbed():
            process.start()
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    return process, ours


@contextmanager
def _undisturbed() -> Iterator[None]:
    """What starts in here never gets what a terminal or a supervisor sends to all processes."""
    # The first process starts this one as well, which lets the signals through again.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
