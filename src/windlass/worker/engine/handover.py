"""Room for jobs that come with the answer to a flush: the end of a keyed job often lets the next one of its
key go, and the store hands it over in the same transaction (see `Store.finish`).

A slot that such a job leaves, with nothing claimed ahead to put into it, is kept free until its outcome is
written; the claim loop does not ask for it meanwhile. What is not handed over by then is claimed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence

from windlass.store.records import DEFAULT_OPTIONS, Claim, ClaimedJob, Finished, Room
from windlass.worker.engine.capacity import Capacity
from windlass.worker.engine.feedback import Feedback
from windlass.worker.reports.recorder import Recorder


class Handover:
    """The slots of one worker that are kept for jobs handed over. `take` starts such jobs, `lost` is told of
    an answer that did not come, and `changed` is set when the claim loop may have the slots."""

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
        """Whether nothing more is to be started here."""
        self._reserved = capacity.reserved
        self._feedback = feedback
        self._record = record
        self._changed = changed
        self._take = take
        self._lost = lost
        self._asked: Counter[str] = Counter()

    def reserve(self, job: ClaimedJob) -> bool:
        """Keep the slot of a job that has just ended, if the end of it may let another one go."""
        options = job.options
        if options is DEFAULT_OPTIONS or self.closed:
            return False
        if options.ordering_key is None and options.concurrency_key is None and options.task_limit is None:
            return False
        self._reserved[job.queue] += 1
        return True

    def ask(self) -> Room | None:
        """What to ask for with the next flush: it has the outcomes of all jobs whose slots are kept."""
        self._asked = Counter(self._reserved)
        if not self._asked or self.closed:
            return None
        return Room(dict(self._asked), frozenset(self._feedback.needs))

    def lost(self) -> None:
        """The answer to a flush was lost, and with it perhaps jobs: time to compare [S4]."""
        self._lost()
        self._changed.set()

    def answered(self, finished: Finished) -> None:
        """The flush was answered: start what came with it, and let the claim loop have the rest."""
        if not self._asked:
            return
        self._reserved.subtract(self._asked)
        for queue in [queue for queue, n in self._reserved.items() if n <= 0]:
            del self._reserved[queue]
        asked, self._asked = self._asked.total(), Counter()
        came = 0
        if finished.claims:
            self._record.claimed(finished.claims, ())
            came = self._take(finished.claims)
        if came < asked:
            self._changed.set()
