"""Enqueue: what a queue with limits refuses [F4] [F5], idempotency keys, parking and unique keys, and what
becomes of a job that has a twin. See the protocol.

Whether a queue takes new jobs is decided by `core.flow.admission`; here are the measures, and the counts of
what was turned away. A refusal is an answer, not an exception, until its transaction has committed: what it
counts must last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from windlass.core.flow import admission as core
from windlass.core.retry import FORGET_AFTER, parked_until
from windlass.errors import AlreadyEnqueued, Refused, Shed
from windlass.store.records import DEFAULT_OPTIONS, NewJob, Receipt
from windlass.store.sqlite import deferred, listing, transitions
from windlass.store.sqlite.operation.transaction import Transaction
from windlass.store.sqlite.rows import CANCELLED, OFFERED, WAITING, Row, encode
from windlass.store.sqlite.schema import Statements

_SQL = Statements("enqueue")


def enqueue(tx: Transaction, jobs: Sequence[NewJob]) -> list[Receipt] | Refused:
    """Add jobs in order, unless one of their queues does not take them: then the refusal is the answer, and
    its transaction goes on, since it is counted."""
    if not tx.limits.queues:
        return add(tx, jobs)
    refused, loads = _judge(tx, _to_judge(tx, jobs))
    if refused is not None:
        return refused
    receipts = add(tx, jobs)
    tx.limits.watch(tx.lanes)
    hints = {queue: core.hint(load.depth, load.max_depth) for queue, load in loads.items()}
    return [
        receipt
        if hints.get(job.queue) is None
        else msgspec.structs.replace(receipt, pressure=hints[job.queue])
        for receipt, job in zip(receipts, jobs, strict=True)
    ]


def add(tx: Transaction, jobs: Sequence[NewJob]) -> list[Receipt]:
    """Add jobs in order. What raises is taken back by the savepoint, with what came before it.

    `stood_for` maps the keyed jobs of this call to the job that held their key before it."""
    stood_for: dict[int, int | None] = {}
    add = tx.inserts.add
    receipts: list[Receipt] = []
    for job in jobs:
        if job.options is DEFAULT_OPTIONS and job.idempotency_key is None:
            receipts.append(add(job))
        else:
            receipts.append(_once(tx, _own(job), stood_for))
    return receipts


def _to_judge(tx: Transaction, jobs: Sequence[NewJob]) -> list[NewJob]:
    """The jobs of queues that this call has something new for [E7]."""
    limited = tx.limits.queues
    new = {job.queue for job in jobs if job.queue in limited and _first(tx, job.idempotency_key) is None}
    return [job for job in jobs if job.queue in new]


def _first(tx: Transaction, key: str | None) -> int | None:
    """The job that came first with this idempotency key, while the key is remembered."""
    if key is None:
        return None
    found = tx.one(_SQL["first"], (key, tx.now - tx.settings.idempotency_retention))
    return found[0] if found else None


def _own(new: NewJob) -> NewJob:
    """The job as a producer may ask for it: whose part it is, only the store says [P4]."""
    if new.options.part is None:
        return new
    return msgspec.structs.replace(new, options=msgspec.structs.replace(new.options, part=None))


def _once(tx: Transaction, new: NewJob, stood_for: dict[int, int | None]) -> Receipt:
    """Enqueue unless this idempotency key was seen within its retention [E7]."""
    key = new.idempotency_key
    first = _first(tx, key)
    if first is not None:
        return Receipt(first, "repeated")
    receipt = _unique(tx, new, stood_for)
    if key is not None and receipt.status != "parked":
        tx.run(_SQL["remember"], (key, receipt.id, tx.now))
    return receipt


def _unique(tx: Transaction, new: NewJob, stood_for: dict[int, int | None]) -> Receipt:
    """Enqueue, or do what the policy says where an unfinished job holds the unique key [E6]."""
    key = new.options.unique_key
    if key is not None and new.automatic and _is_parked(tx, key):
        return Receipt(0, "parked")
    deferred.require_awaited(tx, new)
    if key is None:
        return _add(tx, new)
    twin = _holder(tx, key)
    if twin is None:
        receipt = _add(tx, new)
        stood_for[receipt.id] = None
        return receipt
    if new.on_conflict == "reject":
        # A twin of this very call is taken back with it: name the job that holds the key then, if one does.
        holder = stood_for.get(twin.id, twin.id)
        raise AlreadyEnqueued(f"unique key {key!r} is held by an unfinished job", holder)
    # A parent whose parts run, or a job that is put off half-way: what it has done it will not do again.
    begun = twin.state == WAITING or tx.one(_SQL["has_begun"], (twin.id,)) is not None
    if begun or (twin.state in OFFERED and tx.lanes.numbered(twin.lane).runs(twin)):
        tx.run(_SQL["set_rerun"], (encode(new).decode(), key))
        return Receipt(twin.id, "rerun")
    if new.on_conflict == "skip":
        return Receipt(twin.id, "skipped")
    tx.run(_SQL["set_rerun"], (None, key))  # this job is newer than a rerun remembered when the twin last ran
    transitions.end(tx, twin, CANCELLED, counted=False)
    transitions.remove(tx, twin)  # taken back, as if deleted: a debounced job leaves no trail
    receipt = _add(tx, new)
    stood_for[receipt.id] = stood_for.get(twin.id, twin.id)
    return Receipt(receipt.id, "replaced")


def _is_parked(tx: Transaction, key: str) -> bool:
    """Return whether an automatic enqueue of this key would be one too many."""
    found = tx.one(_SQL["deaths"], (key, tx.now - FORGET_AFTER))
    if found is None:
        return False
    deaths, last = found
    until = parked_until(deaths, last, tx.settings.park_after)
    return until is not None and tx.now < until


def _add(tx: Transaction, new: NewJob) -> Receipt:
    waits = new.options.after or new.options.group_end
    return deferred.add_after(tx, new) if waits else tx.inserts.add(new)


def _holder(tx: Transaction, key: str) -> Row | None:
    """The unfinished job that holds a unique key."""
    tx.inserts.write()
    found = tx.one(_SQL["holder"], (key,))
    return transitions.find(tx, found[0]) if found else None


# -- whether a queue takes new jobs --------------------------------------------------------------------------


@dataclass(slots=True)
class Load:
    """A queue with limits on its load, as it stands before an enqueue."""

    queue: str
    max_depth: int | None
    depth: int
    pressure: core.Pressure
    level: float


def _judge(tx: Transaction, jobs: Sequence[NewJob]) -> tuple[Refused | None, dict[str, Load]]:
    """Return whether these jobs are refused, and the queues with limits that they go to."""
    tx.limits.watch(tx.lanes)
    loads: dict[str, Load] = {}
    for (queue, priority), n in Counter((job.queue, job.priority) for job in jobs).items():
        if queue not in tx.limits.queues:
            continue
        load = loads[queue] = loads.get(queue) or _load(tx, queue)
        refused = core.refusal(queue, priority, load.depth, load.max_depth, load.pressure, load.level)
        if refused is not None:
            tx.run(_SQL["count_shed" if isinstance(refused, Shed) else "count_refused"], (n, queue))
            return refused, loads
    return None, loads


def observe(tx: Transaction, latency: float) -> None:
    """How long the store took to answer lately."""
    tx.run(_SQL["observe"], (latency, tx.now))


def _load(tx: Transaction, queue: str) -> Load:
    max_depth, shed_depth, shed_wait, shed_latency, before, depth = tx.limits.load(queue)
    wait = latency = 0.0
    if shed_wait is not None:
        wait = listing.waited(tx.connection, tx.now, queue)
    if shed_latency is not None:
        observed = tx.one(_SQL["latency"], (tx.now - core.LATENCY_COUNTS,))
        latency = observed[0] if observed else 0.0
    pressure = core.pressure(depth, max_depth, before)
    level = core.shed_level(depth, wait, latency, (shed_depth, shed_wait, shed_latency))
    return Load(queue, max_depth, depth, pressure, level)
