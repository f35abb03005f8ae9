"""The run on Mission Control: how long pages and calls take with a great many jobs in store, what looking
costs the engine, and how fast jobs are taken in over HTTP.

Worker, web server and load are processes of their own. Pages are timed first, while the store holds what was
planned, one request at a time, while jobs run at an even pace. What is compared then runs in the same rounds,
every second round backwards.
"""

from __future__ import annotations

import functools

import msgspec

from windlass.bench.crew import crew
from windlass.bench.figures import Report, Taken
from windlass.bench.grounds import Grounds, Place
from windlass.bench.on_grounds import Told, measure_one
from windlass.bench.rounds import Progress, Rounds, Step
from windlass.bench.web_engine import Engine
from windlass.bench.web_fill import Filler
from windlass.bench.web_load import Enqueue, Enqueued, Time, Times, View, Views, ordered, viewing
from windlass.bench.web_paths import (
    BATCH_PATH,
    SINGLE_PATH,
    STREAM,
    WATCHED,
    batch_body,
    find_paths,
    single_body,
)
from windlass.bench.web_plan import WebPlan
from windlass.bench.web_report import ALONE, BATCH, SINGLE, VIEWED, report
from windlass.bench.web_server import HOST, require_web, web_server
from windlass.errors import StoreError


def measure(plan: WebPlan, url: str | None, only: str | None, progress: Progress) -> Report:
    """Measure on the store behind the URL, or on a temporary one: PostgreSQL, unless `only` says
    otherwise."""
    require_web()
    found = measure_one(_measured, plan, url, only, progress)
    return msgspec.structs.replace(found, plan=plan.conditions())


async def _measured(grounds: Grounds, plan: WebPlan, until: float, progress: Progress) -> Told:
    async with grounds.fresh() as place:
        filled = await Filler(place.store, plan).fill(progress)
        environment = place.environment()
        progress("starting a worker and the web server")
        async with crew(place.store, environment, 1), web_server(environment) as port:
            stage = Stage(place, plan, port)
            progress("timing pages and calls")
            times = await stage.times(await find_paths(HOST, port, filled))
            return functools.partial(report, await stage.rounds(until, progress), times, stage.views)


class Stage:
    """A filled store with a worker and a web server, both under way."""

    def __init__(self, place: Place, plan: WebPlan, port: int) -> None:
        self._place = place
        self._plan = plan
        self._port = port
        self._engine = Engine(place.store, plan)
        self.views: list[Views] = []

    async def rounds(self, until: float, progress: Progress) -> Rounds:
        """The engine with and without viewers, and jobs over HTTP."""
        rounds = Rounds(self._plan, {"": self._place.meter}, until, progress)
        groups = [
            {ALONE: Step(self._engine.saturated), VIEWED: Step(self._viewed)},
            {SINGLE: Step(self._single), BATCH: Step(self._batch)},
        ]
        await rounds.run(groups, after_each=self._engine.idle)
        return rounds

    async def times(self, paths: dict[str, str]) -> Times:
        """Each page and call, while jobs run."""
        order = Time(host=HOST, port=self._port, paths=paths, tries=self._plan.tries)
        async with self._engine.trickling(self._plan.pace):
            times = await ordered(order, Times)
        await self._engine.idle()
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
            taken = await self._engine.saturated()
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
