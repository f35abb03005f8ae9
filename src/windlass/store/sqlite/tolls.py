"""What jobs pay before a claim gives them out: the tokens of the budgets their tasks need [F1], and the
passes of limits that were set when they stood in their lane already [F3]. Who cannot pay leaves the lane for
the line of what he lacks.

Mostly there is enough for a whole batch and nobody waits: then its sum is taken at once, and the batch goes
on as if it needed nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from windlass.core.gates import budget_gate
from windlass.core.ids import SEQ_BITS
from windlass.store.budgets import bucket_key
from windlass.store.flow import Need, Needs
from windlass.store.records import ClaimedJob
from windlass.store.sqlite import lines, moves
from windlass.store.sqlite.transaction import Transaction

Bucket = tuple[str, str]
"""Budget and key."""
Prices = Mapping[Bucket, int]
"""How many tokens of which bucket, in one order for all, so that no two wait for each other."""
Sort = tuple[str, ...]
"""A task, and the values of the arguments that its buckets are keyed by: jobs of one sort pay the same."""
_NONE: frozenset[str] = frozenset()


def pay(
    tx: Transaction, jobs: Sequence[ClaimedJob], needs: Needs, *, limited: bool, reserved: bool
) -> list[ClaimedJob]:
    """Those of the next jobs of a lane that may be claimed. `limited` says whether any task has a limit,
    `reserved` whether tokens are put by for anybody."""
    if limited:
        jobs = _within_limits(tx, jobs)
    passes = tx.gates.reserved_for([job.id for job in jobs]) if reserved else {}
    sorts = _sorts(jobs, needs)
    counts = Counter(sorts)
    prices = {sort: _prices(sort, needs) for sort in counts}
    if not passes and _pay_together(tx, _sum(counts, prices)):
        return list(jobs)
    return [
        job
        for job, sort in zip(jobs, sorts, strict=True)
        if _pays(tx, job, prices[sort], passes.get(job.id, _NONE))
    ]


def _within_limits(tx: Transaction, jobs: Sequence[ClaimedJob]) -> list[ClaimedJob]:
    """Jobs that came into the lane before their task had a limit need a pass as well."""
    tasks = tx.limits.tasks
    passes = tx.gates.held_by_many([job.id for job in jobs if job.task in tasks])
    within: list[ClaimedJob] = []
    for job in jobs:
        if job.task in tasks:
            way = tx.gates.of(job.queue, job.task, job.options)
            through, gate = tx.gates.walk(way, passes[job.id])
            tx.gates.give(job.id, through)
            if through:
                tx.gates.bind(job.lane << SEQ_BITS | job.seq)
            if gate is not None:
                _send_away(tx, job, gate)
                continue
        within.append(job)
    return within


def _sorts(jobs: Sequence[ClaimedJob], needs: Needs) -> list[Sort]:
    """The sort of each job. Its arguments are looked at once for each by which a budget is keyed."""
    asked = {task: keyed for task, mine in needs.items() if (keyed := list(_keyed(mine).values()))}
    if not asked:
        return [(job.task,) for job in jobs]
    return [
        (job.task, *[_key(job, need) for need in asked[job.task]]) if job.task in asked else (job.task,)
        for job in jobs
    ]


def _keyed(needs: Iterable[Need]) -> dict[tuple[str, int | None], Need]:
    """One need for each argument that buckets are keyed by."""
    return {(need.argument, need.place): need for need in needs if need.argument is not None}


def _key(job: ClaimedJob, need: Need) -> str:
    try:
        return bucket_key(job.payload, need)
    except msgspec.MsgspecError:
        return ""  # the run will tell what is wrong with its arguments


def _prices(sort: Sort, needs: Needs) -> Prices:
    """What a job of this sort needs."""
    task, *values = sort
    mine = needs.get(task, ())
    if len(mine) == 1:
        return {(mine[0].budget, values[0] if values else ""): mine[0].n}
    keys = dict(zip(_keyed(mine), values, strict=True))
    prices: Counter[Bucket] = Counter()
    for need in mine:
        key = "" if need.argument is None else keys[need.argument, need.place]
        prices[need.budget, key] += need.n
    return dict(sorted(prices.items()))


def _sum(counts: Mapping[Sort, int], prices: Mapping[Sort, Prices]) -> Prices:
    total: Counter[Bucket] = Counter()
    for sort, count in counts.items():
        for bucket, n in prices[sort].items():
            total[bucket] += n * count
    return total


def _pay_together(tx: Transaction, total: Prices) -> bool:
    """Take what a whole batch needs, if there is enough for all of it. None of them has tokens put by, so
    they may not go before those who have, or who wait in line."""
    for bucket, n in total.items():
        gate = budget_gate(*bucket)
        if tx.gates.has_line(gate) or not tx.budgets.has_plenty(*bucket, n + tx.gates.passes(gate)):
            return False
    for (budget, key), n in total.items():
        tx.budgets.take(budget, key, n)
    return True


def _pays(tx: Transaction, job: ClaimedJob, price: Prices, passes: Collection[str]) -> bool:
    """Whether a job has paid; else it has gone to the line of the bucket that lacks its tokens."""
    lacking = next((at for at, n in price.items() if not _can_pay(tx, at, n, passes)), None)
    if lacking is not None:
        _send_away(tx, job, budget_gate(*lacking), price[lacking])
        lines.go_on(tx)  # he has left his slots to others
        return False
    for (budget, key), n in price.items():
        tx.budgets.take(budget, key, n)
    if passes:
        tx.gates.use_up(job.id)
    return True


def _can_pay(tx: Transaction, at: Bucket, n: int, passes: Collection[str]) -> bool:
    """Whether the tokens are there. Those who have a pass were in line for them; nobody else may take what
    was put by for these, or go before those who wait."""
    gate = budget_gate(*at)
    if gate in passes:
        return tx.budgets.grants(*at, n)
    return not tx.gates.has_line(gate) and tx.budgets.grants(*at, n, tx.gates.passes(gate))


def _send_away(tx: Transaction, job: ClaimedJob, gate: str, need: int | None = None) -> None:
    """The job goes to a line: to its end, or back to its own place in it."""
    row = moves.at(tx, job.lane << SEQ_BITS | job.seq)
    assert row is not None, "a job that was about to be claimed is gone"
    moves.stand_aside(tx, row, gate, need)
