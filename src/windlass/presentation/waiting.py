"""Why a job does not run yet, in words [M4]. Decided from what the store tells; nothing is asked here."""

from __future__ import annotations

import math
from collections.abc import Iterable

from windlass.core.abilities import in_words, missing
from windlass.core.counts import plural
from windlass.core.flow.gates import budget_of
from windlass.core.flow.rates import rate_text
from windlass.core.states import State
from windlass.endings import FOR_EVER
from windlass.presentation.text import span
from windlass.store.records import BudgetRecord, JobRecord, PartRecord, QueueRecord, WorkerRecord


def state_in_words(job: JobRecord | PartRecord) -> str:
    """The state, and how often a job or a part that retries was tried: `retrying (2 tries)`."""
    if job.state is not State.RETRYING:
        return str(job.state)
    return f"retrying ({plural(job.attempt - 1, 'try', 'tries')})"


def queue_in_words(queue: QueueRecord) -> str:
    """Say what keeps a queue from giving out jobs, or nothing."""
    if queue.paused:
        return "paused"
    if queue.cooling > 0:
        return f"throttled, resumes in {span(queue.cooling)}"
    return ""


def load_in_words(queue: QueueRecord) -> str:
    """Say what keeps a queue from giving out or taking in jobs, and what limits it; for a listing."""
    parts = [queue_in_words(queue)]
    if queue.pressure == "full":
        parts.append(f"full, refuses new jobs ({queue.refused:,} so far)")
    elif queue.pressure == "soft":
        parts.append("under pressure")
    if queue.shed:
        parts.append(f"{queue.shed:,} shed so far")
    if queue.concurrency is not None:
        parts.append(f"at most {queue.concurrency:,} at a time")
    if queue.governor and queue.rate is not None:
        parts.append(f"governor {rate_text(queue.rate)}" + (f", {queue.why}" if queue.why else ""))
    return "; ".join(filter(None, parts))


def abilities_in(queue: str, workers: Iterable[WorkerRecord]) -> list[frozenset[str]]:
    """Return the abilities of each live worker that serves a queue [K14]."""
    return [frozenset(worker.abilities) for worker in workers if worker.alive and queue in worker.queues]


def why_it_waits(
    job: JobRecord,
    queue: QueueRecord | None,
    serving: int,
    now: float,
    workers: Iterable[WorkerRecord] = (),
    budgets: Iterable[BudgetRecord] | None = None,
) -> str | None:
    """Why the job is not running; None where it runs or has ended. `serving` counts the workers of its queue
    that are alive. `workers` are asked what they have where the job needs something; `budgets`, where they
    are known, why they grant none."""
    if job.state is State.WAITING and not job.cancel_requested:
        return "it waits for its parts"
    if job.state not in (State.SCHEDULED, State.READY, State.RETRYING):
        return "its cancel was requested" if job.cancel_requested else None
    reasons = [job.reason] if job.reason else []
    if budgets is not None and (name := budget_of(job.reason)) is not None:
        asked = next((each for each in budgets if each.name == name), None)
        reasons += filter(None, [budget_in_words(asked)])
    if job.state is not State.READY and job.run_at is not None:
        left = job.run_at - now
        if left < FOR_EVER:
            reasons.append(f"due in {span(left)}" if left > 0 else "due now")
        elif not reasons:
            reasons.append("it is never due by itself")
    held_up = queue_in_words(queue) if queue is not None else ""
    if held_up:
        reasons.append(f"queue {job.queue} is {held_up}")
    if serving == 0:
        reasons.append(f"no worker serves queue {job.queue}")
    elif lacking := missing(job.options.needs, abilities_in(job.queue, workers)):
        reasons.append(f"no live worker has {in_words(lacking)}")
    if not reasons:
        reasons.append(
            "it takes turns with other keys" if job.options.fair_key else "it waits for a free slot"
        )
        if queue is not None and queue.concurrency is not None:
            reasons.append(f"queue {job.queue} runs at most {plural(queue.concurrency, 'job')} at a time")
        if queue is not None and queue.governor and queue.rate is not None:
            reasons.append(f"the governor of queue {job.queue} allows {rate_text(queue.rate)}")
    return "; ".join(reasons)


def budget_in_words(budget: BudgetRecord | None) -> str:
    """Say what keeps a budget from granting tokens, besides that there are none; or nothing."""
    if budget is None:
        return "nobody has declared it"
    if budget.state == "open":
        return f"its breaker is open, tries again in {span(budget.paused_for)}"
    if budget.state == "half-open":
        return "its breaker is half-open: one run at a time"
    if budget.paused_for > 0:
        return f"drained, resumes in {span(budget.paused_for)}"
    return _cap_in_words(budget)


def _cap_in_words(budget: BudgetRecord) -> str:
    if budget.cap is None:
        return ""
    cap, left = f"its cap of {budget.cap:,} per {budget.cap_per}", budget.cap - budget.used
    if left <= 0:
        return f"{cap} is used up"
    if budget.waiting and left < budget.tokens:  # so it is not for tokens that they wait
        return f"{math.floor(left):,} left of {cap}"
    return ""


def worker_name(worker: WorkerRecord) -> str:
    """Return the name that people call a worker by: its label, else where it runs."""
    return worker.label or f"{worker.host}:{worker.pid}"


def worker_in_words(worker: WorkerRecord, now: float, stuck_since: float | None) -> str:
    """Say whether a worker lives; one that is late has missed a whole lease and awaits its rescue."""
    if not worker.alive:
        return "lost, holds jobs"
    if now - worker.heartbeat_at > worker.lease:
        return "late"
    return "alive" if stuck_since is None else f"alive, slots stuck for {span(now - stuck_since)}"
