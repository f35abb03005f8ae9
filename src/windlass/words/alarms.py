"""What an operator should be told at a glance, besides what `symptoms` finds: workers that are lost, queues
that nobody serves or that rest while jobs wait, jobs that die. Judged from one look at the store; each says
what to do, and since when it holds where that can be known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from windlass.store.records import Depth, Finding, QueueRecord, WorkerRecord
from windlass.words.sample import Sample
from windlass.words.text import one_line, plural, span
from windlass.words.waiting import queue_in_words


class Alarm(msgspec.Struct, frozen=True):
    """A finding, and since when it holds as far as the look tells."""

    finding: Finding
    since: float | None = None


def alarms(sample: Sample, died: int = 0) -> list[Alarm]:
    """What one look shows; `died` counts the jobs that died within the last hour."""
    return [*of_workers(sample.workers, sample.at), *of_queues(sample), *of_deaths(died)]


def lost(workers: Iterable[WorkerRecord], now: float) -> list[WorkerRecord]:
    """Workers that are not alive and still hold jobs, or whose beat has stood for longer than their lease."""
    return [worker for worker in workers if not worker.alive or now - worker.beat_at > worker.lease]


def of_workers(workers: Iterable[WorkerRecord], now: float) -> Iterator[Alarm]:
    """Workers that do not beat."""
    for worker in lost(workers, now):
        yield _alarm(
            f"worker {worker.label or worker.id}",
            f"it has not been heard of for {span(now - worker.beat_at)}",
            "its jobs are given to others by themselves; see whether its host and process are there",
            since=worker.beat_at,
        )


def of_queues(sample: Sample) -> Iterator[Alarm]:
    """Queues in which jobs wait and nothing happens."""
    nobody = not any(worker.alive for worker in sample.workers)
    for name in sample.names():
        record = sample.steering.queues.get(name, QueueRecord(name=name))
        depth = sample.depth.get(name, Depth())
        since = None if depth.oldest is None else sample.at - depth.oldest
        if not depth.ready:
            continue
        waiting = f"{plural(depth.ready, 'job')} ready"
        if not sample.steering.serving.get(name, 0):
            yield _alarm(
                f"queue {name}",
                f"{waiting}, and no worker serves it",
                f"start one: `windlass worker MODULE:APP -q {name}`",
                level="error" if nobody else "warning",
                since=since,
            )
        elif held_up := queue_in_words(record):
            advice = (
                f"let it go on: `windlass queue resume {name}`"
                if record.paused
                else f"it goes on by itself; end the cool-down with `windlass queue warm {name}`"
            )
            yield _alarm(f"queue {name}", f"{waiting}, and it is {held_up}", advice)


def of_deaths(died: int) -> Iterator[Alarm]:
    """Jobs that have failed for good of late."""
    if died:
        yield _alarm(
            "dead jobs",
            f"{plural(died, 'job')} died within the last hour",
            "see their errors with `windlass dead list`, and retry them once the cause is gone",
        )


def _alarm(name: str, told: str, advice: str, *, level: str = "warning", since: float | None = None) -> Alarm:
    return Alarm(
        Finding(
            name=one_line(name, 200),
            level="error" if level == "error" else "warning",
            told=one_line(told),
            advice=one_line(advice),
        ),
        since,
    )
