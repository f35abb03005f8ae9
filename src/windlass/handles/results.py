"""Results handed on: arguments of a job that are the results of others [W4].

`results_of([a, b])`, `result_of(a)` and `result_of(group)` stand for values that are not there yet. A type
checker takes them for the values themselves; what is passed is a note of whose results they are. The job that
gets it comes after those jobs. Its worker reads the results when the run starts: nothing is copied when it is
enqueued.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar, cast, overload

import msgspec

from windlass.errors import InvalidArguments
from windlass.handles.group import Group
from windlass.handles.job import WAITS_FOR_COMMIT, Job
from windlass.store.records import GroupResults, NewJob

R = TypeVar("R")
MAX_AFTER: Final = 1000


class Handed:
    """Stands for an argument that is the result of one job, or the list of the results of several, or of all
    of a group."""

    __slots__ = ("ids",)

    def __init__(self, ids: int | tuple[int, ...] | GroupResults) -> None:
        self.ids: Final = ids

    def __repr__(self) -> str:
        if isinstance(self.ids, tuple):
            return f"results_of({list(self.ids)})"
        return f"result_of({self.ids if isinstance(self.ids, int) else f'group {self.ids.group}'})"

    @property
    def jobs(self) -> tuple[int, ...]:
        """The jobs that must have ended."""
        if isinstance(self.ids, GroupResults):
            return (self.ids.group,)
        return (self.ids,) if isinstance(self.ids, int) else self.ids

    def model_dump(self, *, mode: str) -> Any:
        """Called by the encoder of arguments, where it is inside another value. Raises TypeError."""
        del mode
        raise TypeError(f"{self!r} is inside another value; pass it as an argument of its own")


def results_of(jobs: Iterable[Job[R]]) -> list[R]:
    """An argument that will be the list of the results of these jobs, in this order [W4].

    `total.enqueue(results_of([a, b, c]))` makes a job that comes after a, b and c and gets what they
    returned. Pass it as an argument of its own, not inside another value. A job that returned nothing, or
    that has not succeeded where `otherwise="run"`, gives None.
    """
    if not isinstance(jobs, Iterable):
        raise InvalidArguments(
            f"results_of: {jobs!r} is not a list of jobs; the result of one is result_of(job)"
        )
    listed = list(jobs)
    if groups := [job for job in listed if isinstance(job, Group)]:
        raise InvalidArguments(
            f"results_of: {groups[0]!r} is a group; the results of its jobs are result_of(group), as an "
            "argument of their own"
        )
    return cast("list[R]", Handed(tuple(_id(job, "results_of") for job in listed)))


@overload
def result_of(job: Group) -> list[Any]: ...
@overload
def result_of(job: Job[R]) -> R: ...
def result_of(job: Job[Any]) -> Any:
    """An argument that will be the result of this job; see `results_of`. Of a group it is the list of the
    results of its jobs, in the order in which they were added, however many there are."""
    id = _id(job, "result_of")
    return Handed(GroupResults(id) if isinstance(job, Group) else id)


def _id(job: Job[Any], caller: str) -> int:
    if not isinstance(job, Job):
        raise InvalidArguments(
            f"{caller}: {job!r} is not a job; pass what enqueue returned, or app.job(id) where you have an id"
        )
    if job.receipt == "on_commit":
        raise InvalidArguments(f"{caller}: {WAITS_FOR_COMMIT}")
    return job.id


def handed_in(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Return whether any argument is a result that is to come. Asked of each call: `any` would make a
    generator each time, which takes as long as to encode the arguments."""
    return Handed in map(type, args) or (bool(kwargs) and Handed in map(type, kwargs.values()))


def comes_after(job: NewJob, handed: Mapping[str, Handed]) -> NewJob:
    """The job with the notes of whose results it gets, behind those jobs."""
    awaited = dict.fromkeys([*job.options.after, *(id for each in handed.values() for id in each.jobs)])
    if len(awaited) > MAX_AFTER:
        raise InvalidArguments(
            f"task {job.task}: the results of {len(awaited):,} jobs are too many to be named; put the jobs "
            f"into a group and pass result_of(group), or name at most {MAX_AFTER:,}"
        )
    options = msgspec.structs.replace(
        job.options, after=tuple(awaited), results={key: each.ids for key, each in handed.items()}
    )
    return msgspec.structs.replace(job, options=options)
