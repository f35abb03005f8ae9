"""Outcomes: how claimed attempts ended, one flush at a time [C5].

Nearly all outcomes are successes of plain jobs, so these go first, a whole claim per statement; whatever is
more than that (a retry, a unique key, a cancel, a job that is not the worker's) is looked at one by one, in
the order it was sent.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Final

import msgspec

from windlass.core.ids import MAX_SEQ, SEQ_BITS
from windlass.core.seqset import Ranges, compress
from windlass.core.states import WORKERS_OWN, Kind
from windlass.errors import ClaimLost
from windlass.store.records import Finished, Outcome, Room
from windlass.store.sqlite import transitions
from windlass.store.sqlite.claims import Span, must_live, running, span
from windlass.store.sqlite.operation.transaction import Transaction
from windlass.store.sqlite.rows import CANCELLED, DEAD, SUCCEEDED, Row, encode, with_failure
from windlass.store.sqlite.schema import Statements

_SQL = Statements("outcomes")
FLUSHES_KEPT: Final = 1024
"""How far back a flush sent again is recognised. A worker has a few in flight; this is for ever, to it."""

_decode_ranges = msgspec.json.Decoder(Ranges).decode


class _Batch:
    """The plain successes of one claim."""

    __slots__ = ("claim", "lane", "odd", "results", "seqs")

    def __init__(self, claim: int, lane: int) -> None:
        self.claim = claim
        self.lane = lane
        self.seqs: list[int] = []
        self.results: dict[int, str] = {}
        self.odd = False


def finish(
    tx: Transaction, worker: int, flush: int, outcomes: Sequence[Outcome], room: Room | None = None
) -> Finished:
    """Record a flush. Each outcome is applied, was there already, or is refused."""
    batches = _batches(outcomes)
    must_live(tx, worker)
    ended = Ended(tx, worker, flush)
    done = {batch.claim: _succeed_together(tx, worker, batch) for batch in batches}
    applied = sum(map(len, done.values()))
    for claim, seqs in done.items():
        ended.add(claim, seqs)
    repeated = 0
    refused: list[int] = []
    if applied < len(outcomes):
        mine: dict[int, Span | None] = {}
        for outcome in outcomes:
            job = outcome.job
            if _is_plain(outcome) and job.seq in done[job.claim]:
                continue
            if job.claim not in mine:
                mine[job.claim] = span(tx, worker, job.claim)
            row = running(tx, mine[job.claim], job)
            if row is not None:
                _apply(tx, row, outcome)
                ended.add(job.claim, [job.seq])
                applied += 1
            elif ended.has(job.claim, job.seq):
                repeated += 1
            else:
                refused.append(job.id)
    ended.save()
    return Finished(applied, repeated, tuple(refused))


def _is_plain(outcome: Outcome) -> bool:
    return outcome.kind is Kind.SUCCEEDED and outcome.error is None and not outcome.forget


def _batches(outcomes: Sequence[Outcome]) -> list[_Batch]:
    """Sort out the successes, and refuse what no worker may say."""
    batches: dict[int, _Batch] = {}
    batch = _Batch(-1, -1)
    for outcome in outcomes:
        if outcome.kind is Kind.SUCCEEDED and outcome.error is None and not outcome.forget:
            job = outcome.job
            if job.claim != batch.claim:
                batch = batches.setdefault(job.claim, _Batch(job.claim, job.lane))
            if job.lane != batch.lane:
                batch.odd = True
            batch.seqs.append(job.seq)
            if outcome.result is not None:
                batch.results[job.seq] = outcome.result
        elif outcome.kind not in WORKERS_OWN:
            raise ValueError(f"a worker cannot end an attempt as {outcome.kind} (job {outcome.job.id})")
    return list(batches.values())


def _succeed_together(tx: Transaction, worker: int, batch: _Batch) -> Collection[int]:
    """End those of a batch that are plain, running and the worker's own, and return their seqs.

    A plain job (state 2) that lies in a claim is running [I2], holds no key and no checkpoint, and nobody
    wished it cancelled: to end it is to write its state."""
    seqs = set(batch.seqs)
    if batch.odd or len(seqs) < len(batch.seqs):
        return ()
    claim = span(tx, worker, batch.claim)
    base = batch.lane << SEQ_BITS
    first, last = base | min(seqs), base | max(seqs)
    if claim is None or not (claim[0] <= first and last <= claim[1]):
        return ()
    lane = tx.lanes.numbered(batch.lane)
    tasks: Counter[str] = Counter()
    if last - first == len(seqs) - 1:
        tasks = _plain_tasks(tx, first, last)
    if tasks.total() == len(seqs):
        tx.run(_SQL["succeed_range"], (tx.now, first, last))
    else:
        places = encode([base | seq for seq in seqs]).decode()
        plain = tx.all(_SQL["plain"], (places,))
        seqs = {pos & MAX_SEQ for pos, _ in plain}
        tasks = Counter(task for _, task in plain)
        tx.run(_SQL["succeed_places"], (tx.now, places))
    for task, n in tasks.items():
        tx.ended[lane.queue, task, SUCCEEDED] += n
    if batch.results:
        tx.many(
            _SQL["result"], ((result, base | seq) for seq, result in batch.results.items() if seq in seqs)
        )
    tx.leases.leave_many(batch.claim, len(seqs))
    lane.running -= len(seqs)
    tx.notify = True
    return seqs


def _plain_tasks(tx: Transaction, first: int, last: int) -> Counter[str]:
    """How many plain jobs of each task there are in a range. Mostly they are of one: then the first by name
    is the last, and that is known without sorting them."""
    ((count, task, other),) = tx.all(_SQL["count"], (first, last))
    return Counter({task: count} if task == other else dict(tx.all(_SQL["tasks"], (first, last))))


def _apply(tx: Transaction, row: Row, outcome: Outcome) -> None:
    if outcome.forget and outcome.kind is Kind.SUCCEEDED:
        row.errors_json = None
    if outcome.error is not None:
        row.errors_json = with_failure(row, outcome.error, tx.now)
    match outcome.kind:
        case Kind.SUCCEEDED:
            transitions.end(tx, row, SUCCEEDED, result=outcome.result)
        case Kind.CANCELLED:
            transitions.end(tx, row, CANCELLED)
        case Kind.DEAD:
            message = outcome.error.message if outcome.error is not None else ""
            transitions.end(tx, row, DEAD, reason=message or "dead")
        case Kind.RETRY if row.cancel is None:
            _try_again(tx, row, outcome.delay)
        case Kind.SNOOZE | Kind.THROTTLED | Kind.UNKNOWN:
            transitions.put_back(tx, row, outcome.delay, outcome.kind)
        case _:  # released, or a retry that nobody wants any more
            transitions.put_back(tx, row)


def _try_again(tx: Transaction, row: Row, delay: float) -> None:
    if row.attempt >= row.options.max_attempts:
        transitions.end(tx, row, DEAD, reason="exhausted")
    else:
        row.attempt += 1
        transitions.put_back(tx, row, delay, Kind.RETRY)


def finish_alone(tx: Transaction, worker: int, flush: int, outcome: Outcome) -> None:
    """Write the outcome of a handler's own transaction. Raises ClaimLost [C5]."""
    finished = finish(tx, worker, flush, [outcome])
    if finished.applied != 1:  # a flush sent before has committed its data then, and once is enough
        raise ClaimLost(
            f"job {outcome.job.id} is no longer held by claim {outcome.job.claim}; "
            "nothing of its transaction was kept"
        )


class Ended:
    """Which attempts this flush ended, now or when it was sent before."""

    def __init__(self, tx: Transaction, worker: int, flush: int) -> None:
        self._tx = tx
        self._worker = worker
        self._flush = flush
        self._seqs: defaultdict[int, set[int]] = defaultdict(set)
        for claim, text in tx.all(_SQL["sent_before"], (worker, flush)):
            self._seqs[claim] = {seq for lower, upper in _decode_ranges(text) for seq in range(lower, upper)}

    def add(self, claim: int, seqs: Iterable[int]) -> None:
        """This flush has ended these attempts."""
        self._seqs[claim].update(seqs)

    def has(self, claim: int, seq: int) -> bool:
        """Whether it has ended this one."""
        return seq in self._seqs.get(claim, ())

    def save(self) -> None:
        """Remember them, and forget flushes that nobody sends again."""
        rows = [
            (self._worker, self._flush, claim, encode(compress(seqs)).decode())
            for claim, seqs in self._seqs.items()
            if seqs
        ]
        self._tx.many(_SQL["remember"], rows)
        if self._flush % 64 == 0:
            self._tx.run(_SQL["forget"], (self._worker, self._flush - FLUSHES_KEPT))


def was_ended(tx: Transaction, worker: int, claim: int, seq: int) -> bool:
    """Whether some flush of this worker has ended this attempt."""
    return any(
        lower <= seq < upper
        for (text,) in tx.all(_SQL["ended_in"], (worker, claim))
        for lower, upper in _decode_ranges(text)
    )
