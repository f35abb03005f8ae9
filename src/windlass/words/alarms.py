"""What an operator should be told at a glance, besides what `symptoms` finds: workers that are lost, queues
that nobody serves or that rest while jobs wait, jobs that die. Judged from one look at the store; each says
what to do, and since when it holds where that can be known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from windlass.core.rollup import MINUTE
from windlass.core.rollup import Sample as Measured
from windlass.store.records import Depth, Finding, QueueRecord, WorkerRecord
from windlass.words.sample import Sample
from windlass.words.text import one_line, plural, span
from windlass.words.waiting import queue_in_words

QUIET: Final = 10 * MINUTE
"""Seconds without a death that part one burst of deaths from the next."""
UNKNOWN: Final[Mapping[str, float]] = MappingProxyType({})


class Alarm(msgspec.Struct, frozen=True):
    """A finding, and since when it holds as far as the look tells."""

    finding: Finding
    since: float | None = None


class Deaths(msgspec.Struct, frozen=True):
    """Jobs that have died of late, and when the first of the last burst did."""

    jobs: int = 0
    since: float | None = None


NO_DEATHS: Final = Deaths()


def alarms(sample: Sample, deaths: Deaths = NO_DEATHS, rests: Mapping[str, float] = UNKNOWN) -> list[Alarm]:
    """What one look shows; `deaths` are those of the last hour, and `rests` says since when queues that rest
    do so, as far as that is known."""
    return [*of_workers(sample.workers, sample.at), *of_queues(sample, rests), *of_deaths(deaths)]


def deaths_of(rows: Iterable[Measured]) -> Deaths:
    """The deaths of measured minutes, in order of time: a burst lasts while no QUIET passes without one."""
    jobs, since, last = 0, None, float("-inf")
    for row in rows:
        died = row.counts.get("dead", 0)
        if died:
            since = row.at if since is None or row.at - last > QUIET else since
            jobs, last = jobs + died, row.at
    return Deaths(jobs, since)


def resting(sample: Sample) -> list[str]:
    """Queues that are served, and rest while jobs wait."""
    return [
        name
        for name, record in sorted(sample.steering.queues.items())
        if sample.depth.get(name, Depth()).ready
        and sample.steering.serving.get(name, 0)
        and queue_in_words(record)
    ]


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


def of_queues(sample: Sample, rests: Mapping[str, float] = UNKNOWN) -> Iterator[Alarm]:
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
            yield _alarm(f"queue {name}", f"{waiting}, and it is {held_up}", advice, since=rests.get(name))


def of_deaths(deaths: Deaths) -> Iterator[Alarm]:
    """Jobs that have failed for good of late."""
    if deaths.jobs:
        yield _alarm(
            "dead jobs",
            f"{plural(deaths.jobs, 'job')} died within the last hour",
            "see their errors with `windlass dead list`, and retry them once the cause is gone",
            since=deaths.since,
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
