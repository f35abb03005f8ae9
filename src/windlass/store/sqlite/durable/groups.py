"""Groups of jobs on SQLite [W4]. The job that ends a group waits for the jobs of the group as for any others
that it comes after, and for itself while the group is open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import apsw

from windlass.errors import GroupClosed, JobNotFound, Refused
from windlass.store.records import NewJob, Receipt
from windlass.store.sqlite import deferred, enqueue, listing, transitions
from windlass.store.sqlite.operation.transaction import Transaction
from windlass.store.sqlite.rows import fetch
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
    added = [receipt.id for receipt in receipts if receipt.id and tx.run(_SQL["add"], (group, receipt.id))]
    deferred.await_jobs(tx, group, added)
    return receipts


def jobs(connection: apsw.Connection, group: int, after: int = 0, limit: int = 1000) -> list[int]:
    """The jobs of a group in the order in which they were added, those behind one of them. Reads only."""
    return [job for (job,) in fetch(connection, _SQL["jobs"], (group, after, limit))]


def counts(connection: apsw.Connection, group: int) -> Mapping[str, int]:
    """How many of its jobs are in each state. Reads only."""
    found: Counter[str] = Counter()
    for job in jobs(connection, group, limit=-1):
        seen = listing.seen_job(connection, job)
        found["gone" if seen is None else str(seen.state)] += 1
    return dict(found)


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
