"""Parents and parts as others see them [P10]. Nothing here writes.

A parent's row holds the sums of what its parts had saved when they ended; what those that are out have saved
since is read from their checkpoints, of which there are never more than run at a time.
"""

from __future__ import annotations

from typing import Any

import apsw

from windlass.core.states import State
from windlass.store.records import ParentRecord, PartRecord
from windlass.store.sqlite.lookup import checkpoints, seen_job
from windlass.store.sqlite.parts import OUT, PENDING, counted
from windlass.store.sqlite.rows import STATES, fetch
from windlass.store.sqlite.statements import Statements

_SQL = Statements("progress")
MOST = (1 << 63) - 1


def parent(connection: apsw.Connection, id: int) -> ParentRecord | None:
    """The parent with this id."""
    found = fetch(connection, _SQL["parent"], (id,)) if 0 < id <= MOST else []
    return _parent(connection, found[0]) if found else None


def parents(connection: apsw.Connection, *, active: bool, limit: int) -> list[ParentRecord]:
    """Parents, the one split last first."""
    statement = _SQL["active" if active else "all"]
    return [_parent(connection, found) for found in fetch(connection, statement, (max(limit, 0),))]


def parts(connection: apsw.Connection, parent: int, start: int, limit: int) -> list[PartRecord]:
    """Parts of a parent by index."""
    head = fetch(connection, _SQL["head"], (parent,)) if 0 < parent <= MOST else []
    if not head:
        return []
    total, created_at = head[0]
    return [
        _part(connection, parent, total, created_at, found)
        for found in fetch(connection, _SQL["parts"], (parent, max(start, 0), max(limit, 0)))
    ]


def _parent(connection: apsw.Connection, found: tuple[Any, ...]) -> ParentRecord:
    (
        id, task, queue, state, total, succeeded, dead, cancelled, out, parallel, tolerated, size, done,
        records, final, cancel, reason, created_at, finished_at,
    ) = found  # fmt: skip
    for data, now_done, before, records_before in fetch(connection, _SQL["saved"], (id,)) if out else ():
        done += (now_done or 0) - before
        records += counted(data) - records_before
    return ParentRecord(
        id=id,
        task=task,
        queue=queue,
        state=STATES[state],
        total=total,
        succeeded=succeeded,
        dead=dead,
        cancelled=cancelled,
        out=out,
        parallel=parallel,
        tolerated=tolerated,
        size=size,
        done=done,
        records=records,
        final=final,
        cancel_requested=cancel is not None,
        reason=reason,
        created_at=created_at,
        finished_at=finished_at,
    )


def _part(
    connection: apsw.Connection, parent: int, total: int, created_at: float, found: tuple[Any, ...]
) -> PartRecord:
    number, state_number, size, span, job, attempt, done, records, error = found
    state = State.WAITING if state_number == PENDING else STATES.get(state_number, State.READY)
    if state_number == OUT:
        seen = seen_job(connection, job)
        assert seen is not None, "a part that is out has lost its job"
        state, attempt = seen.state, seen.attempt
        saved = checkpoints(connection, [job]).get(job)
        done, records = ((saved.done or 0), counted(saved.data)) if saved is not None else (0, 0)
    return PartRecord(
        parent=parent,
        index=number,
        total=total,
        span=span,
        size=size,
        state=state,
        job=job,
        attempt=attempt,
        done=done,
        records=records,
        error=error,
        created_at=created_at,
    )
