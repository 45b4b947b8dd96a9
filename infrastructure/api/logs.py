"""The log of the service: a line of JSON for each thing that is told, on stderr.

Lines are ASCII, so nothing that a client sends can end one or move a terminal's
cursor. What looks like a secret is left out wherever it stands.
"""

import json
import logging
import re
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TextIO

_HIDDEN = (
    (re.compile(r"punto_[0-9a-f]{12}_[A-Za-z0-9_-]+"), "***"),
    (re.compile(r"\b(bearer|basic) [A-Za-z0-9._~+/=-]+", re.IGNORECASE), r"\1 ***"),
    (re.compile(r"(://[^:@/?#\s]*):[^@\s]*@"), r"\1:***@"),
    (re.compile(r"(password=)('[^']*'|[^\s&]+)"), r"\1***"),
)
_MARKS = ("punto_", "bearer ", "basic ", "://", "password=")
"""A line without any of them holds no secret, which is seen in no time."""


class JsonLines(logging.Formatter):
    """Writes a record as JSON: time, level, message, and the fields that came with it."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds")
        line = {
            "time": f"{at[:26]}Z",
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        text = _written(line)
        lowered = text.lower()
        if any(mark in lowered for mark in _MARKS):
            text = _written({name: _shown(value) for name, value in line.items()})
        return text


def without_secrets(text: str) -> str:
    """The text with every key and password in it as `***`."""
    for pattern, instead in _HIDDEN:
        text = pattern.sub(instead, text)
    return text


def _shown(value: object) -> object:
    return without_secrets(value) if isinstance(value, str) else value


def _written(line: Mapping[str, object]) -> str:
    return json.dumps(line, separators=(",", ":"), default=str)


def log_as_json(stream: TextIO) -> None:
    """From now on everything that is told goes to a stream in this form."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    for name in ("punto", "uvicorn"):
        logging.getLogger(name).setLevel(logging.INFO)
    logging.captureWarnings(capture=True)
    # A line tells neither where in the program nor in which thread or process it was written,
    # which takes as long to find out as all the rest of it.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None
    threading.excepthook = _tell_the_end


def _tell_the_end(ended: threading.ExceptHookArgs) -> None:
    if ended.exc_value is not None and ended.exc_type is not SystemExit:
        logging.getLogger("punto").error("a thread has ended", exc_info=ended.exc_value)
