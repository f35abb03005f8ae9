"""Workers: as they introduce themselves, as the store knows them, and what a dead one leaves behind."""

from __future__ import annotations

import msgspec

from windlass.store.records.measure import Vitals


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A worker as it introduces itself. The id is random and never used twice [C5]."""

    id: int
    label: str = ""
    host: str = ""
    pid: int = 0
    queues: tuple[str, ...] = ()
    lease: float = 30.0
    """Seconds without a heartbeat after which observers may take it for dead [C4]."""
    tasks: dict[str, str] = {}
    """The tasks that it knows, and the queue that each goes to: those who enqueue by name ask for it [E5]."""
    abilities: frozenset[str] = frozenset()
    """The abilities that it has [K14]."""


class WorkerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A worker as the store knows it. `heartbeat` counts its heartbeats; observers watch it move."""

    id: int
    label: str
    host: str
    pid: int
    queues: tuple[str, ...]
    alive: bool
    """Registered, and neither retired nor rescued. One that is late or shuts down is alive."""
    heartbeat: int
    started_at: float
    heartbeat_at: float
    lease: float = 30.0
    abilities: tuple[str, ...] = ()
    """The abilities that it has, sorted [K14]."""
    vitals: Vitals | None = None
    """How it is doing, in its own words; None before its first report."""
    vitals_at: float | None = None


class Heartbeat(msgspec.Struct, frozen=True):
    """The answer to a heartbeat: which of the worker's running jobs should be cancelled."""

    cancel: frozenset[int] = frozenset()


class Rescued(msgspec.Struct, frozen=True):
    """The result of a rescue of a dead worker's jobs [C8]."""

    offered: int = 0
    deferred: int = 0
    dead: int = 0
    cancelled: int = 0
