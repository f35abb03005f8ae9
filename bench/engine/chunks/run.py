"""The run with chunked jobs: an import by real workers beside a plain loop over the same file, in rounds.

A plain loop runs before and after every import, so what slows the machine slows both sides of a ratio. What
checkpoints cost is told by an import that has them in every second block of batches.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec

from bench.engine.chunks.dump import Dump, dumps
from bench.engine.chunks.imports import Imports
from bench.engine.chunks.plain import loop_elsewhere
from bench.engine.chunks.plan import ChunkPlan
from bench.engine.chunks.report import PLAIN, Measured, Pass, report
from bench.engine.figures import Report
from bench.engine.places import Places
from bench.engine.rounds import Progress, turned, within
from bench.engine.run import Told, run
from windlass.errors import WindlassError

SAVED: Final = "bench.load"
IN_TURNS: Final = "bench.load_in_turns"
IN_THREAD: Final = "bench.load_in_thread"

Scenario = Callable[[Measured], Awaitable[None]]


def measure(plan: ChunkPlan, stores: Sequence[str], server: str, progress: Progress) -> Report:
    """Write the file, and import it on each of these stores."""
    progress(f"writing {plan.size:,} bytes")
    with dumps(plan.size, plan.warm_up) as (dump, small):
        found = run(Chunks(dump, small).measured, plan, stores, server, progress)
    written = {"bytes": dump.size, "records": dump.records}
    return msgspec.structs.replace(found, plan={**found.plan, **written})


class Chunks:
    """The measuring with files that are there already: `dump` to be imported, `small` to warm up with."""

    def __init__(self, dump: Dump, small: Dump) -> None:
        self._dump = dump
        self._small = small

    async def measured(self, places: Places, plan: ChunkPlan, until: float, progress: Progress) -> Told:
        """Import on a new place."""
        async with places.fresh() as place:
            imports = Imports(place.store, place.environment(), plan, self._dump, self._small)
            return functools.partial(report, await self._rounds(plan, imports, until, progress), plan)

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
        for number in within(plan.rounds, until):
            for name in turned(scenarios, number):
                progress(f"round {number + 1} of {plan.rounds}: {name}")
                await scenarios[name](measured)
            measured.rounds += 1
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
