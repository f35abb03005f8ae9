"""The run on flow control: what keys, budgets, order and schedules cost, and how long others wait beside a
key that holds a great many jobs.

What is compared runs in the same rounds, every second round backwards: A B, B A. The two sides of `held`
are two stores, one of which has the held jobs from the start. The waits beside a great many jobs are
measured once, after the rounds: to enqueue so many takes longer than everything else.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from bench.engine.figures import Report
from bench.engine.flow.claims import KEYED_NEEDS, NEEDS, Claimer, declare_plenty
from bench.engine.flow.plan import FlowPlan
from bench.engine.flow.report import Times, report
from bench.engine.flow.scenarios import Scenarios
from bench.engine.places import Places
from bench.engine.rounds import Group, Progress, Rounds, Step
from bench.engine.run import Told, run


def measure(plan: FlowPlan, stores: Sequence[str], server: str, progress: Progress) -> Report:
    """Measure on each of these stores."""
    return run(_measured, plan, stores, server, progress)


async def _measured(places: Places, plan: FlowPlan, until: float, progress: Progress) -> Told:
    scenarios = Scenarios(places, plan)
    rounds = await _rounds(places, scenarios, plan, until, progress)
    times = Times(
        fair=await scenarios.beside_fair(_about("fair_wait", progress)),
        limited=await scenarios.beside_limited(_about("limited_wait", progress)),
        fires=await scenarios.fires(),
        pinned=await scenarios.pinned(_about("pinned", progress)),
    )
    return functools.partial(report, rounds, times)


async def _rounds(
    places: Places, scenarios: Scenarios, plan: FlowPlan, until: float, progress: Progress
) -> Rounds:
    async with places.fresh() as free, places.fresh() as crowded:
        progress("preparing")
        await declare_plenty(free.store)
        plain = Claimer(free.store, plan, "plain")
        beside_held = Claimer(crowded.store, plan, "plain")
        no_budget = Claimer(free.store, plan, "no_budget")
        budget = Claimer(free.store, plan, "budget", NEEDS)
        by_key = Claimer(free.store, plan, "by_key", KEYED_NEEDS)
        for claimer in (plain, beside_held, no_budget, budget, by_key):
            await claimer.begin()
        await beside_held.hold_at_key(plan.held, _about("held", progress))
        groups: list[Group] = [
            {"claim_finish": _filled(plain), "claim_finish_held": _filled(beside_held)},
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
                "all_keys": Step(scenarios.all_keys),
                "task_limit": Step(scenarios.task_limit),
                "queue_limit": Step(scenarios.queue_limit),
                "budget": Step(scenarios.budget),
                "budget_by_key": Step(scenarios.budget_by_key),
                "one_key": Step(scenarios.one_key),
            },
            {"acquire": Step(scenarios.acquire)},
        ]
        rounds = Rounds(plan, free.meter, until, progress)
        await rounds.run(groups, after_each=plain.drain)
        return rounds


def _filled(claimer: Claimer) -> Step:
    return Step(claimer.claim_finish, before=claimer.fill)


def _about(scenario: str, progress: Progress) -> Progress:
    return lambda text: progress(f"{scenario}: {text}")
