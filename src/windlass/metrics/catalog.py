"""Every metric: its name, type, labels and help text, and where in a reading its values are.

`docs/reference/metrics.md` is generated from it. Labels are names of queues, tasks, budgets and tables, or
words from a fixed list: nothing that grows with the number of jobs or workers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec

from windlass import __version__
from windlass.core.flow.breaker import BreakerState
from windlass.core.harmless import harmless
from windlass.metrics.reading import MAX_TASKS, Reading
from windlass.store.records import Depth, QueueRecord

Kind: TypeAlias = Literal["gauge", "counter", "histogram"]
Labels: TypeAlias = tuple[str, ...]
Numbers: TypeAlias = Iterable[tuple[Labels, float]]
Histograms: TypeAlias = Iterable[tuple[Labels, Mapping[int, int]]]

OUTCOMES: Final = (
    "succeeded", "retry", "dead", "cancelled", "expired", "snooze", "throttled", "unknown", "released",
)  # fmt: skip
_NUMBER: Final = re.compile(r"\d+")
_LONGEST_REASON: Final = 200


class Measure(msgspec.Struct, frozen=True, kw_only=True):
    """One metric. A histogram's values are those of `core.histogram`."""

    name: str
    kind: Kind
    labels: Labels = ()
    help: str
    numbers: Callable[[Reading], Numbers] | None = None
    histograms: Callable[[Reading], Histograms] | None = None


def _measure(kind: Kind, spec: str, help: str, **values: Any) -> Measure:
    """A metric by its name and labels as Prometheus writes them: `jobs{queue,task}`."""
    name, _, labels = spec.removesuffix("}").partition("{")
    return Measure(
        name=f"windlass_{name}", kind=kind, labels=tuple(filter(None, labels.split(","))), help=help, **values
    )


def _gauge(spec: str, help: str, numbers: Callable[[Reading], Numbers]) -> Measure:
    return _measure("gauge", spec, help, numbers=numbers)


def _counter(spec: str, help: str, numbers: Callable[[Reading], Numbers]) -> Measure:
    return _measure("counter", spec, help, numbers=numbers)


def _histogram(spec: str, help: str, histograms: Callable[[Reading], Histograms]) -> Measure:
    return _measure("histogram", spec, help, histograms=histograms)


# -- of each queue ------------------------------------------------------------------------------------------


def _standing(name: str, help: str, of: Callable[[Depth], float]) -> Measure:
    def numbers(reading: Reading) -> Numbers:
        for queue in reading.state.names():
            yield (queue,), of(reading.state.depth_of(queue))

    return _gauge(f"{name}{{queue}}", help, numbers)


def _setting(of: Callable[[QueueRecord], float | None]) -> Callable[[Reading], Numbers]:
    def numbers(reading: Reading) -> Numbers:
        for queue in sorted(reading.state.view.queues):
            value = of(reading.state.view.queues[queue])
            if value is not None:
                yield (queue,), value

    return numbers


def _demand(reading: Reading) -> Numbers:
    state = reading.state
    return (
        ((queue,), float(state.runnable(queue) + state.depth_of(queue).running)) for queue in state.names()
    )


def _offered(reading: Reading) -> Numbers:
    return (((queue,), float(depth.offered)) for queue, depth in sorted(reading.state.depth.items()))


def _slots(reading: Reading) -> Numbers:
    slots = reading.state.slots()
    return (((queue,), float(slots[queue])) for queue in reading.state.names())


def _serving(reading: Reading) -> Numbers:
    serving = reading.state.view.serving
    return (((queue,), float(serving.get(queue, 0))) for queue in reading.state.names())


def _ages(reading: Reading) -> Numbers:
    return (((queue,), age) for queue, age in sorted(reading.slow.ages.items()))


# -- of each task -------------------------------------------------------------------------------------------


def _outcomes(reading: Reading) -> Numbers:
    for each in reading.tasks:
        for outcome in OUTCOMES:
            if outcome in each.counts:
                yield (each.queue, each.task, outcome), float(each.counts[outcome])


def _waits(reading: Reading) -> Histograms:
    return (((each.queue, each.task), each.waits) for each in reading.tasks if each.waits)


def _runs(reading: Reading) -> Histograms:
    return (((each.queue, each.task), each.runs) for each in reading.tasks if each.runs)


def _ready(reading: Reading) -> Numbers:
    deepest = sorted(reading.slow.tasks, key=lambda each: (-each.ready, each.queue, each.task))
    for each in deepest[:MAX_TASKS]:
        yield (each.queue, each.task, "yes" if each.estimate else "no"), float(each.ready)


# -- of everything ------------------------------------------------------------------------------------------


def _counted(name: str, help: str, count: str) -> Measure:
    return _counter(f"{name}_total", help, lambda reading: [((), reading.everything.counts.get(count, 0))])


def _single(name: str, help: str, of: Callable[[Reading], float | None]) -> Measure:
    def numbers(reading: Reading) -> Numbers:
        value = of(reading)
        if value is not None:
            yield (), value

    return _gauge(name, help, numbers)


def _workers(reading: Reading) -> Numbers:
    alive = sum(worker.alive for worker in reading.state.workers)
    return [(("yes",), float(alive)), (("no",), float(len(reading.state.workers) - alive))]


def _heartbeat_age(reading: Reading) -> float:
    ages = [reading.now - worker.heartbeat_at for worker in reading.state.workers if worker.alive]
    return max(0.0, *ages) if ages else 0.0


def _overdue(reading: Reading) -> float:
    due = [each.next_at for each in reading.schedules if not each.paused and each.next_at is not None]
    return max(0.0, reading.now - min(due)) if due else 0.0


def _leads(reading: Reading) -> float:
    until = reading.health.coordinator_until
    return float(until is not None and until > reading.now)


def _states(reading: Reading) -> Numbers:
    for budget in reading.budgets:
        for state in get_args(BreakerState):
            yield (budget.name, state), float(budget.state == state)


def _blocked(reading: Reading) -> Numbers:
    """The reason without its numbers, such as those of processes: each new one would be a new series."""
    reason = reading.health.blocked
    return [((_NUMBER.sub("N", harmless(reason or ""))[:_LONGEST_REASON],), float(reason is not None))]


def _blocked_for(reading: Reading) -> float:
    since = reading.health.blocked_since
    return 0.0 if since is None else max(0.0, reading.now - since)


def _dead_tuples(reading: Reading) -> Numbers:
    return (((each.name,), float(each.dead)) for each in reading.health.tables if each.dead is not None)


MEASURES: Final = (
    _standing(
        "queue_depth",
        "Waiting work: ready jobs, those held by limits included, and parts not offered yet.",
        lambda depth: depth.ready,
    ),
    _gauge(
        "queue_runnable{queue}",
        "Waiting work that more slots would run now: no pause, limit, budget or parallel holds it back.",
        lambda reading: (((queue,), float(reading.state.runnable(queue))) for queue in reading.state.names()),
    ),
    _gauge(
        "queue_demand{queue}",
        "Slots that would be busy if there were enough: running jobs and runnable ones. Scale by this.",
        _demand,
    ),
    _standing(
        "queue_oldest_ready_seconds",
        "How long the oldest ready job has waited; 0 if none is ready.",
        lambda depth: depth.oldest or 0.0,
    ),
    _standing("queue_running", "Running jobs.", lambda depth: depth.running),
    _standing(
        "queue_scheduled", "Jobs that wait for their time, or for other jobs.", lambda depth: depth.scheduled
    ),
    _standing("queue_retrying", "Jobs that wait for their next attempt.", lambda depth: depth.retrying),
    _standing("queue_dead", "Dead jobs that are kept.", lambda depth: depth.dead),
    _gauge("queue_paused{queue}", "1 if the queue is paused.", _setting(lambda queue: queue.paused)),
    _gauge("queue_slots{queue}", "Slots assigned to live workers.", _slots),
    _gauge("queue_workers{queue}", "Live workers that serve the queue.", _serving),
    _gauge(
        "queue_cooling_seconds{queue}",
        "Seconds until the queue resumes after a throttle; 0 if it is not cooling down.",
        _setting(lambda queue: queue.cooling),
    ),
    _gauge(
        "queue_rate{queue}",
        "Jobs per second that the governor allows; only for queues with a governor.",
        _setting(lambda queue: queue.rate if queue.governor else None),
    ),
    _gauge(
        "watermark_age_seconds{queue}",
        "Age of the oldest unfinished job with an ordering key; 0 if all have ended.",
        _ages,
    ),
    _counter(
        "jobs_offered_total{queue}",
        "Jobs put into the queue's lanes: new ones, retries, and jobs handed back.",
        _offered,
    ),
    _counter(
        "jobs_refused_total{queue}",
        "Jobs refused because the queue was full.",
        _setting(lambda queue: queue.refused),
    ),
    _counter("jobs_shed_total{queue}", "Jobs refused by load shedding.", _setting(lambda queue: queue.shed)),
    _counter(
        "jobs_total{queue,task,outcome}",
        "Jobs that ended, by how (expired: not begun in time), and attempts after which their job goes on.",
        _outcomes,
    ),
    _histogram(
        "job_wait_seconds{queue,task}", "How long jobs had been ready when they were started.", _waits
    ),
    _histogram("job_run_seconds{queue,task}", "How long runs took, however they ended.", _runs),
    _gauge(
        "task_ready{queue,task,estimate}",
        "Ready jobs of a task; estimate=yes if only the first jobs of a long lane were counted.",
        _ready,
    ),
    _single(
        "tasks_left_out",
        "Pairs of queue and task that other metrics leave out because there are too many.",
        lambda reading: reading.left_out,
    ),
    _counted("claims", "Claims that found jobs.", "claims"),
    _counted("claimed_jobs", "Jobs in those claims.", "claimed"),
    _counted("empty_claims", "Claims that found no jobs.", "empty"),
    _counted("refused_writes", "Writes refused by the fence: their worker had lost the claim.", "refused"),
    _counted("rescued_jobs", "Jobs taken back from dead workers.", "rescued"),
    _counted("lost_workers", "Workers that died without retiring.", "lost"),
    _counted(
        "unresponsive_workers",
        "Live workers that stopped claiming or moving; child processes are replaced.",
        "unresponsive",
    ),
    _counted("events_dropped", "Timeline events that found no room.", "dropped"),
    _gauge("workers{alive}", "Workers; alive=no counts those whose jobs wait for a rescue.", _workers),
    _single(
        "worker_heartbeat_age_seconds",
        "Seconds since the last heartbeat of the worker that has been silent longest.",
        _heartbeat_age,
    ),
    _single("coordinator", "1 while the cluster has a coordinator.", _leads),
    _single(
        "schedule_overdue_seconds",
        "How long the most overdue schedule has been due; 0 if none is overdue.",
        _overdue,
    ),
    _gauge(
        "budget_tokens{budget}",
        "Tokens in the budget's shared bucket.",
        lambda reading: (((each.name,), each.tokens) for each in reading.budgets),
    ),
    _gauge(
        "budget_used{budget}",
        "Tokens that the budget's shared bucket has granted in the present period of its cap.",
        lambda reading: (((each.name,), each.used) for each in reading.budgets),
    ),
    _gauge(
        "budget_waiting{budget}",
        "Jobs that wait for tokens of the budget, counted up to 10,000.",
        lambda reading: (((each.name,), float(each.waiting)) for each in reading.budgets),
    ),
    _gauge("budget_state{budget,state}", "1 for the current state of the budget's breaker.", _states),
    _single("store_bytes", "Size of the store.", lambda reading: reading.health.bytes),
    _single(
        "store_latency_seconds",
        "How long the store took to answer a minimal query.",
        lambda reading: reading.latency,
    ),
    _single(
        "oldest_snapshot_seconds",
        "How long the oldest snapshot has been held; only on PostgreSQL.",
        lambda reading: reading.health.oldest_snapshot,
    ),
    _single(
        "locks_held_seconds",
        "How long an open transaction has held lanes or rows that others want; only on PostgreSQL.",
        lambda reading: reading.health.locks_held,
    ),
    _gauge(
        "segment_blocked{reason}",
        "1 while a segment cannot be reclaimed; numbers in the reason are replaced by N.",
        _blocked,
    ),
    _single("segment_blocked_seconds", "How long a segment could not be reclaimed.", _blocked_for),
    _gauge("dead_tuples{table}", "Dead tuples of a table; only on PostgreSQL.", _dead_tuples),
    _single(
        "reports_waiting",
        "Worker reports that are not rolled up yet, counted up to 10,000.",
        lambda reading: reading.health.reports,
    ),
    _counter(
        "logins_refused_total{reason}",
        "Logins that this Mission Control process refused: wrong credentials, and throttled attempts.",
        lambda reading: (((reason,), float(n)) for reason, n in reading.logins.items()),
    ),
    _gauge(
        "build_info{version,store}", "Always 1.", lambda reading: [((__version__, reading.health.store), 1.0)]
    ),
)
