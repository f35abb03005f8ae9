"""Keeping a table of yours equal to a source that is read in batches, by a job that may be killed and
resumed: incremental first, then one replacement [P6] [P11].

    vectors = RowSet("vector", key="operation", columns=("text", "embedding"), scope="catalog")

    run = run_number(ctx.enqueued_at)                                     # the same over all attempts
    fresh = await vectors.amissing(connection, run, hashes, scope="a")    # what is not stored as it is
    await vectors.aupsert(connection, run, rows, scope="a")               # batch by batch
    gone = await vectors.areplace(connection, run, scope="a")             # last: removes what is stale

Nothing here begins, commits or rolls back a transaction that is yours, so rows and checkpoint are committed
together. How runs that overlap get along is told in `windlass.sets.rowset`.
"""

from windlass.sets.rowset import RowSet
from windlass.sets.values import content_hash, run_number

__all__ = ["RowSet", "content_hash", "run_number"]
