"""Groups of jobs: what is in one, and how to close or cancel it [W4]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, TypeAlias

import msgspec

from windlass.core.counts import plural
from windlass.core.ids import MAX_ID
from windlass.core.read_errors import READ_ERRORS
from windlass.core.states import FINISHED, State
from windlass.errors import JobNotFound
from windlass.operations import walks
from windlass.operations.operation import Ops, Subject
from windlass.store.protocol import Store
from windlass.store.records import JobRecord

MAX_LOOKED_UP: Final = 100
"""Jobs of a group that its page looks up one by one; of more it gives the numbers."""
SHOWN: Final = 20
PAGE: Final = 1000
_LAST: Final = (State.DEAD, State.CANCELLED, State.RETRYING, State.RUNNING)
"""The states that an operator looks for, in this order, before others that have not succeeded."""
groups: Final = Subject("groups")


class GroupShape(msgspec.Struct, frozen=True, kw_only=True):
    """A group of jobs, by the job that ends it."""

    id: str
    name: str | None
    """The name it was opened by; None where that is sealed."""
    state: str
    """The state of the job that ends it."""
    total: int
    counts: dict[str, int]
    """How many of its jobs are in each state; `deleted`: not there any more, and had not succeeded; `gone`:
    past their retention."""
    reason: str | None


class GroupJobs(msgspec.Struct, frozen=True):
    """The ids of jobs of a group, in order. Pass the last on as `after` for the next."""

    jobs: list[str]


class GroupJob(msgspec.Struct, frozen=True):
    """A job of a group, as its page lists it."""

    id: str
    task: str
    state: str


class Closed(msgspec.Struct, frozen=True):
    """The answer to a close: whether the group was open."""

    closed: bool


class CancelledGroup(msgspec.Struct, frozen=True):
    """How many jobs of the group were cancelled, or asked to stop."""

    cancelled: int


After: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MAX_ID)]
MemberLimit: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=1_000)]


@groups.get("/groups/{id}")
async def show_group(ops: Ops, id: int) -> GroupShape:
    """Show a group: how many of its jobs are in each state"""
    group = await ops.shared(("group", id), 1.0, lambda store: find(store, id))
    reason = f"; {group.reason}" if group.reason else ""
    ops.said = f"{id} is {group.state}, with {counts_in_words(group.counts)}{reason}"
    return group


@groups.get("/groups/{id}/jobs")
async def list_group_jobs(ops: Ops, id: int, after: After = 0, limit: MemberLimit = 100) -> GroupJobs:
    """List the jobs of a group in the order in which they were added"""
    return GroupJobs([str(job) for job in await ops.store.group_jobs(id, after, limit)])


@groups.get("")
async def list_left(ops: Ops, id: int) -> list[GroupJob]:
    """List some jobs of a group that have not succeeded, the dead first; none of a group of very many"""

    async def read(store: Store) -> list[GroupJob]:
        ids = await store.group_jobs(id, 0, MAX_LOOKED_UP + 1)
        if len(ids) > MAX_LOOKED_UP:
            return []
        found = [job for each in ids if (job := await store.job(each)) and job.state != State.SUCCEEDED]
        found.sort(key=lambda job: _LAST.index(job.state) if job.state in _LAST else len(_LAST))
        return [GroupJob(str(job.id), job.task, str(job.state)) for job in found[:SHOWN]]

    return await ops.shared(("jobs left", id), 2.0, read)


@groups.post("/groups/{id}/close")
async def close_group(ops: Ops, id: int) -> Closed:
    """Let a group take no more jobs: it ends with the last of those it has"""
    closed = await ops.store.close_group(id)
    if closed:
        ops.did("closed its group", said=f"{id} closed", job=id)
    else:
        await _find_rest(ops.store, id)
        ops.said = f"{id} was not open"
    return Closed(closed)


@groups.post("/groups/{id}/cancel")
async def cancel_group(ops: Ops, id: int) -> CancelledGroup:
    """Cancel a group and those of its jobs that have not ended"""
    end = await _find_rest(ops.store, id)
    ended = end is None or end.state in FINISHED
    await walks.act(ops, "cancel", [id])  # first: from then on nothing is added
    cancelled, last = 0, 0
    while found := await ops.store.group_jobs(id, last, PAGE):
        last = found[-1]
        answers = (await walks.act(ops, "cancel", found)).values()
        cancelled += sum(answer in ("cancelled", "requested") for answer in answers)
    jobs = plural(cancelled, "job")
    said = f"{id} had ended already; {jobs} cancelled" if ended else f"{id} cancelled, with {jobs}"
    ops.did("cancelled its group", said=said, job=id)
    return CancelledGroup(cancelled)


async def _find_rest(store: Store, id: int) -> JobRecord | None:
    """Return the job that ends a group, None where that was deleted and others of the group were not. Raises
    JobNotFound."""
    if await store.job(id) is None and await store.group_jobs(id, 0, 1):
        return None
    return await find_end(store, id)


async def find_end(store: Store, id: int) -> JobRecord:
    """Return the job that ends a group. Raises JobNotFound."""
    end = await store.job(id)
    if end is None or not end.options.group_end:
        raise JobNotFound(f"there is no group {id}: no job of this id ends one, or it is gone")
    return end


async def find(store: Store, id: int) -> GroupShape:
    """Return a group. Raises JobNotFound."""
    return await _group(store, await find_end(store, id))


async def group_of(store: Store, end: JobRecord) -> GroupShape | None:
    """Return the group that a job ends; None where it ends none."""
    return await _group(store, end) if end.options.group_end else None


async def _group(store: Store, end: JobRecord) -> GroupShape:
    counts = await store.group_counts(end.id)
    return GroupShape(
        id=str(end.id),
        name=_name(end.payload),
        state=str(end.state),
        total=sum(counts.values()),
        counts=dict(counts),
        reason=end.reason,
    )


def _name(payload: str) -> str | None:
    try:
        found = msgspec.json.decode(payload)
    except READ_ERRORS:
        return None
    name = found.get("name") if isinstance(found, dict) else None
    return name if isinstance(name, str) else None


def counts_in_words(counts: Mapping[str, int]) -> str:
    """Return the states of jobs in words, such as "9 jobs: 7 succeeded, 2 running"."""
    parts = ", ".join(f"{n:,} {state}" for state, n in sorted(counts.items(), key=lambda each: -each[1]))
    return f"{plural(sum(counts.values()), 'job')}: {parts}" if parts else "no jobs"
