"""How a job walks through its gates, and gets out of their lines [F3] [F6]. Which gates a job has, and why,
`core.flow.gates` says; lines for tokens are let out by `tokens`.

Whoever frees a place lets the next in at once, in the same operation.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.model.oracle.job import Job
from windlass.core.abilities import place_name
from windlass.core.flow.gates import Gate, gates_of, is_slots, keeps, reason, shut_gate
from windlass.core.flow.gates import waits_again as decide_waits_again
from windlass.core.states import State
from windlass.store.records import NewJob, TaskRecord

if TYPE_CHECKING:
    from tests.model.oracle.tables import Tables


@dataclass(eq=False)
class Gateway:
    """A gate as it stands: those who wait at it, and those who are beyond it."""

    line: list[Job] = field(default_factory=list)
    passes: set[Job] = field(default_factory=set)

    @property
    def taken(self) -> int:
        """How much of its room is taken: the jobs of a run take one place together."""
        return places(self.passes)


@dataclass
class Mark:
    """How far an ordering key has come: how many of its turns have ended [F6]."""

    at: float
    position: int = 0


def places(jobs: Iterable[Job]) -> int:
    """How many places jobs take at a gate."""
    return len({job.run or -job.id for job in jobs})


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
        if not is_set or gate.name not in job.passes or places(beyond) <= gate.limit:
            continue
        if places(other for other in beyond if other.state is State.RUNNING or other in batch) >= gate.limit:
            del job.passes[gate.name]
            beyond.remove(job)
            wait_at(tables, job, gate.name)
            return True
    return False


def wait_at(tables: Tables, job: Job, gate: str) -> None:
    """Set a job aside at the end of a line."""
    job.stand(tables.gate(gate).line)
    job.gate, job.reason, job.run, job.line_place = gate, reason(gate), 0, None


def let_in(tables: Tables, name: str, now: float) -> int:
    """Let in those at the head of a line while there is room for them, and say how many."""
    line = tables.gate(name).line
    let = 0
    while line:
        job = line[0]
        gate = next((gate for gate in gates(tables, job) if gate.name not in job.passes), None)
        if is_slots(name) and tables.is_shut(job.queue, job.options.needs):
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
        queue, _, needs = name.removeprefix("shut:").partition(" ")
        if not tables.is_shut(queue, needs):
            for job in list(tables.gate(name).line):
                job.stand(None)
                enter(tables, job, now)
        tables.sweep(name)


def _make_room(tables: Tables, name: str, now: float) -> bool:
    """Take slots back from jobs that stand in the lane of a queue where nobody runs them [F3]."""
    idle = [
        job
        for job in tables.gate(name).passes
        if job.gate is None and job.state is State.READY and tables.is_shut(job.queue, job.options.needs)
    ]
    for job in idle:
        _shut_out(tables, job, now)
    return bool(idle)


def _shut_out(tables: Tables, job: Job, now: float) -> None:
    """A job that nobody would run waits for its queue, without a slot."""
    wait_at(tables, job, shut_gate(place_name(job.queue, job.options.needs)))
    leave_slots(tables, job, now, let=False)


def leave(tables: Tables, job: Job, now: float, *, ended: bool) -> None:
    """Take a job's passes back when its attempt has ended: all of them where the job has, too [F6]."""
    freed = sorted(name for name in job.passes if ended or not keeps(name))
    for name in freed:
        if keeps(name) and is_first_of_run(tables, job):
            mark = tables.marks[job.queue, job.options.ordering_key or ""]
            mark.position, mark.at = mark.position + 1, now
        del job.passes[name]
        tables.gate(name).passes.remove(job)
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
    return tables.gate(gate.name).taken < gate.limit


def _give(tables: Tables, job: Job, name: str) -> None:
    if name in job.passes:
        return
    job.passes[name] = 1
    tables.gate(name).passes.add(job)


# -- runs of keys --------------------------------------------------------------------------------------------


def is_first_of_run(tables: Tables, job: Job) -> bool:
    """Whether nobody of its run who came before it is left; so it is of one that is on its own."""
    mine = job.line_place or 0
    beyond = tables.gate(job.run_gate).passes if job.run else ()
    return not any(other.run == job.run and (other.line_place or 0) < mine for other in beyond)


def waits_again(tables: Tables, job: Job, now: float, *, at_once: bool) -> bool:
    """Whether a job whose attempt is over was one of a run, and has gone back to its line at its turn."""
    name = job.run_gate
    if not job.run or name not in job.passes:
        return False
    if not decide_waits_again(name, is_first=is_first_of_run(tables, job), at_once=at_once):
        return False
    gateway, place = tables.gate(name), job.line_place
    del job.passes[name]
    gateway.passes.remove(job)
    wait_at(tables, job, name)
    job.line_place, job.since = place, now
    gateway.line.sort(key=lambda other: math.inf if other.line_place is None else other.line_place)
    if not keeps(name):
        let_in(tables, name, now)
    return True


def follow(tables: Tables, first: Job, longest: int, tokens: Collection[str]) -> list[Job]:
    """Those who follow a job that is handed over, up to so many, in a run with it: they have passes, and
    stand nowhere."""
    way = [gate.name for gate in gates(tables, first)]
    if longest < 1 or len(way) != 1 or list(first.passes) != way or not _is_simple(first):
        return []
    gateway = tables.gate(way[0])
    found: list[Job] = []
    for job in gateway.line[:longest]:
        mine = gates(tables, job)
        if (
            [gate.name for gate in mine] != way
            or mine[0].limit < gateway.taken
            or (job.lane, job.passes) != (first.lane, {})
            or job.task in tokens
            or not _is_simple(job)
        ):
            break
        found.append(job)
    for job in (first, *found) if found else ():
        job.run_gate = way[0]
        if job.line_place is None:
            job.line_place = next(tables.tickets)
    first.run = next(tables.runs) if found else 0
    for job in found:
        job.run = first.run
        job.stand(None)
        _give(tables, job, way[0])
    return found


def _is_simple(job: Job) -> bool:
    options = job.options
    keyed = options.fair_key is not None or options.expires is not None
    return not (job.deaths or options.part or options.chunked or keyed)
