"""Many jobs by filter: count them, then retry, cancel or delete them all, in batches [O6].

The jobs are those that match at one moment, newest first [S5]. They are acted on by their ids, whatever has
become of them by then: one that has begun to run is asked to stop. Jobs enqueued meanwhile are not touched.
Where there are more than can be looked up in a moment (`AT_ONCE`, `MOMENT`), the walk goes on with the older
ones when these are done, in another moment. It only ever goes towards older jobs, so it ends whether the jobs
it changed leave the filter or stay in it; a job that is met again is recognised by its id; see `Acted`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from windlass.core.names import check_name
from windlass.core.states import State
from windlass.core.texts import storable
from windlass.errors import InvalidOption
from windlass.operations.operation import Ops
from windlass.store.protocol import Store
from windlass.store.records import JobFilter

BATCH: Final = 500
CAP: Final = 10_000

AT_ONCE: Final = 1_000_000
"""Jobs that are looked up at one moment, at most: 40 MB of ids."""
MOMENT: Final = 10.0
"""Seconds that this may take: while it lasts, the database keeps what it would else remove."""

REMEMBERED: Final = 250_000
"""The last jobs that are recognised, at least; twice as many at most: 33 MB."""

Verb: TypeAlias = Literal["retry", "cancel", "delete"]
Answers: TypeAlias = dict[str, int]
"""How many jobs gave which answer: {"retried": 498, "unchanged": 2}."""
Progress: TypeAlias = Callable[[int], None]
"""Told after each batch how many jobs have been dealt with so far."""
_GONE: Final = frozenset({"deleted", "not_found"})
"""The answers of jobs that no walk will meet again."""


class Count(msgspec.Struct, frozen=True):
    """How many jobs a filter found. Where `more` is set the count stopped at its cap."""

    jobs: int = 0
    more: bool = False

    def __str__(self) -> str:
        return f"{self.jobs:,}{' or more' if self.more else ''}"


class Acted:
    """Ids of jobs that were acted on, the last few hundred thousand of them.

    A job may be seen twice a whole walk apart: one that is met as ready where it entered its lane, then runs
    and fails, waits for its retry where it was enqueued, which may be days back. So no number of pages would
    do, and all would be kept, were it not for walks over tens of millions. One that is met again after
    `REMEMBERED` others is acted on again, which does it no harm, and counted twice.
    """

    def __init__(self, most: int = REMEMBERED) -> None:
        self._most = most
        self._young: set[int] = set()
        self._old: set[int] = set()

    def __contains__(self, job: int) -> bool:
        return job in self._young or job in self._old

    def update(self, jobs: Iterable[int]) -> None:
        """These were acted on."""
        self._young.update(jobs)
        if len(self._young) >= self._most:
            self._young, self._old = set(), self._young


async def count(store: Store, where: JobFilter, cap: int = CAP, within: float | None = None) -> Count:
    """Count the jobs a filter finds, up to `cap` and for so many seconds: a preview of what `apply` would
    deal with."""
    jobs = 0
    until = None if within is None else time.monotonic() + within
    async for ids, more in _moments(store, where, cap + 1, within):
        jobs += len(ids)
        if jobs > cap:
            return Count(cap, more=True)
        if more and until is not None and time.monotonic() >= until:
            return Count(jobs, more=True)
    return Count(jobs)


async def apply(
    ops: Ops,
    where: JobFilter,
    verb: Verb,
    *,
    batch: int = BATCH,
    limit: int | None = None,
    progress: Progress | None = None,
    answers: Counter[str] | None = None,
) -> Answers:
    """Retry, cancel or delete every job the filter finds, newest first, at most `limit` of them. `answers` is
    counted into after each batch, for whoever watches.

    Each batch is one call to the store and atomic; the walk as a whole is not. Stopped half-way, it can be
    started again and goes on with what is left.
    """
    if batch < 1 or (limit is not None and limit < 1):
        raise InvalidOption(f"batch {batch!r} and limit {limit!r} must be whole numbers from 1")
    acted, done = Acted(), 0
    answers = Counter() if answers is None else answers
    most = AT_ONCE if limit is None else min(AT_ONCE, limit)
    async for ids, _ in _moments(ops.store, where, most, MOMENT):
        jobs = [job for job in ids if job not in acted][: None if limit is None else limit - done]
        for start in range(0, len(jobs), batch):
            some = jobs[start : start + batch]
            answered = await act(ops, verb, some)
            acted.update(job for job in some if answered.get(job) not in _GONE)
            done += len(some)
            answers.update(answered.values())
            if progress is not None:
                progress(done)
        if limit is not None and done >= limit:
            break
    return dict(answers)


async def _moments(
    store: Store, where: JobFilter, most: int, within: float | None
) -> AsyncIterator[tuple[list[int], bool]]:
    """The ids of all that a filter finds, in as few moments as will do, each with whether there are more."""
    cursor: str | None = None
    while True:
        found = await store.matches(where, most, cursor, MOMENT if within is None else min(within, MOMENT))
        cursor = found.cursor
        yield found.ids, cursor is not None
        if cursor is None:
            return


async def act(ops: Ops, verb: Verb, jobs: Sequence[int]) -> Mapping[int, str]:
    """Retry, cancel or delete these jobs, in one call; the answers by id. One that runs in this very process
    hears of its cancel at once, others by a wake-up [O5]."""
    answers: Mapping[int, str]
    match verb:
        case "retry":
            answers = await ops.store.retry(jobs)
        case "cancel":
            answers = await ops.store.cancel(jobs)
        case "delete":
            answers = await ops.store.delete(jobs)
    ops.stop(job for job, answer in answers.items() if answer == "requested")
    return answers


def job_filter(
    *,
    queue: str | None = None,
    task: str | None = None,
    state: State | str | None = None,
    tag: str | None = None,
    text: str | None = None,
    error: str | None = None,
) -> JobFilter:
    """A filter from what a caller wrote, checked."""
    try:
        wanted = None if state is None else State(state)
    except ValueError:
        raise InvalidOption(f"state: {state!r} is not one of {', '.join(State)}") from None
    texts: dict[str, object] = {"tag": tag, "text": text, "error": error}
    for name, given in texts.items():
        if given is not None and not (isinstance(given, str) and storable(given)):
            raise InvalidOption(f"{name}: {given!r} holds what no job can hold; use text without NUL bytes")
    return JobFilter(
        queue=None if queue is None else check_name("queue", queue),
        task=None if task is None else check_name("task", task),
        state=wanted,
        tag=tag,
        text=text,
        error=error,
    )
