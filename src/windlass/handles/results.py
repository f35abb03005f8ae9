"""Results handed on: arguments of a job that are the results of others [W4].

`results_of([a, b])` and `result_of(a)` stand for values that are not there yet. A type checker takes them for
the values themselves; what is passed is a note of whose results they are. The job that gets it comes after
those jobs. Its worker reads the results when the run starts: nothing is copied when it is enqueued.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar, cast

import msgspec

from windlass.errors import InvalidArguments
from windlass.handles.job import Job
from windlass.store.records import NewJob

R = TypeVar("R")
MAX_AFTER: Final = 1000


class Handed:
    """Stands for an argument that is the result of one job, or the list of the results of several."""

    __slots__ = ("ids",)

    def __init__(self, ids: int | tuple[int, ...]) -> None:
        self.ids: Final = ids

    def __repr__(self) -> str:
        return f"result_of({self.ids})" if isinstance(self.ids, int) else f"results_of({list(self.ids)})"

    @property
    def jobs(self) -> tuple[int, ...]:
        """Whose results they are, in order."""
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
    return cast("list[R]", Handed(tuple(_id(job, "results_of") for job in jobs)))


def result_of(job: Job[R]) -> R:
    """An argument that will be the result of this job; see `results_of`."""
    return cast("R", Handed(_id(job, "result_of")))


def _id(job: Job[Any], caller: str) -> int:
    if not isinstance(job, Job):
        raise InvalidArguments(
            f"{caller}: {job!r} is not a job; pass what enqueue returned, or app.job(id) where you have an id"
        )
    return job.id


def handed_in(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether any argument is a result that is to come. Asked of each call: `any` would make a generator each
    time, which takes as long as to encode the arguments."""
    return Handed in map(type, args) or (bool(kwargs) and Handed in map(type, kwargs.values()))


def comes_after(job: NewJob, handed: Mapping[str, Handed]) -> NewJob:
    """The job with the notes of whose results it gets, behind those jobs."""
    awaited = dict.fromkeys([*job.options.after, *(id for each in handed.values() for id in each.jobs)])
    if len(awaited) > MAX_AFTER:
        raise InvalidArguments(
            f"task {job.task}: the results of {len(awaited)} jobs are too many; at most {MAX_AFTER} are "
            "handed on, so add them up in steps"
        )
    options = msgspec.structs.replace(
        job.options, after=tuple(awaited), results={key: each.ids for key, each in handed.items()}
    )
    return msgspec.structs.replace(job, options=options)
