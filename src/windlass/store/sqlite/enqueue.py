"""Enqueue: what a queue with limits refuses, idempotency keys, parking and unique keys, and what becomes of a
job that has a twin. See the protocol."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from windlass.errors import AlreadyEnqueued, Refused
from windlass.store.records import DEFAULT_OPTIONS, NewJob, Receipt
from windlass.store.sqlite import admission, after, deaths, moves
from windlass.store.sqlite.rows import CANCELLED, OFFERED, WAITING, Row, encode
from windlass.store.sqlite.statements import Statements
from windlass.store.sqlite.transaction import Transaction

_SQL = Statements("enqueue")


def enqueue(tx: Transaction, jobs: Sequence[NewJob]) -> list[Receipt] | Refused:
    """Add jobs in order, unless one of their queues does not take them: then the refusal is the answer, and
    its transaction goes on, since it is counted."""
    if not tx.limits.queues:
        return add(tx, jobs)
    refused, loads = admission.judge(tx, _judged(tx, jobs))
    if refused is not None:
        return refused
    receipts = add(tx, jobs)
    admission.watch(tx)
    hints = {queue: load.hint for queue, load in loads.items()}
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
    add = tx.births.add
    receipts: list[Receipt] = []
    for job in jobs:
        if job.options is DEFAULT_OPTIONS and job.idempotency_key is None:
            receipts.append(add(job))
        else:
            receipts.append(_once(tx, _own(job), stood_for))
    return receipts


def _judged(tx: Transaction, jobs: Sequence[NewJob]) -> list[NewJob]:
    """The jobs of queues that this call has something new for [E7]."""
    limited = tx.limits.queues
    new = {job.queue for job in jobs if job.queue in limited and not _seen_before(tx, job.idempotency_key)}
    return [job for job in jobs if job.queue in new]


def _seen_before(tx: Transaction, key: str | None) -> bool:
    return key is not None and _first(tx, key) is not None


def _first(tx: Transaction, key: str) -> tuple[int] | None:
    """The job that came first with this idempotency key, while the key is remembered."""
    return tx.one(_SQL["first"], (key, tx.now - tx.settings.idempotency_retention))


def _own(new: NewJob) -> NewJob:
    """The job as a producer may ask for it: whose part it is, only the store says [P4]."""
    if new.options.part is None:
        return new
    return msgspec.structs.replace(new, options=msgspec.structs.replace(new.options, part=None))


def _once(tx: Transaction, new: NewJob, stood_for: dict[int, int | None]) -> Receipt:
    """Enqueue unless this idempotency key was seen within its retention [E7]."""
    key = new.idempotency_key
    if key is None:
        return _unique(tx, new, stood_for)
    first = _first(tx, key)
    if first is not None:
        return Receipt(first[0], "repeated")
    receipt = _unique(tx, new, stood_for)
    if receipt.status != "parked":
        tx.run(_SQL["remember"], (key, receipt.id, tx.now))
    return receipt


def _unique(tx: Transaction, new: NewJob, stood_for: dict[int, int | None]) -> Receipt:
    """Enqueue, or do what the policy says where an unfinished job holds the unique key [E6]."""
    key = new.options.unique_key
    if key is not None and new.automatic and deaths.is_parked(tx, key):
        return Receipt(0, "parked")
    after.refuse_strangers(tx, new)
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
    begun = twin.state == WAITING  # a parent whose parts run
    if begun or (twin.state in OFFERED and tx.lanes.numbered(twin.lane).runs(twin)):
        tx.run(_SQL["set_rerun"], (encode(new).decode(), key))
        return Receipt(twin.id, "rerun")
    if new.on_conflict == "skip":
        return Receipt(twin.id, "skipped")
    tx.run(_SQL["set_rerun"], (None, key))  # this job is newer than a rerun remembered when the twin last ran
    moves.end(tx, twin, CANCELLED)
    moves.remove(tx, twin)  # taken back, as if deleted: a debounced job leaves no trail
    receipt = _add(tx, new)
    stood_for[receipt.id] = stood_for.get(twin.id, twin.id)
    return Receipt(receipt.id, "replaced")


def _add(tx: Transaction, new: NewJob) -> Receipt:
    return after.add(tx, new) if new.options.after else tx.births.add(new)


def _holder(tx: Transaction, key: str) -> Row | None:
    """The unfinished job that holds a unique key."""
    tx.births.write()
    found = tx.one(_SQL["holder"], (key,))
    return moves.find(tx, found[0]) if found else None
