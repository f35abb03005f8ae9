"""Real worker processes for a test: started, watched, signalled, and gone when the test is over.

A `Host` is one `windlass worker` with its children in a process group of their own, so that the whole of it
can be hit at once, as a machine would be. A `Scene` is a store, the hosts on it, what was enqueued, and what
the handlers wrote down.
"""

import asyncio
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import msgspec
import psutil

from tests.chaos.kit import until, waiting, worker_children
from tests.chaos.program import ROOT
from tests.chaos.workers.books import Books, read
from tests.chaos.workers.jobs import LEDGER, QUEUE, Entry
from tests.postgres_guard import alive
from tests.stopwatch import Stopwatch
from windlass.store.factory import make_store
from windlass.store.protocol import Store
from windlass.store.records import DEFAULT_OPTIONS, JobRecord, NewJob, Options

LEASE = 2.0
SWEEP = 0.5
UP = 30.0
"""Seconds that a host may take to start on a busy machine."""

ENDING = 10.0


class Host:
    """One `windlass worker`."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._path = log

    @property
    def pid(self) -> int:
        """The supervisor's process id, and that of the group."""
        return self._process.pid

    @property
    def log(self) -> str:
        """What supervisor and children have said so far."""
        return self._path.read_text(encoding="utf-8", errors="replace")

    @property
    def code(self) -> int | None:
        """The exit code of the supervisor; None while it runs."""
        return self._process.poll()

    def children(self) -> list[int]:
        """The process ids of the children that live."""
        return worker_children(self.pid)

    def send(self, number: signal.Signals) -> None:
        """To the supervisor alone."""
        self._process.send_signal(number)

    def send_all(self, number: signal.Signals) -> None:
        """To the supervisor and its children at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    async def readiness(self) -> dict[str, Any] | None:
        """What /readyz says; None where nobody answers."""
        found = re.search(r"health on http://127\.0\.0\.1:(\d+)/", self.log)
        if found is None:
            return None
        try:
            async with asyncio.timeout(2.0):
                reader, writer = await asyncio.open_connection("127.0.0.1", int(found[1]))
                writer.write(b"GET /readyz HTTP/1.1\r\n\r\n")
                answer = await reader.read()
                writer.close()
                await writer.wait_closed()
        except (OSError, TimeoutError):
            return None
        details: dict[str, Any] = json.loads(answer.partition(b"\r\n\r\n")[2] or b"{}")
        return details

    async def ready(self, processes: int = 1) -> None:
        """Wait until so many children are up."""

        async def up() -> bool:
            assert self.code is None, f"the worker ended with {self.code}:\n{self.log}"
            readiness = await self.readiness()
            return (
                readiness is not None
                and readiness["status"] == "ready"
                and readiness["processes"] >= processes
            )

        await self._until(up, UP)

    async def says(self, pattern: str, within: float = ENDING) -> re.Match[str]:
        """Wait for a line in the log."""

        async def said() -> bool:
            return re.search(pattern, self.log) is not None

        await self._until(said, within)
        found = re.search(pattern, self.log)
        assert found is not None
        return found

    async def leaves(self, within: float = ENDING) -> int:
        """Wait for the supervisor's end, and answer with its exit code."""

        async def gone() -> bool:
            return self.code is not None

        await self._until(gone, within)
        assert self.code is not None
        return self.code

    async def _until(self, met: Callable[[], Any], within: float) -> None:
        try:
            await until(met, within)
        except AssertionError as error:
            raise AssertionError(f"{error}; the log:\n{self.log}") from None

    def end(self) -> None:
        """Kill whatever is left of it, with what its children have started in groups of their own."""
        family: list[psutil.Process] = []
        with contextlib.suppress(psutil.NoSuchProcess):
            family = psutil.Process(self.pid).children(recursive=True)
        self.send_all(signal.SIGKILL)
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait(ENDING)
        watch = Stopwatch()
        while any(alive(process.pid) for process in family):
            assert watch.seconds() < ENDING, f"these survived SIGKILL: {family}"
            time.sleep(0.01)


class Scene:
    """One test's store and hosts. Leaving the block ends every process that was started in it."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.ledger = folder / "jobs.ledger"
        self.hosts: list[Host] = []
        self.acknowledged: list[int] = []
        self.killed: dict[int, float] = {}
        self.fenced: set[int] = set()
        self.store: Store = make_store(url)

    async def __aenter__(self) -> Self:
        await self.store.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        for host in self.hosts:
            host.end()
        await self.store.close()
        for number, host in enumerate(self.hosts):  # shown where the test has failed
            sys.stdout.write(f"host {number}, process {host.pid}, said:\n{host.log[-8000:]}\n")

    # -- hosts --------------------------------------------------------------------------------------------

    def start(
        self,
        app: str = "tests.chaos.workers.jobs:app",
        *,
        processes: int = 1,
        queues: Sequence[str] = (f"{QUEUE}=8",),
        lease: float = LEASE,
        **environment: str,
    ) -> Host:
        """Start a worker; `environment` are further variables."""
        path = self.folder / f"host-{len(self.hosts)}.log"
        argv = [sys.executable, "-m", "windlass", "worker", app, "-p", str(processes)]
        for queue in queues:
            argv += ["-q", queue]
        argv += ["--lease", f"{lease:g}s", "--sweep", f"{SWEEP:g}s", "--health", "127.0.0.1:0"]
        variables = {"WINDLASS_DATABASE_URL": self.url, LEDGER: str(self.ledger), **environment}
        with path.open("ab") as log:
            process = subprocess.Popen(
                argv,
                cwd=ROOT,
                env={**os.environ, **variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        host = Host(process, path)
        self.hosts.append(host)
        return host

    async def host(self, app: str = "tests.chaos.workers.jobs:app", **fields: Any) -> Host:
        """Start a worker and wait until it is ready."""
        host = self.start(app, **fields)
        await host.ready(fields.get("processes", 1))
        return host

    def kill(self, *pids: int) -> float:
        """SIGKILL these processes; the answer is when."""
        at = time.monotonic()
        for pid in pids:
            self.killed[pid] = at
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return at

    def kill_host(self, host: Host) -> float:
        """SIGKILL a supervisor and its children at once."""
        at = time.monotonic()
        self.killed |= dict.fromkeys(host.children(), at)
        host.send_all(signal.SIGKILL)
        return at

    # -- jobs ---------------------------------------------------------------------------------------------

    async def enqueue(
        self,
        task: str,
        n: int = 1,
        *,
        queue: str = QUEUE,
        delay: float | None = None,
        options: Options = DEFAULT_OPTIONS,
        **arguments: Any,
    ) -> list[int]:
        """Enqueue n jobs; their ids, which from now on must not be lost."""
        payload = msgspec.json.encode(arguments).decode()
        job = NewJob(task=task, payload=payload, queue=queue, delay=delay, options=options)
        ids = [receipt.id for receipt in await self.store.enqueue([job] * n)]
        self.acknowledged += ids
        return ids

    @asynccontextmanager
    async def producing(self, dice: random.Random, n: int, every: float, most: float) -> AsyncIterator[None]:
        """While the block lasts, n jobs come in every so often, each of at most so many seconds."""
        over = asyncio.Event()

        async def produce() -> None:
            while not over.is_set():
                await self.enqueue(dice.choice(["steady", "plain"]), n, seconds=dice.uniform(0.0, most))
                await asyncio.sleep(every)

        task = asyncio.create_task(produce())
        try:
            yield
        finally:
            over.set()
            await task

    async def records(self, jobs: Sequence[int]) -> list[JobRecord]:
        """The jobs as the store knows them; none is missing."""
        found = [await self.store.job(job) for job in jobs]
        assert None not in found, "a job that was acknowledged is not in the store"
        return [record for record in found if record is not None]

    async def all_ended(self, within: float) -> None:
        """Wait until no job waits or runs."""

        async def idle() -> bool:
            return not any(waiting(depth) for depth in (await self.store.depth()).values())

        await until(idle, within, pause=0.05)

    async def state(self, job: int, *states: str, within: float = ENDING) -> JobRecord:
        """Wait until the job is in one of these states."""

        async def there() -> bool:
            return (await self.records([job]))[0].state in states

        await until(there, within)
        return (await self.records([job]))[0]

    # -- what the handlers wrote ----------------------------------------------------------------------------

    def entries(self, job: int | None = None, what: str | None = None) -> list[Entry]:
        """What was written so far, of this job and kind."""
        return [
            entry
            for entry in read(self.ledger)
            if (job is None or entry.job == job) and (what is None or entry.what == what)
        ]

    async def seen(
        self, job: int | None = None, what: str = "start", n: int = 1, within: float = ENDING
    ) -> list[Entry]:
        """Wait until so many of these were written."""

        async def written() -> bool:
            return len(self.entries(job, what)) >= n

        await until(written, within, pause=0.01)
        return self.entries(job, what)

    async def check(self, jobs: Sequence[int] | None = None, *, attempt: int = 1) -> Books:
        """Every job (of these, or all) has succeeded in this attempt, and the books add up."""
        ids = self.acknowledged if jobs is None else jobs
        for record in await self.records(ids):
            assert record.state == "succeeded", f"{record.task} {record.id} is {record.state}"
            assert record.attempt == attempt, f"{record.task} {record.id} was charged an attempt"
        books = Books(read(self.ledger), self.killed, self.fenced)
        books.check(ids)
        return books
