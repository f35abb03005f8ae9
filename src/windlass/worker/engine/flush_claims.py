"""Room for jobs that a flush claims: the end of a keyed job often lets the next one of its key go, and the
store claims it for the same worker in the same transaction (see `Store.finish`).

A slot that such a job leaves, with nothing claimed ahead to put into it, is kept free until its outcome is
written; the claim loop does not ask for it meanwhile. If the flush claims nothing, the loop does. Where jobs
are short there is room ahead of the slots, too, and behind each job for a run of its key.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence

from windlass.store.records import Claim, ClaimedJob, Finished, Room
from windlass.worker.engine.capacity import Capacity
from windlass.worker.engine.feedback import Feedback
from windlass.worker.reports.recorder import Recorder


class FlushClaims:
    """The slots of one worker that are kept for jobs that a flush claims. `take` starts such jobs, `lost` is
    called when an answer did not come, and `changed` is set when the claim loop may have the slots."""

    def __init__(
        self,
        capacity: Capacity,
        feedback: Feedback,
        record: Recorder,
        changed: asyncio.Event,
        *,
        take: Callable[[Sequence[Claim]], int],
        lost: Callable[[], None],
    ) -> None:
        self.closed = False
        """True if nothing more is to be started here."""
        self._capacity = capacity
        self._reserved = capacity.reserved
        self._feedback = feedback
        self._record = record
        self._changed = changed
        self._take = take
        self._lost = lost
        self._ended: Counter[str] = Counter()
        """Jobs whose ends may let others go: since the last answer, and those of the flush under way."""
        self._asked: tuple[Counter[str], Counter[str]] = Counter(), Counter()

    def note_end(self, job: ClaimedJob, *, free: bool) -> bool:
        """A job has just ended, and with it its run. If that may let another one go, and its slot is `free`,
        that is kept; whether it is."""
        options = job.options
        if self.closed or (
            options.ordering_key is None and options.concurrency_key is None and options.task_limit is None
        ):
            return False
        self._ended[job.queue] += 1
        if free:
            self._reserved[job.queue] += 1
        return free

    def ask(self) -> Room | None:
        """Return the room to ask for with the next flush: it has the outcomes of all jobs whose ends were
        noted."""
        self._asked = Counter(self._reserved), Counter(self._ended)
        if self.closed:
            return None
        queues: dict[str, int] = {}
        for queue, ended in self._ended.items():
            room = min(ended, self._reserved[queue] + self._capacity.spare(queue))
            if room > 0:
                queues[queue] = room
        if not queues:
            return None
        firsts = sum(queues.values())
        runs = {queue: self._capacity.run_length(queue, firsts) for queue in queues}
        return Room(queues, frozenset(self._feedback.needs), runs)

    def lost(self) -> None:
        """The answer to a flush was lost, and with it perhaps jobs: time to compare [S4]."""
        self._lost()
        self._changed.set()

    def answered(self, finished: Finished) -> None:
        """The flush was answered: start what came with it, and let the claim loop have the rest."""
        reserved, ended = self._asked
        if not ended:
            return
        self._asked = Counter(), Counter()
        for kept, done in ((self._reserved, reserved), (self._ended, ended)):
            kept.subtract(done)
            for queue in [queue for queue, n in kept.items() if n <= 0]:
                del kept[queue]
        asked = reserved.total()
        came = 0
        if finished.claims:
            self._record.claimed(finished.claims, ())
            came = self._take(finished.claims)
        if came < asked:
            self._changed.set()
