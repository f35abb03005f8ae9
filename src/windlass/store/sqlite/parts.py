"""Parts: the rows that say what each part of a parent covers, which job runs it, and what it has saved [P4];
and parents and parts as others see them [P10]. What follows for the parent is decided in `parents`.

A parent's row holds the sums of what its parts had saved when they ended; what those that are out have saved
since is read from their checkpoints, of which there are never more than run at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import apsw
import msgspec

from windlass.core.read_errors import READ_ERRORS
from windlass.core.states import State
from windlass.store.records import (
    NewJob,
    Options,
    ParentRecord,
    PartOf,
    PartPlan,
    PartRecord,
    states_of_parts,
)
from windlass.store.sqlite.listing import Seen, checkpoints, seen_job
from windlass.store.sqlite.operation.transaction import Transaction
from windlass.store.sqlite.rows import DEAD, STATES, SUCCEEDED, Ending, failures, fetch, named, record_of
from windlass.store.sqlite.schema import Statements

_SQL = Statements("parts")

PENDING: Final = 0
OUT: Final = 1
MAX_EXACT: Final = 1 << 53


class _Saved(msgspec.Struct):
    n: int = 0


_decode_saved = msgspec.json.Decoder(_Saved).decode


@dataclass(frozen=True, slots=True)
class Origin:
    """The fields that the jobs of parts have from their parent's."""

    parent: NewJob
    finalizer: PartOf

    def job(self, index: int = -1, span: str = "null", size: int = 0) -> NewJob:
        """The job of a part; -1 is the finalizer's."""
        part = msgspec.structs.replace(self.finalizer, index=index, span=span, size=size)
        return msgspec.structs.replace(self.parent, options=self.parent.options.of_part(part))


@dataclass(frozen=True, slots=True)
class Change:
    """The change in a parent's sums by the end of a part, or by its return."""

    before: int
    after: int
    done: int = 0
    records: int = 0


def add(tx: Transaction, parent: int, plan: Iterable[PartPlan]) -> None:
    """Write the parts of a new parent."""
    tx.many(_SQL["add"], ((parent, number, part.size, part.span) for number, part in enumerate(plan)))


def offer(tx: Transaction, origin: Origin, count: int) -> int:
    """Give the next parts their jobs, each with the checkpoint and the steps it has, if it runs again."""
    offered: list[tuple[Any, ...]] = []
    saved: list[tuple[Any, ...]] = []
    parent = origin.finalizer.parent
    for number, span, size, data, done, goal, at, earlier in tx.all(_SQL["pending"], (parent, count)):
        job = tx.inserts.add(origin.job(number, span, size)).id
        offered.append((job, parent, number))
        if data is not None:
            saved.append((job, data, done, goal, at))
        if earlier is not None:
            tx.run(_SQL["hand_over_steps"], (job, earlier))
    tx.many(_SQL["offer"], offered)
    tx.many(_SQL["restore"], saved)
    return len(offered)


def end(tx: Transaction, ending: Ending, part: PartOf) -> Change | None:
    """Write how a part's job ended; None where it is another job that runs the part now."""
    found = tx.one(_SQL["of_job"], (part.parent, part.index, ending.id))
    if found is None or found[0] != OUT:
        return None
    _, size, old_done, old_records, *_ = found
    data, done, goal, at = ending.saved or (None, None, None, None)
    records, done = counted(data), done or 0
    if ending.state == SUCCEEDED:
        data, done, goal, at = None, size, None, None
    error = cause(ending.errors_json, ending.reason) if ending.state == DEAD else None
    tx.run(
        _SQL["end"],
        (
            ending.state, ending.attempt, done, records, error, data, goal, at,
            part.parent, part.index,
        ),
    )  # fmt: skip
    return Change(OUT, ending.state, done - old_done, records - old_records)


def ended_with(tx: Transaction, job: int, part: PartOf) -> bool:
    """Return whether this job ran the part last, and no other does by now."""
    found = tx.one(_SQL["of_job"], (part.parent, part.index, job))
    return found is not None and found[0] not in (PENDING, OUT)


def bring_back(tx: Transaction, job: int, part: PartOf) -> Change:
    """The dead job of a part is to be offered once more, with the checkpoint it had."""
    found = tx.one(_SQL["of_job"], (part.parent, part.index, job))
    assert found is not None
    state, _, done, _, data, goal, at = found
    tx.run(_SQL["bring_back"], (part.parent, part.index))
    if data is not None:
        tx.run(_SQL["restore"], (job, data, done, goal, at))
    return Change(state, OUT)


def waiting(tx: Transaction, parent: int) -> int:
    """How many of those that are out nobody has claimed since they were offered."""
    found = tx.one(_SQL["waiting"], (parent,))
    return int(found[0]) if found else 0


def claimed(tx: Transaction, parent: int, jobs: Iterable[int]) -> None:
    """These jobs of a parent's parts were claimed."""
    tx.many(_SQL["claimed"], ((parent, job) for job in jobs))


def out(tx: Transaction, parent: int) -> list[int]:
    """The jobs of the parts that are out."""
    return [job for (job,) in tx.all(_SQL["out"], (parent,))]


def redrive(tx: Transaction, parent: int) -> Iterator[tuple[int, int]]:
    """Put the failed parts back among those to be offered; yields how each had ended, and its job."""
    failed = tx.all(_SQL["failed"], (parent,))
    tx.many(_SQL["again"], ((parent, number) for number, _, _ in failed))
    return ((state, job) for _, state, job in failed)


def recognise(tx: Transaction, ending: Ending) -> Ending:
    """The end of a job whose options nobody can read, with the part it ran, if it ran one: its parent must
    not wait for ever."""
    found = tx.one(_SQL["run_by"], (ending.id,))
    if found is None:
        return ending
    parent, index = found
    return replace(ending, options=Options(part=PartOf(parent=parent, index=index, total=0)))


def counted(data: str | None) -> int:
    """The records that a checkpoint tells of: `n`, where its data is an object that has a whole number so
    called."""
    if data is None:
        return 0
    try:
        n = _decode_saved(data).n
    except READ_ERRORS:
        return 0
    return n if abs(n) < MAX_EXACT else 0


def cause(errors_json: str | None, reason: str | None) -> str | None:
    """Return the cause of a job's death, in a line."""
    kept = failures(errors_json)
    return f"{kept[-1].type}: {kept[-1].message}" if kept else reason


# -- parents and parts as others see them --------------------------------------------------------------------

MAX_ID = (1 << 63) - 1


def parent(connection: apsw.Connection, id: int) -> ParentRecord | None:
    """The parent with this id."""
    found = named(connection, _SQL["parent"], (id,)) if 0 < id <= MAX_ID else []
    return _parent(connection, found[0]) if found else None


def parents(connection: apsw.Connection, *, active: bool = False, limit: int = 50) -> list[ParentRecord]:
    """Parents, the one split last first."""
    statement = _SQL["active" if active else "all"]
    return [_parent(connection, row) for row in named(connection, statement, (max(limit, 0),))]


def parts(connection: apsw.Connection, parent: int, *, start: int = 0, limit: int = 1000) -> list[PartRecord]:
    """Parts of a parent by index."""
    if not 0 < parent <= MAX_ID:
        return []
    found = named(connection, _SQL["parts"], (parent, max(start, 0), max(limit, 0)))
    return [_part(connection, row) for row in found]


def part_states(connection: apsw.Connection, parent: int) -> list[State]:
    """The states of a parent's parts by index. Those that are pending are mostly the rest from some index on,
    which the parent's counts show."""
    found = fetch(connection, _SQL["first_pending"], (parent,)) if 0 < parent <= MAX_ID else []
    if not found:
        return []
    ((total, pending, first),) = found
    if first is None or total - first == pending:
        runs = [(first or 0, pending, State.WAITING)]
    else:
        runs = [(at, n, State.WAITING) for at, n in fetch(connection, _SQL["pending_runs"], (parent,))]
    for number, state, job in fetch(connection, _SQL["open"], (parent,)):
        runs.append((number, 1, _job_of_part(connection, job).state if state == OUT else STATES[state]))
    return states_of_parts(total, runs)


def _parent(connection: apsw.Connection, row: dict[str, Any]) -> ParentRecord:
    saved = fetch(connection, _SQL["saved"], (row["id"],)) if row["out"] else ()
    for data, done, done_before, records_before in saved:
        row["done"] += (done or 0) - done_before
        row["records"] += counted(data) - records_before
    return record_of(ParentRecord, row)


def _part(connection: apsw.Connection, row: dict[str, Any]) -> PartRecord:
    job, state = row["job"], row["state"]
    if state != OUT:
        return record_of(PartRecord, row, state=State.WAITING if state == PENDING else STATES[state])
    seen, saved = _job_of_part(connection, job), checkpoints(connection, [job]).get(job)
    done, counts = (0, 0) if saved is None else (saved.done or 0, counted(saved.data))
    return record_of(PartRecord, row, state=seen.state, attempt=seen.attempt, done=done, records=counts)


def _job_of_part(connection: apsw.Connection, job: int) -> Seen:
    seen = seen_job(connection, job)
    assert seen is not None, "a part that is out has lost its job"
    return seen
