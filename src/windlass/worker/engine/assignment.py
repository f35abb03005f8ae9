"""The assignment of a worker: its slots, and the settings of its queues. A value, sent whole each
second.

`assignment_for` derives that of one worker from what the store says [K1]; it decides, and does no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from windlass.core.retry import Backoff
from windlass.core.slots import MAX_SLOTS, UNSIZED, share
from windlass.store.records import ClusterView, QueueRecord

DEFAULT = QueueRecord(name="-")


class Assignment(msgspec.Struct, frozen=True):
    """The slots and settings of one worker. It gets nothing of a queue without slots: paused, cooling, or
    none assigned."""

    slots: dict[str, int] = {}
    queues: dict[str, QueueRecord] = {}
    serving: dict[str, int] = {}
    """How many workers serve each queue that it has slots for."""

    @property
    def peers(self) -> int:
        """Return how many workers serve the queue here that the fewest serve, this one included."""
        return min(self.serving.values(), default=1)

    def backoff(self, name: str) -> Backoff:
        """How the queue spaces retries of tasks without a policy of their own [O2]."""
        queue = self.queues.get(name, DEFAULT)
        return Backoff(queue.backoff_base if queue.backoff else 0.0, queue.backoff_cap)

    def without(self, name: str) -> Assignment:
        """Return this assignment with no slots for one queue."""
        return Assignment({**self.slots, name: 0}, self.queues, self.serving)


def assignment_for(
    worker: int,
    wanted: Mapping[str, int | None],
    view: ClusterView | None,
    before: Assignment,
    *,
    trusted: bool = True,
    missing: int = 0,
) -> tuple[Assignment, list[str]]:
    """The worker's new assignment, and the queues whose row is gone.

    `wanted` are the queues it serves, with the slots its flags named. `view` is the store's last answer;
    with `trusted` off it is an old one, so the slots assigned in it no longer count and a fair share stands
    in [K1]. While siblings that are being started are `missing`, it has no more than it will have beside
    them: long jobs that it began with in their place would stay with it.
    """
    if view is None:
        return before, []
    slots: dict[str, int] = {}
    gone: list[str] = []
    for name, flag in wanted.items():
        queue = view.queues.get(name)
        if queue is None:  # keep the present size
            gone.append(name)
            slots[name] = before.slots.get(name, min(flag or UNSIZED, MAX_SLOTS))
        elif queue.paused or queue.cooling > 0:
            slots[name] = 0
        elif queue.max_workers is None:
            slots[name] = min(queue.process_slots or flag or UNSIZED, MAX_SLOTS)
        else:
            peers = view.serving.get(name, 1)
            assigned = view.slots.get(worker, {}).get(name) if trusted else None
            slots[name] = share(queue.max_workers, assigned, peers)
            if missing:
                slots[name] = min(slots[name], share(queue.max_workers, None, peers + missing))
            slots[name] = min(slots[name], queue.process_slots or MAX_SLOTS)
    serving = {name: view.serving.get(name, 1) for name, n in slots.items() if n}
    known = {name: view.queues[name] for name in wanted if name in view.queues}
    return Assignment(slots, known, serving), gone
