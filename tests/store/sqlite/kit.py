"""Short ways to say common things about a SQLite store, and scripts that run in other processes."""

import os
import signal
import subprocess
import sys
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import apsw

from windlass.store.records import DEFAULT_OPTIONS, ClaimedJob, NewJob, Options, Outcome, WorkerInfo
from windlass.store.sqlite import SQLiteStore

ROOT = Path(__file__).resolve().parents[3]
OPTION_FIELDS = frozenset(Options.__struct_fields__)


def job(task: str = "t", **fields: Any) -> NewJob:
    """A job to enqueue; fields of its options may be given directly."""
    options = {name: fields.pop(name) for name in OPTION_FIELDS & fields.keys()}
    given = Options(**options) if options else DEFAULT_OPTIONS
    return NewJob(task=task, payload=fields.pop("payload", "{}"), options=given, **fields)


@asynccontextmanager
async def opened(path: str | Path, **settings: Any) -> AsyncIterator[SQLiteStore]:
    """An open store, closed at the end."""
    store = SQLiteStore(path, **settings)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def drain(
    store: SQLiteStore, worker: int, limit: int = 100, queue: str = "default"
) -> list[ClaimedJob]:
    """Register a worker, claim and finish until nothing is left; the jobs in the order they were claimed."""
    await store.register(WorkerInfo(id=worker))
    done: list[ClaimedJob] = []
    flush = 0
    while claims := await store.claim(worker, [queue], limit):
        flush += 1
        jobs = [job for claim in claims for job in claim.jobs]
        await store.finish(worker, flush, [Outcome(job=job) for job in jobs])
        done += jobs
    return done


def start(script: str, *arguments: object) -> "subprocess.Popen[str]":
    """Run a script of tests/store/sqlite in a process of its own."""
    search = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, "-m", f"tests.store.sqlite.{script}", *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": search},
    )


def foreign(path: Path) -> apsw.Connection:
    """A connection that does not belong to the store."""
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(5000)
    return connection


def in_child(work: Callable[[], object]) -> int:
    """Run work in a forked process and return its exit status: 0 when it returned."""
    child = os.fork()
    if child == 0:
        status = 1
        signal.alarm(30)  # a child that hangs must not outlive the test
        try:
            work()
            status = 0
        except BaseException:  # noqa: BLE001 - nothing may run the parent's tests in the child
            traceback.print_exc(file=sys.stderr)
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
