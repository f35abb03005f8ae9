"""One job on a page: what `windlass job show` prints for people."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from rich.text import Text

from windlass.cli.output import console, make_sheet, show
from windlass.cli.parents.page import retrying_in_words
from windlass.cli.settings import shown
from windlass.core.counts import plural
from windlass.core.harmless import harmless
from windlass.core.progress import progress
from windlass.core.states import FINISHED
from windlass.operations.parents import FINAL
from windlass.presentation.jobs import options_shown, priority_name
from windlass.presentation.retries import RetryingShape
from windlass.presentation.steps import StepShape
from windlass.presentation.text import kept_line, local, local_of, one_line, span
from windlass.presentation.waiting import state_in_words, worker_name
from windlass.signals import FOR_EVER
from windlass.store.records import (
    TIMEOUT,
    JobRecord,
    ParentRecord,
    WorkerRecord,
)

Line = tuple[str, str]


def print_job(
    job: JobRecord,
    why: str | None,
    now: float,
    *,
    traceback: bool,
    parent: ParentRecord | None = None,
    workers: Sequence[WorkerRecord] = (),
    retrying: RetryingShape | None = None,
    steps: Sequence[StepShape] = (),
) -> None:
    """Print everything about a job. Without `traceback`, an error is its type and message. `parent` is how
    far its parts are, where it was split, and `retrying` those that are tried again; `workers` those that the
    store knows, one of which may have it; `steps` what it has done [W1]. `why` says why it does not run."""
    state, family = _state(job, why, workers), _family(job, parent, retrying, now)
    show(make_sheet([*state, *family, *_times(job, now), *_data(job, now), *_steps(steps, now)]))
    shown = console()
    for error in job.errors:
        when = local(error.at, now) if error.at else ""
        head = f"attempt {error.attempt}, {when}: {error.type}: {error.message}"
        shown.print(Text(one_line(head)), overflow="fold")
        if traceback and error.traceback:
            shown.print(Text(harmless(error.traceback.rstrip(), lines=True)), soft_wrap=True)


def _state(job: JobRecord, why: str | None, workers: Sequence[WorkerRecord]) -> Iterator[Line]:
    yield "job", str(job.id)
    yield "task", one_line(job.task)
    yield "queue", f"{one_line(job.queue)}, priority {priority_name(job.priority)}"
    yield "state", state_in_words(job)
    if why:
        yield "why", one_line(why)
    yield "attempt", f"{job.attempt} of {job.options.max_attempts}"
    if job.deaths:
        yield "deaths", f"{job.deaths} (workers that died while they ran it)"
    if job.worker is not None:
        worker = next((each for each in workers if each.id == job.worker), None)
        message = f"{worker_name(worker)} (pid {worker.pid} on {worker.host})" if worker else f"{job.worker}"
        yield "worker", one_line(f"{message}, claim {job.claim}")


def _family(
    job: JobRecord, parent: ParentRecord | None, retrying: RetryingShape | None, now: float
) -> Iterator[Line]:
    """Its parts, and its parent [P4]."""
    part = job.options.part
    if parent is not None:
        percent = progress([(now, parent)]).percent
        how = f"{parent.succeeded:,} of {plural(parent.total, 'part')} succeeded, {percent} %"
        yield "parent", f"it was split: {how}; see `windlass parent show {job.id}`"
        if retrying is not None:
            yield "retrying", retrying_in_words(retrying)
    elif job.options.chunked and job.state not in FINISHED:
        yield "parent", "a worker splits it into parts"
    if part is not None:
        which = "finalizer" if part.index == FINAL else f"index {part.index} (from 0) of {part.total:,}"
        yield "part", f"{which}; see `windlass parent show {part.parent}`"
        yield "of parent", f"{part.parent}, split {local(part.created_at, now)}"
        if part.index != FINAL:
            yield "covers", kept_line(part.span)


def _steps(steps: Sequence[StepShape], now: float) -> Iterator[Line]:
    for step in steps:
        if step.wakes_at is not None:
            what = f"asleep until {local_of(step.wakes_at, now)}"
        elif step.sleep:
            what = "slept"
        elif step.code == TIMEOUT:
            what = "timed out"
        else:
            what = step.result if step.cut else json.dumps(step.result, ensure_ascii=False)
        at = "" if step.at is None else f", {local_of(step.at, now)}"
        yield "step", one_line(f"{step.name}, attempt {step.attempt}{at}: {what}", 400)


def _times(job: JobRecord, now: float) -> Iterator[Line]:
    yield "enqueued", local(job.enqueued_at, now)
    if job.run_at is not None and job.run_at - now < FOR_EVER:
        yield "due", local(job.run_at, now)
    if job.claimed_at is not None:
        yield "claimed", local(job.claimed_at, now)
    if job.finished_at is not None:
        yield "finished", local(job.finished_at, now)
        if job.claimed_at is not None:
            yield "took", span(job.finished_at - job.claimed_at)


def _data(job: JobRecord, now: float) -> Iterator[Line]:
    for field, title, value in options_shown(job.options):
        if field.unit == "headers":
            yield from (("header", one_line(f"{key}: {text}")) for key, text in value.items())
        elif isinstance(value, tuple):
            yield title, one_line(", ".join(map(str, value)))
        else:
            yield title, shown(value, field.unit)
    if job.options.replay_of is not None:
        yield "replay of", str(job.options.replay_of)
    yield "payload", kept_line(job.payload)
    if job.checkpoint is not None:
        yield "checkpoint", f"{kept_line(job.checkpoint.data)}, {local(job.checkpoint.at, now)}"
    if job.progress is not None:
        done, total = job.progress.done or 0, job.progress.total
        yield (
            "progress",
            f"{done:,}{'' if total is None else f' of {total:,}'}, {local(job.progress.at, now)}",
        )
    if job.result is not None:
        yield "result", kept_line(job.result)
