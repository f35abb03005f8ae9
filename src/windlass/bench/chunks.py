"""The run with chunked jobs: an import by real workers beside a plain loop over the same file, in rounds.

A plain loop runs before and after every import, so what slows the machine slows both sides of a ratio. What
checkpoints cost is told by an import that has them in every second block of batches.
"""

from __future__ import annotations

import secrets
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import apsw
import msgspec

from windlass.bench import run
from windlass.bench.chunks_dump import Dump, dumps
from windlass.bench.chunks_plain import loop_elsewhere
from windlass.bench.chunks_plan import ChunkPlan
from windlass.bench.chunks_report import PLAIN, Measured, Pass, report
from windlass.bench.chunks_work import Imports
from windlass.bench.connections import connection, dropped_afterwards, named
from windlass.bench.figures import Report, StoreReport
from windlass.bench.machine import server_settings
from windlass.bench.rounds import Progress
from windlass.errors import WindlassError
from windlass.store.factory import describe, make_store
from windlass.store.protocol import Store

SAVED: Final = "bench.load"
IN_TURNS: Final = "bench.load_in_turns"
IN_THREAD: Final = "bench.load_in_thread"

Scenario = Callable[[Measured], Awaitable[None]]
Measuring = Callable[..., Coroutine[Any, Any, StoreReport]]


def measure(plan: ChunkPlan, url: str | None, progress: Progress) -> Report:
    """Write the file, and measure on the store behind the URL or on temporary ones."""
    progress(f"writing {plan.size:,} bytes")
    with dumps(plan.size, plan.warm_up) as (dump, small):
        found = run.run(OnChunks(dump, small), plan, url, progress)
    conditions = {**plan.conditions(), "bytes": dump.size, "records": dump.records}
    return msgspec.structs.replace(found, plan=conditions)


class OnChunks:
    """The measuring on each kind of store, with files that are there already: `dump` to be imported, `small`
    to warm up with."""

    def __init__(self, dump: Dump, small: Dump) -> None:
        self._dump = dump
        self._small = small
        self.on_sqlite: Measuring = self._on_sqlite
        self.on_postgres: Measuring = self._on_postgres

    async def _on_sqlite(
        self, folder: Path | None, plan: ChunkPlan, until: float, progress: Progress
    ) -> StoreReport:
        """Measure on an SQLite file of the run's own."""
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="windlass-bench-", dir=folder) as place:
            url = f"sqlite:///{place}/jobs.db"
            async with _opened(url) as store:
                imports = Imports(store, {"WINDLASS_DATABASE_URL": url}, plan, self._dump, self._small)
                measured = await self._rounds(plan, imports, until, progress)
        return report(
            measured,
            plan,
            store="sqlite",
            place=place,
            versions={"sqlite": apsw.sqlite_lib_version()},
            settings={},
            seconds=time.monotonic() - began,
        )

    async def _on_postgres(
        self, url: str, plan: ChunkPlan, until: float, progress: Progress, *, temporary: bool = False
    ) -> StoreReport:
        """Measure in a schema of the run's own in the database of this URL."""
        began = time.monotonic()
        schema = f"windlass_bench_{secrets.token_hex(4)}"
        async with connection(url, f"{schema} control") as control, dropped_afterwards(control, schema):
            async with _opened(named(url, schema), schema) as store:
                environment = {"WINDLASS_DATABASE_URL": url, "WINDLASS_SCHEMA": schema}
                imports = Imports(store, environment, plan, self._dump, self._small)
                measured = await self._rounds(plan, imports, until, progress)
            versions = {"postgresql": await control.fetchval("SELECT current_setting('server_version')")}
            settings = await server_settings(control)
        return report(
            measured,
            plan,
            store="postgresql",
            place="a temporary server on this machine" if temporary else describe(url),
            versions=versions,
            settings=settings,
            seconds=time.monotonic() - began,
        )

    async def _rounds(self, plan: ChunkPlan, imports: Imports, until: float, progress: Progress) -> Measured:
        """Everything in each round, every second round backwards."""
        measured = Measured(self._dump.size)
        times = 1 if plan.judged_only else 2
        scenarios: dict[str, Scenario] = {
            "one": self._import(imports, "one", SAVED, 1, times),
            "two": self._import(imports, "two", SAVED, 2, times),
            "overhead": _overheads(imports),
        }
        others: dict[str, Scenario] = {
            "plain_json": self._loop_json,
            "one_threads": self._import(imports, "one_threads", IN_THREAD, 1, 1),
            "two_threads": self._import(imports, "two_threads", IN_THREAD, 2, 1),
        }
        if not plan.judged_only:
            scenarios |= others
        longest = 0.0
        while measured.rounds < plan.rounds:
            began = time.monotonic()
            if measured.rounds and began + longest > until:
                break
            steps = list(scenarios.items())
            for name, scenario in reversed(steps) if measured.rounds % 2 else steps:
                progress(f"round {measured.rounds + 1} of {plan.rounds}: {name}")
                await scenario(measured)
            measured.rounds += 1
            longest = max(longest, time.monotonic() - began)
        return measured

    async def _loop(self, parser: str = "msgspec") -> Pass:
        """A plain loop in a process of its own."""
        loop = await loop_elsewhere(self._dump.path, parser)
        if loop.records != self._dump.records:
            raise WindlassError(f"{loop.records:,} lines instead of {self._dump.records:,}: who wrote there?")
        return Pass(loop.seconds, loop.cpu)

    async def _loop_json(self, measured: Measured) -> None:
        measured.note("plain_json", [await self._loop("json")])

    def _import(self, imports: Imports, name: str, task: str, processes: int, times: int) -> Scenario:
        """Imports, each between two plain loops."""

        async def scenario(measured: Measured) -> None:
            found = await imports.run(task, processes, self._loop, times)
            measured.note(name, found.passes, found.memory)
            measured.note(PLAIN, found.beside)
            measured.compare(name, found.passes, found.beside)

        return scenario


def _overheads(imports: Imports) -> Scenario:
    async def scenario(measured: Measured) -> None:
        measured.overheads += await imports.overheads(IN_TURNS)

    return scenario


@asynccontextmanager
async def _opened(url: str, schema: str | None = None) -> AsyncIterator[Store]:
    store = make_store(url) if schema is None else make_store(url, schema=schema)
    await store.migrate()
    await store.open()
    try:
        yield store
    finally:
        await store.close()
