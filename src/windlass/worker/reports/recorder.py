"""Counts and notes of one process, until they are reported to the store: samples of a minute [M1], events
[M2].

It is fed by whole flushes, since a child finishes a job every 11 µs: a plain success costs it less than a
third of one. How long a job had been ready when it was started is reckoned from when its outcome was handed
to the store, less the time it ran; it is too long by what the flush before it took, some milliseconds.
Nothing here waits for anything, and nothing here grows without end.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from typing import Final

from windlass.core.counts import plural
from windlass.core.histogram import bucket, buckets
from windlass.core.rollup import MINUTE, Sample, add_up
from windlass.core.states import Kind
from windlass.settings import Events, Settings
from windlass.store.records import Claim, ClaimedJob, Depth, Event, EventKind, Outcome, Rescued
from windlass.worker.reports.eventbuffer import BUFFER, EventBuffer
from windlass.worker.reports.store_clock import StoreClock
from windlass.worker.reports.timeline import ending, event_of

EVERY: Final = 2.0
MANY_QUEUES: Final = 32
"""A claim in vain from more queues counts for none of them."""

MAX_SAMPLES: Final = 10_000
"""Samples that may wait to be reported: beyond that, no new minute is begun."""

NOT_YET: Final = -1
"""The minute of what was counted before the store said what time it is."""

SHORT: Final = bucket(20.0)
"""Runs up to this do not change how long their job seems to have waited."""


class Recorder:
    """Counts and notes for one process; on one loop. `label` names it in events."""

    def __init__(
        self,
        label: str = "",
        *,
        events: Events = "notable",
        buffer: int = BUFFER,
        every: float = EVERY,
    ) -> None:
        self.label = label
        self.every = every
        """How often it is to be reported, in seconds."""
        self.clock: Final = StoreClock()
        self.fresh: bool = False
        """True if anything happened since `samples`; claims that found nothing are not worth a word."""
        self.done: int = 0
        """Runs whose end was written down, since this process began. A job that was passed on and never
        started is none."""
        self.events: Final = EventBuffer(events, buffer)
        self._samples: dict[tuple[int, str, str], Sample] = {}
        self._minute = NOT_YET

    # -- runs -------------------------------------------------------------------------------------------

    def flushed(
        self,
        batch: Sequence[Outcome],
        at: float,
        refused: Collection[int] = (),
        *,
        leaving: bool = False,
        tasks: Container[str] | None = None,
    ) -> None:
        """These outcomes were written, but those of the jobs `refused`; they were logged at `at`, by
        the monotonic clock. `leaving` says that jobs which are released were given up, not just passed on.

        `tasks` are those whose code is here (None: all). Others are counted without their names: these come
        from producers, there may be any number of them, and each would be rows that are kept for ever."""
        self.fresh = True
        succeeded = Kind.SUCCEEDED
        odd = [outcome for outcome in batch if outcome.kind is not succeeded]
        self.done += len(batch) - sum(outcome.run_ms is None for outcome in odd)
        if odd or refused or self.events.wanted == "all":
            batch = self._notable(batch, at, frozenset(refused), leaving, tasks)
        if batch:
            self._group(batch, at, tasks)

    def refused(self, job: ClaimedJob) -> None:
        """A write for this job was refused: it is another's by now [C5]."""
        self.count("refused", queue=job.queue, task=job.task)
        self.note(
            "refused", "a write of its handler arrived too late: the job belonged to another worker", job=job
        )

    def _notable(
        self,
        batch: Sequence[Outcome],
        at: float,
        refused: frozenset[int],
        leaving: bool,
        tasks: Container[str] | None,
    ) -> list[Outcome]:
        """Note what is notable of a batch; the answer is what has succeeded."""
        groups: dict[EventKind, list[Outcome]] = {}
        for outcome in batch:
            how = "refused" if outcome.job.id in refused else ending(outcome)
            groups.setdefault(how, []).append(outcome)
        for how, outcomes in groups.items():
            if how == "released" and leaving:
                self._released(outcomes)
            elif how not in ("succeeded", "released") or (how == "succeeded" and self.events.wanted == "all"):
                for outcome in outcomes:
                    if self.events.has_room():
                        self.events.add(event_of(outcome, how, at, self.label))
        good = groups.pop("succeeded", [])
        for how, outcomes in groups.items():
            self._group(outcomes, at, tasks, how)
        return good

    def _released(self, outcomes: list[Outcome]) -> None:
        """One event for all: a deploy hands back whatever was claimed."""
        for queue in dict.fromkeys(outcome.job.queue for outcome in outcomes):
            jobs = [outcome.job for outcome in outcomes if outcome.job.queue == queue]
            message = f"{plural(len(jobs), 'job')} handed back, uncharged"
            self.note("released", message, job=jobs[0] if len(jobs) == 1 else None, queue=queue)

    def _group(
        self,
        batch: Sequence[Outcome],
        at: float,
        known: Container[str] | None,
        how: EventKind = "succeeded",
    ) -> None:
        """Count outcomes of one kind, by queue and task. Mostly they are all of the same."""
        jobs = [outcome.job for outcome in batch]
        tasks, queues = [job.task for job in jobs], [job.queue for job in jobs]
        n = len(jobs)
        if tasks.count(tasks[0]) == n and queues.count(queues[0]) == n:
            self._ended(how, batch, jobs, at, known)
            return
        groups: defaultdict[tuple[str, str], list[Outcome]] = defaultdict(list)
        for key, outcome in zip(zip(queues, tasks, strict=True), batch, strict=True):
            groups[key].append(outcome)
        for group in groups.values():
            self._ended(how, group, [outcome.job for outcome in group], at, known)

    def _ended(
        self,
        how: EventKind,
        batch: Sequence[Outcome],
        jobs: list[ClaimedJob],
        at: float,
        known: Container[str] | None,
    ) -> None:
        first = jobs[0]
        named = how != "unknown" and (known is None or first.task in known)
        sample = self._sample(first.queue, first.task if named else "")
        sample.counts[how] = sample.counts.get(how, 0) + len(jobs)
        if how != "refused":
            self._time(sample, batch, jobs, at)

    def _time(self, sample: Sample, batch: Sequence[Outcome], jobs: Sequence[ClaimedJob], at: float) -> None:
        times: list[float] = [outcome.run_ms for outcome in batch]  # type: ignore[misc]
        try:
            runs = buckets(times)
        except TypeError:  # some were never started, or ended with a transaction of their own
            ran = [outcome for outcome in batch if outcome.run_ms is not None]
            if ran:
                self._time(sample, ran, [outcome.job for outcome in ran], at)
            return
        add_up(sample.runs, runs)
        if self.clock.known and jobs[0].ready_at:
            now = self.clock.at(at) * 1000.0
            waits = [now - job.ready_at * 1000.0 for job in jobs]
            if max(runs) > SHORT:
                waits = [wait - ran for wait, ran in zip(waits, times, strict=True)]
            add_up(sample.waits, buckets(waits))

    # -- anything else ------------------------------------------------------------------------------------

    def claimed(self, claims: Iterable[Claim], asked: Collection[str]) -> None:
        """A claim from these queues was answered. One that found nothing at all is an empty one of each; of
        many queues it is one of none of them, or a report would grow with the queues that stand idle."""
        found = False
        for claim in claims:
            found = self.fresh = True
            counts = self._sample(claim.queue).counts
            counts["claims"] = counts.get("claims", 0) + 1
            counts["claimed"] = counts.get("claimed", 0) + len(claim.jobs)
        for queue in () if found else asked if len(asked) <= MANY_QUEUES else ("",):
            counts = self._sample(queue).counts
            counts["empty"] = counts.get("empty", 0) + 1

    def lost(self, worker: str, why: str) -> None:
        """A worker died."""
        self.count("lost")
        self.note("lost", why, worker=worker)

    def rescued(self, worker: str, jobs: Rescued) -> None:
        """The jobs of a dead worker were taken back [C8]."""
        n = jobs.offered + jobs.deferred + jobs.dead + jobs.cancelled
        if n:
            self.count("rescued", n)
            for how, ended in (("dead", jobs.dead), ("cancelled", jobs.cancelled)):
                if ended:
                    self.count(how, ended)
            parts = f"{jobs.offered} offered again, {jobs.deferred} after a pause, {jobs.dead} dead as poison"
            self.note("rescued", f"{plural(n, 'job')} of a dead worker: {parts}", worker=worker)

    def standing(self, depths: Mapping[str, Depth]) -> None:
        """How queues stand at this moment; those with nothing ready leave no trace, see `core.rollup`."""
        waiting = {queue: depth for queue, depth in depths.items() if depth.ready}
        for queue, depth in waiting.items():
            self.count("looks", queue=queue)
            self.count("ready", depth.ready, queue=queue)
            self.count("waited", int((depth.oldest or 0.0) * 1000), queue=queue)
        if waiting:
            self.count("rounds")
            self.count("waited_most", int(max(depth.oldest or 0.0 for depth in waiting.values()) * 1000))

    def count(self, what: str, n: int = 1, *, queue: str = "", task: str = "") -> None:
        """Count something; see `core.rollup.COUNTS`."""
        self.fresh = True
        counts = self._sample(queue, task).counts
        counts[what] = counts.get(what, 0) + n

    def note(
        self,
        kind: EventKind,
        message: str,
        *,
        job: ClaimedJob | None = None,
        id: int | None = None,
        queue: str = "",
        task: str = "",
        worker: str | None = None,
    ) -> None:
        """Something happened that a timeline should show."""
        if job is not None:
            id, queue, task = job.id, job.queue, job.task
        self.fresh = True
        if self.events.has_room():
            self.events.add(
                Event(
                    at=time.monotonic(),
                    kind=kind,
                    text=message,
                    job=id,
                    queue=queue,
                    task=task,
                    worker=self.label if worker is None else worker,
                    attempt=0 if job is None else job.attempt,
                )
            )

    # -- to be reported ---------------------------------------------------------------------------------

    def samples(self) -> list[Sample]:
        """Return the counts since the last call."""
        if dropped := self.events.dropped():
            self.count("dropped", dropped)
        samples, self._samples = self._samples, {}
        self.fresh = False
        minute = self._minute_of(time.monotonic())
        for sample in samples.values():
            if sample.at == NOT_YET:
                sample.at = minute
        return list(samples.values())

    def _sample(self, queue: str, task: str = "") -> Sample:
        minute = self._minute_of(time.monotonic()) if self.clock.known else NOT_YET
        if minute != self._minute and len(self._samples) < MAX_SAMPLES:
            self._minute = minute
        key = (self._minute, queue, task)
        sample = self._samples.get(key)
        if sample is None:
            sample = self._samples[key] = Sample(at=self._minute, queue=queue, task=task)
        return sample

    def _minute_of(self, moment: float) -> int:
        return int(self.clock.at(moment)) // MINUTE * MINUTE


def recorder_for(settings: Settings, label: str = "") -> Recorder:
    """A recorder as the app's settings want it."""
    return Recorder(label, events=settings.events, buffer=settings.event_buffer, every=settings.report_every)
