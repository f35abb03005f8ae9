"""How a worker process logs: lines for people, or one JSON object a line for machines [M6]."""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import UTC, datetime
from typing import Final

from windlass.core.harmless import harmless
from windlass.errors import ConfigurationError

TEXT: Final = "%(asctime)s %(levelname)-7s [%(process)d] %(name)s: %(message)s"
FORMATS: Final = ("text", "json")
LEVELS: Final = ("debug", "info", "warning", "error")
_PLAIN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_OURS: Final = frozenset({"at", "level", "logger", "pid", "message", "traceback"})


class TextFormatter(logging.Formatter):
    """One record as lines for people. What a terminal might obey is escaped: stacks and messages may hold
    anything [M5]."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as text."""
        return harmless(super().format(record), lines=True)


class JsonFormatter(logging.Formatter):
    """One record as one JSON object; what callers gave as `extra`, such as job, task, queue and attempt, is
    part of it. An `extra` named like a field of ours stands there with an underscore behind its name."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as a line."""
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "pid": record.process,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        given = {key: value for key, value in vars(record).items() if key not in _PLAIN}
        line |= {f"{key}_" if key in _OURS else key: value for key, value in given.items()}
        return json.dumps(line, ensure_ascii=False, default=str)


def set_up_logs(format: str = "text", level: str = "info") -> None:
    """Send the process's logs to standard error. For programs of ours; a library never does this."""
    if format not in FORMATS or level.lower() not in LEVELS:
        raise ConfigurationError(
            f"log format {format!r} and level {level!r}: use one of {', '.join(FORMATS)} and one of "
            f"{', '.join(LEVELS)}"
        )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter(TEXT))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    os.environ["WINDLASS_LOG_FORMAT"], os.environ["WINDLASS_LOG_LEVEL"] = format, level.lower()
