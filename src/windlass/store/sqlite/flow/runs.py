"""Runs of keys: several jobs of one waiting list that a worker is handed together [F3] [F6]. When jobs are
handed over at all is decided in `handover`; that they wait again where it did not come to them, in
`transitions`."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

import msgspec

from windlass.core.ids import MAX_SEQ
from windlass.store.records import DEFAULT_OPTIONS, ClaimedJob
from windlass.store.sqlite import transitions
from windlass.store.sqlite.operation.lanes import Lane
from windlass.store.sqlite.operation.transaction import Transaction
from windlass.store.sqlite.rows import decode_options, encode
from windlass.store.sqlite.schema import Statements

_SQL = Statements("runs")

_Found = tuple[Any, ...]
_TAKES_MORE: Final = '"fair_key":', '"part":', '"chunked":', '"expires":'
"""What the options of a job contain that is left to claims. A value that does as well ends a run, too."""


def follow(
    tx: Transaction, lane: Lane, jobs: list[ClaimedJob], longest: int, tokens: Collection[str]
) -> list[ClaimedJob]:
    """These jobs are about to be handed over, with all that is ready in their lane. Answers with them and
    those that follow each, up to so many, next in its lane: nobody there is overtaken."""
    firsts = {job.id: tx.passed[job.id] for job in jobs if job.id in tx.passed and not job.options.chunked}
    if lane.ready > len(jobs) or not firsts:
        return jobs
    runs: defaultdict[str, deque[ClaimedJob]] = defaultdict(deque)
    for job in jobs:
        if job.id in firsts:
            runs[firsts[job.id][0]].append(job)
    waiting = _waiting(tx, Counter(gate for gate, _ in firsts.values()), longest)
    passes: dict[int, tuple[int, str, int, int]] = {}
    followers: list[ClaimedJob] = []
    with transitions.together(tx):
        for gate, found in waiting.items():
            heads = runs[gate]
            for each in _simple(tx, lane, gate, found, tokens):
                head = heads[0]
                heads.rotate(-1)  # each gets the next in turn
                run = lane.base + head.seq
                passes[head.id] = head.id, gate, firsts[head.id][1], run
                job = _enter(tx, lane, each, jobs[0].claim, run)
                passes[job.id] = job.id, gate, each[1], run
                followers.append(job)
            tx.gates.left_list(gate)
    tx.gates.write()
    tx.many(_SQL["give"], passes.values())
    heads_of_runs = [
        msgspec.structs.replace(job, run=lane.base + job.seq) if job.id in passes else job for job in jobs
    ]
    return heads_of_runs + followers


def _waiting(tx: Transaction, firsts: Counter[str], longest: int) -> dict[str, list[_Found]]:
    """Who waits behind them: for each that was let through a gate, up to so many more."""
    by_number: defaultdict[int, list[str]] = defaultdict(list)
    for gate, n in firsts.items():
        by_number[n * longest].append(gate)
    waiting: defaultdict[str, list[_Found]] = defaultdict(list)
    for number, gates in by_number.items():
        for found in tx.all(_SQL["followers"], (encode(gates).decode(), number)):
            waiting[found[0]].append(found)
    return {gate: sorted(found) for gate, found in waiting.items()}  # `pos` comes second


def _simple(
    tx: Transaction, lane: Lane, gate: str, waiting: Sequence[_Found], tokens: Collection[str]
) -> Iterator[_Found]:
    """The first of a waiting list for which this is the only gate, and a claim has nothing to see to."""
    reserved = tx.gates.any_reserved and tx.gates.held_by_many([found[2] for found in waiting])
    taken = tx.gates.passes(gate)
    for found in waiting:
        _, _, job, of_lane, task, _, _, deaths, options, _, _ = found
        way = tx.gates.way(lane.queue, task, options)
        if (
            of_lane != lane.id
            or deaths
            or task in tokens
            or (options is not None and any(word in options for word in _TAKES_MORE))
            or len(way) != 1
            or way[0].name != gate
            or way[0].limit < taken
            or (reserved and job in reserved)
        ):
            return
        yield found


def _enter(tx: Transaction, lane: Lane, found: _Found, claim: int, run: int) -> ClaimedJob:
    """One that waits follows the others into the lane."""
    _, pos, job, _, task, payload, attempt, deaths, options, enqueued_at, ready_at = found
    transitions.enter(tx, lane, pos, job)
    return ClaimedJob(
        job, lane.id, claim, lane.seq & MAX_SEQ, task, payload, lane.queue, lane.priority, attempt, deaths,
        DEFAULT_OPTIONS if options is None else decode_options(options), enqueued_at, ready_at, run,
    )  # fmt: skip
