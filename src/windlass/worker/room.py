"""How much a worker has room for: its slots, the jobs that wait for one, and how far ahead it is worth
claiming.

A queue's run times say how many jobs to hold ahead (see `core.appetite`); a task that takes batches fills a
slot with many jobs. `total`, where it is given, bounds what runs over all queues, and nothing is held ahead
then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from windlass.core.appetite import Appetite
from windlass.store.records import ClaimedJob


class Room:
    """The slots and buffers of one worker, by queue. `batches` says how many jobs fill a slot, if not one."""

    def __init__(self, total: int | None, batches: Mapping[str, int]) -> None:
        self.buffers: dict[str, deque[ClaimedJob]] = {}
        """Jobs that are claimed and not started."""
        self.busy: dict[str, int] = {}
        """Slots that are taken."""
        self.low: dict[str, int] = {}
        """With so many left in its buffer it is time to claim again."""
        self.appetites: dict[str, Appetite] = {}
        self._total = total
        self._batches = batches

    def wants(self, slots: Mapping[str, int]) -> dict[str, int]:
        """How many jobs of each queue there is room for, those ahead of the slots included."""
        wants: dict[str, int] = {}
        for queue, n in slots.items():
            if n < 1:
                continue
            if queue not in self.buffers:
                self.buffers[queue], self.busy[queue] = deque(), 0
                self.appetites[queue] = Appetite()
            ahead = self.ahead(queue, n)
            self.low[queue] = ahead // 2
            waiting = len(self.buffers[queue])
            room = (n - self.busy[queue]) * self._batches.get(queue, 1) + ahead - waiting
            if room > 0 and waiting <= ahead // 2:
                wants[queue] = room
        return wants if not wants or self.limit(wants) > 0 else {}

    def ahead(self, queue: str, slots: int) -> int:
        """How many jobs of this queue are worth holding ahead of its slots."""
        return self.appetites[queue].ahead(slots) if self._total is None else 0

    def stuck(self, queue: str) -> None:
        """Jobs waited for slots that did not come free: what runs takes long, so nothing is claimed ahead
        until a short one has ended."""
        if queue in self.appetites:
            self.appetites[queue].stuck()

    def limit(self, wants: Mapping[str, int]) -> int:
        """How many jobs there is room for over all of these queues."""
        room = sum(wants.values())
        if self._total is None:
            return room
        most = max((self._batches.get(queue, 1) for queue in wants), default=1)
        free = (self._total - sum(self.busy.values())) * most
        return min(room, free - sum(map(len, self.buffers.values())))
