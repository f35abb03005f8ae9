"""The transitions of a job: offered, held, admitted, deferred, ended, removed. Each keeps the counters, the
claims, the passes and the unique keys true, so nothing else writes where a job stands, except for inserts,
claims, and the two paths that end and remove plain jobs in bulk (outcomes, retention)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from windlass.core.abilities import SEND_ON
from windlass.core.expiry import NOT_BEGUN
from windlass.core.flow.gates import Gate, shut_gate, waits_again
from windlass.core.retry import FORGET_AFTER
from windlass.core.states import Kind
from windlass.store import unknown_tasks
from windlass.store.sqlite import rows
from windlass.store.sqlite.flow.limits import BUDGET
from windlass.store.sqlite.operation.lanes import Lane
from windlass.store.sqlite.operation.transaction import Transaction
from windlass.store.sqlite.rows import Ending, Row, decode_new_job, encode, options_json
from windlass.store.sqlite.schema import Statements

_SQL = Statements("transitions")


def find(tx: Transaction, job: int) -> Row | None:
    """The job with this id, wherever it stands."""
    if not 0 < job < 1 << 63:
        return None
    tx.inserts.write()
    found = tx.one(_SQL["find"], (job, job))
    return Row(*found) if found else None


def find_many(tx: Transaction, jobs: Sequence[int]) -> list[Row]:
    """The jobs with these ids, which must be there, in this order."""
    tx.inserts.write()
    found = tx.all(_SQL["find_many"], (encode(jobs).decode(),)) if jobs else []
    by_id = {row.id: row for row in (Row(*columns) for columns in found)}
    return [by_id[job] for job in jobs]


def must_find(tx: Transaction, job: int) -> Row:
    """Return the job with this id, which must be there."""
    row = find(tx, job)
    assert row is not None, f"job {job} is gone, and others still know it"
    return row


def at(tx: Transaction, pos: int) -> Row | None:
    """The job that stands at this position."""
    found = tx.one(_SQL["at"], (pos,))
    return Row(*found) if found else None


def offer(tx: Transaction, row: Row) -> None:
    """Put a job at the back of its lane: a new place, the same id. Nobody runs it, and no wish to cancel an
    earlier run is left over. It has to pass the gates that it has no pass of."""
    _leave_and_proceed(tx, row, since=tx.now)


def come_due(tx: Transaction, row: Row) -> None:
    """Put a job whose time has come at the back of its lane: it also waits for a turn of its fair key, behind
    those of its key that wait already [C3]."""
    _leave_and_proceed(tx, row, since=tx.now, ring=True)


def way_of(tx: Transaction, row: Row) -> Sequence[Gate]:
    """The gates of a job, in the order it passes them."""
    return tx.gates.way(tx.lanes.numbered(row.lane).queue, row.task, row.options_json)


def pass_gate(tx: Transaction, row: Row, gate: str) -> bool:
    """Let the first who waits through its gate, and on as far as there is room; whether it has come to its
    lane. It has been ready all the while, so `touched_at` stays."""
    need, place = row.need, row.pos
    _leave(tx, row)
    if need is not None:
        tx.gates.reserve(row.id, gate, need, place)
    else:
        tx.gates.let_through(gate)
        tx.gates.give(row.id, [gate])
    arrived = _proceed(tx, row, row.touched_at, ring=True)
    if arrived and need is None and len(way_of(tx, row)) == 1:
        tx.passed[row.id] = gate, place
    return arrived


def enter_many(tx: Transaction, lane: Lane, waiting: Sequence[tuple[int, int]]) -> range:
    """Put several jobs into their lane, each with its place and its id, whose passes somebody else gives
    them. Answers with their new places."""
    places = lane.next_places(len(waiting))
    lane.held -= len(places)
    lane.ready += len(places)
    entries = ((to, job, rows.BOUND, pos) for to, (pos, job) in zip(places, waiting, strict=True))
    tx.many(_SQL["enter"], entries)
    tx.notify = True
    return places


def _waits_again(tx: Transaction, row: Row, *, at_once: bool) -> bool:
    """Return whether a job whose attempt is over was one of a run, and has given back its pass to wait at the
    place that it had, as if it had never left [F3] [F6]. It is ready from now on: by that the next run knows
    that it is not the first, and looks for steps [W1]."""
    found = tx.one(_SQL["run_of"], (row.id,))
    if found is None or not waits_again(found[0], is_first=not found[2], at_once=at_once):
        return False
    gate, place, _ = found
    _leave(tx, row)
    tx.gates.call_back(row.id, gate)
    _join_list(tx, row, gate, tx.now, place=place)
    return True


def admit(tx: Transaction, lane: Lane, pos: int, job: int, options: str | None, *, bound: bool) -> None:
    """Let a job into its lane that had its turn among the fair keys. Nothing else of it changes: it has been
    ready all the while. `bound`: it has a checkpoint or a pass, or others come after it."""
    lane.held -= 1
    lane.ready += 1
    state = rows.BOUND if bound or rows.has_keys(options) else rows.PLAIN
    tx.run(_SQL["enter"], (lane.next_place(), job, state, pos))
    tx.notify = True


def change_list(tx: Transaction, row: Row, gate: str) -> None:
    """A job that waits goes to another waiting list, with its place."""
    need = row.need
    _leave(tx, row)
    _join_list(tx, row, gate, row.touched_at, need, row.pos)


def resume(tx: Transaction, row: Row) -> None:
    """A job that waited for its queue goes on to its gates; it has been ready all the while."""
    _leave_and_proceed(tx, row, since=row.touched_at, ring=True)


def shut_out(tx: Transaction, row: Row) -> None:
    """A job that nobody would run waits for its queue, and leaves its slots to others [F3]."""
    place = tx.lanes.numbered(row.lane).place
    _leave(tx, row)
    tx.gates.drop_slots(row.id)
    tx.gates.suspend_reservation(row.id)
    _join_list(tx, row, shut_gate(place), row.touched_at)


def send_to_list(tx: Transaction, row: Row, gate: str, need: int | None = None) -> None:
    """A job that was about to be claimed leaves its lane for a waiting list: its end, or the place it had
    before. Who waits for tokens takes no slot meanwhile."""
    place = None
    if row.state == rows.BOUND:
        tx.gates.write()
        tx.gates.suspend_reservation(row.id)
        if need is not None:
            tx.gates.drop_slots(row.id)
            place = tx.gates.cancel_reservation(row.id, gate)
    _leave(tx, row)
    _join_list(tx, row, gate, row.touched_at, need, place)
    tx.notify |= need is not None  # whoever promotes should know when the tokens come


def defer(tx: Transaction, row: Row, state: int, run_at: float) -> None:
    """Set a job aside until its time. It stays at its place, which its claim has passed."""
    _leave(tx, row)
    if row.state == rows.BOUND:
        tx.gates.drop(row.id, ended=False)
    reason = unknown_tasks.reason(row.options)
    _move(tx, row, row.pos, state, touched_at=tx.now, run_at=run_at, reason=reason)


def end(
    tx: Transaction,
    row: Row,
    state: int,
    *,
    reason: str | None = None,
    result: str | None = None,
    counted: bool = True,
    expired: bool = False,
) -> None:
    """End a job for good: its checkpoint goes but for the progress [P6], its key is free, and its rerun
    begins [E6]. What that means for its parent and for jobs that come after it is for `settle` to see to.
    One that is taken back without a trail is not counted [M7]."""
    if counted:
        tx.ended[tx.lanes.numbered(row.lane).queue, row.task, rows.EXPIRED if expired else state] += 1
    waits = row.state in rows.OFFERED and not tx.lanes.numbered(row.lane).runs(row)
    _leave(tx, row)
    if row.gate is not None:  # it may have asked for more room than those behind it
        tx.gates.free(row.gate)
    # A job that ends while it waits gives up its place, since beyond the cursor stand ready jobs only [I1].
    pos = tx.lanes.reserved().next_place() if waits else row.pos
    cancel = None if row.cancel is None else 0
    if row.state != rows.PLAIN:
        tx.gates.drop(row.id, ended=True)
    saved = tx.one(_SQL["drop_checkpoint"], (row.id,))
    progress = None if saved is None or saved[1:3] == (None, None) else encode(saved[1:]).decode()
    _move(
        tx, row, pos, state,
        touched_at=tx.now, cancel=cancel, reason=reason, result=result, progress=progress,
    )  # fmt: skip
    options = row.options
    rerun = None
    if options.unique_key is not None:
        _note_end_of_key(tx, options.unique_key, state)
        freed = tx.one(_SQL["free"], (options.unique_key, row.id))
        rerun = decode_new_job(freed[0]) if freed is not None and freed[0] is not None else None
    if rerun is not None and not rerun.options.after:
        tx.inserts.add(rerun)
        rerun = None
    tx.endings.append(
        Ending(row.id, state, row.attempt, options, row.errors_json, reason, result, saved, rerun)
    )
    tx.notify = True


def _note_end_of_key(tx: Transaction, key: str, state: int) -> None:
    """A job of this key has ended. A cancelled one says nothing about the key."""
    if state == rows.DEAD:
        tx.run(_SQL["key_died"], (key, tx.now, tx.now - FORGET_AFTER))
    elif state == rows.SUCCEEDED:
        tx.run(_SQL["key_went_well"], (key,))


def wait(tx: Transaction, row: Row) -> None:
    """From now on, or once more, a parent waits for its parts: without a place in its lane, without a lease
    and without a checkpoint."""
    _leave(tx, row)
    tx.gates.drop(row.id, ended=False)
    pos = row.pos if row.aside else tx.lanes.reserved().next_place()
    _move(tx, row, pos, rows.WAITING, touched_at=tx.now)
    tx.run(_SQL["drop_checkpoint"], (row.id,))


def put_back(
    tx: Transaction, row: Row, delay: float = 0.0, kind: Kind = Kind.RELEASED, *, began: bool = False
) -> None:
    """A run is over and the job is not: offer it again, unless somebody wished it cancelled [O5]. One that
    somebody has begun expires no more [E8]."""
    if row.cancel is not None:
        end(tx, row, rows.CANCELLED)
        return
    if began or kind not in NOT_BEGUN:
        forget_deadline(row)
    remember_unknown(row, tx.now if kind is Kind.UNKNOWN else None)
    if row.state == rows.BOUND and _waits_again(tx, row, at_once=delay <= 0):
        return
    if delay > 0:
        state = rows.RETRYING if kind in (Kind.RETRY, Kind.LOST) else rows.SCHEDULED
        defer(tx, row, state, tx.now + delay)
    else:
        offer(tx, row)


def send_on(tx: Transaction, row: Row, needs: str) -> None:
    """A job that its worker was not able to run goes to those who are, by the next promotion [K14]. One that
    goes back to its waiting list instead is met again."""
    row.options_json = options_json(msgspec.structs.replace(row.options, needs=needs))
    old = tx.lanes.numbered(row.lane)
    put_back(tx, row, SEND_ON)
    if row.state == rows.SCHEDULED:
        lane = tx.lanes.named(old.queue, old.priority, needs)
        old.count(row, -1)
        row.lane = lane.id
        lane.count(row, 1)
        tx.run(_SQL["change_lane"], (lane.id, row.pos))


def remember_unknown(row: Row, now: float | None) -> None:
    """Note since when no worker has known the job's task; without a time, that one does or may [O4]."""
    options = row.options
    noted = unknown_tasks.since(options, now)
    if noted is not options:
        row.options_json = options_json(noted)


def take_out(tx: Transaction, row: Row) -> None:
    """A job leaves the place where it waits; `set_aside` or `enter_anew` gives it another one."""
    tx.inserts.write()
    _leave(tx, row)


def rewrite(
    tx: Transaction,
    row: Row,
    lane: Lane,
    payload: str,
    fair_key: str | None,
    options: str | None,
    *,
    counted: bool = True,
) -> None:
    """A waiting job is another one from now on, at its place. `counted`: it was not taken out."""
    if counted:
        tx.lanes.numbered(row.lane).count(row, -1)
    row.lane, row.options_json = lane.id, options
    tx.run(_SQL["rewrite"], (lane.id, payload, fair_key, options, row.pos))
    if counted:
        lane.count(row, 1)


def set_aside(tx: Transaction, row: Row, state: int, run_at: float | None) -> None:
    """A job that was taken out waits for its time, without a place in its lane; NULL: for others."""
    tx.gates.drop(row.id, ended=False)
    reason = unknown_tasks.reason(row.options)
    pos = row.pos if row.aside else tx.lanes.reserved().next_place()
    _move(tx, row, pos, state, touched_at=row.touched_at, run_at=run_at, reason=reason)


def enter_anew(tx: Transaction, row: Row, since: float) -> None:
    """A job that was taken out goes as far as it can, behind those that wait there."""
    _proceed(tx, row, since, ring=True)


def forget_deadline(row: Row) -> None:
    """The job expires no more [E8]."""
    if row.options_json is not None and row.options.expires_at is not None:
        row.options_json = options_json(msgspec.structs.replace(row.options, expires_at=None))


def remove(tx: Transaction, row: Row) -> None:
    """Forget a job that has ended."""
    if row.state == rows.DEAD:
        tx.lanes.numbered(row.lane).count(row, -1)
    tx.run(_SQL["remove"], (row.pos,))


def _leave_and_proceed(tx: Transaction, row: Row, *, since: float, ring: bool = False) -> None:
    _leave(tx, row)
    _proceed(tx, row, since, ring=ring)


def _proceed(tx: Transaction, row: Row, since: float, *, ring: bool) -> bool:
    """Bring a job that has left its place through its gates as far as there is room: into its lane, the ring
    of fair keys or a waiting list. A job that has waited for tokens had its turn among the fair keys."""
    lane, way = tx.lanes.numbered(row.lane), way_of(tx, row)
    held = tx.gates.held_by(row.id) if way or row.need is not None else ()
    paid = any(name.startswith(BUDGET) for name in held)
    through, stop = tx.gates.walk(way, held)
    tx.gates.give(row.id, through)
    if stop is not None:
        if paid:
            tx.gates.suspend_reservation(row.id)
        _join_list(tx, row, stop, since)
        return False
    if ring and not paid and row.options.fair_key is not None:
        _move(tx, row, tx.lanes.reserved().next_place(), rows.HELD, touched_at=since)
        lane.join_ring()
        return False
    if paid:
        tx.gates.resume_reservation(row.id)
    state = (
        rows.BOUND if held or through or rows.has_keys(row.options_json) or _is_bound(tx, row) else rows.PLAIN
    )
    _move(tx, row, lane.next_place(), state, touched_at=since)
    tx.notify = True
    return True


def _join_list(
    tx: Transaction, row: Row, gate: str, since: float, need: int | None = None, place: int | None = None
) -> None:
    """Put a job at the end of a waiting list, or at its own place on it."""
    tx.gates.joined_list(gate)
    pos = tx.lanes.reserved().next_place() if place is None else place
    _move(tx, row, pos, rows.HELD, touched_at=since, gate=gate, need=need)


def _is_bound(tx: Transaction, row: Row) -> bool:
    """Return whether the end of this job has more to do than to write its state, as others say."""
    tx.gates.write()  # it may have been given a pass just now, of a limit that is gone
    return tx.one(_SQL["is_bound"], (row.id,)) is not None


def _leave(tx: Transaction, row: Row) -> None:
    lane = tx.lanes.numbered(row.lane)
    lane.count(row, -1)
    if row.state in rows.OFFERED and lane.runs(row):
        tx.leases.leave(lane.id, row.seq)
    elif row.gate is not None:
        tx.inserts.write()  # who is left on its waiting list must be there to be seen
        tx.gates.left_list(row.gate)
    elif (
        row.state in rows.ENDED
    ):  # those that come after it go on waiting, unless they have heard already [P12]
        tx.run(_SQL["not_ended"], (row.id,))


def _move(  # noqa: PLR0913 - what changes in a row
    tx: Transaction,
    row: Row,
    pos: int,
    state: int,
    *,
    touched_at: float,
    run_at: float | None = None,
    cancel: int | None = None,
    reason: str | None = None,
    result: str | None = None,
    gate: str | None = None,
    need: int | None = None,
    progress: str | None = None,
) -> None:
    """Write the row at its new place, and count it there."""
    old, own_id = row.pos, row.id if pos != row.pos else row.own_id
    row.pos, row.own_id, row.state, row.touched_at, row.cancel = pos, own_id, state, touched_at, cancel
    row.gate, row.need = gate, need
    bindings = (
        pos, own_id, state, touched_at, row.attempt, row.deaths, run_at, cancel, reason,
        row.errors_json, result, row.options_json, gate, need, progress, old,
    )  # fmt: skip
    tx.run(_SQL["move"], bindings)
    tx.lanes.numbered(row.lane).count(row, 1)
