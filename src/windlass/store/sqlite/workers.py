"""The life of a worker: register, heartbeat, retire, and the rescue of what a dead one held; and which
machine this is."""

from __future__ import annotations

import functools
import platform
import uuid
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import apsw

from windlass.core.retry import DeathPolicy
from windlass.core.routing import Published, choose_published
from windlass.core.states import Kind
from windlass.errors import ConfigurationError
from windlass.store.records import Heartbeat, Rescued, WorkerInfo, WorkerRecord
from windlass.store.sqlite import transitions
from windlass.store.sqlite.claims import must_live
from windlass.store.sqlite.operation.transaction import Transaction
from windlass.store.sqlite.rows import BOUND, DEAD, Row, encode, fetch, named, record_of
from windlass.store.sqlite.schema import Statements

_SQL = Statements("workers")

FORGOTTEN_HOST: Final = 120.0
"""Seconds without a heartbeat after which another host is no longer in the way: the file may have been moved
here from a machine that died, and nobody could rescue its workers from anywhere else."""


def register(tx: Transaction, worker: WorkerInfo) -> None:
    """Make a worker known and alive, unless one of another host works on this file."""
    if tx.one(_SQL["known"], (worker.id,)) is not None:
        raise ValueError(f"worker id {worker.id} was used before; draw a new one")
    other = elsewhere(tx.connection, tx.now)
    machine = this_machine()
    if other is not None:
        host, label = other
        raise ConfigurationError(
            f"worker {label or '?'} on host {host or 'unknown'} uses this SQLite file, and this is another "
            f"host ({worker.host or machine.id}). SQLite serves the processes of one machine only: use "
            "PostgreSQL for several hosts, or stop the workers there"
        )
    queues, tasks = encode(worker.queues).decode(), encode(worker.tasks).decode()
    about = (worker.id, worker.label, worker.host, worker.pid, queues, tasks, machine.id, machine.boot)
    abilities = encode(sorted(worker.abilities)).decode()
    tx.run(_SQL["register"], (*about, worker.lease, tx.now, tx.now, abilities))


def elsewhere(connection: apsw.Connection, now: float) -> tuple[str, str] | None:
    """The host and label of a live worker of another machine, if there is one."""
    machine = this_machine()
    found = fetch(connection, _SQL["elsewhere"], (machine.id, machine.boot, now - FORGOTTEN_HOST))
    return (found[0][0], found[0][1]) if found else None


def heartbeat(tx: Transaction, worker: int) -> Heartbeat:
    """Count one heartbeat. Raises WorkerLost."""
    must_live(tx, worker)
    tx.run(_SQL["heartbeat"], (tx.now, worker))
    return Heartbeat(frozenset(job for (job,) in tx.all(_SQL["to_cancel"], (worker,))))


def workers(connection: apsw.Connection) -> list[WorkerRecord]:
    """Every worker that is alive; one that is not holds nothing, since retire and rescue take all at once."""
    return [record_of(WorkerRecord, row) for row in named(connection, _SQL["alive"])]


def published_queue(connection: apsw.Connection, task: str) -> str | None:
    """The queue that live workers say a task goes to [E5]."""
    rows = fetch(connection, _SQL["published"], (task,))
    return choose_published(Published(queue, bool(serves), since) for queue, serves, since in rows)


def published_tasks(connection: apsw.Connection) -> list[str]:
    """The names of the tasks that live workers know."""
    return [name for (name,) in fetch(connection, _SQL["published_tasks"])]


def retire(tx: Transaction, worker: int) -> int:
    """A worker leaves in good order; what it held is offered again, uncharged."""
    if not tx.run(_SQL["mark_dead"], (worker,)):
        return 0
    rows = _unfinished(tx, worker)
    for row in rows:
        transitions.put_back(tx, row)
    return len(rows)


def rescue(tx: Transaction, worker: int, heartbeat: int, policy: DeathPolicy) -> Rescued | None:
    """Take the jobs of a dead worker back, if it has sent no heartbeat since [C8]."""
    if tx.one(_SQL["stands_at"], (worker, heartbeat)) is None:
        return None
    tx.run(_SQL["mark_dead"], (worker,))
    rows = _unfinished(tx, worker)
    followers = _followers(tx, rows)
    return Rescued(**Counter(_rescue(tx, row, policy, began=row.id not in followers) for row in rows))


def _followers(tx: Transaction, rows: Sequence[Row]) -> set[int]:
    """Return the jobs that come behind another one of them in a run of a key: they cannot have begun."""
    runs = dict(tx.all(_SQL["runs"], (encode([row.id for row in rows if row.state == BOUND]).decode(),)))
    firsts = {runs[row.id]: row.id for row in reversed(rows) if row.id in runs}
    return runs.keys() - firsts.values()


def _rescue(tx: Transaction, row: Row, policy: DeathPolicy, *, began: bool) -> str:
    if row.cancel is not None:
        transitions.put_back(tx, row)
        return "cancelled"
    if not began:
        transitions.put_back(tx, row)
        return "offered"
    row.deaths += 1
    delay = policy.delay(row.deaths)
    if delay is None:
        transitions.end(tx, row, DEAD, reason="poison")
        return "dead"
    transitions.put_back(tx, row, delay, Kind.LOST)
    return "deferred" if delay > 0 else "offered"


def _unfinished(tx: Transaction, worker: int) -> list[Row]:
    """Return the jobs that a dead worker still held, in the order it was claimed. Its flushes are
    forgotten: whatever it sends from now on is refused before they would be looked at."""
    tx.run(_SQL["forget_flushes"], (worker,))
    return [Row(*found) for found in tx.all(_SQL["held"], (worker,))]


# -- which machine this is -----------------------------------------------------------------------------------


class Machine(NamedTuple):
    """A machine, and the run of its kernel."""

    id: str
    boot: str


@functools.cache
def this_machine() -> Machine:
    """The machine this process runs on."""
    # Where a system keeps no machine id, the address of its network card is the next best.
    fallback = f"{platform.node()}-{uuid.getnode():012x}"
    machine = _first_line("/etc/machine-id") or _first_line("/var/lib/dbus/machine-id") or fallback
    return Machine(machine, _first_line("/proc/sys/kernel/random/boot_id") or machine)


def _first_line(path: str) -> str:
    try:
        return Path(path).read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
