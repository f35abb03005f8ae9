"""How many jobs a worker can take: the slots of each queue, the jobs that are claimed and wait for one, and
how far ahead it is worth claiming.

The run times of a queue say how many jobs to hold ahead (see `core.slots`); a task that takes batches
fills a slot with many jobs. `total`, where it is given, bounds what runs over all queues, and then nothing is
held ahead.

A run of a key takes one slot: its first job waits for that like any other, and the rest behind it.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Final

from windlass.core.slots import MAX_CLAIM, RAMP, Prefetch
from windlass.store.records import ClaimedJob
from windlass.worker.engine.key_runs import KeyRuns

STALE: Final = 1.0
"""Seconds until claimed jobs that wait for slots go back to where others can take them, unless they are
started at such a pace that all of them will be soon."""

PACE: Final = 2
"""Claimed jobs stay if, at their pace since the last look, all of them start within so many more spans of
STALE."""


class Capacity:
    """The slots and buffers of one worker, by queue. `batches` says how many jobs fill a slot, if not one."""

    def __init__(self, total: int | None, batches: Mapping[str, int]) -> None:
        self.slots: Mapping[str, int] = {}
        """Slots that this worker may use."""
        self.buffers: defaultdict[str, deque[ClaimedJob]] = defaultdict(deque)
        """Jobs that are claimed and not started, of queues of which any ever were."""
        self.busy: defaultdict[str, int] = defaultdict(int)
        """Slots that are taken."""
        self.runs: Final = KeyRuns()
        """Jobs that wait for the one before them to end, and have its slot then."""
        self.low: defaultdict[str, int] = defaultdict(int)
        """How many jobs are left in a queue's buffer when it is time to claim again."""
        self.reserved: Counter[str] = Counter()
        """Slots that are kept for jobs that a flush claims; see `flush_claims`."""
        self.prefetch: defaultdict[str, Prefetch] = defaultdict(Prefetch)
        self.serving: Mapping[str, int] = {}
        """How many workers serve each queue."""
        self._grown: dict[str, tuple[int, float]] = {}
        """By queue of long jobs: how many slots were taken when it last got more, and when that was."""
        self._asked: Counter[str] = Counter()
        """By queue of long jobs: how many were taken when more were asked for, and those it got since."""
        self._total = total
        self._batches = batches
        self._buffered: Counter[str] = Counter()
        self._stuck: dict[str, tuple[int, float]] = {}

    def is_full(self, queue: str) -> bool:
        """Return whether every slot of this queue is taken."""
        return self.busy[queue] >= self.slots.get(queue, 0)

    def has_free_slot(self, queue: str) -> bool:
        """Return whether a slot of this queue is neither taken nor kept."""
        return self.busy[queue] + self.reserved[queue] < self.slots.get(queue, 0)

    def wants(self) -> dict[str, int]:
        """How many jobs of each queue there is room for, those ahead of the slots included."""
        wants: dict[str, int] = {}
        for queue, n in self.slots.items():
            if n < 1:
                continue
            if queue not in self.buffers and queue not in self.busy:  # of most where there are thousands
                wants[queue] = n * self._batches.get(queue, 1)
                continue
            ahead = self.ahead(queue)
            self.low[queue] = ahead // 2
            waiting = len(self.buffers[queue])
            free = n - self.busy[queue] - self.reserved[queue]
            if self._shares(queue):
                self._asked[queue] = self.busy[queue] + waiting
                free = min(free, self._unhurried(queue))
            room = free * self._batches.get(queue, 1) + ahead - waiting
            if room > 0 and waiting <= ahead // 2:
                wants[queue] = room
        return wants if not wants or self.limit(wants) > 0 else {}

    def ahead(self, queue: str) -> int:
        """How many jobs of a queue to hold beyond those that fill its slots."""
        return self.prefetch[queue].ahead(self.slots.get(queue, 0)) if self._total is None else 0

    def spare(self, queue: str) -> int:
        """How many more of those there is room for."""
        return max(0, self.ahead(queue) - len(self.buffers[queue]))

    def run_length(self, queue: str, firsts: int) -> int:
        """Return how many jobs of its key may come behind each of `firsts` jobs. A task that takes batches
        fills its slots by itself."""
        return self.prefetch[queue].behind(firsts) if self._batches.get(queue, 1) == 1 else 0

    def peers(self, wants: Mapping[str, int]) -> dict[str, int]:
        """Return how many workers serve each of these queues whose jobs take long and that others serve
        [K10]."""
        return {queue: self.serving[queue] for queue in wants if self._shares(queue)}

    def ramp(self, queue: str) -> float:
        """Seconds until more jobs of a queue are wanted than come free; 0: they are."""
        if queue not in self._grown or not self._shares(queue) or self.is_full(queue):
            return 0.0
        return max(0.0, self._grown[queue][1] + RAMP - time.monotonic())

    def _shares(self, queue: str) -> bool:
        return self._total is None and self.serving.get(queue, 1) > 1 and self.prefetch[queue].long

    def _unhurried(self, queue: str) -> int:
        """How many slots of a shared queue may be filled now: those that came free since it last got more,
        until RAMP has passed."""
        if self.ramp(queue) <= 0:
            return self.slots[queue]
        return max(0, self._grown[queue][0] - self.busy[queue])

    def limit(self, wants: Mapping[str, int]) -> int:
        """How many jobs there is room for over all of these queues, and at most how many one claim takes."""
        room = min(sum(wants.values()), MAX_CLAIM)
        if self._total is None:
            return room
        most = max((self._batches.get(queue, 1) for queue in wants), default=1)
        free = (self._total - sum(self.busy.values())) * most
        return min(room, free - sum(map(len, self.buffers.values())))

    def put(self, queue: str, jobs: Sequence[ClaimedJob]) -> None:
        """These jobs were claimed and wait for slots."""
        self.buffers[queue].extend(jobs)
        if self._shares(queue):
            # What came free while the claim was under way came free since, too.
            self._asked[queue] += len(jobs)
            taken = max(self.busy[queue] + len(self.buffers[queue]), self._asked[queue])
            if self.ramp(queue) <= 0 or taken > self._grown[queue][0]:
                self._grown[queue] = taken, time.monotonic()
        self._buffered[queue] += len(jobs)

    def put_runs(self, queue: str, jobs: Sequence[ClaimedJob]) -> None:
        """Put jobs that may be of runs of keys into the buffer of their queue."""
        firsts = self.runs.put(jobs)
        if self._shares(queue):
            self._asked[queue] -= len(firsts)  # they take the places of those that ended; `put` counts them
        self.put(queue, firsts)
        self._buffered[queue] += len(jobs) - len(firsts)

    def empty(self, queue: str) -> list[ClaimedJob]:
        """All who wait for slots of this queue; they wait no longer."""
        waiting = [*self.buffers[queue], *self.runs.empty(queue)]
        self.buffers[queue].clear()
        return waiting

    def is_stale(self, queue: str) -> bool:
        """Return whether the jobs that wait for slots of this queue should go back, since none come free.
        Then what runs takes long, so nothing is claimed ahead until a short one has ended."""
        waiting = len(self.buffers[queue]) + self.runs.waiting(queue)
        if not waiting:
            self._stuck.pop(queue, None)
            return False
        now, begun, open = time.monotonic(), self._buffered[queue] - waiting, self.slots.get(queue, 0) > 0
        before, since = self._stuck.setdefault(queue, (begun, now))
        if open and now - since < STALE:
            return False
        self._stuck[queue] = begun, now
        if open and waiting <= PACE * (begun - before):  # others would not be sooner
            return False
        del self._stuck[queue]
        self.prefetch[queue].stuck()
        return True

    def remove(self, job: ClaimedJob) -> None:
        """This job does not wait for a slot any more, nor behind others; who comes next takes its place."""
        buffer = self.buffers[job.queue]
        if job in buffer:
            place = buffer.index(job)
            following = self.runs.next_of(job) if job.run else None
            del buffer[place]
            if following is not None:
                buffer.insert(place, following)
        else:
            self.runs.remove(job)

    def waiting(self) -> list[ClaimedJob]:
        """Every job that waits for a slot, or behind another."""
        return [*(job for buffer in self.buffers.values() for job in buffer), *self.runs]
