"""The endpoints about jobs: enqueue, list, look up, cancel, retry, delete, replay."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from windlass.core.states import State
from windlass.handles.bulk import job_filter
from windlass.operations.bodies import JobChangeBody, NewJobBody, changes_of
from windlass.operations.operation import JobId, Limit, Name, Text, given_id
from windlass.presentation.jobs import CausesShape
from windlass.store.records import JobFilter
from windlass.web.api.endpoint import Call, Nothing, Table
from windlass.web.http.problems import NotFound
from windlass.web.service.jobs import MAX_AT_ONCE
from windlass.web.service.shapes import JobView, ListedJobs, ReceiptShape

Word = Annotated[str, msgspec.Meta(max_length=2_000)]


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
        """As the store takes it. An empty tag or text does not filter."""
        given = {name: getattr(self, name) for name in Where.__struct_fields__}
        return job_filter(**given | {"tag": self.tag or None, "text": self.text or None})


class Listing(Where, kw_only=True, forbid_unknown_fields=True):
    """Which jobs, and how many of them."""

    limit: Limit = 50
    cursor: Word | None = None


class Dead(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which dead jobs."""

    queue: Name | None = None
    task: Name | None = None


class DeadListing(Dead, kw_only=True, forbid_unknown_fields=True):
    """Which dead jobs, and how many of them."""

    error: Text | None = None
    """The type of the last failure, empty for none."""
    limit: Limit = 50
    cursor: Word | None = None


class NewJobs(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Jobs to enqueue, all or none."""

    jobs: Annotated[list[NewJobBody], msgspec.Meta(min_length=1, max_length=MAX_AT_ONCE)]


class Receipts(msgspec.Struct, frozen=True):
    """What became of each job, in the same order."""

    jobs: list[ReceiptShape]


class Ids(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Jobs by id."""

    ids: Annotated[list[JobId], msgspec.Meta(min_length=1, max_length=MAX_AT_ONCE)]

    def numbers(self) -> list[int]:
        """As the store takes them."""
        return [given_id(id) for id in self.ids]


class Answers(msgspec.Struct, frozen=True):
    """The result for each job, by id."""

    answers: dict[str, str]


jobs: Final = Table("jobs")


@jobs.post("/jobs", 201)
async def enqueue_job(call: Call[Nothing, NewJobBody]) -> ReceiptShape:
    """Enqueue a job"""
    return (await call.service.jobs.enqueue(call.principal, [call.body]))[0]


@jobs.post("/jobs/batch", 201)
async def enqueue_jobs(call: Call[Nothing, NewJobs]) -> Receipts:
    """Enqueue many jobs, all or none"""
    return Receipts(await call.service.jobs.enqueue(call.principal, call.body.jobs))


@jobs.get("/jobs")
async def list_jobs(call: Call[Listing, None]) -> ListedJobs:
    """List jobs, newest first"""
    return await call.service.jobs.page(
        call.principal, call.query.filter(), call.query.limit, call.query.cursor
    )


@jobs.get("/dead")
async def list_dead(call: Call[DeadListing, None]) -> ListedJobs:
    """List dead jobs, newest first"""
    asked = call.query
    where = job_filter(queue=asked.queue, task=asked.task, state=State.DEAD, error=asked.error)
    return await call.service.jobs.page(call.principal, where, asked.limit, asked.cursor)


@jobs.get("/dead/causes")
async def list_causes(call: Call[Dead, None]) -> CausesShape:
    """Group the newest dead jobs by task and type of their last failure, largest group first"""
    return await call.service.jobs.causes(call.principal, call.query.queue, call.query.task)


@jobs.post("/jobs/cancel")
async def cancel_jobs(call: Call[Nothing, Ids]) -> Answers:
    """Cancel jobs by id: waiting ones now, running ones as soon as their workers learn of it"""
    return Answers(await call.service.jobs.act(call.principal, "cancel", call.body.numbers()))


@jobs.post("/jobs/retry")
async def retry_jobs(call: Call[Nothing, Ids]) -> Answers:
    """Run dead, scheduled and retrying jobs now, by id, with all their attempts again"""
    return Answers(await call.service.jobs.act(call.principal, "retry", call.body.numbers()))


@jobs.post("/jobs/delete")
async def delete_jobs(call: Call[Nothing, Ids]) -> Answers:
    """Remove jobs by id; running ones are asked to stop instead"""
    return Answers(await call.service.jobs.act(call.principal, "delete", call.body.numbers()))


@jobs.get("/jobs/{id}")
async def show_job(call: Call[Nothing, None]) -> JobView:
    """Get a job: its state, why it waits, and its timeline"""
    return await call.service.jobs.get(call.principal, call.id)


@jobs.delete("/jobs/{id}")
async def delete_job(call: Call[Nothing, None]) -> Answers:
    """Remove a job; a running one is asked to stop instead"""
    return _found(call, await call.service.jobs.act(call.principal, "delete", [call.id]))


@jobs.patch("/jobs/{id}")
async def change_job(call: Call[Nothing, JobChangeBody]) -> Answers:
    """Change a waiting job in place: changed, or running or ended, with nothing changed"""
    answer = await call.service.jobs.change(call.principal, call.id, changes_of(call.body))
    return Answers({str(call.id): answer})


@jobs.post("/jobs/{id}/cancel")
async def cancel_job(call: Call[Nothing, None]) -> Answers:
    """Cancel a job: a waiting one now, a running one as soon as its worker learns of it"""
    return _found(call, await call.service.jobs.act(call.principal, "cancel", [call.id]))


@jobs.post("/jobs/{id}/retry")
async def retry_job(call: Call[Nothing, None]) -> Answers:
    """Run a dead, scheduled or retrying job now, with all its attempts again"""
    return _found(call, await call.service.jobs.act(call.principal, "retry", [call.id]))


@jobs.post("/jobs/{id}/replay", 201)
async def replay_job(call: Call[Nothing, None]) -> ReceiptShape:
    """Enqueue a copy of a job that has ended"""
    return await call.service.jobs.replay(call.principal, call.id)


def _found(call: Call[Nothing, None], answers: dict[str, str]) -> Answers:
    """For many jobs, each result says whether it was found; for one, the status does."""
    if answers.get(str(call.id)) == "not_found":
        raise NotFound(f"there is no job {call.id}: it never existed, was deleted, or its retention passed")
    return Answers(answers)
