"""Claiming on PostgreSQL: which lanes to ask and in which order, what a worker holds, and waiting for work.

The order of lanes needs to know how long their heads have waited [C2]. That is asked for at most once in
`head_cache` seconds for each queue, which also finds lanes that are new; in between a wake-up that no known
lane explains asks again. Of many lanes only those that may hold something are called; of a few, all. Of many
queues only the restless are asked about, see `known_lanes`; the others every few seconds, in one question.
"""

from __future__ import annotations

import asyncio
import math
import statistics
import time
from collections.abc import Collection, Mapping, Sequence, Set
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from windlass.core import abilities as core
from windlass.core import ids
from windlass.core.order import LaneHead, effective
from windlass.core.slots import MAX_PARTS, fair_share
from windlass.store.postgres import schema as schemas
from windlass.store.postgres.connections.database import Database
from windlass.store.postgres.connections.listener import POLL_LISTENING, Listener
from windlass.store.postgres.flow.refills import Refills
from windlass.store.postgres.known_lanes import KnownLanes, Lane
from windlass.store.postgres.parents import Parents
from windlass.store.postgres.rows import decode_options, known_steps
from windlass.store.protocol import NOTHING
from windlass.store.records import DEFAULT_OPTIONS, Claim, ClaimedJob, Fence, Needs, Parts, Polling, parts_of
from windlass.store.settings import StoreSettings

LANE_WAIT: Final = 100
"""Milliseconds to wait for a lane that another worker is claiming from."""

BUSY_PAUSE: Final = 1.0
"""Seconds for which a lane that was waited for in vain is only tried: somebody's open transaction may hold
it, and those behind it must not pay for that with each claim [S2]."""

FEW: Final = 2
"""Up to so many lanes are called without asking first which of them have something: asking costs as much."""

MANY: Final = 32
"""Queues up to which all are asked about; of more, only the restless."""

MOVED_EVERY: Final = 0.8 * POLL_LISTENING
"""Seconds after which the quiet lanes of many queues are looked at, in case a wake-up was lost: with each
idle poll, however that is jittered."""

FIRST_PENDING_POLL: Final = 0.001
PENDING_POLL: Final = 0.05
FULL_POLL: Final = 0.5
"""Seconds after which a queue at its limit is asked again: another worker that makes room does not call."""

JOBS: Final = ("jobs", "alone")
"""Answers of a lane with jobs. After a lone one the lane is still marked as idle."""

LOOKS: Final = 5
"""How many looks for work are timed, to say what they cost."""

PROBE: Final = 10.0
"""Seconds to find out whether wake-ups arrive."""

_COLUMNS: Final = (
    "seqs", "ids", "tasks", "payloads", "options", "attempts", "deaths", "enqueued", "offered"
)  # fmt: skip
"""The arrays of a claim's answer, one element for each job."""
_encode = msgspec.json.Encoder().encode
_decode_starts = msgspec.json.Decoder(dict[int, float]).decode


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
        self._refills = Refills(database)
        self.close: Final = self._refills.close
        self._settings = settings
        self._head_cache = head_cache
        self._known = KnownLanes(settings.ageing_step)
        self._wakeups = self._known.wakeups
        listener.subscribe(self._wakeups.note)
        self._asked_at = self._moved_at = -math.inf
        self._pending_pause = FIRST_PENDING_POLL
        self._settled: tuple[frozenset[str], Set[str]] = (frozenset(), core.NONE)
        """Queues in which the last claim left nothing behind for a worker with its abilities: see
        `_is_settled`."""
        self._outrun = False
        self.plain: Final = f"CALL {database.schema}.claim($1, $2, $3, $4)"
        self._bound = f"CALL {database.schema}.claim($1, $2, $3, $4, p_needs => $5, p_limited => $6)"
        self._needs: tuple[Needs, str | None] = ({}, None)

    async def claim(
        self,
        worker: int,
        queues: Sequence[str] | Mapping[str, int],
        limit: int,
        needs: Needs = NOTHING,
        peers: Mapping[str, int] = NOTHING,
        abilities: Set[str] = core.NONE,
    ) -> list[Claim]:
        """See Store.claim. One round trip where the queues have one or two lanes; see FEW."""
        if self._is_settled(queues, abilities):
            return []
        self._listener.abilities |= abilities
        self._wakeups.looked(queues)
        if needs is not self._needs[0]:
            self._needs = (needs, _encode(dict(needs)).decode() if needs else None)
        bounds = queues if isinstance(queues, Mapping) else dict.fromkeys(queues, limit)
        room = {queue: bound for queue, bound in bounds.items() if bound > 0}
        if limit < 1 or not room:
            return []
        woken = self._wakeups.claimed(room)
        fresh = await self._refresh_stale(room)
        # Of a few lanes all are called: asking first would cost as much.
        few = not fresh and len(room) <= MANY and self._known.count(room, abilities) <= FEW
        if not fresh and len(room) > MANY and self._known.count(woken, abilities) <= FEW:
            self._known.wake(woken)
        if peers:
            await self._share(room, peers, abilities)
        claims = await self._sweep(worker, room, limit, abilities, room if few else ())
        # Woken for nothing that is known here or that others took: there may be a lane that is new.
        if not claims and not fresh and not self._outrun and (woken or not few):
            await self._refresh(self._to_ask(room))
            if peers and len(room) > MANY:
                await self._share(room, peers, abilities)
            claims = await self._sweep(worker, room, limit, abilities)
        if claims:
            self._pending_pause = FIRST_PENDING_POLL
            if parts := parts_of(claims):
                claims += await self._more_parts(worker, claims, parts, room, limit, abilities)
            elif self._listener.receives and (few or fresh) and self._is_idle(claims, room, limit, abilities):
                self._settled = (frozenset(room), abilities)
        return claims

    def _is_settled(self, queues: Collection[str], abilities: Set[str]) -> bool:
        """Return whether the last claim took a lone job and left nothing behind in these queues: their lanes
        are marked as idle, and nobody has called since. So there is no need to look again before the next
        wait [rule 10]. True but once: a caller that has waited looks."""
        (settled, able), self._settled = self._settled, (frozenset(), core.NONE)
        if not settled or able != abilities:
            return False
        return settled.issuperset(queues) and not self._wakeups.any_unseen(queues)

    def _is_idle(
        self, claims: Sequence[Claim], room: Mapping[str, int], limit: int, abilities: Set[str]
    ) -> bool:
        """Return whether a sweep has asked all lanes of these queues and left each of them marked as idle.
        Those that fair jobs wait behind may be filled any moment. Of many queues that is not asked."""
        full = sum(len(claim.jobs) for claim in claims) >= limit or any(left < 1 for left in room.values())
        if full or claims[-1].jobs[0].deaths or len(room) > MANY:
            return False  # it has ended before the last lane
        lanes = self._known.of(room, abilities)
        return all(lane.idle and not lane.waiting and not lane.ring for lane in lanes)

    async def _share(self, room: dict[str, int], peers: Mapping[str, int], abilities: Set[str]) -> None:
        """Leave to the other workers of these queues their shares of what waits there [K10]. Of many queues
        those are asked about that may have something."""
        among = peers if len(room) <= MANY else {each.head.queue for each in self._known.live_in(peers)}
        queues = [queue for queue in among if room.get(queue, 0) > 1]
        if not queues:
            return
        waiting = {r["queue"]: r["n"] for r in await self._db.query("waiting_in", queues, list(abilities))}
        for queue in queues:
            room[queue] = min(room[queue], fair_share(waiting.get(queue, 0), peers[queue]))

    async def _more_parts(
        self,
        worker: int,
        claims: Sequence[Claim],
        parts: Mapping[str, Parts],
        room: Mapping[str, int],
        limit: int,
        abilities: Set[str],
    ) -> list[Claim]:
        """A parent has one part waiting at a time, so that parents take turns [P8]. Parts that were claimed
        make way for others: for as many as there is room for here, and then for one of each parent. Parts are
        not held ahead of slots, whatever room a queue of short jobs has."""
        more: list[Claim] = []
        left = 0 if claims[-1].jobs[0].deaths else limit - sum(len(claim.jobs) for claim in claims)
        for queue, mine in parts.items():
            bound = min(left, room[queue], MAX_PARTS)
            await self._parents.claimed(mine, wanted=max(1, -(-bound // len(mine))))
            if bound > 0:
                found = await self._sweep(worker, {queue: bound}, bound, abilities, (queue,))
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

    async def wait(self, queues: Sequence[str], timeout: float, abilities: Set[str] = core.NONE) -> bool:
        """See Store.wait."""
        self._listener.abilities |= abilities
        self._settled = (frozenset(), core.NONE)  # whoever has waited looks
        wanted = frozenset(queues)
        if any(lane.pending for lane in self._known.live_in(wanted) if core.can_run(lane.needs, abilities)):
            # Its transaction drew a number before the lane was marked idle, so it will not call; mostly it
            # commits within a millisecond.
            await asyncio.sleep(min(timeout, self._pending_pause))
            self._pending_pause = min(self._pending_pause * 2, PENDING_POLL)
            return True
        self._pending_pause = FIRST_PENDING_POLL
        # A wake-up since their heads were asked for may have been for a lane that is not known here.
        patience = math.inf if wanted.isdisjoint(self._wakeups.unasked) else self._head_cache
        patience = max(patience, PENDING_POLL)
        if self._full(wanted):
            patience = min(patience, FULL_POLL)
        woken = await self._listener.wait(
            wanted, min(timeout, patience), woken=lambda: self._wakeups.any_unseen(wanted)
        )
        if woken:
            # The caller looks now: wake-ups up to here are not reported twice.
            self._wakeups.looked(wanted)
        return woken or patience < timeout

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

    def flush_claimed(self, claims: Collection[Claim]) -> None:
        """A flush has made these claims: nobody else has outrun this worker."""
        for claim in claims:
            if lane := self._known.get(claim.lane):
                lane.newest = claim.id

    def made_room(self, queues: Collection[str]) -> None:
        """Jobs of these queues have ended: who waits here for a queue at its limit may look again [F3]."""
        for queue in self._full(queues):
            self._listener.notify(queue)

    def _full(self, queues: Collection[str]) -> set[str]:
        """Return the queues that had as many running as they may when they were last asked [F3]."""
        return {lane.head.queue for lane in self._known.live_in(queues) if lane.full}

    async def _refresh_stale(self, room: Mapping[str, int]) -> bool:
        """Ask about heads that may have changed, and say whether nothing is left to ask about."""
        now = time.monotonic()
        if len(room) <= MANY:
            if not self._known.stale(room, now - self._head_cache):
                return False
            await self._refresh(room)
            return True
        every = MOVED_EVERY if self._listener.receives else 0.0
        asked: set[str] = set()
        if self._moved_at <= now - max(every, self._head_cache):
            rows = await self._db.rows("moved_lanes", *self._known.quiet())
            self._moved_at = now
            asked = self._known.queues_of(rows) & self._wakeups.known
        stale = self._asked_at <= now - self._head_cache
        if stale:
            asked |= self._known.restless()
            self._asked_at = now
        await self._refresh({*asked, *self._known.unknown(room)})
        return stale

    def _to_ask(self, room: Mapping[str, int]) -> Collection[str]:
        """The queues to ask about where nothing was found: of many those that may have something."""
        return room if len(room) <= MANY else self._known.restless() & room.keys()

    async def _refresh(self, queues: Collection[str]) -> None:
        if queues:
            with self._known.asking(queues) as heads:
                heads.extend(await self._db.rows("lane_heads", list(queues)))

    async def _sweep(
        self,
        worker: int,
        room: dict[str, int],
        limit: int,
        abilities: Set[str],
        called: Collection[str] = (),
    ) -> list[Claim]:
        """Claim from lanes that may hold something, or from all lanes of the queues that are `called`."""
        self._outrun = False
        claims: list[Claim] = []
        left = limit
        for lane in self._known.of(called, abilities) if called else self._known.live(abilities):
            queue = lane.head.queue
            bound = min(left, room.get(queue, 0))
            if bound < 1:
                continue
            claim = await self._claim_lane(worker, lane, bound)
            if claim is None:
                continue
            claims.append(claim)
            if lane.ring:
                head = lane.head
                await self._refills.begin(
                    head.lane, head.queue, head.priority, lane.needs, wanted=bound, taken=len(claim.jobs)
                )
            left -= len(claim.jobs)
            room[queue] -= len(claim.jobs)
            if self._was_aged(lane) and self._has_rivals(lane, room):
                # It came first because its head had waited; that head is gone, so its rank is not known.
                self._known.rank_anew(queue)
            # A job that has seen a worker die is claimed alone [C8].
            if left <= 0 or claim.jobs[0].deaths:
                break
        return claims

    def _was_aged(self, lane: Lane) -> bool:
        step = self._settings.ageing_step
        return effective(lane.head.priority, lane.head.waited, step) < lane.head.priority

    def _has_rivals(self, lane: Lane, room: Mapping[str, int]) -> bool:
        return any(other.waiting and other is not lane for other in self._known.live_in(room))

    async def _claim_lane(self, worker: int, lane: Lane, limit: int) -> Claim | None:
        await self._refills.ended(lane.head.lane)
        row = await self._call(worker, lane, limit)
        if row["status"] == "limited":  # since its head was asked for
            lane.limited = True
            row = await self._call(worker, lane, limit)
        status = row["status"]
        newest = row["claim"]
        if newest is not None and newest != lane.newest:
            self._outrun |= lane.newest is not None and status not in JOBS
            lane.newest = newest
        lane.idle = status in ("empty", "paused", "alone")
        lane.waiting = status in ("jobs", "busy", "pending", "full", "slow", "aside")
        lane.pending = status in ("busy", "pending", "slow", "aside")
        lane.full = status == "full"
        lane.quiet = status in ("empty", "alone")
        self._known.update(lane)
        return _claim(row, lane.head) if status in JOBS else None

    async def _call(self, worker: int, lane: Lane, limit: int) -> Any:
        wait = LANE_WAIT if time.monotonic() - lane.waited > BUSY_PAUSE else 1
        args = (lane.head.lane, worker, limit, wait)
        needs = self._needs[1]
        async with self._db.connection(self._db.deadline) as connection:
            if needs is None and not lane.limited:
                row = await connection.fetchrow(self.plain, *args)
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
    if row["steps"]:
        known = known_steps(row["steps"], filter(None, row["ids"]))
        jobs = [replace(job, known_steps=known.get(job.id)) for job in jobs]
    if row["starts"]:
        now, booked = time.monotonic(), _decode_starts(row["starts"])
        jobs = [replace(job, starts_at=now + booked[job.seq]) if job.seq in booked else job for job in jobs]
    return Claim(claim, lane, queue, priority, jobs)


def claims_of(row: Any) -> list[Claim]:
    """The claims that a flush has made: see windlass.finish_and_claim."""
    claims: dict[int, Claim] = {}
    columns = zip(
        *(row[name] for name in ("lanes", "queues", "priorities", "claims", *_COLUMNS, "runs")), strict=True
    )
    for lane, queue, priority, claim, seq, job, task, payload, options, attempt, deaths, *times in columns:
        claims.setdefault(claim, Claim(claim, lane, queue, priority, [])).jobs.append(
            ClaimedJob(
                job, lane, claim, seq, task, payload, queue, priority, attempt, deaths,
                DEFAULT_OPTIONS if options is None else decode_options(options), *times,
            )
        )  # fmt: skip
    return list(claims.values())
