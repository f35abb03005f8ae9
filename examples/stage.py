"""What the examples stand on: a database in a temporary place, workers beside it, and transactions that
look the same on SQLite and on PostgreSQL. Nothing here is about jobs."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import apsw

from windlass import Windlass

ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def place() -> Iterator[Path]:
    """A folder that is gone afterwards. Jobs and tables live in it, unless WINDLASS_DATABASE_URL names a
    database; the worker's processes inherit the address."""
    with tempfile.TemporaryDirectory(prefix="windlass-example-") as folder:
        os.environ.setdefault("WINDLASS_DATABASE_URL", f"sqlite:///{Path(folder).as_posix()}/example.db")
        yield Path(folder)


@contextmanager
def worker(app: str, *flags: str) -> Iterator[Callable[[], None]]:
    """`windlass worker APP …`, started as you would and stopped as an orchestrator would, with SIGTERM. What
    it gives kills it with its children and without a warning, as the loss of its host would."""
    command = [sys.executable, "-m", "windlass", "worker", app, *flags, "--log-level", "error"]
    process = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
    try:
        yield lambda: os.killpg(process.pid, signal.SIGKILL)
    finally:
        process.terminate()
        process.wait()


def prepare(app: Windlass, *tables: str) -> None:
    """Make the schema of the jobs, and tables beside it."""
    app.migrate()
    with transaction(app) as connection:
        for table in tables:
            connection.execute(table)


def page(app: Windlass, path: str) -> str:
    """A page of Mission Control, asked for in this process: no server, no client."""
    parts: list[bytes] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    async def send(message: MutableMapping[str, Any]) -> None:
        parts.append(message.get("body", b""))

    asked = {"type": "http", "http_version": "1.1", "method": "GET", "path": path, "query_string": b""}
    known = {"client": ("127.0.0.1", 1), "headers": [(b"host", b"localhost")]}
    asyncio.run(app.web()({**asked, **known}, receive, send))
    return b"".join(parts).decode()


def until(holds: Callable[[], bool], timeout: float = 180.0) -> None:
    """Wait for something that can only be asked for."""
    deadline = time.monotonic() + timeout
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"it has not come true within {timeout:.0f} s")
        time.sleep(0.02)


@contextmanager
def transaction(app: Windlass) -> Iterator[Any]:
    """A transaction on the database that holds the app's jobs, for code that may block: committed when the
    block ends well, else rolled back. Both drivers know `execute(sql, values).fetchall()` and $1, $2, …"""
    url = app.settings.database_url
    if not url.startswith("sqlite:///"):
        import psycopg

        with psycopg.connect(url, cursor_factory=psycopg.RawCursor) as connection:
            yield connection
        return
    # Never the sqlite3 module on the file that holds the jobs: two copies of SQLite break each other's locks.
    with closing(apsw.Connection(url.removeprefix("sqlite:///"))) as connection:
        connection.set_busy_timeout(10_000)
        connection.execute("BEGIN IMMEDIATE")
        yield connection
        connection.execute("COMMIT")  # what was not committed is undone by closing
