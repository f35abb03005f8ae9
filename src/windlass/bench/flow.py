"""The run on flow control: what keys, budgets, order and schedules cost, and how long others wait beside a
key that holds a great many jobs.

What is compared runs in the same rounds, every second round backwards: A B, B A. The two sides of `blocked`
are two stores, one of which holds the blocked jobs from the start. The waits beside a great many jobs are
measured once, after the rounds: to enqueue so many takes longer than everything else.
"""

from __future__ import annotations

import functools

import msgspec

from windlass.bench import run
from windlass.bench.figures import Report
from windlass.bench.flow_claims import KEYED_NEEDS, NEEDS, Claimer, declare_plenty
from windlass.bench.flow_plan import FlowPlan
from windlass.bench.flow_report import Times, report
from windlass.bench.flow_scenarios import Scenarios
from windlass.bench.grounds import Grounds
from windlass.bench.on_grounds import OnGrounds, Told, measure_one
from windlass.bench.rounds import Group, Progress, Rounds, Step


def measure(plan: FlowPlan, url: str | None, only: str | None, progress: Progress) -> Report:
    """Measure on the store behind the URL or on temporary ones; on one kind of them, if `only` says so."""
    if url is None and only is None:
        found = run.run(OnGrounds(_measured), plan, None, progress)
    else:
        found = measure_one(_measured, plan, url, only, progress)
    return msgspec.structs.replace(found, plan=plan.conditions())


async def _measured(grounds: Grounds, plan: FlowPlan, until: float, progress: Progress) -> Told:
    scenarios = Scenarios(grounds, plan)
    rounds = await _rounds(grounds, scenarios, plan, until, progress)
    times = Times(
        fair=await scenarios.beside_fair(_about("fair_wait", progress)),
        limited=await scenarios.beside_limited(_about("limited_wait", progress)),
        fires=await scenarios.fires(),
    )
    return functools.partial(report, rounds, times)


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
