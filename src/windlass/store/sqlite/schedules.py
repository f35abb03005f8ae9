"""Schedules, and how they fire: compare-and-swap and enqueue in one transaction [K4]. When one is due next is
for its caller to say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw
import msgspec

from windlass.store.columns import COLUMNS
from windlass.store.records import Due, NewSchedule, Receipt, ScheduleRecord
from windlass.store.schedules import job_of, put, seeded
from windlass.store.sqlite import management, transitions
from windlass.store.sqlite.cluster import must_lead
from windlass.store.sqlite.enqueue import add
from windlass.store.sqlite.operation.transaction import Transaction
from windlass.store.sqlite.rows import ENDED, encode, named, record_of
from windlass.store.sqlite.schema import Statements

_SQL = Statements("schedules")
_decode = msgspec.json.Decoder(NewSchedule).decode
_encode = msgspec.json.Encoder().encode


def schedules(connection: apsw.Connection) -> list[ScheduleRecord]:
    """Every schedule, by name."""
    return [_record(row) for row in named(connection, _SQL["all"])]


def due(connection: apsw.Connection, now: float, limit: int = 100) -> Due:
    """Return the due schedules, the one due longest first, and those that were fired in the future."""
    found = [row for name in ("due", "ahead") for row in named(connection, _SQL[name], (now, max(limit, 0)))]
    known = sorted(map(_record, found), key=lambda schedule: (schedule.next_at or 0.0, schedule.name))
    ((next_at,),) = connection.execute(_SQL["next"], (now,))
    return Due(now, known[: max(limit, 0)], next_at)


def seed(
    tx: Transaction, schedule: NewSchedule, next_at: float | None, error: str | None = None
) -> ScheduleRecord:
    """Declare a schedule, as code does."""
    return _keep(tx, seeded(_named(tx, schedule.name), schedule, tx.now, next_at, error))


def put_live(
    tx: Transaction, schedule: NewSchedule, next_at: float | None, *, new: bool
) -> ScheduleRecord | None:
    """Make or change a schedule at run time."""
    made = put(_named(tx, schedule.name), schedule, next_at, new=new)
    return None if made is None else _keep(tx, made)


def change(
    tx: Transaction, name: str, *, paused: bool | None = None, next_at: float | None = None
) -> ScheduleRecord | None:
    """Pause or resume a schedule; None: there is none."""
    known = _named(tx, name)
    if known is None:
        return None
    if paused is not None:
        known = msgspec.structs.replace(known, paused=paused)
    if next_at is not None:
        known = msgspec.structs.replace(known, next_at=next_at)
    return _keep(tx, known)


def drop(tx: Transaction, name: str) -> bool:
    """Remove a schedule."""
    return tx.run(_SQL["drop"], (name,)) > 0


def fire(
    tx: Transaction,
    term: int | None,
    name: str,
    expected: float | None,
    times: Sequence[float],
    *,
    next_at: float | None,
    skipped: int = 0,
    error: str | None = None,
) -> list[Receipt] | None:
    """Fire a schedule for these times, if nobody has done so before."""
    if term is not None:
        must_lead(tx, term)
    known = _named(tx, name)
    if known is None or (expected is not None and (known.paused or known.next_at != expected)):
        return None
    by_hand = expected is None
    receipts: list[Receipt] = []
    last_at, last_job = known.last_at, known.last_job
    for time in times:
        if not by_hand and not _makes_way(tx, known, last_job, latest=time == times[-1]):
            skipped += 1
            continue
        behind = None if by_hand else _stopping(tx, known, last_job)
        receipts += add(tx, [job_of(known, time, behind)])
        last_at, last_job = max(time, last_at or time), receipts[-1].id or last_job
    _keep(
        tx,
        msgspec.structs.replace(
            known,
            next_at=known.next_at if by_hand else next_at,
            last_at=last_at,
            last_job=last_job,
            skipped=known.skipped + skipped,
            error=known.error if by_hand else error,
        ),
    )
    return receipts


def _makes_way(tx: Transaction, schedule: ScheduleRecord, last_job: int | None, *, latest: bool) -> bool:
    """Return whether a fire makes a job, by what its schedule does about one of its jobs that has not
    ended."""
    if schedule.overlap == "skip" and not latest:
        return False  # the next of these times would meet its job
    row = transitions.find(tx, last_job) if last_job is not None else None
    if row is None or row.state in ENDED or schedule.overlap == "queue":
        return True
    if schedule.overlap == "cancel":
        management.cancel(tx, [row.id])
        return True
    return False


def _stopping(tx: Transaction, schedule: ScheduleRecord, last_job: int | None) -> int | None:
    """The last job, where it was told to stop and has not yet."""
    row = transitions.find(tx, last_job) if last_job is not None and schedule.overlap == "cancel" else None
    return last_job if row is not None and row.state not in ENDED else None


def _named(tx: Transaction, name: str) -> ScheduleRecord | None:
    found = named(tx.connection, _SQL["named"], (name,))
    return _record(found[0]) if found else None


def _keep(tx: Transaction, schedule: ScheduleRecord) -> ScheduleRecord:
    definition = encode({name: getattr(schedule, name) for name in NewSchedule.__struct_fields__}).decode()
    state = {name: getattr(schedule, name) for name in COLUMNS["schedule"]}
    if schedule.declared is not None:
        state["declared"] = _encode(schedule.declared).decode()
    tx.run(_SQL["keep"], (schedule.name, definition, *state.values()))
    return schedule


def _record(row: dict[str, Any]) -> ScheduleRecord:
    return record_of(ScheduleRecord, row, **msgspec.structs.asdict(_decode(row["definition"])))
