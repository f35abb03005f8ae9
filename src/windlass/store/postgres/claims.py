"""Claiming on PostgreSQL: which lanes to ask and in which order, what a worker holds, and waiting for work.

The order of lanes needs to know how long their heads have waited [C2]. That is asked for at most once in
`head_cache` seconds for each queue, which also finds lanes that are new; in between a wake-up that no known
lane explains asks again. Of many lanes only those that may hold something are called; of a few, all.
"""

from __future__ import annotations

import asyncio
import math
import statistics
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec

from windlass.core import ids
from windlass.core.order import LaneHead, claim_order, effective
from windlass.core.slots import MAX_SLOTS, fair_share
from windlass.store.postgres import schema as schemas
from windlass.store.postgres.connections.database import Database
from windlass.store.postgres.connections.listener import POLL_LISTENING, Listener
from windlass.store.postgres.parents import Parents
from windlass.store.postgres.rows import decode_options
from windlass.store.protocol import NOTHING
from windlass.store.records import DEFAULT_OPTIONS, Claim, ClaimedJob, Fence, Needs, Parts, Polling, parts_of
from windlass.store.settings import StoreSettings

LANE_WAIT: Final = 100
"""Milliseconds to wait for a lane that another worker is claiming from."""

BUSY_PAUSE: Final = 1.0
"""Seconds for which a lane that was waited for in vain is only tried: somebody's open transaction may hold
it, and those behind it must not pay for that with each claim [S2]."""

REFILL: Final = 1000
"""Fair jobs that are admitted after a claim at most."""

FEW: Final = 2
"""Up to so many lanes are called without asking first which of them have something: asking costs as much."""

FIRST_PENDING_POLL: Final = 0.001
PENDING_POLL: Final = 0.05
FULL_POLL: Final = 0.5
"""Seconds after which a queue at its limit is asked again: another worker that makes room does not call."""

LOOKS: Final = 5
"""How many looks for work are timed, to say what they cost."""

PROBE: Final = 10.0
"""Seconds to find out whether wake-ups arrive."""

_COLUMNS: Final = (
    "seqs", "ids", "tasks", "payloads", "options", "attempts", "deaths", "enqueued", "offered"
)  # fmt: skip
"""The arrays of a claim's answer, one element for each job."""
_encode = msgspec.json.Encoder().encode


class Lane(msgspec.Struct):
    """What this process remembers of a lane between two claims."""

    head: LaneHead
    waiting: bool
    limited: bool = False
    ring: bool = False
    idle: bool = False
    pending: bool = False
    full: bool = False
    newest: int | None = None
    """The newest claim that was seen there."""
    waited: float = -math.inf
    """When it was waited for in vain."""


class Look(msgspec.Struct, frozen=True):
    """When a queue's heads were asked for, and how many wake-ups for it had been heard by then."""

    at: float
    words: int


class Claims:
    """Claims from lanes in the order of their effective priority."""

    def __init__(
        self,
        database: Database,
        listener: Listener,
        parents: Parents,
        settings: StoreSettings,
        head_cache: float,
    ) -> None:
        self._db = database
        self._listener = listener
        self._parents = parents
        self._heard = listener.heard_of
        self._settings = settings
        self._head_cache = head_cache
        self._looked: dict[str, int] = {}
        """By queue, how many wake-ups had been heard when a caller looked last."""
        self._pending_pause = FIRST_PENDING_POLL
        self._lanes: dict[int, Lane] = {}
        self._looks: dict[str, Look] = {}
        self._words: dict[str, int] = {}
        self._outrun = False
        self._plain = f"CALL {database.schema}.claim($1, $2, $3, $4)"
        self._bound = f"CALL {database.schema}.claim($1, $2, $3, $4, p_needs => $5, p_limited => $6)"
        self._needs: tuple[Needs, str | None] = ({}, None)

    async def claim(
        self,
        worker: int,
        queues: Sequence[str] | Mapping[str, int],
        limit: int,
        needs: Needs = NOTHING,
        crowds: Mapping[str, int] = NOTHING,
    ) -> list[Claim]:
        """See Store.claim. One round trip where the queues have one or two lanes; see FEW."""
        looked = {queue: self._heard(queue) for queue in queues}
        self._looked.update(looked)
        if needs is not self._needs[0]:
            self._needs = (needs, _encode(dict(needs)).decode() if needs else None)
        bounds = queues if isinstance(queues, Mapping) else dict.fromkeys(queues, limit)
        room = {queue: bound for queue, bound in bounds.items() if bound > 0}
        if limit < 1 or not room:
            return []
        if crowds:
            await self._share(room, crowds)
        words = {queue: looked[queue] for queue in room}
        woken = any(self._words.get(queue, 0) < heard for queue, heard in words.items())
        self._words.update(words)
        fresh = self._is_stale(room)
        if fresh:
            await self._refresh(room)
        few = not fresh and sum(lane.head.queue in room for lane in self._lanes.values()) <= FEW
        claims = await self._sweep(worker, room, limit, all_lanes=few)
        # Woken for nothing that is known here or that others took: there may be a lane that is new.
        if not claims and not fresh and not self._outrun and (woken or not few):
            await self._refresh(room)
            claims = await self._sweep(worker, room, limit, all_lanes=False)
        if claims:
            self._pending_pause = FIRST_PENDING_POLL
            if parts := parts_of(claims):
                claims += await self._more_parts(worker, claims, parts, room, limit)
        return claims

    async def _share(self, room: dict[str, int], crowds: Mapping[str, int]) -> None:
        """Leave to the other workers of these queues their shares of what waits there [K10]."""
        queues = [queue for queue in crowds if room.get(queue, 0) > 1]
        waiting = {r["queue"]: r["n"] for r in await self._db.query("waiting_in", queues)} if queues else {}
        for queue in queues:
            room[queue] = min(room[queue], fair_share(waiting.get(queue, 0), crowds[queue]))

    async def _more_parts(
        self,
        worker: int,
        claims: Sequence[Claim],
        parts: Mapping[str, Parts],
        room: Mapping[str, int],
        limit: int,
    ) -> list[Claim]:
        """A parent has one part waiting at a time, so that parents take turns [P8]. Parts that were claimed
        make way for others: for as many as there is room for here, and then for one of each parent. Parts are
        not held ahead of slots, whatever room a queue of short jobs has."""
        more: list[Claim] = []
        left = 0 if claims[-1].jobs[0].deaths else limit - sum(len(claim.jobs) for claim in claims)
        for queue, mine in parts.items():
            bound = min(left, room[queue], MAX_SLOTS)
            await self._parents.claimed(mine, wanted=max(1, -(-bound // len(mine))))
            if bound > 0:
                found = await self._sweep(worker, {queue: bound}, bound, all_lanes=True)
                left -= sum(len(claim.jobs) for claim in found)
                more += found
        for mine in parts_of(more).values():
            await self._parents.claimed(mine)
        return more

    async def unfinished(self, worker: int) -> list[Claim]:
        """See Store.unfinished. A claim whose answer was lost may still be under way: it is waited for."""
        async with (
            self._db.connection(self._db.deadline) as connection,
            connection.transaction(isolation="read_committed"),
        ):
            await connection.execute(schemas.call("worker_alone", 1, self._db.schema), worker)
            rows = await connection.fetch(schemas.query("unfinished_jobs", self._db.schema), worker)
        claims: dict[int, Claim] = {}
        for r in rows:
            claim = claims.setdefault(r["claim"], Claim(r["claim"], r["lane"], r["queue"], r["priority"], []))
            options = decode_options(r["options"])
            claim.jobs.append(
                ClaimedJob(
                    r["id"], r["lane"], r["claim"], r["seq"], r["task"], r["payload"], r["queue"],
                    r["priority"], r["attempt"], r["deaths"], options, r["enqueued"], r["offered"],
                )
            )  # fmt: skip
        return list(claims.values())

    async def fences(self, worker: int, since: int = 0) -> set[Fence]:
        """See Store.fences."""
        spans = await self._db.rows("unfinished_spans", worker, since)
        return {(r["lane"], r["claim"], seq) for r in spans for seq in range(r["first"], r["beyond"])}

    async def wait(self, queues: Sequence[str], timeout: float) -> bool:
        """See Store.wait."""
        if self._pending(queues):
            # Its transaction drew a number before the lane was marked idle, so it will not call; mostly it
            # commits within a millisecond.
            await asyncio.sleep(min(timeout, self._pending_pause))
            self._pending_pause = min(self._pending_pause * 2, PENDING_POLL)
            return True
        self._pending_pause = FIRST_PENDING_POLL
        since = [self._looked.get(queue, -1) for queue in queues]
        patience = max(self._patience(queues), PENDING_POLL)
        if self._full(queues):
            patience = min(patience, FULL_POLL)
        heard = await self._listener.wait(queues, min(timeout, patience), since)
        if heard:
            # The caller looks now: what was heard up to here is not told twice.
            self._looked.update((queue, self._heard(queue)) for queue in queues)
        return heard or patience < timeout

    async def polling(self, queues: Sequence[str]) -> Polling:
        """See Store.polling. A poll asks for the heads of lanes, or where there are few and that was done
        less than `head_cache` seconds ago, calls those instead."""
        wakes = await self._listener.check(PROBE)
        every = POLL_LISTENING if wakes else self._listener.idle_poll
        lanes = 0
        took: list[float] = []
        for _ in range(LOOKS):
            before = time.monotonic()
            lanes = len(await self._db.rows("lane_heads", list(queues)))
            took.append(time.monotonic() - before)
        pause = self._listener.mean_pause
        asks = 1 / max(1, math.ceil(self._head_cache / pause))
        calls = max(lanes, 1) if lanes <= FEW else 1
        return Polling(every, wakes, (asks + (1 - asks) * calls) / pause, statistics.median(took))

    def handed(self, claims: Collection[Claim]) -> None:
        """A flush has made these claims: nobody else has outrun this worker."""
        for claim in claims:
            if lane := self._lanes.get(claim.lane):
                lane.newest = claim.id

    def made_room(self, queues: Collection[str]) -> None:
        """Jobs of these queues have ended: who waits here for a queue at its limit may look again [F3]."""
        for queue in self._full(queues):
            self._listener.hear(queue)

    def _pending(self, queues: Collection[str]) -> bool:
        """Whether numbers are drawn in these queues that no claim could see yet: look again soon."""
        return any(lane.pending and lane.head.queue in queues for lane in self._lanes.values())

    def _full(self, queues: Collection[str]) -> set[str]:
        """Those of these queues that had as many running as they may when they were last asked [F3]."""
        return {lane.head.queue for lane in self._lanes.values() if lane.full and lane.head.queue in queues}

    def _patience(self, queues: Collection[str]) -> float:
        """How long these queues may be left alone: a wake-up since their heads were asked for may have been
        for a lane that is not known here."""
        looks = ((queue, self._looks.get(queue)) for queue in queues)
        restless = any(look is not None and look.words < self._heard(queue) for queue, look in looks)
        return self._head_cache if restless else float("inf")

    def _is_stale(self, queues: Collection[str]) -> bool:
        oldest = time.monotonic() - self._head_cache
        return any(queue not in self._looks or self._looks[queue].at <= oldest for queue in queues)

    async def _refresh(self, queues: Collection[str]) -> None:
        looks = {queue: Look(time.monotonic(), self._heard(queue)) for queue in queues}
        rows = await self._db.rows("lane_heads", list(queues))
        known = self._lanes
        lanes = {lane.head.lane: lane for lane in known.values() if lane.head.queue not in looks}
        for r in rows:
            head = LaneHead(r["lane"], r["queue"], r["priority"], r["waited"])
            before = known.get(head.lane)
            lanes[head.lane] = lane = Lane(head, r["waiting"], r["limited"], r["ring"])
            if before is not None:
                lane.idle, lane.newest, lane.waited = before.idle, before.newest, before.waited
        order = claim_order((lane.head for lane in lanes.values()), self._settings.ageing_step)
        self._lanes = {head.lane: lanes[head.lane] for head in order}
        self._looks.update(looks)

    async def _sweep(self, worker: int, room: dict[str, int], limit: int, *, all_lanes: bool) -> list[Claim]:
        self._outrun = False
        claims: list[Claim] = []
        left = limit
        for lane in list(self._lanes.values()):
            queue = lane.head.queue
            bound = min(left, room.get(queue, 0))
            if bound < 1 or (lane.idle and not lane.waiting and not all_lanes):
                continue
            claim = await self._claim_lane(worker, lane, bound)
            if claim is None:
                continue
            claims.append(claim)
            await self._refill(lane, bound)
            left -= len(claim.jobs)
            room[queue] -= len(claim.jobs)
            if self._was_aged(lane) and self._has_rivals(lane, room):
                # It came first because its head had waited; that head is gone, so its rank is not known.
                self._looks.pop(queue, None)
            # A job that has seen a worker die is claimed alone [C8].
            if left <= 0 or claim.jobs[0].deaths:
                break
        return claims

    async def _refill(self, lane: Lane, wanted: int) -> None:
        """Fill a lane that fair jobs wait behind, now that it has room for more: at the coordinator's pace
        alone it would give out no more than a window each time [C3]. The next claim will want as many."""
        if lane.ring:
            await self._db.value("admit_ring", lane.head.queue, lane.head.priority, REFILL, wanted)

    def _was_aged(self, lane: Lane) -> bool:
        step = self._settings.ageing_step
        return effective(lane.head.priority, lane.head.waited, step) < lane.head.priority

    def _has_rivals(self, lane: Lane, room: Mapping[str, int]) -> bool:
        return any(
            other.waiting and other.head.queue in room and other.head.lane != lane.head.lane
            for other in self._lanes.values()
        )

    async def _claim_lane(self, worker: int, lane: Lane, limit: int) -> Claim | None:
        row = await self._call(worker, lane, limit)
        if row["status"] == "limited":  # since its head was asked for
            lane.limited = True
            row = await self._call(worker, lane, limit)
        status = row["status"]
        newest = row["claim"]
        if newest is not None and newest != lane.newest:
            self._outrun |= lane.newest is not None and status != "jobs"
            lane.newest = newest
        lane.idle = status in ("empty", "paused")
        lane.waiting = status in ("jobs", "busy", "pending", "full", "slow", "aside")
        lane.pending = status in ("busy", "pending", "slow", "aside")
        lane.full = status == "full"
        return _claim(row, lane.head) if status == "jobs" else None

    async def _call(self, worker: int, lane: Lane, limit: int) -> Any:
        wait = LANE_WAIT if time.monotonic() - lane.waited > BUSY_PAUSE else 1
        args = (lane.head.lane, worker, limit, wait)
        needs = self._needs[1]
        async with self._db.connection(self._db.deadline) as connection:
            if needs is None and not lane.limited:
                row = await connection.fetchrow(self._plain, *args)
            else:
                row = await connection.fetchrow(self._bound, *args, needs, lane.limited)
        if row["status"] != "busy":
            lane.waited = -math.inf
        elif wait > 1:
            lane.waited = time.monotonic()
        return row


def _claim(row: Any, head: LaneHead) -> Claim:
    lane, queue, priority, claim = head.lane, head.queue, head.priority, row["claim"]
    base = lane << ids.SEQ_BITS
    jobs = [
        ClaimedJob(
            base | seq if job is None else job,
            lane,
            claim,
            seq,
            task,
            payload,
            queue,
            priority,
            attempt,
            deaths,
            DEFAULT_OPTIONS if options is None else decode_options(options),
            enqueued,
            enqueued if offered is None else offered,
        )
        for seq, job, task, payload, options, attempt, deaths, enqueued, offered in zip(
            *(row[name] for name in _COLUMNS), strict=True
        )
    ]
    return Claim(claim, lane, queue, priority, jobs)


def claims_of(row: Any) -> list[Claim]:
    """The claims that a flush has made: see windlass.finish_and_claim."""
    claims: dict[int, Claim] = {}
    columns = zip(
        *(row[name] for name in ("lanes", "queues", "priorities", "claims", *_COLUMNS)), strict=True
    )
    for lane, queue, priority, claim, seq, job, task, payload, options, attempt, deaths, *times in columns:
        claims.setdefault(claim, Claim(claim, lane, queue, priority, [])).jobs.append(
            ClaimedJob(
                job, lane, claim, seq, task, payload, queue, priority, attempt, deaths,
                DEFAULT_OPTIONS if options is None else decode_options(options), *times,
            )
        )  # fmt: skip
    return list(claims.values())
