"""A plugin for pytest that hears which functions of the PostgreSQL store a test calls, and how long it takes:
by what the server's log says meanwhile. See `sql_mutation.py`."""

import json
import os
import re
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.postgres import Server

CALLED = re.compile(r"LOG:  called (\w+)")
heard: dict[str, dict[str, float]] = {}
servers: list[Server] = []
_start = Server.start


def start(server: Server) -> None:
    """Remember each server that a test starts."""
    _start(server)
    if server not in servers:
        servers.append(server)


setattr(Server, "start", start)  # noqa: B010 - a method is not to be assigned to


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, bool | None, bool | None]:
    """Listen while a test runs."""
    news()
    began = time.monotonic()
    answer = yield
    seconds = time.monotonic() - began
    for name in news():
        heard.setdefault(name, {})[item.nodeid] = seconds
    return answer


def news() -> set[str]:
    """The functions that were called since the last look. What was read goes, or the log fills the disk."""
    found: set[str] = set()
    for server in servers:
        path = server._home and server.log_path
        if path and path.exists():
            found.update(CALLED.findall(path.read_text(encoding="utf-8", errors="replace")))
            os.truncate(path, 0)
    return found


def pytest_sessionfinish() -> None:
    """Tell what was heard: each process of xdist by itself."""
    path = Path(os.environ["SQL_FOLDER"]) / f"calls-{os.getpid()}.json"
    path.write_text(json.dumps(heard), encoding="utf-8")
