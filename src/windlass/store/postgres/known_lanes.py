"""The memory of lanes that a process keeps between two claims on PostgreSQL, and which queues it must ask
about again. Nothing here talks to the server.

A lane is *live* while there may be something to claim; only live lanes are called. It is *quiet* once it was
seen empty with its idle mark set: whoever enqueues the next job will call [rule 10]. So of many queues only
those are asked about that are restless: woken since, not quiet, or shut. What is kept of the others grows
with the queues that a worker serves, what is done with it does not.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from windlass.core.abilities import can_run
from windlass.core.order import LaneHead, claim_order

LATE: Final = 100
"""Lanes are declared in transactions, so one with a lower number may become visible later, by so many."""


class Lane(msgspec.Struct):
    """A lane, as it was when it was last asked for or called."""

    head: LaneHead
    needs: str
    """The abilities that its jobs need [K14]."""
    waiting: bool
    limited: bool = False
    ring: bool = False
    reached: int = 0
    """The last number that was seen drawn there."""
    quiet: bool = False
    idle: bool = False
    pending: bool = False
    full: bool = False
    newest: int | None = None
    """The newest claim that was seen there."""
    waited: float = -math.inf
    """When it was waited for in vain."""

    @property
    def live(self) -> bool:
        """Return whether it may hold something."""
        return self.waiting or not self.idle


class Wakeups:
    """Queues with a wake-up: since a caller looked, since one claimed there, and since their heads were
    asked for. Only queues that a caller has looked for are kept."""

    def __init__(self) -> None:
        self.known: set[str] = set()
        self.unseen: set[str] = set()
        self.unclaimed: set[str] = set()
        self.unasked: set[str] = set()

    def note(self, topic: object) -> None:
        """Note a wake-up for this queue; None: there may have been some for any."""
        if topic is None:
            for woken in (self.unseen, self.unclaimed, self.unasked):
                woken.update(self.known)
        elif isinstance(topic, str) and topic in self.known:
            self.unseen.add(topic)
            self.unclaimed.add(topic)
            self.unasked.add(topic)

    def looked(self, queues: Collection[str]) -> None:
        """A caller looks at these now."""
        self.known.update(queues)
        self.unseen -= _both(self.unseen, queues)

    def any_unseen(self, queues: Collection[str]) -> bool:
        """Return whether one of these had a wake-up since, or was never looked at."""
        return bool(_both(self.unseen, queues)) or not self.known.issuperset(queues)

    def claimed(self, queues: Collection[str]) -> set[str]:
        """Return the queues that had a wake-up since the last claim there; this is the next."""
        woken = _both(self.unclaimed, queues)
        self.unclaimed -= woken
        return woken


class KnownLanes:
    """The lanes of queues that were asked for."""

    def __init__(self, ageing_step: float) -> None:
        self._ageing_step = ageing_step
        self._lanes: dict[int, Lane] = {}
        self._of: dict[str, dict[int, Lane]] = {}
        self._live: dict[int, Lane] = {}
        self._sorted = True
        self._highest = 0
        """The highest number of a lane that was seen, of whatever queue."""
        self._looks: dict[str, float] = {}
        self._restless: set[str] = set()
        self.wakeups: Wakeups = Wakeups()

    # -- which queues to ask about ------------------------------------------------------------------------

    def stale(self, queues: Collection[str], oldest: float) -> bool:
        """Return whether one of these was not asked for since this time."""
        return any(self._looks.get(queue, -math.inf) <= oldest for queue in queues)

    def unknown(self, queues: Collection[str]) -> list[str]:
        """Return the queues that were never asked for, or are to be ranked anew."""
        return [] if self._looks.keys() >= set(queues) else [q for q in queues if q not in self._looks]

    def restless(self) -> set[str]:
        """The queues that may have something, or come to have something without a call."""
        return self._restless | self.wakeups.unasked

    def rank_anew(self, queue: str) -> None:
        """The heads of this queue are not what they were."""
        self._looks.pop(queue, None)

    def quiet(self) -> tuple[list[int], list[int], int]:
        """The lanes of queues that are left alone, how far each was seen, and below which number all lanes
        are known."""
        restless = self.restless()
        found = [lane for lane in self._lanes.values() if lane.head.queue not in restless]
        return [each.head.lane for each in found], [each.reached for each in found], self._highest - LATE

    def queues_of(self, moved: Sequence[Mapping[str, Any]]) -> set[str]:
        """The queues of lanes that have moved, and of those that are new here."""
        self._highest = max((self._highest, *(row["lane"] for row in moved)))
        return {row["queue"] for row in moved if row["moved"] or row["lane"] not in self._lanes}

    @contextmanager
    def asking(self, queues: Collection[str]) -> Iterator[list[Mapping[str, Any]]]:
        """Ask for all lanes of these queues: the server's answer is added to the list within the block. A
        wake-up that comes meanwhile may be news; an earlier one still is, where there is no answer."""
        now = time.monotonic()
        woken = _both(self.wakeups.unasked, queues)
        self.wakeups.unasked -= woken
        rows: list[Mapping[str, Any]] = []
        try:
            yield rows
        except BaseException:
            self.wakeups.unasked |= woken
            raise
        self.wakeups.known.update(queues)
        self._looks.update(dict.fromkeys(queues, now))
        self._asked(queues, rows)

    def _asked(self, queues: Collection[str], rows: Iterable[Mapping[str, Any]]) -> None:
        before = {id: lane for queue in queues for id, lane in self._of.pop(queue, {}).items()}
        self._restless.difference_update(queues)
        for id in before:
            del self._lanes[id]
            self._live.pop(id, None)
        for row in rows:
            if row["shut"]:  # it opens by itself, or with a call
                self._restless.add(row["queue"])
                continue
            head = LaneHead(row["lane"], row["queue"], row["priority"], row["waited"])
            lane = Lane(
                head, row["abilities"], row["waiting"], row["limited"], row["ring"], row["reached"],
                row["quiet"],
            )  # fmt: skip
            lane.idle = lane.quiet
            if (old := before.get(head.lane)) is not None:
                lane.newest, lane.waited = old.newest, old.waited
                # Left to others, unless nothing has come in since the last look: then who emptied it may be
                # gone without a mark, and it is called once more.
                lane.idle |= old.idle and old.reached != lane.reached
            self._lanes[head.lane] = lane
            self._of.setdefault(head.queue, {})[head.lane] = lane
            self.update(lane)

    # -- lanes --------------------------------------------------------------------------------------------

    def get(self, lane: int) -> Lane | None:
        """The lane of this number, if it is known."""
        return self._lanes.get(lane)

    def count(self, queues: Iterable[str], abilities: Set[str]) -> int:
        """How many lanes these queues have for a worker with these abilities."""
        lanes = (lane for queue in queues for lane in self._of.get(queue, {}).values())
        return sum(can_run(lane.needs, abilities) for lane in lanes)

    def of(self, queues: Iterable[str], abilities: Set[str]) -> list[Lane]:
        """All those lanes, in the order of their heads."""
        lanes = {
            id: lane
            for queue in queues
            for id, lane in self._of.get(queue, {}).items()
            if can_run(lane.needs, abilities)
        }
        return [lanes[head.lane] for head in self._order(lanes.values())]

    def live(self, abilities: Set[str]) -> list[Lane]:
        """The lanes that may hold something for such a worker, in the order of their heads."""
        if not self._sorted:
            self._live = {head.lane: self._live[head.lane] for head in self._order(self._live.values())}
            self._sorted = True
        return [lane for lane in self._live.values() if can_run(lane.needs, abilities)]

    def live_in(self, queues: Collection[str]) -> Iterator[Lane]:
        """Return the live lanes of these queues, in no order."""
        return (lane for lane in self._live.values() if lane.head.queue in queues)

    def wake(self, queues: Iterable[str]) -> None:
        """Somebody has called: there may be something in these."""
        for queue in queues:
            for lane in self._of.get(queue, {}).values():
                lane.waiting, lane.quiet = True, False
                self.update(lane)

    def update(self, lane: Lane) -> None:
        """A lane was asked for, or called; one that was asked for anew meanwhile is of no interest."""
        id, queue = lane.head.lane, lane.head.queue
        if self._lanes.get(id) is not lane:
            return
        if not lane.live:
            self._live.pop(id, None)
        elif id not in self._live:
            self._live[id] = lane
            self._sorted = False
        if not lane.quiet:
            self._restless.add(queue)
        elif queue in self._restless and all(each.quiet for each in self._of[queue].values()):
            self._restless.discard(queue)

    def _order(self, lanes: Iterable[Lane]) -> list[LaneHead]:
        return claim_order((lane.head for lane in lanes), self._ageing_step)


def _both(few: set[str], many: Collection[str]) -> set[str]:
    """Return what is in both, by a walk over the first."""
    return {each for each in few if each in many}
