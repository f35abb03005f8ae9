"""Flush claims: a worker that ends jobs of a key or a limited task gets those that waited for them with the
answer, in the same transaction [F3] [F6]. A chain of one key so costs one commit a link, or less where the
worker takes runs of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from windlass.core.abilities import NONE, can_run
from windlass.store.records import Claim, ClaimedJob, Finished, Outcome, Room
from windlass.store.sqlite import claims, deferred, outcomes
from windlass.store.sqlite.flow import runs
from windlass.store.sqlite.operation.lanes import Lane
from windlass.store.sqlite.operation.transaction import Transaction
from windlass.store.sqlite.rows import decode_names, encode
from windlass.store.sqlite.schema import Statements

_SQL = Statements("flush_claims")


def finish(
    tx: Transaction, worker: int, flush: int, ended: Sequence[Outcome], room: Room | None = None
) -> Finished:
    """Record a flush, and claim what its ends have let go."""
    finished = outcomes.finish(tx, worker, flush, ended)
    if room is None or not tx.gates.freed or finished.repeated:
        return finished
    return msgspec.structs.replace(finished, claims=tuple(_claim_freed(tx, worker, room)))


def _claim_freed(tx: Transaction, worker: int, room: Room) -> list[Claim]:
    """Claim for this worker what its flush lets into the lanes of queues in which nobody else waits: so
    nobody is overtaken [C2]."""
    queues = {queue: n for queue, n in room.queues.items() if n > 0}
    longest = dict(room.runs)
    registered = tx.one(_SQL["abilities"], (worker,))
    abilities = frozenset(decode_names(registered[0])) if registered else NONE
    for queue, lane, needs, bounded in tx.all(_SQL["lanes"], (encode(list(queues)).decode(),)):
        if can_run(needs, abilities) and tx.lanes.numbered(lane).ready:
            queues.pop(queue, None)
        if bounded:
            longest.pop(queue, None)
    if not queues:
        return []
    deferred.complete(tx)

    def follow(lane: Lane, jobs: list[ClaimedJob]) -> list[ClaimedJob]:
        most = longest.get(lane.queue, 0)
        return runs.follow(tx, lane, jobs, most, room.tokens) if most > 0 else jobs

    return claims.claim(
        tx,
        worker,
        queues,
        sum(queues.values()),
        abilities=abilities,
        takes=lambda job: _is_simple(job, room.tokens),
        follow=follow,
    )


def _is_simple(job: ClaimedJob, tokens: Collection[str]) -> bool:
    """Return whether a flush may claim a job: one that needs tokens, is a part, or has seen a worker die is
    for a claim to give out [F1] [P8] [C8]."""
    return not job.deaths and job.options.part is None and job.task not in tokens
