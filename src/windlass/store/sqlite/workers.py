"""The life of a worker: register, beat, retire, and the rescue of what a dead one held."""

from __future__ import annotations

from collections import Counter
from typing import Final

import apsw
import msgspec

from windlass.core.retry import DeathPolicy
from windlass.core.states import Kind
from windlass.errors import ConfigurationError
from windlass.store.measures import Vitals
from windlass.store.records import Beat, Rescued, WorkerInfo, WorkerRecord
from windlass.store.sqlite import moves
from windlass.store.sqlite.claims import must_live
from windlass.store.sqlite.machine import Machine
from windlass.store.sqlite.rows import DEAD, Row, decode_names, encode, fetch
from windlass.store.sqlite.statements import Statements
from windlass.store.sqlite.transaction import Transaction

_SQL = Statements("workers")
decode_vitals = msgspec.json.Decoder(Vitals).decode
FORGOTTEN_HOST: Final = 120.0
"""Seconds without a beat after which another host is no longer in the way: the file may have been moved here
from a machine that died, and nobody could rescue its workers from anywhere else."""


def register(tx: Transaction, worker: WorkerInfo, machine: Machine) -> None:
    """Make a worker known and alive, unless one of another host works on this file."""
    if tx.one(_SQL["known"], (worker.id,)) is not None:
        raise ValueError(f"worker id {worker.id} was used before; ids are random and never used twice")
    other = elsewhere(tx.connection, machine, tx.now)
    if other is not None:
        host, label = other
        raise ConfigurationError(
            f"worker {label or '?'} on host {host or 'unknown'} uses this SQLite file, and this is another "
            f"host ({worker.host or machine.id}). SQLite serves the processes of one machine only: use "
            "PostgreSQL for several hosts, or stop the workers there"
        )
    queues = encode(worker.queues).decode()
    about = (worker.id, worker.label, worker.host, worker.pid, queues, machine.id, machine.boot)
    tx.run(_SQL["register"], (*about, worker.lease, tx.now, tx.now))


def elsewhere(connection: apsw.Connection, machine: Machine, now: float) -> tuple[str, str] | None:
    """The host and label of a live worker of another machine, if there is one."""
    found = fetch(connection, _SQL["elsewhere"], (machine.id, machine.boot, now - FORGOTTEN_HOST))
    return (found[0][0], found[0][1]) if found else None


def beat(tx: Transaction, worker: int) -> Beat:
    """Count one heartbeat. Raises WorkerLost."""
    must_live(tx, worker)
    tx.run(_SQL["beat"], (tx.now, worker))
    return Beat(frozenset(job for (job,) in tx.all(_SQL["to_cancel"], (worker,))))


def workers(connection: apsw.Connection) -> list[WorkerRecord]:
    """Every worker that is alive; one that is not holds nothing, since retire and rescue take all at once."""
    return [
        WorkerRecord(
            id=id,
            label=label,
            host=host,
            pid=pid,
            queues=decode_names(queues),
            alive=True,
            beat=beats,
            started_at=started_at,
            beat_at=beat_at,
            lease=lease,
            vitals=_vitals(vitals),
            vitals_at=vitals_at,
        )
        for (
            id, label, host, pid, queues, beats, started_at, beat_at, lease, vitals, vitals_at,
        ) in fetch(connection, _SQL["alive"])
    ]  # fmt: skip


def _vitals(text: str | None) -> Vitals | None:
    """How a worker is doing; a newer version may say it in words that this one does not know."""
    if text is None:
        return None
    try:
        return decode_vitals(text)
    except msgspec.MsgspecError:
        return None


def retire(tx: Transaction, worker: int) -> int:
    """A worker leaves in good order; what it held is offered again, uncharged."""
    if not tx.run(_SQL["bury"], (worker,)):
        return 0
    rows = _leavings(tx, worker)
    for row in rows:
        moves.put_back(tx, row)
    return len(rows)


def rescue(tx: Transaction, worker: int, beat: int, policy: DeathPolicy) -> Rescued | None:
    """Take the jobs of a dead worker back, if it has not beaten since [C8]."""
    if tx.one(_SQL["stands_at"], (worker, beat)) is None:
        return None
    tx.run(_SQL["bury"], (worker,))
    return Rescued(**Counter(_rescue(tx, row, policy) for row in _leavings(tx, worker)))


def _rescue(tx: Transaction, row: Row, policy: DeathPolicy) -> str:
    if row.cancel is not None:
        moves.put_back(tx, row)
        return "cancelled"
    row.deaths += 1
    if row.deaths >= policy.poison:
        moves.end(tx, row, DEAD, reason="poison")
        return "dead"
    delay = policy.delays()[row.deaths - 1]
    moves.put_back(tx, row, delay, Kind.LOST)
    return "deferred" if delay > 0 else "offered"


def _leavings(tx: Transaction, worker: int) -> list[Row]:
    """What a worker that is no longer alive still held, in the order it was claimed. Its flushes are
    forgotten: whatever it sends from now on is refused before they would be looked at."""
    tx.run(_SQL["forget_flushes"], (worker,))
    return [Row(*found) for found in tx.all(_SQL["held"], (worker,))]
