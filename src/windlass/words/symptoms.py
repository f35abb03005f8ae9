"""What keeps jobs from flowing, for `windlass doctor`: budgets that nobody declared or whose breaker is open,
gates with long waits, schedules that do not fire, queues that are full or slow. Judged from what a few cheap
questions to the store were answered; each finding says what to do."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from windlass.core.admission import WARNING, shed_level
from windlass.core.gates import reason
from windlass.core.rates import rate_text
from windlass.store.flow import BudgetRecord, GateRecord, ScheduleRecord
from windlass.store.protocol import Store
from windlass.store.records import Depth, Finding, QueueRecord
from windlass.words.text import capped, one_line, span

LONG_WAIT: Final = 600.0
"""Seconds that the first at a gate may wait before it is worth a word."""

OVERDUE: Final = 120.0
"""Seconds after which a schedule that was due and did not fire has nobody to fire it."""

_BUDGET: Final = "budget:"
_ADVICE: Final = {
    "order": "see what holds the first of that key up: `windlass watermarks {queue} --key {key}`; a job that "
    "fails again and again keeps its place until it is dead or cancelled",
    "key": "see whether its jobs run (`windlass jobs --state running`); raise the limit with `windlass task "
    "set TASK --key-concurrency N` if they may run side by side",
    "task": "see whether its jobs run (`windlass jobs --state running --task {rest}`); raise the limit with "
    "`windlass task set {rest} --concurrency N`",
    "budget": "see `windlass budgets`; raise its rate with `windlass budget set {budget} --rate RATE` if the "
    "upstream allows",
}


async def examine(store: Store) -> list[Finding]:
    """Ask, and judge."""
    budgets, gates = await store.budgets(), await store.gates()
    found = [
        *of_budgets(budgets, gates),
        *of_gates(gates, {budget.name for budget in budgets}),
        *of_schedules(await store.schedules(), await store.now()),
        *of_queues(await store.queues(), await store.depth()),
    ]
    return found or [Finding(name="flow", told="no budget, gate, schedule or queue holds jobs up")]


def of_budgets(budgets: Sequence[BudgetRecord], gates: Iterable[GateRecord]) -> Iterator[Finding]:
    """Budgets that grant nothing: unknown ones that jobs wait for, and those whose breaker is not closed."""
    known = {budget.name for budget in budgets}
    for name in sorted({_budget_of(gate.name) for gate in gates if gate.name.startswith(_BUDGET)} - known):
        yield _warning(
            f"budget {name}",
            "jobs wait for its tokens, and nobody has declared it: it grants nothing",
            f"start a worker whose code declares it, or make it: `windlass budget set {name} --rate RATE`",
        )
    for budget in budgets:
        if budget.state != "closed":
            for_long = f" for {span(budget.blocked)} more" if budget.blocked > 0 else ""
            yield _warning(
                f"budget {budget.name}",
                f"its breaker is {budget.state}{for_long} after {budget.failures:,} failed runs in a row; "
                f"{capped(budget.waiting)} jobs wait",
                "it tries again by itself; see why runs that use it fail: `windlass jobs --state retrying`",
            )


def of_gates(gates: Iterable[GateRecord], budgets: frozenset[str] | set[str]) -> Iterator[Finding]:
    """Gates whose first has waited long."""
    for gate in gates:
        kind, _, rest = gate.name.partition(":")
        unknown = kind == "budget" and _budget_of(gate.name) not in budgets
        if gate.oldest > LONG_WAIT and not unknown:
            before, _, key = rest.partition("/")
            advice = _ADVICE.get(kind, "see `windlass blocked`")
            yield _warning(
                f"gate {gate.name}",
                f"the first of {capped(gate.waiting)} jobs {reason(gate.name)} since {span(gate.oldest)}",
                advice.format(rest=rest, queue=before, budget=before, key=shlex.quote(key)),
            )


def of_schedules(schedules: Iterable[ScheduleRecord], now: float) -> Iterator[Finding]:
    """Schedules that are wrong, or that nobody fires."""
    for schedule in schedules:
        name = f"schedule {schedule.name}"
        if schedule.error is not None:
            remove = f"`windlass schedules remove {schedule.name}`"
            yield _warning(name, schedule.error, f"correct it in the code and restart a worker, or {remove}")
        elif not schedule.paused and schedule.next_at is not None and now - schedule.next_at > OVERDUE:
            yield _warning(
                name,
                f"it was due {span(now - schedule.next_at)} ago and has not fired",
                "start a worker: one of them is the coordinator, which fires schedules",
            )


def of_queues(queues: Iterable[QueueRecord], depth: Mapping[str, Depth]) -> Iterator[Finding]:
    """Queues that are paused while jobs wait or turn jobs away, and governors that can go no lower."""
    for queue in queues:
        name = f"queue {queue.name}"
        now = depth.get(queue.name, Depth())
        if queue.paused and now.ready:
            yield _warning(
                name,
                f"it is paused, and {now.ready:,} ready job{'s wait' if now.ready > 1 else ' waits'}",
                f"let them run: `windlass queue resume {queue.name}`",
            )
        if queue.pressure == "full":
            yield _warning(
                name,
                f"it is full and refuses new jobs until it has fallen to 60 % of {queue.max_depth:,}; "
                f"{queue.refused:,} refused so far",
                f"add workers, or raise it: `windlass queue set {queue.name} --max-depth N`",
            )
        level = shed_level(now.ready, now.oldest or 0.0, 0.0, (queue.shed_depth, queue.shed_wait, None))
        if level >= WARNING:
            yield _warning(
                name,
                f"it sheds load: it stands at {level:.0%} of its limits; {queue.shed:,} jobs shed so far",
                "add workers, or raise what it says is too much: "
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


def _budget_of(gate: str) -> str:
    return gate.removeprefix(_BUDGET).partition("/")[0]


def _warning(name: str, told: str, advice: str) -> Finding:
    return Finding(name=one_line(name, 200), level="warning", told=one_line(told), advice=one_line(advice))
