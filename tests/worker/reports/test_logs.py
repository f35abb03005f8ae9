"""Lines for people, or one JSON object a line for machines [M6]."""

import json
import logging
import os
import subprocess
import sys
from typing import Any

import pytest

from windlass.errors import ConfigurationError
from windlass.running.failures import causes
from windlass.worker.reports.logs import TEXT, JsonFormatter, TextFormatter, set_up_logs


def formatted(record: logging.LogRecord) -> dict[str, Any]:
    text = JsonFormatter().format(record)
    assert "\n" not in text
    line: dict[str, Any] = json.loads(text)
    return line


def record(message: str, *args: object, **more: object) -> logging.LogRecord:
    made = logging.LogRecord("windlass.job", logging.WARNING, "file.py", 1, message, args, None)
    for name, value in more.items():
        setattr(made, name, value)
    return made


def test_m6_one_object_a_line() -> None:
    """[M6] With what the caller gave as `extra`, and text of every kind."""
    line = formatted(record("job %d says\n%s", 7, "é\u2028\x00", job=7, task="mail"))
    assert line["message"] == "job 7 says\né\u2028\x00"
    assert (line["level"], line["logger"], line["job"], line["task"]) == (
        "warning",
        "windlass.job",
        7,
        "mail",
    )
    assert line["at"].endswith("+00:00")
    assert line["pid"] == os.getpid()
    assert "args" not in line


def test_m6_a_traceback_is_one_field() -> None:
    """[M6]"""
    try:
        raise OSError("broken")
    except OSError:
        made = record("failed")
        made.exc_info = sys.exc_info()
    assert "OSError: broken" in formatted(made)["traceback"]


def test_m6_what_a_caller_gave_overwrites_no_field_of_ours() -> None:
    """[M6]"""
    line = formatted(record("said", at="never", level=9, logger="x", pid=-1, traceback="none", queue="mail"))
    assert (line["message"], line["level"], line["logger"], line["pid"]) == (
        "said",
        "warning",
        "windlass.job",
        os.getpid(),
    )
    assert (line["at_"], line["level_"], line["traceback_"], line["queue"]) == ("never", 9, "none", "mail")


def test_m5_a_log_for_people_holds_nothing_that_a_terminal_obeys() -> None:
    """[M5] Line breaks and tabs stay: a stack needs them."""
    text = TextFormatter(TEXT).format(record("stack:\n\tline %s", "\x1b[2J\x9b1m\u202e"))
    assert text.endswith("windlass.job: stack:\n\tline \\x1b[2J\\x9b1m\\u202e")


def test_m5_the_causes_of_a_failure_hold_nothing_that_a_terminal_obeys() -> None:
    """[M5] [O4] Whoever set the log up."""
    error = ValueError("a\x1b]0;title\x07\nb")
    error.__cause__ = OSError("\x9b2J")
    assert causes(error) == "ValueError: a\\x1b]0;title\\x07 b, caused by OSError: \\x9b2J"


def test_m6_what_json_cannot_carry_is_shown_as_text() -> None:
    """[M6]"""
    assert formatted(record("x", where=object))["where"] == str(object)


def test_an_unknown_format_or_level_is_refused() -> None:
    for format, level in (("xml", "info"), ("text", "loud")):
        with pytest.raises(ConfigurationError, match="use one of text, json"):
            set_up_logs(format, level)


def test_a_process_logs_to_standard_error_and_its_children_know_how() -> None:
    """[M6] In a process of its own, since this one's logs are pytest's."""
    program = (
        "import logging, os; from windlass.worker.reports.logs import set_up_logs;"
        "set_up_logs('json', 'WARNING');"
        "logging.getLogger('x').info('quiet'); logging.getLogger('x').warning('loud');"
        "print(os.environ['WINDLASS_LOG_FORMAT'], os.environ['WINDLASS_LOG_LEVEL'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["json", "warning"]
    assert json.loads(done.stderr)["message"] == "loud"
