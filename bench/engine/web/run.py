"""The run on Mission Control: how long pages and calls take with a great many jobs in store, what looking
costs the engine, and how fast jobs are taken in over HTTP.

Worker, web server and load are processes of their own. Pages are timed first, while the store holds what was
planned, one request at a time, while jobs run at an even pace. What is compared then runs in the same rounds,
every second round backwards.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from bench.engine.figures import Report, Taken
from bench.engine.places import OpenStore, Places
from bench.engine.rounds import Progress, Rounds, Step
from bench.engine.run import Told, run
from bench.engine.web.fill import Filler
from bench.engine.web.load import Enqueue, Enqueued, Time, Times, View, Views, ordered, viewing
from bench.engine.web.paths import (
    BATCH_PATH,
    SINGLE_PATH,
    STREAM,
    WATCHED,
    batch_body,
    find_paths,
    single_body,
)
from bench.engine.web.plan import WebPlan
from bench.engine.web.producer import Producer
from bench.engine.web.report import ALONE, BATCH, SINGLE, VIEWED, report
from bench.engine.web.server import HOST, require_web, web_server
from bench.engine.worker import worker
from windlass.errors import StoreError


def measure(plan: WebPlan, stores: Sequence[str], server: str, progress: Progress) -> Report:
    """Measure on each of these stores."""
    require_web()
    return run(_measured, plan, stores, server, progress)


async def _measured(places: Places, plan: WebPlan, until: float, progress: Progress) -> Told:
    async with places.fresh() as place:
        filled = await Filler(place.store, plan).fill(progress)
        environment = place.environment()
        progress("starting a worker and the web server")
        async with worker(place.store, environment, 1), web_server(environment) as port:
            stage = Stage(place, plan, port)
            progress("timing pages and calls")
            times = await stage.times(await find_paths(HOST, port, filled))
            return functools.partial(report, await stage.rounds(until, progress), times, stage.views)


class Stage:
    """A filled store with a worker and a web server, both under way."""

    def __init__(self, place: OpenStore, plan: WebPlan, port: int) -> None:
        self._place = place
        self._plan = plan
        self._port = port
        self._producer = Producer(place.store, plan)
        self.views: list[Views] = []

    async def rounds(self, until: float, progress: Progress) -> Rounds:
        """The engine with and without viewers, and jobs over HTTP."""
        rounds = Rounds(self._plan, self._place.meter, until, progress)
        groups = [
            {ALONE: Step(self._producer.saturated), VIEWED: Step(self._viewed)},
            {SINGLE: Step(self._single), BATCH: Step(self._batch)},
        ]
        await rounds.run(groups, after_each=self._producer.idle)
        return rounds

    async def times(self, paths: dict[str, str]) -> Times:
        """Each page and call, while jobs run."""
        order = Time(host=HOST, port=self._port, paths=paths, tries=self._plan.tries)
        async with self._producer.trickling(self._plan.pace):
            times = await ordered(order, Times)
        await self._producer.idle()
        return times

    async def _viewed(self) -> Taken:
        plan = self._plan
        order = View(
            host=HOST,
            port=self._port,
            viewers=plan.viewers,
            pages=list(WATCHED),
            stream=STREAM,
            every=plan.look,
        )
        async with viewing(order) as seen:
            taken = await self._producer.saturated()
        self.views += seen
        return taken

    async def _single(self) -> Taken:
        return await self._enqueue(SINGLE_PATH, single_body(self._plan), 1)

    async def _batch(self) -> Taken:
        return await self._enqueue(BATCH_PATH, batch_body(self._plan), self._plan.http_batch)

    async def _enqueue(self, path: str, body: str, jobs: int) -> Taken:
        plan = self._plan
        order = Enqueue(
            host=HOST,
            port=self._port,
            path=path,
            body=body,
            jobs=jobs,
            clients=plan.clients,
            seconds=plan.seconds,
        )
        answer = await ordered(order, Enqueued)
        if not answer.jobs:
            raise StoreError(f"POST {path} took no job; it answered {answer.refused}")
        return Taken(answer.jobs, answer.seconds)
