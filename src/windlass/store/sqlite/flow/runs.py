"""Runs of keys: several jobs of one waiting list that a worker is handed together [F3] [F6]. When jobs are
claimed so at all is decided in `flush_claims`; that they wait again where it did not come to them, in
`transitions`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from itertools import cycle
from typing import Any, Final

import msgspec

from windlass.core.ids import MAX_SEQ
from windlass.store.records import DEFAULT_OPTIONS, ClaimedJob
from windlass.store.sqlite import transitions
from windlass.store.sqlite.operation.lanes import Lane
from windlass.store.sqlite.operation.transaction import Transaction
from windlass.store.sqlite.rows import decode_options, encode, ready_at
from windlass.store.sqlite.schema import Statements

_SQL = Statements("runs")

_Found = tuple[Any, ...]
_TAKES_MORE: Final = '"fair_key":', '"part":', '"chunked":', '"expires":'
"""Marks in the options of a job that is left to claims. A value that does as well ends a run, too."""


def follow(
    tx: Transaction, lane: Lane, jobs: list[ClaimedJob], longest: int, tokens: Collection[str]
) -> list[ClaimedJob]:
    """These jobs are about to be claimed, with all that is ready in their lane. Answers with them and
    those that follow each, up to so many, next in its lane: nobody there is overtaken."""
    firsts = {job.id: tx.passed[job.id] for job in jobs if job.id in tx.passed and not job.options.chunked}
    if lane.ready > len(jobs) or not firsts:
        return jobs
    runs: defaultdict[str, list[ClaimedJob]] = defaultdict(list)
    for job in jobs:
        if job.id in firsts:
            runs[firsts[job.id][0]].append(job)
    waiting = _waiting(tx, Counter(gate for gate, _ in firsts.values()), longest)
    passes: list[tuple[int, str, int, int]] = []
    followers: list[ClaimedJob] = []
    for gate, found in waiting.items():
        behind = _simple(tx, lane, gate, found, tokens)
        heads = runs[gate][: len(behind)]
        for head in heads:
            passes.append((head.id, gate, firsts[head.id][1], lane.base + head.seq))
        places = transitions.enter_many(tx, lane, [(pos, job) for _, pos, job, *_ in behind])
        in_turn = cycle([lane.base + head.seq for head in heads])  # each gets the next of them
        for each, at, run in zip(behind, places, in_turn, strict=False):
            passes.append((each[2], gate, each[1], run))
            followers.append(_claimed(lane, each, jobs[0].claim, at & MAX_SEQ, run))
        tx.gates.left_list(gate)
    tx.gates.write()
    tx.many(_SQL["give"], passes)
    heads_of_runs = {run for *_, run in passes}
    return [
        msgspec.structs.replace(job, run=run) if (run := lane.base + job.seq) in heads_of_runs else job
        for job in jobs
    ] + followers


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
) -> Sequence[_Found]:
    """The first of a waiting list for which this is the only gate, and a claim has nothing to see to. Those
    that have their task and their options alike, as most of a key do, are looked at once."""
    reserved = tx.gates.any_reserved and tx.gates.held_by_many([found[2] for found in waiting])
    taken = tx.gates.passes(gate)
    alike: dict[tuple[str, str | None], bool] = {}
    for n, found in enumerate(waiting):
        _, _, job, of_lane, task, _, _, deaths, options, _, _ = found
        fits = alike.get((task, options))
        if fits is None:
            way = tx.gates.way(lane.queue, task, options)
            fits = alike[task, options] = (
                task not in tokens
                and (options is None or not any(word in options for word in _TAKES_MORE))
                and len(way) == 1
                and way[0].name == gate
                and taken <= way[0].limit
            )
        if not fits or of_lane != lane.id or deaths or (reserved and job in reserved):
            return waiting[:n]
    return waiting


def _claimed(lane: Lane, found: _Found, claim: int, seq: int, run: int) -> ClaimedJob:
    """One that has followed the others into the lane."""
    _, _, job, _, task, payload, attempt, deaths, options, enqueued_at, touched_at = found
    return ClaimedJob(
        job, lane.id, claim, seq, task, payload, lane.queue, lane.priority, attempt, deaths,
        DEFAULT_OPTIONS if options is None else decode_options(options), enqueued_at,
        ready_at(enqueued_at, touched_at), run,
    )  # fmt: skip
