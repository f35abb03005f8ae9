"""What the service answers with, beyond the shapes of `windlass.presentation`: the same records, with texts
for pages and programs. Times are ISO 8601 in UTC, ids are strings, durations are in seconds unless a name
says ms."""

from __future__ import annotations

from typing import Literal

import msgspec

from windlass.operations.events import EventView
from windlass.operations.groups import GroupShape
from windlass.operations.parents import ParentShape
from windlass.presentation.jobs import JobShape
from windlass.presentation.steps import StepShape
from windlass.store.records import EnqueueStatus


class ListedJob(JobShape, frozen=True, kw_only=True):
    """A job in a listing: of its errors only the last, without traceback."""

    state_text: str
    """The state; `retrying (2 tries)` where it is retried [M4]."""
    cut: bool = False
    """Whether payload, result or checkpoint was too long for a listing and left out; get the job instead."""


class ListedJobs(msgspec.Struct, frozen=True, kw_only=True):
    """A page of jobs, newest first. It may be short or empty and still have a cursor."""

    jobs: list[ListedJob]
    cursor: str | None
    looked: int
    """How many jobs were searched for it."""
    back_to: str | None
    """The time back to which jobs were searched [M3]."""


class JobView(JobShape, frozen=True, kw_only=True):
    """A job, why it waits, and its timeline."""

    state_text: str
    why: str | None
    """Why it does not run, null where it runs or has ended [M4]."""
    running_since: str | None
    """When its current run started; null where it does not run."""
    deadline: str | None
    """The deadline of that run: from the timeout of the job or its task, or the queue's limit."""
    timeline: list[EventView]
    """Its events, the earliest first."""
    parent: ParentShape | None
    """The job as a parent, where it was split. If it is a part, see `part`."""
    group: GroupShape | None
    """The group that it ends."""
    steps: list[StepShape]
    """Its newest steps and sleeps, oldest first [W1]."""


class ReceiptShape(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an enqueued job: its id, or the id of the unfinished job that holds its unique key; null
    where it was parked."""

    id: str | None
    status: EnqueueStatus
    pressure: float | None = None
    """How full its queue is, from 0.7 on: slow down [F4]."""


class BulkShape(msgspec.Struct, frozen=True, kw_only=True):
    """A bulk operation that runs in the background of this process [O6]."""

    id: str
    verb: Literal["retry", "cancel", "delete"]
    where: dict[str, str]
    by: str
    """Who started it."""
    state: Literal["running", "done", "stopped", "failed"]
    done: int
    """Jobs handled so far."""
    expected: int | None
    """How many jobs matched when it started; null where they were too many to count."""
    answers: dict[str, int]
    error: str | None
    started_at: str
    ended_at: str | None
