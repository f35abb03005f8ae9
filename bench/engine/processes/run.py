"""The run with many worker processes: how many connections they hold, how much memory they and the server's
sessions take, and what they cost the store with nothing to do and at an ordinary pace.

Connections are counted at the worker's own end, once a second; the most at any time is told. Memory is
proportional (PSS): what processes share is counted once.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import psycopg

from bench.engine.figures import Report
from bench.engine.jobs import QUEUE, TASK
from bench.engine.places import OpenStore, Places
from bench.engine.processes.plan import ProcessPlan
from bench.engine.processes.report import Taken, report
from bench.engine.rounds import Progress, within
from bench.engine.run import Told, run
from bench.engine.worker import Worker, worker
from windlass.store.factory import POSTGRES
from windlass.store.records import NewJob

TRANSACTIONS = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
SESSIONS = "SELECT pid FROM pg_stat_activity WHERE client_port = ANY (%s)"


def measure(plan: ProcessPlan, stores: Sequence[str], server: str, progress: Progress) -> Report:
    """Measure on each of these stores."""
    return run(_measured, plan, stores, server, progress)


async def _measured(places: Places, plan: ProcessPlan, until: float, progress: Progress) -> Told:
    taken: Taken = defaultdict(list)
    rounds = 0
    for number in within(plan.rounds, until):
        for processes in plan.processes:
            progress(f"round {number + 1} of {plan.rounds}: {processes} processes")
            async with places.fresh() as place, worker(place.store, place.environment(), processes) as up:
                look = Look(place, up, places.kind == POSTGRES, taken, processes)
                await look.over("idle", plan.seconds)
                async with _load(place, plan):
                    await look.over("load", plan.seconds)
        rounds += 1
    return functools.partial(report, taken, plan, rounds)


class Look:
    """Looks at one worker and its server for a while."""

    def __init__(self, place: OpenStore, up: Worker, remote: bool, taken: Taken, processes: int) -> None:
        self._place = place
        self._worker = up
        self._port = urlsplit(place.url).port if remote else None
        self._taken = taken
        self._processes = processes

    async def over(self, what: str, seconds: float) -> None:
        """Look once a second, and keep the most connections, the memory at the end, and what was spent."""
        before, cpu, began = self._place.meter.read(), self._worker.cpu(), time.monotonic()
        transactions = self._transactions()
        ports: set[int] = set()
        most = 0
        while time.monotonic() - began < seconds:
            await asyncio.sleep(min(1.0, seconds))
            ports = self._ports() if self._port is not None else ports
            most = max(most, len(ports))
        span = time.monotonic() - began
        after = self._place.meter.read()
        self._note(what, "worker_cpu", (self._worker.cpu() - cpu) / span * 100)
        self._note(what, "worker_memory", sum(map(pss, self._worker.family())) / 2**20)
        if self._port is None:
            return
        self._note(what, "connections", most)
        self._note(what, "transactions", (self._transactions() - transactions) / span)
        if before.server is not None and after.server is not None:
            self._note(what, "server_cpu", (after.server - before.server) / span * 100)
            self._note(what, "server_memory", sum(map(pss, self._sessions(ports))) / 2**20)

    def _note(self, what: str, name: str, value: float) -> None:
        self._taken[f"{name}_{what}_{self._processes}"].append(value)

    def _ports(self) -> set[int]:
        """The worker's ends of its connections to the server."""
        found: set[int] = set()
        for pid in self._worker.family():
            with contextlib.suppress(psutil.NoSuchProcess):
                for each in psutil.Process(pid).net_connections("tcp"):
                    if each.status == "ESTABLISHED" and each.raddr.port == self._port:
                        found.add(each.laddr.port)
        return found

    def _transactions(self) -> int:
        if self._port is None:
            return 0
        with psycopg.connect(self._place.url) as connection:
            row = connection.execute(TRANSACTIONS).fetchone()
        return int(row[0]) if row else 0

    def _sessions(self, ports: set[int]) -> list[int]:
        with psycopg.connect(self._place.url) as connection:
            return [pid for (pid,) in connection.execute(SESSIONS, [list(ports)])]


def pss(pid: int) -> int:
    """The bytes of memory of a process, with its share of what others use, too; 0 where nobody says."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


@contextlib.asynccontextmanager
async def _load(place: OpenStore, plan: ProcessPlan) -> AsyncIterator[None]:
    """So many jobs a second, each in a call of its own."""

    async def enqueue() -> None:
        text = "x" * plan.payload_bytes
        began = time.monotonic()
        for number in range(10**9):
            await asyncio.sleep(max(0.0, began + number / plan.pace - time.monotonic()))
            payload = f'{{"n": "{number}", "text": "{text}"}}'
            await place.store.enqueue([NewJob(task=TASK, payload=payload, queue=QUEUE)])

    loading = asyncio.create_task(enqueue())
    try:
        yield
    finally:
        loading.cancel()
        await asyncio.gather(loading, return_exceptions=True)
