"""The run on handlers: one worker process drains a backlog of jobs that do nothing, `async def` ones and
plain ones in turns, each in a store and a process of its own."""

from __future__ import annotations

import asyncio
import functools
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from bench.engine.figures import Report, Taken
from bench.engine.handlers.app import FROM, TO, WHERE, Measured
from bench.engine.handlers.report import TASKS, report
from bench.engine.jobs import QUEUE
from bench.engine.places import Places
from bench.engine.plan import Plan
from bench.engine.rounds import Progress, Rounds, Step
from bench.engine.run import Told, run
from bench.engine.worker import worker
from windlass.errors import StoreError
from windlass.store.protocol import Store
from windlass.store.records import NewJob

APP: Final = "bench.engine.handlers.app:app"
WARM_UP: Final = 0.1
"""The share of the jobs that run before the clock starts."""
PATIENCE: Final = 60.0
LOOK_EVERY: Final = 0.05


def measure(plan: Plan, stores: Sequence[str], server: str, progress: Progress) -> Report:
    """Measure on each of these stores."""
    return run(_measured, plan, stores, server, progress)


async def _measured(places: Places, plan: Plan, until: float, progress: Progress) -> Told:
    cpu: dict[str, list[float]] = defaultdict(list)
    async with places.fresh() as place:
        rounds = Rounds(plan, place.meter, until, progress)
        steps = {name: Step(functools.partial(_drained, places, plan, name, cpu)) for name in TASKS}
        await rounds.run([steps], after_each=_nothing)
    return functools.partial(report, rounds, cpu)


async def _drained(places: Places, plan: Plan, name: str, cpu: dict[str, list[float]]) -> Taken:
    """One backlog, from the end of its warm-up to its last run."""
    first = max(1, int(plan.jobs * WARM_UP))
    async with places.fresh() as place:
        await _fill(place.store, plan, TASKS[name])
        with tempfile.TemporaryDirectory(prefix="windlass-bench-") as folder:
            told = Path(folder) / "measured.json"
            environment = {FROM: str(first), TO: str(plan.jobs), WHERE: str(told)}
            async with worker(place.store, {**place.environment(), **environment}, 1, app=APP):
                found = await _told(told)
    jobs = plan.jobs - first
    cpu[name].append(found.cpu / jobs * 1e6)
    return Taken(jobs, found.seconds)


async def _fill(store: Store, plan: Plan, task: str) -> None:
    text = "x" * max(0, plan.payload_bytes - len('{"n": 0, "text": ""}'))
    job = NewJob(task=task, payload=f'{{"n": 0, "text": "{text}"}}', queue=QUEUE)
    for start in range(0, plan.jobs, plan.enqueue_batch):
        await store.enqueue([job] * min(plan.enqueue_batch, plan.jobs - start))


async def _told(path: Path) -> Measured:
    until = time.monotonic() + PATIENCE
    while (found := _read(path)) is None:
        if time.monotonic() > until:
            raise StoreError(f"the backlog was not drained within {PATIENCE:g} s")
        await asyncio.sleep(LOOK_EVERY)
    return found


def _read(path: Path) -> Measured | None:
    return msgspec.json.decode(path.read_bytes(), type=Measured) if path.exists() else None


async def _nothing() -> None: ...
