"""One job on a page: what `windlass job show` prints for people."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from rich.text import Text

from windlass.cli.output import console, make_sheet, show
from windlass.cli.parents.page import retrying_in_words
from windlass.cli.settings import shown
from windlass.core.counts import plural
from windlass.core.harmless import harmless
from windlass.core.states import FINISHED
from windlass.endings import FOR_EVER
from windlass.operations.job_views import JobView, options_shown
from windlass.operations.parents import FINAL
from windlass.presentation.text import local_of, moment, one_line, span
from windlass.store.records import TIMEOUT, WorkerRecord

Line = tuple[str, str]


def print_job(job: JobView, now: float, *, traceback: bool, workers: Sequence[WorkerRecord] = ()) -> None:
    """Print everything about a job. Without `traceback`, an error is its type and message. `workers` are
    those that the store knows, one of which may have it."""
    lines = (_state(job, workers), _family(job, now), _times(job, now), _data(job, now), _steps(job, now))
    show(make_sheet([line for each in lines for line in each]))
    shown = console()
    for error in job.errors:
        when = "" if error.at is None else local_of(error.at, now)
        head = f"attempt {error.attempt}, {when}: {error.type}: {error.message}"
        shown.print(Text(one_line(head)), overflow="fold")
        if traceback and error.traceback:
            shown.print(Text(harmless(error.traceback.rstrip(), lines=True)), soft_wrap=True)


def _state(job: JobView, workers: Sequence[WorkerRecord]) -> Iterator[Line]:
    yield "job", job.id
    yield "task", one_line(job.task)
    yield "queue", f"{one_line(job.queue)}, priority {job.priority}"
    yield "state", job.state_text
    if why := job.why or job.reason:
        yield "why", one_line(why)
    yield "attempt", f"{job.attempt} of {job.max_attempts}"
    if job.deaths:
        yield "deaths", f"{job.deaths} (workers that died while they ran it)"
    if job.worker is not None:
        worker = next((each for each in workers if str(each.id) == job.worker), None)
        where = f" (pid {worker.pid} on {worker.host})" if worker else ""
        yield "worker", one_line(f"{job.worker_label or job.worker}{where}, claim {job.claim}")


def _family(job: JobView, now: float) -> Iterator[Line]:
    """Its parts, and its parent [P4]."""
    parent, part = job.parent, job.part
    if parent is not None:
        how = f"{parent.succeeded:,} of {plural(parent.total, 'part')} succeeded, {parent.progress.percent} %"
        yield "parent", f"it was split: {how}; see `windlass parent show {job.id}`"
        if parent.retrying is not None:
            yield "retrying", retrying_in_words(parent.retrying)
    elif job.chunked and job.state not in FINISHED:
        yield "parent", "a worker splits it into parts"
    if part is not None:
        which = "finalizer" if part.index == FINAL else f"index {part.index} (from 0) of {part.total:,}"
        yield "part", f"{which}; see `windlass parent show {part.parent}`"
        split = "" if part.created_at is None else f", split {local_of(part.created_at, now)}"
        yield "of parent", f"{part.parent}{split}"
        if part.index != FINAL:
            yield "covers", _json(part.span)


def _steps(job: JobView, now: float) -> Iterator[Line]:
    for step in job.steps:
        if step.wakes_at is not None:
            what = f"asleep until {local_of(step.wakes_at, now)}"
        elif step.sleep:
            what = "slept"
        elif step.code == TIMEOUT:
            what = "timed out"
        else:
            what = step.result if step.cut else json.dumps(step.result, ensure_ascii=False)

        yield "step", one_line(f"{step.name}, attempt {step.attempt}{_at(step.at, now)}: {what}", 400)


def _times(job: JobView, now: float) -> Iterator[Line]:
    times = {
        "enqueued": job.enqueued_at,
        "due": job.run_at,
        "claimed": job.claimed_at,
        "finished": job.finished_at,
    }
    for name, at in times.items():
        if at is not None and not (name == "due" and moment(at) - now >= FOR_EVER):
            yield name, local_of(at, now)
    if job.finished_at is not None and job.claimed_at is not None:
        yield "took", span(moment(job.finished_at) - moment(job.claimed_at))


def _data(job: JobView, now: float) -> Iterator[Line]:
    for field, title, value in options_shown(job):
        if field.unit == "headers":
            yield from (("header", one_line(f"{key}: {text}")) for key, text in value.items())
        elif isinstance(value, list):
            yield title, one_line(", ".join(value))
        else:
            yield title, shown(value, field.unit)
    if job.replay_of is not None:
        yield "replay of", job.replay_of
    yield "payload", _json(job.payload)
    if job.checkpoint is not None:
        yield "checkpoint", f"{_json(job.checkpoint.data)}{_at(job.checkpoint.at, now)}"
    if job.progress is not None:
        done, total = job.progress.done or 0, job.progress.total
        of = "" if total is None else f" of {total:,}"
        yield "progress", f"{done:,}{of}{_at(job.progress.at, now)}"
    if job.result is not None:
        yield "result", _json(job.result)


def _json(value: Any) -> str:
    """Return a value as JSON on one line."""
    return one_line(json.dumps(value, ensure_ascii=False))


def _at(at: str | None, now: float) -> str:
    return "" if at is None else f", {local_of(at, now)}"
