"""Outcomes: how claimed attempts ended, one flush at a time [C5].

Nearly all outcomes are successes. Those of plain jobs go first, a whole claim per statement, and then those
of jobs that only give passes back, all in a few statements. Whatever is more than that (a retry, a unique
key, a cancel, a job that is not the worker's) is looked at one by one, in the order it was sent.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from windlass.core.ids import SEQ_BITS
from windlass.core.seqset import Ranges, compress
from windlass.core.states import WORKERS_OWN, Kind
from windlass.errors import ClaimLost
from windlass.store.records import DEFAULT_OPTIONS, ClaimedJob, Finished, Options, Outcome
from windlass.store.sqlite import transitions
from windlass.store.sqlite.claims import Span, must_live, running, spans
from windlass.store.sqlite.durable import signals
from windlass.store.sqlite.operation.transaction import Transaction
from windlass.store.sqlite.rows import BOUND, CANCELLED, DEAD, SUCCEEDED, Row, encode, with_failure
from windlass.store.sqlite.schema import Statements

_SQL = Statements("outcomes")
FLUSHES_KEPT: Final = 1024
"""How far back a flush sent again is recognised. A worker has a few in flight; this is for ever, to it."""

_decode_ranges = msgspec.json.Decoder(Ranges).decode


def finish(tx: Transaction, worker: int, flush: int, outcomes: Sequence[Outcome]) -> Finished:
    """Record a flush. Each outcome is applied, was there already, or is refused."""
    successes = _successes(outcomes)
    must_live(tx, worker)
    ended = Ended(tx, worker, flush)
    mine = spans(tx, worker, {outcome.job.claim for outcome in outcomes})
    done = _succeed_together(tx, mine, successes, ended)
    applied, repeated = len(done), 0
    refused: list[int] = []
    if applied < len(outcomes) or any(done.values()):
        for outcome in outcomes:
            job = outcome.job
            if _is_plain(outcome) and (freed := done.pop(_place(job), None)) is not None:
                for gate in freed:
                    tx.gates.free(gate)
                continue
            row = running(tx, mine.get(job.claim), job)
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


def _place(job: ClaimedJob) -> int:
    return job.lane << SEQ_BITS | job.seq


def _successes(outcomes: Sequence[Outcome]) -> dict[int, list[Outcome]]:
    """Sort out the successes, by claim, and refuse what no worker may say."""
    successes: defaultdict[int, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.kind is Kind.SUCCEEDED and outcome.error is None and not outcome.forget:
            successes[outcome.job.claim].append(outcome)
        elif outcome.kind not in WORKERS_OWN:
            raise ValueError(f"a worker cannot end an attempt as {outcome.kind} (job {outcome.job.id})")
    return successes


def _succeed_together(
    tx: Transaction, mine: Mapping[int, Span], successes: Mapping[int, Sequence[Outcome]], ended: Ended
) -> dict[int, Sequence[str]]:
    """End what can be ended in bulk of the worker's own claims. Answers with the places of these jobs, and
    the gates that they have given passes of back to."""
    done: dict[int, Sequence[str]] = {}
    rest: dict[int, Outcome] = {}
    for claim, batch in successes.items():
        if claim not in mine:
            continue
        first, last = mine[claim]
        places = {(job := outcome.job).lane << SEQ_BITS | job.seq: outcome for outcome in batch}
        whole = min(places), max(places)
        if not (first <= whole[0] and whole[1] <= last):
            continue
        if (
            _seems_plain(batch[0].job.options)
            and len(places) == len(batch) == whole[1] - whole[0] + 1
            and _succeed_range(tx, *whole)
        ):
            _note_successes(tx, claim, batch, ended)
            done.update(dict.fromkeys(places, ()))
        else:
            rest.update(places)
    if rest:
        done.update(_succeed_scattered(tx, rest, ended))
    return done


def _seems_plain(options: Options) -> bool:
    """Return whether it is worth looking if the jobs of a claim are plain, by the first of them."""
    keys = options.ordering_key, options.concurrency_key, options.task_limit, options.unique_key, options.part
    return options is DEFAULT_OPTIONS or not any(keys)


def _succeed_range(tx: Transaction, first: int, last: int) -> bool:
    """End all jobs in a range, if all of them are plain. A plain job (state 2) that lies in a claim is
    running [I2], holds no key and no checkpoint, and nobody wished it cancelled: to end it is to write its
    state. Mostly they are of one task: then the first by name is the last, and that is known without sorting
    them."""
    ((count, task, other),) = tx.all(_SQL["count"], (first, last))
    if count != last - first + 1:
        return False
    lane = tx.lanes.numbered(first >> SEQ_BITS)
    for name, n in [(task, count)] if task == other else tx.all(_SQL["tasks"], (first, last)):
        tx.ended[lane.queue, name, SUCCEEDED] += n
    tx.run(_SQL["succeed_range"], (tx.now, first, last))
    return True


def _succeed_scattered(
    tx: Transaction, wanted: Mapping[int, Outcome], ended: Ended
) -> dict[int, Sequence[str]]:
    """End jobs that lie here and there, or hold passes and nothing else that their end would have
    to see to."""
    found = tx.all(_SQL["simple"], (encode(list(wanted)).decode(),))
    simple = [row for row in found if row[1] == wanted[row[0]].job.id]
    if not simple:
        return {}
    tx.run(_SQL["succeed_places"], (tx.now, encode([pos for pos, *_ in simple]).decode()))
    passes = tx.gates.drop_many([job for _, job, state, _ in simple if state == BOUND])
    for (lane, task), n in Counter((pos >> SEQ_BITS, task) for pos, _, _, task in simple).items():
        tx.ended[tx.lanes.numbered(lane).queue, task, SUCCEEDED] += n
    claims: defaultdict[int, list[Outcome]] = defaultdict(list)
    for pos, *_ in simple:
        outcome = wanted[pos]
        claims[outcome.job.claim].append(outcome)
    for claim, batch in claims.items():
        _note_successes(tx, claim, batch, ended)
    return {pos: passes.get(job, ()) for pos, job, _, _ in simple}


def _note_successes(tx: Transaction, claim: int, batch: Sequence[Outcome], ended: Ended) -> None:
    """These jobs of one claim have ended well: keep what they returned, and count."""
    results = [(outcome.result, _place(outcome.job)) for outcome in batch if outcome.result is not None]
    if results:
        tx.many(_SQL["result"], results)
    ended.add(claim, [outcome.job.seq for outcome in batch])
    tx.leases.leave_many(claim, len(batch))
    tx.lanes.numbered(batch[0].job.lane).running -= len(batch)
    tx.notify = True


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
            transitions.end(tx, row, DEAD, reason=outcome.reason or message or "dead")
        case Kind.RETRY if row.cancel is None:
            _try_again(tx, row, outcome.delay)
        case Kind.SNOOZE if row.cancel is None:
            delay = signals.suspend(tx, row.id, outcome.job.claim, outcome.delay)
            transitions.put_back(tx, row, delay, outcome.kind)
        case Kind.SNOOZE | Kind.THROTTLED | Kind.UNKNOWN:
            signals.stay(tx, row.id)
            transitions.put_back(tx, row, outcome.delay, outcome.kind)
        case Kind.RELEASED if outcome.needs is not None and row.cancel is None:
            transitions.send_on(tx, row, outcome.needs)
        case _:  # released, or a retry that nobody wants any more
            transitions.put_back(tx, row, began=outcome.began)


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
        """Return whether it has ended this one."""
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
    """Return whether some flush of this worker has ended this attempt."""
    return any(
        lower <= seq < upper
        for (text,) in tx.all(_SQL["ended_in"], (worker, claim))
        for lower, upper in _decode_ranges(text)
    )
