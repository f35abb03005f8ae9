"""Groups of jobs on SQLite [W4]. The job that ends a group waits for the jobs of the group as for any others
that it comes after, and for itself while the group is open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

import apsw

from windlass.errors import CircularWait, GroupClosed, JobNotFound, Refused
from windlass.store.findings import CIRCLES
from windlass.store.records import NewJob, Receipt
from windlass.store.sqlite import deferred, enqueue, listing, transitions
from windlass.store.sqlite.operation.transaction import Transaction
from windlass.store.sqlite.rows import encode, fetch
from windlass.store.sqlite.schema import Statements

_SQL = Statements("groups")


def enqueue_in(tx: Transaction, group: int, jobs: Sequence[NewJob]) -> list[Receipt] | Refused:
    """Enqueue jobs and add them to a group. A refusal is an answer, since it is counted."""
    if tx.one(_SQL["is_open"], (group,)) is None:
        if transitions.find(tx, group) is None:
            raise JobNotFound(
                f"there is no group {group}: it never existed, was deleted, or its retention has passed"
            )
        raise GroupClosed(
            f"group {group} takes no more jobs: it was closed, or its end was cancelled, retried or has "
            "come. Open another group"
        )
    receipts = enqueue.enqueue(tx, jobs)
    if isinstance(receipts, Refused):
        return receipts
    tx.inserts.write()
    ids = [receipt.id for receipt in receipts if receipt.id]
    if tx.one(_SQL["waits"], (encode(ids).decode(),)) is not None and leads_to(tx.connection, ids, group):
        raise CircularWait(
            f"a job that comes after group {group}, itself or by jobs between them, cannot be in it: each "
            "would wait for the other. Use on_success() or on_end() for it"
        )
    added = [receipt.id for receipt in receipts if receipt.id and tx.run(_SQL["add"], (group, receipt.id))]
    deferred.await_jobs(tx, group, added)
    return receipts


def jobs(connection: apsw.Connection, group: int, after: int = 0, limit: int = 1000) -> list[int]:
    """The jobs of a group in the order in which they were added, those behind one of them. Reads only."""
    return [job for (job,) in fetch(connection, _SQL["jobs"], (group, after, limit))]


def counts(connection: apsw.Connection, group: int) -> Mapping[str, int]:
    """How many of its jobs are in each state. Reads only."""
    found: Counter[str] = Counter()
    for job, failed in fetch(connection, _SQL["members"], (group,)):
        seen = listing.seen_job(connection, job)
        gone = "deleted" if failed else "gone"
        found[gone if seen is None else str(seen.state)] += 1
    return dict(found)


def leads_to(connection: apsw.Connection, jobs: Collection[int], on: int) -> bool:
    """Return whether one of these jobs comes after another one, itself or by jobs between them. Walks from
    both, always on the side where fewer jobs stand, first from the other one, since most often nobody comes
    after it. Reads only.

    A circle goes through an open group. A job comes after jobs that are there when it is made, and nobody
    can come after one that is not; only the end of a group gets edges later, to jobs that may come after it.
    So jobs are looked at as they are added to a group, and only those that wait for others."""
    before, behind = set(jobs), {on}
    last_before, last_behind = set(jobs), {on}
    while before.isdisjoint(behind):
        if not last_before or not last_behind:
            return False
        if len(last_before) < len(last_behind):
            last_before = _neighbours(connection, "before", last_before) - before
            before |= last_before
        else:
            last_behind = _neighbours(connection, "behind", last_behind) - behind
            behind |= last_behind
    return True


def _neighbours(connection: apsw.Connection, direction: str, jobs: Iterable[int]) -> set[int]:
    return {job for (job,) in fetch(connection, _SQL[direction], (encode(list(jobs)).decode(),))}


def circles(connection: apsw.Connection) -> list[tuple[int, int]]:
    """Groups that wait for a job which comes after them, each with that job. Reads only."""
    found: dict[int, int] = {}
    for group, job in fetch(connection, _SQL["may_circle"]):
        if len(found) >= CIRCLES:
            break
        if group not in found and leads_to(connection, [job], group):
            found[group] = job
    return list(found.items())


def expire(tx: Transaction, limit: int) -> int:
    """Remove the lists of groups whose end is gone, so many rows at most: look at so many groups, and go on
    there the next time."""
    found = tx.one(_SQL["looked"])
    group, gone = int(found[0]) if found is not None else 0, 0
    for _ in range(limit):
        following = tx.one(_SQL["next"], (group,))
        if following is None:
            group = 0
            break
        if not following[1]:
            gone += tx.run(_SQL["forget"], (following[0], limit - gone))
            if gone >= limit:
                break  # there may be more of it
        group = int(following[0])
    tx.run(_SQL["look"], (group,))
    return gone
