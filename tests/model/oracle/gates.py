"""How a job walks through its gates, and gets out of their lines [F3] [F6]. Which gates a job has, and why,
`core.gates` says; lines for tokens are let out by `tokens`.

Whoever frees a place lets the next in at once, in the same operation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.model.oracle.job import Job
from windlass.core.gates import Gate, gates_of, is_slots, keeps, reason, shut_gate
from windlass.core.states import State
from windlass.store.records import NewJob, TaskRecord

if TYPE_CHECKING:
    from tests.model.oracle.tables import Tables


@dataclass(eq=False)
class Gateway:
    """A gate as it stands: those who wait at it, and those who are beyond it."""

    line: list[Job] = field(default_factory=list)
    passes: set[Job] = field(default_factory=set)


@dataclass
class Mark:
    """How far an ordering key has come: how many turns were given, and how many of them have ended [F6]."""

    at: float
    given: int = 0
    position: int = 0


def gates(tables: Tables, job: Job | NewJob) -> list[Gate]:
    """The gates of a job, by the settings that its task has now."""
    task = tables.tasks.get(job.task, TaskRecord(name=job.task))
    return gates_of(job.queue, job.task, job.options, task.concurrency, task.key_concurrency)


def enter(tables: Tables, job: Job, now: float, *, turn: bool = True) -> None:
    """Let a job that is ready go as far as it can: to the end of a line, to the ring of fair keys (unless it
    has had its turn, as who has waited for tokens has), or into its lane."""
    if job.options.ordering_key is not None:
        tables.marks.setdefault((job.queue, job.options.ordering_key), Mark(now))
    if not passes_all(tables, job):
        return
    if turn and job.options.fair_key is not None and not any(map(is_budget, job.passes)):
        tables.hold(job)
    else:
        job.let_out_at = now
        tables.admit(job)


def passes_all(tables: Tables, job: Job) -> bool:
    """Whether a job has the passes of all its gates, or gets them now; else it goes to the end of the first
    line that it meets. A claim asks again: a limit may have been set since."""
    for gate in gates(tables, job):
        if gate.name in job.passes:
            continue
        if tables.gate(gate.name).line or not _has_room(tables, gate):
            wait_at(tables, job, gate.name)
            return False
        _give(tables, job, gate.name)
    return True


def is_called_back(tables: Tables, job: Job, batch: list[Job]) -> bool:
    """Whether a job that is about to be claimed has to wait again, since its task's setting of a gate that it
    has passed was lowered, and as many run, or are about to, as it says now."""
    task = tables.tasks.get(job.task, TaskRecord(name=job.task))
    settings = {"task": task.concurrency, "key": task.key_concurrency}
    for gate in gates(tables, job):
        beyond = tables.gate(gate.name).passes
        is_set = settings.get(gate.name.partition(":")[0]) is not None
        if not is_set or gate.name not in job.passes or len(beyond) <= gate.limit:
            continue
        if sum(other.state is State.RUNNING or other in batch for other in beyond) >= gate.limit:
            del job.passes[gate.name]
            beyond.remove(job)
            wait_at(tables, job, gate.name)
            return True
    return False


def wait_at(tables: Tables, job: Job, gate: str) -> None:
    """Set a job aside at the end of a line."""
    job.stand(tables.gate(gate).line)
    job.gate, job.reason = gate, reason(gate)


def let_in(tables: Tables, name: str, now: float) -> int:
    """Let in those at the head of a line while there is room for them, and say how many."""
    line = tables.gate(name).line
    let = 0
    while line:
        job = line[0]
        gate = next((gate for gate in gates(tables, job) if gate.name not in job.passes), None)
        if is_slots(name) and tables.is_shut(job.queue):
            _shut_out(tables, job, now)  # nobody would run it
            continue
        if gate is not None and gate.name == name:
            if not _has_room(tables, gate) and not _make_room(tables, name, now):
                break
            _give(tables, job, name)
        # Else its task's limit is gone: nothing keeps it here.
        job.stand(None)
        enter(tables, job, now)
        let += 1
    tables.sweep(name)
    return let


def open_up(tables: Tables, now: float) -> None:
    """Let those go on who wait for their queue, where somebody runs its jobs again."""
    for name in [name for name in tables.gateways if name.startswith("shut:")]:
        if not tables.is_shut(name.removeprefix("shut:")):
            for job in list(tables.gate(name).line):
                job.stand(None)
                enter(tables, job, now)
        tables.sweep(name)


def _make_room(tables: Tables, name: str, now: float) -> bool:
    """Take slots back from jobs that stand in the lane of a queue where nobody runs them [F3]."""
    idle = [
        job
        for job in tables.gate(name).passes
        if job.gate is None and job.state is State.READY and tables.is_shut(job.queue)
    ]
    for job in idle:
        _shut_out(tables, job, now)
    return bool(idle)


def _shut_out(tables: Tables, job: Job, now: float) -> None:
    """A job that nobody would run waits for its queue, without a slot."""
    wait_at(tables, job, shut_gate(job.queue))
    leave_slots(tables, job, now, let=False)


def leave(tables: Tables, job: Job, now: float, *, ended: bool) -> None:
    """Take a job's passes back when its attempt has ended: all of them where the job has, too [F6]."""
    freed = sorted(name for name in job.passes if ended or not keeps(name))
    for name in freed:
        del job.passes[name]
        tables.gate(name).passes.remove(job)
        if keeps(name):
            mark = tables.marks[job.queue, job.options.ordering_key or ""]
            mark.position, mark.at = job.turn, now
    for name in freed:
        if not is_budget(name):  # room there comes with time, and is for `promote` to give
            let_in(tables, name, now)
        tables.sweep(name)


def leave_slots(tables: Tables, job: Job, now: float, *, let: bool = True) -> None:
    """A job has to wait for tokens: meanwhile others may have the slots of its key and its task [F3]."""
    freed = sorted(name for name in job.passes if not keeps(name) and not is_budget(name))
    for name in freed:
        del job.passes[name]
        tables.gate(name).passes.remove(job)
    for name in freed if let else ():
        let_in(tables, name, now)


def depart(tables: Tables, job: Job, now: float) -> None:
    """A job has ended for good: it stands nowhere, and holds no place."""
    line = job.gate
    job.stand(None)
    leave(tables, job, now, ended=True)
    if line is not None and lets_in(line):
        let_in(tables, line, now)  # it may have asked for more room than those behind it


def refit(tables: Tables, task: str, now: float) -> None:
    """The limits of a task have changed: its jobs that run count from now on, and lines may move."""
    for job in tables.jobs.values():
        if job.task == task and job.state is State.RUNNING:
            for gate in gates(tables, job):
                _give(tables, job, gate.name)
    for name in list(tables.gateways):
        if lets_in(name):
            let_in(tables, name, now)


def lets_in(gate: str) -> bool:
    """Whether those who wait at a gate wait for the pass of another."""
    return keeps(gate) or is_slots(gate)


def is_budget(gate: str) -> bool:
    """Whether those who wait at a gate wait for tokens."""
    return gate.startswith(("budget:", "over:"))


def _has_room(tables: Tables, gate: Gate) -> bool:
    return len(tables.gate(gate.name).passes) < gate.limit


def _give(tables: Tables, job: Job, name: str) -> None:
    if name in job.passes:
        return
    job.passes[name] = 1
    tables.gate(name).passes.add(job)
    if keeps(name):
        mark = tables.marks[job.queue, job.options.ordering_key or ""]
        mark.given += 1
        job.turn = mark.given
