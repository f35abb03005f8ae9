"""Jobs: listings, what jobs died of, everything about one of them; cancel, retry, delete, change, replay.

Many jobs by filter are in `bulk`."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from windlass.core.states import FINISHED, State
from windlass.errors import EnqueueError, JobNotFound
from windlass.operations import walks
from windlass.operations.bodies import JobChangeBody, changes_of
from windlass.operations.job_views import JobView, ListedJob, labels_of
from windlass.operations.new_jobs import ReceiptShape
from windlass.operations.operation import Ids, Limit, Name, Operation, Ops, Sent, Subject, Text
from windlass.operations.refusals import Conflict, Invalid
from windlass.operations.walks import MOMENT, Verb, job_filter
from windlass.presentation.text import iso
from windlass.store.protocol import Store
from windlass.store.records import ChangeAnswer, JobFilter, JobRecord, NewJob, Receipt

jobs: Final = Subject("jobs")
LISTING_TIME: Final = 0.05
"""Seconds that a listing may search back through the log."""
MAX_DEAD: Final = 10_000
"""Dead jobs, the newest, that are counted by cause."""
MAX_SINGLE: Final = 50
"""Up to so many jobs each get an event of their own."""

Word = Annotated[str, msgspec.Meta(max_length=2_000)]
Changes: TypeAlias = Annotated[Mapping[str, Any], Sent(JobChangeBody, changes_of)]


class Where(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which jobs. A field that is left out does not filter."""

    queue: Name | None = None
    task: Name | None = None
    state: State | None = None
    tag: Text | None = None
    text: Text | None = None
    """Text that the payload, as JSON, contains; blanks beside its marks, as in `": "`, do not count."""
    error: Text | None = None
    """The type of the last failure, empty for none. For dead and retrying jobs only."""

    def filter(self) -> JobFilter:
        """Return the filter as the store takes it. An empty tag or text does not filter."""
        given = {name: getattr(self, name) for name in Where.__struct_fields__}
        return job_filter(**given | {"tag": self.tag or None, "text": self.text or None})


class Listing(Where, kw_only=True, forbid_unknown_fields=True):
    """Which jobs, and how many of them."""

    limit: Limit = 50
    cursor: Word | None = None


class ListedJobs(msgspec.Struct, frozen=True, kw_only=True):
    """A page of jobs, newest first. It may be short or empty and still have a cursor."""

    jobs: list[ListedJob]
    cursor: str | None
    looked: int
    """How many jobs were searched for it."""
    back_to: str | None
    """The time back to which jobs were searched [M3]."""


class CauseShape(msgspec.Struct, frozen=True, kw_only=True):
    """Dead jobs of one task whose last failure was of one type; "" where none is kept: poison, parents."""

    task: str
    error: str
    jobs: int
    last_at: str
    message: str
    """The last failure of the one that died last, or the reason it died of."""


class CausesShape(msgspec.Struct, frozen=True, kw_only=True):
    """Causes of death, the largest group first."""

    groups: list[CauseShape]
    looked: int
    """How many dead jobs were looked at: the newest."""
    more: bool
    """There are older ones, which were not."""


class Answers(msgspec.Struct, frozen=True):
    """The result for each job, by id."""

    answers: dict[str, str]


# -- views ----------------------------------------------------------------------------------------------


@jobs.get("/jobs")
async def list_jobs(ops: Ops, asked: Listing) -> ListedJobs:
    """List jobs, newest first

    The search goes back in bounded steps and says how far it came."""
    return await _page(ops, asked.filter(), asked.limit, asked.cursor, LISTING_TIME)


@jobs.get("/dead")
async def list_dead(
    ops: Ops,
    queue: Name | None = None,
    task: Name | None = None,
    error: Text | None = None,
    limit: Limit = 50,
    cursor: Word | None = None,
) -> ListedJobs:
    """List dead jobs, newest first"""
    where = job_filter(queue=queue, task=task, state=State.DEAD, error=error)
    return await _page(ops, where, limit, cursor, LISTING_TIME)


@jobs.get("/dead/causes")
async def list_causes(ops: Ops, queue: Name | None = None, task: Name | None = None) -> CausesShape:
    """Group the newest dead jobs by task and type of their last failure, largest group first"""
    found = await ops.shared(
        ("causes", queue), 5.0, lambda store: store.causes(queue=queue, limit=MAX_DEAD)
    )  # one answer serves all tasks of a queue
    groups = [
        CauseShape(
            task=group.task,
            error=group.error,
            jobs=group.jobs,
            last_at=iso(group.last_at) or "",
            message=group.message,
        )
        for group in found.groups
        if task in (None, group.task)
    ]
    return CausesShape(groups=groups, looked=found.looked, more=found.more)


@jobs.get("/jobs/{id}")
async def show_job(ops: Ops, id: int) -> JobView:
    """Get a job: its state, why it waits, and its timeline"""
    return await JobView.of(ops, await find(ops.store, id))


async def search(ops: Ops, where: JobFilter, limit: int, cursor: str | None = None) -> ListedJobs:
    """Return a full page. The store may give short ones, since it looks at a bounded number of jobs."""
    found = await _page(ops, where, limit, cursor, MOMENT)
    while found.cursor is not None and len(found.jobs) < limit:
        more = await _page(ops, where, limit - len(found.jobs), found.cursor, MOMENT)
        found = msgspec.structs.replace(
            more, jobs=[*found.jobs, *more.jobs], looked=found.looked + more.looked
        )
    return found


async def _page(ops: Ops, where: JobFilter, limit: int, cursor: str | None, within: float) -> ListedJobs:
    try:
        page = await ops.store.jobs(where, limit, None if cursor is None else _unwrap(cursor), within)
    except (ValueError, TypeError, LookupError):
        if cursor is None:
            raise
        raise Invalid("this is not a cursor; take it from a listing", "cursor") from None
    state, now = await ops.state(), await ops.now()
    labels = labels_of(state.workers)
    return ListedJobs(
        jobs=[ListedJob.of(job, state, labels, now) for job in page.jobs],
        cursor=None if page.cursor is None else _wrap(page.cursor),
        looked=page.looked,
        back_to=iso(page.back_to),
    )


# -- actions --------------------------------------------------------------------------------------------


@jobs.post("/jobs/cancel")
async def cancel_jobs(ops: Ops, ids: Ids) -> Answers:
    """Cancel jobs by id: waiting ones now, running ones as soon as their workers learn of it"""
    return texts(await act(ops, "cancel", ids))


@jobs.post("/jobs/retry")
async def retry_jobs(ops: Ops, ids: Ids) -> Answers:
    """Run dead, scheduled and retrying jobs now, by id, with all their attempts again"""
    return texts(await act(ops, "retry", ids))


@jobs.post("/jobs/delete")
async def delete_jobs(ops: Ops, ids: Ids) -> Answers:
    """Remove jobs by id; running ones are asked to stop instead"""
    return texts(await act(ops, "delete", ids))


@jobs.post("/jobs/{id}/cancel")
async def cancel_job(ops: Ops, id: int) -> Answers:
    """Cancel a job: a waiting one now, a running one as soon as its worker learns of it"""
    return _found(await act(ops, "cancel", [id]))


@jobs.post("/jobs/{id}/retry")
async def retry_job(ops: Ops, id: int) -> Answers:
    """Run a dead, scheduled or retrying job now, with all its attempts again"""
    return _found(await act(ops, "retry", [id]))


@jobs.delete("/jobs/{id}")
async def delete_job(ops: Ops, id: int) -> Answers:
    """Remove a job; a running one is asked to stop instead"""
    return _found(await act(ops, "delete", [id]))


@jobs.patch("/jobs/{id}")
async def change_job(ops: Ops, id: int, changes: Changes) -> Answers:
    """Change a waiting job in place: changed, or running or ended, with nothing changed"""
    with _conflicts():
        return texts({id: await change(ops, id, changes)})


@jobs.post("/jobs/{id}/replay", 201)
async def replay_job(ops: Ops, id: int) -> ReceiptShape:
    """Enqueue a copy of a job that has ended"""
    with _conflicts():
        return ReceiptShape.of((await replay(ops, id))[1])


ONE: Final[Mapping[str, Operation[[int], Answers]]] = {
    "cancel": cancel_job,
    "retry": retry_job,
    "delete": delete_job,
}
MANY: Final[Mapping[str, Operation[[Ids], Answers]]] = {
    "cancel": cancel_jobs,
    "retry": retry_jobs,
    "delete": delete_jobs,
}


# -- what handles call, too -------------------------------------------------------------------------------


async def act(
    ops: Ops, verb: Verb, ids: Sequence[int], only: State | None = None, *, dry_run: bool = False
) -> dict[int, str]:
    """Retry, cancel or delete jobs by id [O5] [O6]; with `only`, those that are in this state, and the others
    answer which they are in."""
    answers = {} if only is None else {id: _standing(await ops.store.job(id), only) for id in ids}
    chosen = [] if dry_run else [id for id in dict.fromkeys(ids) if answers.get(id, only) == only]
    done = await walks.act(ops, verb, chosen) if chosen else {}
    found = {id: answer for id, answer in done.items() if answer != "not_found"}
    if len(found) > MAX_SINGLE:
        ops.did(f"{verb}: {len(found):,} jobs")
    else:
        for id, answer in found.items():
            ops.did(f"{verb}: {answer}", job=id)
    answers |= done
    return {id: answers[id] for id in dict.fromkeys(ids)}


async def change(ops: Ops, id: int, changes: Mapping[str, Any]) -> ChangeAnswer:
    """Change a waiting job in place [E8]. Raises JobNotFound, and EnqueueError for a part of a parent."""
    wanted = ops.app._read_change(await find(ops.store, id), changes)
    answer = await ops.store.change(id, wanted)
    if answer == "not_found":
        raise unknown(id)
    if answer == "part":
        raise EnqueueError(
            f"job {id} is a part of a parent and has its queue, priority and arguments from it; "
            "set the parent's `parallel`, or cancel it as a whole"
        )
    named = changes.items()  # arguments are not told
    told = ", ".join(name if name in ("args", "kwargs") else f"{name} {value}" for name, value in named)
    ops.did(f"changed: {told}" if answer == "changed" else f"change: {told}: {answer}", job=id)
    return answer


async def replay(ops: Ops, id: int) -> tuple[JobRecord, Receipt]:
    """Enqueue a copy of a job that has ended [O6]; return the job, and the receipt of its copy. Raises
    JobNotFound, and EnqueueError where it has not ended, or means nothing by itself."""
    record = await find(ops.store, id)
    if record.state not in FINISHED:
        raise EnqueueError(
            f"job {id} is {record.state.value} and has not ended, so there is nothing to repeat; "
            "await its result() or cancel() it first, or enqueue its task again"
        )
    if record.options.part is not None:
        raise EnqueueError(
            f"job {id} is a part of parent {record.options.part.parent} and means nothing without "
            "it; redrive the parent, or replay it as a whole"
        )
    if record.options.group_end:
        raise EnqueueError(
            f"job {id} ends a group and means nothing without its jobs; retry it, or open another"
        )
    job = NewJob(
        task=record.task,
        payload=record.payload,
        queue=record.queue,
        priority=record.priority,
        options=record.options.of_replay(id),
    )
    receipt = (await ops.store.enqueue([job]))[0]
    ops.did(f"replay: as job {receipt.id}", job=id)
    return record, receipt


async def find(store: Store, id: int) -> JobRecord:
    """Return a job. Raises JobNotFound."""
    record = await store.job(id)
    if record is None:
        raise unknown(id)
    return record


def unknown(id: int) -> JobNotFound:
    """Return the error of an id that no job has."""
    return JobNotFound(f"there is no job {id}: it never existed, was deleted, or its retention has passed")


def _standing(record: JobRecord | None, only: State) -> str:
    if record is None:
        return "not_found"
    return str(only) if record.state is only else f"not {only} but {record.state}"


def texts(answers: Mapping[int, str]) -> Answers:
    """Return the answers of jobs as JSON has them."""
    return Answers({str(id): answer for id, answer in answers.items()})


def _found(answers: Mapping[int, str]) -> Answers:
    """Refuse an id that no job has: for many jobs each result says so, for one the status does."""
    for id, answer in answers.items():
        if answer == "not_found":
            raise unknown(id)
    return texts(answers)


@contextmanager
def _conflicts() -> Iterator[None]:
    """Refuse what the job's state does not allow; what is wrong with the request keeps its own error."""
    try:
        yield
    except EnqueueError as error:
        if type(error) is EnqueueError:
            raise Conflict(str(error)) from error
        raise


def _wrap(cursor: str) -> str:
    """Return a store's cursor as one word that no shell takes apart."""
    return base64.urlsafe_b64encode(cursor.encode()).decode().rstrip("=")


def _unwrap(word: str) -> str:
    """Return the store's cursor again. Raises ValueError for a word that no listing gave."""
    return base64.b64decode(word + "=" * (-len(word) % 4), altchars=b"-_", validate=True).decode()
