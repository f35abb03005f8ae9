"""Claiming and finishing on PostgreSQL: which lanes to ask, and how outcomes become rows.

The order of lanes needs to know how long their heads have waited [C2]. That is asked for at most once in
`head_cache` seconds; in between only lanes that may hold something are called.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from windlass.core import ids
from windlass.core.priority import LaneHead, claim_order, effective
from windlass.core.seqset import compress, contains, literal, parse
from windlass.core.states import WORKERS_OWN, Kind
from windlass.store.postgres import schema as schemas
from windlass.store.postgres.database import Database
from windlass.store.records import DEFAULT_OPTIONS, Claim, ClaimedJob, Finished, Options, Outcome
from windlass.store.settings import StoreSettings

LANE_WAIT: Final = 100
"""Milliseconds to wait for a lane that another worker is claiming from."""

logger = logging.getLogger("windlass.store")
_options = msgspec.json.Decoder(Options).decode
_encode = msgspec.json.Encoder().encode


def decode_options(text: str | None) -> Options:
    """Options as they were enqueued; the shared default where none were stored, or none that can be read.

    SQL checks them at enqueue. Should a row slip through all the same, it must not stop the claims of its
    lane [fault 17]."""
    if text is None:
        return DEFAULT_OPTIONS
    try:
        return _options(text)
    except msgspec.MsgspecError as error:
        logger.warning("options of a job cannot be read, so it runs with the defaults: %s", error)
        return DEFAULT_OPTIONS


class Lane(msgspec.Struct):
    """What this process remembers of a lane between two claims."""

    head: LaneHead
    waiting: bool
    idle: bool = False
    pending: bool = False


class Claimer:
    """Claims from lanes in the order of their effective priority."""

    def __init__(self, database: Database, settings: StoreSettings, head_cache: float) -> None:
        self._db = database
        self._settings = settings
        self._head_cache = head_cache
        self._lanes: dict[int, Lane] = {}
        self._asked: tuple[str, ...] = ()
        self._asked_at = float("-inf")
        self._call = f"CALL {database.schema}.claim($1, $2, $3, $4)"

    async def claim(self, worker: int, queues: Sequence[str], limit: int) -> list[Claim]:
        """See Store.claim."""
        wanted = tuple(queues)
        fresh = await self._refresh(wanted, self._head_cache)
        claims = await self._sweep(worker, limit)
        if not claims and not fresh:
            await self._refresh(wanted, 0.0)
            claims = await self._sweep(worker, limit)
        return claims

    def pending(self, queues: Sequence[str]) -> bool:
        """Whether numbers are drawn in these queues that no claim could see yet: look again soon."""
        return any(lane.pending and lane.head.queue in queues for lane in self._lanes.values())

    async def _refresh(self, queues: tuple[str, ...], age: float) -> bool:
        now = time.monotonic()
        if queues == self._asked and now - self._asked_at < age:
            return False
        rows = await self._db.rows("lane_heads", list(queues))
        known, self._lanes = self._lanes, {}
        heads = [LaneHead(r["lane"], r["queue"], r["priority"], r["waited"]) for r in rows]
        waiting = {r["lane"]: r["waiting"] for r in rows}
        for head in claim_order(heads, self._settings.ageing_step):
            old = known.get(head.lane)
            idle = old.idle if old else False
            self._lanes[head.lane] = Lane(head, waiting[head.lane], idle)
        self._asked, self._asked_at = queues, now
        return True

    async def _sweep(self, worker: int, limit: int) -> list[Claim]:
        claims: list[Claim] = []
        left = limit
        for lane in self._lanes.values():
            if lane.idle and not lane.waiting:
                continue
            claim = await self._claim_lane(worker, lane, left)
            if claim is None:
                continue
            claims.append(claim)
            left -= len(claim.jobs)
            if (
                effective(lane.head.priority, lane.head.waited, self._settings.ageing_step)
                < lane.head.priority
            ):
                # It came first because its head had waited; that head is gone, so its rank is not known.
                self._asked_at = float("-inf")
            # A job that has seen a worker die runs with nothing else claimed beside it [C8].
            if left <= 0 or claim.jobs[0].deaths:
                break
        return claims

    async def _claim_lane(self, worker: int, lane: Lane, limit: int) -> Claim | None:
        async with self._db.connection() as connection:
            row = await connection.fetchrow(self._call, lane.head.lane, worker, limit, LANE_WAIT)
        status = row["status"]
        lane.idle = status in ("empty", "paused")
        lane.waiting = status in ("jobs", "busy", "pending")
        lane.pending = status in ("busy", "pending")
        return _claim(row, lane.head) if status == "jobs" else None


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
        )
        for seq, job, task, payload, options, attempt, deaths, enqueued in zip(
            row["seqs"],
            row["ids"],
            row["tasks"],
            row["payloads"],
            row["options"],
            row["attempts"],
            row["deaths"],
            row["enqueued"],
            strict=True,
        )
    ]
    return Claim(claim, lane, queue, priority, jobs)


async def finish(
    connection: Any, schema: str, worker: int, flush: int, outcomes: Sequence[Outcome], checkpointed: set[int]
) -> Finished:
    """See Store.finish. The connection may be the handler's; `checkpointed` are jobs with a checkpoint."""
    plain: dict[int, list[Outcome]] = {}
    ended: list[Outcome] = []
    others: list[dict[str, Any]] = []
    claim, group = 0, list[Outcome]()
    for outcome in outcomes:
        if outcome.kind is Kind.SUCCEEDED:
            job = outcome.job
            if job.claim != claim:
                claim, group = job.claim, plain.setdefault(job.claim, [])
            group.append(outcome)
            if outcome.result is not None or _has_satellites(job, checkpointed):
                ended.append(outcome)
        elif outcome.kind in WORKERS_OWN:
            others.append(_other(outcome))
        else:
            raise ValueError(
                f"{outcome.kind.value} is not for a worker to say; it was said of job {outcome.job.id}"
            )
    groups = list(plain.values())
    row = await connection.fetchrow(
        schemas.call("finish", 13, schema),
        worker,
        flush,
        [group[0].job.lane for group in groups] or None,
        list(plain) or None,
        [literal(compress(outcome.job.seq for outcome in group)) for group in groups] or None,
        [len(group) for group in groups] or None,
        [_histogram(group) for group in groups] or None,
        [outcome.job.id for outcome in ended] or None,
        [outcome.job.claim for outcome in ended] or None,
        [outcome.job.lane for outcome in ended] or None,
        [outcome.job.seq for outcome in ended] or None,
        [outcome.result for outcome in ended] or None,
        _encode(others).decode() if others else None,
    )
    refused = list(row["refused_jobs"] or ())
    for claim, seqs in zip(row["refused_claims"] or (), row["refused_seqs"] or (), strict=True):
        ranges = parse(seqs)
        refused.extend(outcome.job.id for outcome in plain[claim] if contains(ranges, outcome.job.seq))
    return Finished(row["applied"], row["repeated"], tuple(refused))


def _has_satellites(job: ClaimedJob, checkpointed: set[int]) -> bool:
    """Whether anything besides the logs may know this job: a unique key, a checkpoint, an earlier attempt."""
    return job.options.unique_key is not None or job.attempt > 1 or job.deaths > 0 or job.id in checkpointed


def _other(outcome: Outcome) -> dict[str, Any]:
    job, error = outcome.job, outcome.error
    row: dict[str, Any] = {
        "id": job.id,
        "lane": job.lane,
        "claim": job.claim,
        "seq": job.seq,
        "kind": outcome.kind,
        "delay": outcome.delay,
    }
    if error is not None:
        row.update(type=error.type, message=error.message, traceback=error.traceback)
    return row


def _histogram(group: list[Outcome]) -> str | None:
    """Run times as counts per power of two of a millisecond, for rollups; None where nothing was timed."""
    counts = [0] * 32
    for outcome in group:
        if outcome.run_ms is not None:
            counts[min(int(outcome.run_ms).bit_length(), 31)] += 1
    while counts and not counts[-1]:
        counts.pop()
    return "{" + ",".join(map(str, counts)) + "}" if counts else None
