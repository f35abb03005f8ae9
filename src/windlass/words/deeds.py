"""What operators did, as timelines tell it [M2]: the words for each deed, and the job, queue or task that it
belongs to. Nothing is done here, and nothing is told: see `events`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from windlass.store.measures import Event
from windlass.store.records import JobFilter
from windlass.words.text import one_line, plural

NOTED: Final = 50
"""Of so many jobs at most each gets an event of its own."""
_TOLD: Final = 500
_NAME: Final = 80


class Deed(msgspec.Struct, frozen=True):
    """One thing that somebody did."""

    told: str
    job: int | None = None
    queue: str = ""
    task: str = ""


def events(deeds: Iterable[Deed], at: float, by: str) -> list[Event]:
    """Deeds as events of this moment, done by whoever has this name."""
    who = one_line(by, _NAME)
    return [
        Event(
            at=at,
            kind="operator",
            told=one_line(deed.told, _TOLD),
            job=deed.job,
            queue=deed.queue,
            task=deed.task,
            worker=who,
        )
        for deed in deeds
    ]


# -- jobs and parents -----------------------------------------------------------------------------------


def steered(verb: str, answers: Mapping[int, str]) -> list[Deed]:
    """Jobs named by id were retried, cancelled or deleted; those that were not found are left out."""
    found = {job: answer for job, answer in answers.items() if answer != "not_found"}
    if len(found) > NOTED:
        return [Deed(f"{verb}: {len(found):,} jobs")]
    return [Deed(f"{verb}: {answer}", job) for job, answer in found.items()]


def steered_many(verb: str, state: str, answers: Mapping[str, int], where: JobFilter) -> Deed:
    """Jobs that a filter finds were retried, cancelled or deleted. `state`: done, stopped, failed."""
    told = counted(answers) or "nothing to do"
    return Deed(f"bulk {verb} {state}: {told}", queue=where.queue or "", task=where.task or "")


def counted(answers: Mapping[str, int]) -> str:
    """How many jobs gave which answer."""
    return ", ".join(f"{count:,} {answer.replace('_', ' ')}" for answer, count in answers.items())


def replayed(job: int, copy: int) -> Deed:
    """A copy of a job was enqueued."""
    return Deed(f"replay: as job {copy}", job)


def widened(parent: int, parallel: int) -> Deed:
    """The number of parts that run at a time was changed."""
    return Deed(f"set: up to {plural(parallel, 'part')} at a time", parent)


def redriven(parent: int, parts: int) -> Deed:
    """Parts of a parent run again."""
    return Deed(f"redrive: {plural(parts, 'part')}", parent)


# -- queues, tasks, schedules, budgets ------------------------------------------------------------------


def paused(queue: str, paused: bool) -> Deed:
    """A queue was paused or resumed."""
    return Deed("paused" if paused else "resumed", queue=queue)


def warmed(queue: str) -> Deed:
    """The cool-down of a queue was ended."""
    return Deed("warmed: its cool-down has ended", queue=queue)


def set_queue(queue: str, changes: Mapping[str, Any]) -> Deed:
    """Settings of a queue were changed."""
    return Deed(f"set: {_changes(changes)}", queue=queue)


def set_task(task: str, changes: Mapping[str, Any]) -> Deed:
    """Settings of a task were changed."""
    return Deed(f"set: {_changes(changes)}", task=task)


def schedule(name: str, told: str, job: int | None = None) -> Deed:
    """Something was done to a schedule: run now, paused, resumed, removed."""
    return Deed(f"schedule {name}: {told}", job)


def budget(name: str, told: str) -> Deed:
    """Something was done to a budget: drained, removed."""
    return Deed(f"budget {name}: {told}")


def set_budget(name: str, changes: Mapping[str, Any]) -> Deed:
    """A budget was changed."""
    return budget(name, f"set: {_changes(changes)}")


def duty(name: str, told: str) -> Deed:
    """A duty of the coordinator was done by hand."""
    return Deed(f"maintain {name}: {told}")


def _changes(changes: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in changes.items()) or "nothing"
