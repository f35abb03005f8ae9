"""Findings: what holds jobs up, and what to do about it.

`examine` asks the store, for `windlass doctor`: budgets that are not declared or whose breaker is open, gates
with long waits, schedules that do not fire, queues that are full or slow. `state_findings` needs the
ClusterState alone, for the overview: lost workers, queues that nobody serves or that rest while jobs wait,
jobs that die. It says since when each holds, where that can be known.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal

import msgspec

from windlass.core.abilities import in_words, missing
from windlass.core.counts import plural
from windlass.core.flow.admission import WARNING, shed_level
from windlass.core.flow.gates import reason
from windlass.core.flow.rates import rate_text
from windlass.core.rollup import MINUTE, Sample
from windlass.presentation.cluster_state import ClusterState, read_state, unable
from windlass.presentation.text import COUNTED, one_line, span
from windlass.presentation.waiting import abilities_in, queue_in_words
from windlass.store.protocol import Store
from windlass.store.records import (
    BudgetRecord,
    Depth,
    Finding,
    GateRecord,
    QueueRecord,
    ScheduleRecord,
    WorkerRecord,
)

# -- for the doctor -------------------------------------------------------------------------------------

LONG_WAIT: Final = 600.0
"""Seconds that the first job at a gate may wait without a finding."""

OVERDUE: Final = 120.0
"""Seconds after which a schedule that was due and has not fired is a finding."""

_BUDGET: Final = "budget:"
_ADVICE: Final = {
    "order": "see what holds up the first job of that key: `windlass watermarks {queue} --key {key}`; a "
    "job that keeps failing keeps its place until it is dead or cancelled",
    "key": "see whether its jobs run (`windlass jobs --state running`); if they may run side by side, raise "
    "the limit with `windlass task set TASK --key-concurrency N`",
    "task": "see whether its jobs run (`windlass jobs --state running --task {rest}`); raise the limit with "
    "`windlass task set {rest} --concurrency N`",
    "budget": "see `windlass budgets`; if the upstream allows more, raise its rate with "
    "`windlass budget set {budget} --rate RATE`",
}


async def examine(store: Store) -> list[Finding]:
    """Return what the doctor finds in the flow of jobs."""
    budgets, gates, state = await store.budgets(), await store.gates(), await read_state(store)
    found = [
        *budget_findings(budgets, gates),
        *gate_findings(gates, {budget.name for budget in budgets}),
        *schedule_findings(await store.schedules(), await store.now()),
        *queue_findings(state.view.queues.values(), state.depth),
        *stuck_findings(state),
        *ability_findings(state.depth, state.workers),
    ]
    return found or [Finding(name="flow", text="no budget, gate, schedule or queue holds jobs up")]


def budget_findings(budgets: Sequence[BudgetRecord], gates: Iterable[GateRecord]) -> Iterator[Finding]:
    """Budgets that grant nothing: unknown ones that jobs wait for, and those whose breaker is not closed."""
    known = {budget.name for budget in budgets}
    for name in sorted({_budget_of(gate.name) for gate in gates if gate.name.startswith(_BUDGET)} - known):
        yield _warning(
            f"budget {name}",
            "jobs wait for its tokens, and it is not declared, so it grants nothing",
            f"start a worker whose code declares it, or create it: `windlass budget set {name} --rate RATE`",
        )
    for budget in budgets:
        if budget.state == "open" or (budget.state == "half-open" and budget.waiting):
            for_long = f" for {span(budget.paused_for)} more" if budget.paused_for > 0 else ""
            yield _warning(
                f"budget {budget.name}",
                f"its breaker is {budget.state}{for_long} after {plural(budget.failures, 'failed run')} in a "
                f"row; {plural(budget.waiting, 'job waits', 'jobs wait', most=COUNTED)}",
                "it tries again by itself; see why runs fail: `windlass jobs --state retrying`",
            )


def gate_findings(gates: Iterable[GateRecord], budgets: frozenset[str] | set[str]) -> Iterator[Finding]:
    """Gates whose first job has waited long."""
    for gate in gates:
        kind, _, rest = gate.name.partition(":")
        unknown = kind == "budget" and _budget_of(gate.name) not in budgets
        if gate.oldest > LONG_WAIT and not unknown:
            before, _, key = rest.partition("/")
            advice = _ADVICE.get(kind, "see `windlass gates`")
            yield _warning(
                f"gate {gate.name}",
                f"the first of {plural(gate.waiting, 'job', most=COUNTED)} {reason(gate.name)} "
                f"since {span(gate.oldest)}",
                advice.format(rest=rest, queue=before, budget=before, key=shlex.quote(key)),
            )


def schedule_findings(schedules: Iterable[ScheduleRecord], now: float) -> Iterator[Finding]:
    """Schedules that are invalid, or that nobody fires."""
    for schedule in schedules:
        name = f"schedule {schedule.name}"
        if schedule.error is not None:
            remove = f"`windlass schedules remove {schedule.name}`"
            yield _warning(name, schedule.error, f"fix it in the code and restart a worker, or {remove}")
        elif not schedule.paused and schedule.next_at is not None and now - schedule.next_at > OVERDUE:
            yield _warning(
                name,
                f"it was due {span(now - schedule.next_at)} ago and has not fired",
                "start a worker; one of them becomes the coordinator, which fires schedules",
            )


def queue_findings(queues: Iterable[QueueRecord], depth: Mapping[str, Depth]) -> Iterator[Finding]:
    """Queues that are paused while jobs wait or refuse jobs, and governors at their lowest rate."""
    for queue in queues:
        name = f"queue {queue.name}"
        now = depth.get(queue.name, Depth())
        if queue.paused and now.ready:
            yield _warning(
                name,
                f"it is paused, and {plural(now.ready, 'ready job waits', 'ready jobs wait')}",
                f"resume it: `windlass queue resume {queue.name}`",
            )
        if queue.pressure == "full":
            yield _warning(
                name,
                f"it is full and refuses new jobs until it has fallen to 60 % of {queue.max_depth:,}; "
                f"{queue.refused:,} refused so far",
                f"add workers, or raise the limit: `windlass queue set {queue.name} --max-depth N`",
            )
        level = shed_level(now.ready, now.oldest or 0.0, 0.0, (queue.shed_depth, queue.shed_wait, None))
        if level >= WARNING:
            yield _warning(
                name,
                f"it sheds load: it stands at {level:.0%} of its limits; "
                f"{plural(queue.shed, 'job')} shed so far",
                "add workers, or raise its limits: "
                f"`windlass queue set {queue.name} --shed-depth N --shed-wait DURATION`",
            )
        lowest = queue.rate is not None and queue.rate <= queue.rate_min < queue.rate_max
        if queue.governor and lowest and (now.ready or now.running or now.retrying):
            yield _warning(
                name,
                f"its governor is at its lowest rate, {rate_text(queue.rate_min)}"
                + (f": {queue.why}" if queue.why else ""),
                f"see why its runs fail or take long: `windlass jobs --queue {queue.name} --state retrying`",
            )


def stuck_findings(state: ClusterState) -> Iterator[Finding]:
    """Queues in which jobs wait, and the jobs that have all slots do not end."""
    for name in state.names():
        if (stuck := state.stuck(name)) is not None:
            yield _warning(
                f"queue {name}",
                f"{stuck.in_words(state.at)}; {plural(state.runnable(name), 'job waits', 'jobs wait')}",
                f"see whether they hang: `windlass jobs --queue {name} --state running`; cancel those that "
                "do and give their task a timeout, else add slots",
            )


def ability_findings(depth: Mapping[str, Depth], workers: Sequence[WorkerRecord]) -> Iterator[Finding]:
    """Jobs that no live worker of their queue is able to run [K14]."""
    for queue, each in sorted(depth.items()):
        for needs, n in sorted(unable(queue, each, workers).items()):
            yield unable_finding(queue, needs, n, workers)


def _budget_of(gate: str) -> str:
    return gate.removeprefix(_BUDGET).partition("/")[0]


def _warning(name: str, text: str, advice: str, level: Literal["warning", "error"] = "warning") -> Finding:
    return Finding(name=one_line(name, 200), level=level, text=one_line(text), advice=one_line(advice))


# -- for the overview -----------------------------------------------------------------------------------

QUIET: Final = 10 * MINUTE
"""Seconds without a death between one burst of deaths and the next."""
UNKNOWN: Final[Mapping[str, float]] = MappingProxyType({})


class DatedFinding(msgspec.Struct, frozen=True):
    """A finding, and since when it holds where that is known."""

    finding: Finding
    since: float | None = None


class Deaths(msgspec.Struct, frozen=True):
    """Jobs that have died lately, and when the first of the last burst of deaths came."""

    jobs: int = 0
    since: float | None = None


NO_DEATHS: Final = Deaths()


def state_findings(
    state: ClusterState, deaths: Deaths = NO_DEATHS, rests: Mapping[str, float] = UNKNOWN
) -> list[DatedFinding]:
    """Return findings about the state. `deaths` are those of the last hour; `rests` says since when queues
    rest, where that is known."""
    return [
        *worker_findings(state.workers, state.at),
        *waiting_findings(state, rests),
        *death_findings(deaths),
    ]


def deaths_of(rows: Iterable[Sample]) -> Deaths:
    """The deaths of measured minutes, in order of time: a burst lasts while no QUIET passes without one."""
    jobs, since, last = 0, None, float("-inf")
    for row in rows:
        died = row.counts.get("dead", 0)
        if died:
            since = row.at if since is None or row.at - last > QUIET else since
            jobs, last = jobs + died, row.at
    return Deaths(jobs, since)


def resting(state: ClusterState) -> list[str]:
    """Queues that are served, and rest while jobs wait."""
    return [
        name
        for name, record in sorted(state.view.queues.items())
        if state.depth_of(name).ready and state.view.serving.get(name, 0) and queue_in_words(record)
    ]


def late_or_lost(workers: Iterable[WorkerRecord], now: float) -> list[WorkerRecord]:
    """Workers that are not alive and still hold jobs, or whose last heartbeat is older than their lease."""
    return [worker for worker in workers if not worker.alive or now - worker.heartbeat_at > worker.lease]


def worker_findings(workers: Iterable[WorkerRecord], now: float) -> Iterator[DatedFinding]:
    """Workers that send no heartbeats."""
    for worker in late_or_lost(workers, now):
        finding = _warning(
            f"worker {worker.label or worker.id}",
            f"no heartbeat for {span(now - worker.heartbeat_at)}",
            "its jobs go to other workers by themselves; check its host and process",
        )
        yield DatedFinding(finding, worker.heartbeat_at)


def waiting_findings(state: ClusterState, rests: Mapping[str, float] = UNKNOWN) -> Iterator[DatedFinding]:
    """Queues in which jobs wait and nothing happens."""
    nobody = not any(worker.alive for worker in state.workers)
    for name in state.names():
        record, depth = state.queue(name), state.depth_of(name)
        since = None if depth.oldest is None else state.at - depth.oldest
        if not depth.ready:
            continue
        waiting = f"{plural(depth.ready, 'job')} ready"
        if not state.view.serving.get(name, 0):
            finding = _warning(
                f"queue {name}",
                f"{waiting}, and no worker serves it",
                f"start one: `windlass worker MODULE:APP -q {name}`",
                "error" if nobody else "warning",
            )
            yield DatedFinding(finding, since)
        elif held_up := queue_in_words(record):
            advice = (
                f"resume it: `windlass queue resume {name}`"
                if record.paused
                else f"it resumes by itself; end the cool-down now with `windlass queue warm {name}`"
            )
            finding = _warning(f"queue {name}", f"{waiting}, and it is {held_up}", advice)
            yield DatedFinding(finding, rests.get(name))
        else:
            for needs, n in state.unable(name).items():
                yield DatedFinding(unable_finding(name, needs, n, state.workers), None)


def unable_finding(queue: str, needs: str, n: int, workers: Iterable[WorkerRecord]) -> Finding:
    """Jobs of a queue that no live worker there is able to run [K14]."""
    lacking = in_words(missing(needs, abilities_in(queue, workers)))
    flags = "".join(f" --ability {name}" for name in needs.split(","))
    return _warning(
        f"queue {queue}",
        f"{plural(n, 'job waits', 'jobs wait')}, and no live worker has {lacking}",
        f"start one: `windlass worker MODULE:APP -q {queue}{flags}`",
    )


def death_findings(deaths: Deaths) -> Iterator[DatedFinding]:
    """Jobs that have died lately."""
    if deaths.jobs:
        finding = _warning(
            "dead jobs",
            f"{plural(deaths.jobs, 'job', most=COUNTED)} died within the last hour",
            "see their errors with `windlass dead list`, and retry them once the cause is fixed",
        )
        yield DatedFinding(finding, deaths.since)
