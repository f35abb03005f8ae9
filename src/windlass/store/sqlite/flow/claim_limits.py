"""The limits of a claim: the tokens of the budgets that its jobs need [F1], and the passes of limits that
were set when they stood in their lane already [F3]. A job that lacks one leaves the lane for the waiting
list.

Mostly there is enough for a whole batch and nobody waits: then its sum is taken at once, and the batch goes
on as if it needed nothing.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from windlass.core.flow.bucket import Bucket
from windlass.core.flow.gates import Gate, budget_gate
from windlass.core.ids import SEQ_BITS
from windlass.core.read_errors import READ_ERRORS
from windlass.store.budgets import bucket_key, tokens_of
from windlass.store.records import Claim, ClaimedJob, Need, Needs
from windlass.store.sqlite import transitions
from windlass.store.sqlite.flow import waiting_lists
from windlass.store.sqlite.operation.budget_rows import bounds, governors_bucket
from windlass.store.sqlite.operation.transaction import Transaction
from windlass.store.sqlite.rows import OFFERED, Row
from windlass.store.sqlite.schema import Statements

_SQL = Statements("claims")
BucketName = tuple[str, str]
"""Budget and key."""
Tokens = Mapping[BucketName, int]
"""How many tokens of which bucket, in one order for all, so that no two wait for each other."""
Group = tuple[str, ...]
"""A task, what a job costs where each says so, and the values of the arguments that its buckets are keyed
by: jobs of one group need the same."""
_NONE: frozenset[str] = frozenset()


def bound(tx: Transaction, queues: Collection[str], left: dict[str, int]) -> dict[str, Bucket]:
    """Lower what may be claimed of each queue to what is free of it. Answers with the buckets of those that
    have a governor."""
    buckets: dict[str, Bucket] = {}
    for name, concurrency, running, *governor in bounds(tx.connection, queues):
        if concurrency is not None:
            left[name] = min(left[name], max(0, concurrency - int(running)))
        bucket = governors_bucket(governor, tx.now)
        if bucket is not None:
            buckets[name] = bucket.resumed(tx.now)
            if buckets[name] is not bucket:
                _keep_started(tx, name, buckets[name])
            left[name] = min(left[name], int(bucket.available(tx.now)))
    return buckets


def take_started(tx: Transaction, buckets: Mapping[str, Bucket], claims: Iterable[Claim]) -> None:
    """Take the tokens of what was claimed, and of no more."""
    if not buckets:
        return
    taken: Counter[str] = Counter()
    for claim in claims:
        taken[claim.queue] += len(claim.jobs)
    for name, n in taken.items():
        bucket = buckets[name].take(n, tx.now) if name in buckets else None
        if bucket is not None:
            _keep_started(tx, name, bucket)


def _keep_started(tx: Transaction, queue: str, bucket: Bucket) -> None:
    tx.run(_SQL["keep_started"], (bucket.tokens, bucket.at, queue))


def enforce(
    tx: Transaction, jobs: Sequence[ClaimedJob], needs: Needs, *, limited: bool, reserved: bool
) -> list[ClaimedJob]:
    """Return the next jobs of a lane that may be claimed. `limited` says whether any task has a limit,
    `reserved` whether tokens are reserved for anybody."""
    if limited:
        jobs = _within_limits(tx, jobs)
    passes = tx.gates.reserved_for([job.id for job in jobs]) if reserved else {}
    groups = _groups(jobs, needs)
    counts = Counter(groups)
    needed = {group: _needed(group, needs) for group in counts}
    if not passes and _take_together(tx, _sum(counts, needed)):
        return list(jobs)
    taken = (
        _take(tx, job, needed[group], passes.get(job.id, _NONE))
        for job, group in zip(jobs, groups, strict=True)
    )
    return [job for job in taken if job is not None]


def _within_limits(tx: Transaction, jobs: Sequence[ClaimedJob]) -> list[ClaimedJob]:
    """Jobs that came into the lane before their task had a limit need a pass as well. Those with a pass of
    before a limit was lowered start only while fewer run than it says now."""
    tasks = tx.limits.tasks
    passes = tx.gates.held_by_many([job.id for job in jobs if job.task in tasks])
    within: list[ClaimedJob] = []
    started: dict[str, int] = {}
    for job in jobs:
        if job.task in tasks:
            way = tx.gates.of(job.queue, job.task, job.options)
            mine = passes[job.id]
            if all(gate.name in mine and tx.gates.passes(gate.name) <= gate.limit for gate in way):
                within.append(job)
                continue
            concurrency, key_concurrency = tasks[job.task]
            held = [
                gate
                for gate in way
                if gate.name in passes[job.id]
                and (
                    (gate.name.startswith("task:") and concurrency is not None)
                    or (gate.name.startswith("key:") and key_concurrency is not None)
                )
            ]
            full = next((gate.name for gate in held if _is_full(tx, gate, started)), None)
            if full is not None:
                tx.gates.call_back(job.id, full)
                _send_away(tx, job, full)
                continue
            for gate in held:
                if gate.name in started:
                    started[gate.name] += 1
            through, shut = tx.gates.walk(way, passes[job.id])
            tx.gates.give(job.id, through)
            if through:
                tx.gates.bind(job.lane << SEQ_BITS | job.seq)
            if shut is not None:
                _send_away(tx, job, shut)
                continue
        within.append(job)
    return within


def _is_full(tx: Transaction, gate: Gate, started: dict[str, int]) -> bool:
    """Return whether more have a pass of a gate than may, and as many as may have started. Those who start
    now are counted by the caller."""
    if tx.gates.passes(gate.name) <= gate.limit:
        return False
    if gate.name not in started:
        found = (transitions.find(tx, job) for job in tx.gates.beyond(gate.name))
        started[gate.name] = sum(_has_started(tx, row) for row in found if row is not None)
    return started[gate.name] >= gate.limit


def _has_started(tx: Transaction, row: Row) -> bool:
    return row.state in OFFERED and tx.lanes.numbered(row.lane).runs(row)


def _groups(jobs: Sequence[ClaimedJob], needs: Needs) -> list[Group]:
    """The group of each job. Its arguments are looked at once for each by which a budget is keyed."""
    asked = {
        task: (list(_keyed(mine).values()), [need for need in mine if need.costed])
        for task, mine in needs.items()
        if any(need.argument is not None or need.costed for need in mine)
    }
    if not asked:
        return [(job.task,) for job in jobs]
    return [_group(job, *asked[job.task]) if job.task in asked else (job.task,) for job in jobs]


def _group(job: ClaimedJob, keyed: Iterable[Need], costed: Iterable[Need]) -> Group:
    costs = [str(tokens_of(need, job.options)) for need in costed]
    return (job.task, *costs, *[_key(job, need) for need in keyed])


def _keyed(needs: Iterable[Need]) -> dict[tuple[str, int | None], Need]:
    """One need for each argument that buckets are keyed by."""
    return {(need.argument, need.place): need for need in needs if need.argument is not None}


def _key(job: ClaimedJob, need: Need) -> str:
    try:
        return bucket_key(job.payload, need)
    except READ_ERRORS:
        return ""  # the run will tell what is wrong with its arguments


def _needed(group: Group, needs: Needs) -> Tokens:
    """Return the tokens that a job of this group needs."""
    task, *values = group
    mine = needs.get(task, ())
    costs: dict[str, int] = {}
    for need in mine:
        if need.costed:
            costs[need.budget] = int(values.pop(0))
    if len(mine) == 1 and not costs:
        return {(mine[0].budget, values[0] if values else ""): mine[0].n}
    keys = dict(zip(_keyed(mine), values, strict=True))
    needed: Counter[BucketName] = Counter()
    for need in mine:
        key = "" if need.argument is None else keys[need.argument, need.place]
        needed[need.budget, key] += costs.get(need.budget, need.n)
    return dict(sorted(needed.items()))


def _sum(counts: Mapping[Group, int], needed: Mapping[Group, Tokens]) -> Tokens:
    total: Counter[BucketName] = Counter()
    for group, count in counts.items():
        for bucket, n in needed[group].items():
            total[bucket] += n * count
    return total


def _take_together(tx: Transaction, total: Tokens) -> bool:
    """Take what a whole batch needs, if there is enough for all of it. None of them has a reservation, so
    they may not go before those who have one, or who wait."""
    for bucket, n in total.items():
        gate = budget_gate(*bucket)
        if tx.gates.anyone_waits(gate) or not tx.budgets.has_plenty(*bucket, n + tx.gates.passes(gate)):
            return False
    for (budget, key), n in total.items():
        tx.budgets.take(budget, key, n)
    return True


def _take(tx: Transaction, job: ClaimedJob, needed: Tokens, passes: Collection[str]) -> ClaimedJob | None:
    """The job with its tokens, all of which it has to wait for; None: it has joined the waiting list of the
    bucket that lacks them."""
    waits = {at: _soon(tx, at, n, passes) for at, n in needed.items()}
    lacking = next((at for at, wait in waits.items() if wait == math.inf), None)
    if lacking is not None:
        _send_away(tx, job, budget_gate(*lacking), needed[lacking])
        waiting_lists.serve_freed_gates(tx)  # it has left its slots to others
        return None
    for (budget, key), n in needed.items():
        tx.budgets.take(budget, key, n)
    if passes:
        tx.gates.spend_reservations(job.id)
    wait = max(waits.values(), default=0.0)
    return msgspec.structs.replace(job, starts_at=time.monotonic() + wait) if wait else job


def _soon(tx: Transaction, at: BucketName, n: int, passes: Collection[str]) -> float:
    """Seconds until the tokens are there; inf where they cannot be had. Those who have a pass have waited for
    them; nobody else may take what is reserved for these, or go before those who wait."""
    gate = budget_gate(*at)
    if gate in passes:
        return tx.budgets.soon(*at, n)
    return math.inf if tx.gates.anyone_waits(gate) else tx.budgets.soon(*at, n, tx.gates.passes(gate))


def _send_away(tx: Transaction, job: ClaimedJob, gate: str, need: int | None = None) -> None:
    """The job joins a waiting list, at its end or back at its own place."""
    row = transitions.at(tx, job.lane << SEQ_BITS | job.seq)
    assert row is not None, "a job that was about to be claimed is gone"
    transitions.send_to_list(tx, row, gate, need)
