"""How a worker is steered at the moment: its slots, and how its queues stand. A value, sent whole each
second.

`steer` turns what the store says into the view of one worker [K1]; it decides, and asks nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from windlass.core.retry import Backoff
from windlass.core.slots import MOST, UNSIZED, share
from windlass.store.records import QueueRecord, Steering

DEFAULT = QueueRecord(name="-")


class View(msgspec.Struct, frozen=True):
    """What one worker may do. A queue without slots gives it nothing: paused, cooling, or none assigned."""

    slots: dict[str, int] = {}
    queues: dict[str, QueueRecord] = {}
    crowd: int = 1
    """How many workers serve the queue here that the fewest serve."""

    def queue(self, name: str) -> QueueRecord:
        """The queue's settings, or the defaults where it is not known yet."""
        return self.queues.get(name, DEFAULT)

    def backoff(self, name: str) -> Backoff:
        """How the queue spaces retries of tasks without a policy of their own [O2]."""
        queue = self.queue(name)
        return Backoff(queue.backoff_base if queue.backoff else 0.0, queue.backoff_cap)

    def closed(self, name: str) -> View:
        """This view, with no slots for one queue until the next one comes."""
        return View({**self.slots, name: 0}, self.queues, self.crowd)


def steer(
    worker: int,
    wanted: Mapping[str, int | None],
    told: Steering | None,
    before: View,
    *,
    trusted: bool = True,
    missing: int = 0,
) -> tuple[View, list[str]]:
    """The worker's new view, and the queues whose row is gone.

    `wanted` are the queues it serves, with the slots its flags named. `told` is the store's last answer; with
    `trusted` off it is an old one, so the assignment in it no longer counts and a fair share stands in [K1].
    While siblings that are being started are `missing`, it has no more than it will have beside them: long
    jobs that it began with in their place would stay with it.
    """
    if told is None:
        return before, []
    slots: dict[str, int] = {}
    gone: list[str] = []
    for name, flag in wanted.items():
        queue = told.queues.get(name)
        if queue is None:  # keep the present size
            gone.append(name)
            slots[name] = before.slots.get(name, min(flag or UNSIZED, MOST))
        elif queue.paused or queue.cooling > 0:
            slots[name] = 0
        elif queue.max_workers is None:
            slots[name] = min(flag or UNSIZED, MOST)
        else:
            serving = told.serving.get(name, 1)
            assigned = told.slots.get(worker, {}).get(name) if trusted else None
            slots[name] = share(queue.max_workers, assigned, serving)
            if missing:
                slots[name] = min(slots[name], share(queue.max_workers, None, serving + missing))
    crowd = min((told.serving.get(name, 1) for name, n in slots.items() if n), default=1)
    return View(slots, {name: told.queues[name] for name in wanted if name in told.queues}, crowd), gone


def everything(queues: Iterable[str], slots: int) -> View:
    """A view for a worker that nobody steers: so many slots for each of these queues."""
    return View(dict.fromkeys(queues, slots))
