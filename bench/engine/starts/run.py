"""The run on starts: a child is killed and replaced, again and again, and rows of idle children are measured.

A killed child held one job, which runs again in its replacement. Between two kills a child leaves in good
order, so that each replacement is the first after a death: further ones would be paced.
"""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from bench.engine.figures import Report
from bench.engine.places import OpenStore, Places
from bench.engine.rounds import Progress, turned, within
from bench.engine.run import Told, run
from bench.engine.starts.host import Host, host, private
from bench.engine.starts.plan import APPS, WAYS, StartPlan
from bench.engine.starts.report import Values, report
from bench.engine.starts.small import QUEUE, TASK
from windlass.store.records import NewJob


def measure(plan: StartPlan, stores: Sequence[str], server: str, progress: Progress) -> Report:
    """Measure on each of these stores."""
    return run(_measured, plan, stores, server, progress)


async def _measured(places: Places, plan: StartPlan, until: float, progress: Progress) -> Told:
    values: Values = defaultdict(list)
    rounds = 0
    ways = [f"{app} {way}" for app in APPS for way in WAYS]
    for number in within(plan.rounds, until):
        for way in turned(ways, number):
            progress(f"round {number + 1} of {plan.rounds}: {way}")
            async with places.fresh() as place:
                await Round(place, plan, way, values).run()
        rounds += 1
    return functools.partial(report, values, rounds, plan)


class Round:
    """One app and one way to start it, once."""

    def __init__(self, place: OpenStore, plan: StartPlan, way: str, values: Values) -> None:
        self._place = place
        self._plan = plan
        self._way = way
        self._values = values
        app, how = way.split()
        self._app = f"bench.engine.starts.{app}"
        self._flags = WAYS[how]

    async def run(self) -> None:
        """Rows of few and of many, and one child that is killed."""
        for n in (self._plan.few, self._plan.many):
            async with self._host(n) as row:
                await self._row(row, n)
        async with self._host(1) as single:
            await self._killed(single)

    def _host(self, n: int) -> AbstractAsyncContextManager[Host]:
        return host(self._app, self._place.environment(), n, self._flags)

    async def _row(self, row: Host, n: int) -> None:
        pids = await row.row(n)
        self._note(f"all of {n} up", 1000 * (max(row.up.values()) - row.began))
        self._note(f"CPU until all of {n} are up", 1000 * row.cpu())
        await asyncio.sleep(self._plan.settle)
        self._note(f"MiB that each of {n} has alone", sum(map(private, pids)) / n)

    async def _killed(self, single: Host) -> None:
        (first,) = await single.row(1)
        await asyncio.sleep(self._plan.settle)
        await self._place.store.enqueue([NewJob(task=TASK, payload="[]", queue=QUEUE)])
        await single.runs(first)
        at = time.monotonic()
        os.kill(first, signal.SIGKILL)
        second = (await single.row(2))[1]
        self._note("killed to up", 1000 * (single.up[second] - at))
        self._note("killed to its job runs again", 1000 * (await single.runs(second) - at))
        self._note("CPU of a start", 1000 * single.cost[second])

    def _note(self, what: str, value: float) -> None:
        self._values[f"{self._way}: {what}"].append(value)
