"""Queues: how they stand, how full they are, and what a host's workers are assigned. Their settings, and
those of tasks, are in `windlass.store.fields`."""

from __future__ import annotations

import msgspec

from windlass.core.flow.admission import Pressure
from windlass.store.fields import QueueSettings


class Depth(msgspec.Struct, frozen=True):
    """How many jobs of a queue stand where, and for how long the oldest ready one has waited."""

    ready: int = 0
    """Waiting work: jobs in lanes, those that a limit or a budget holds back, and `pending_parts`."""
    running: int = 0
    scheduled: int = 0
    retrying: int = 0
    dead: int = 0
    oldest: float | None = None
    offered: int = 0
    """How often a job was put into one of its lanes, since the queue was declared: new ones, retries,
    and those handed back. It never falls."""
    pending_parts: int = 0
    """Parts that their parents have not offered yet [P8]."""
    free: int = 0
    """Ready jobs that neither a limit, nor a budget, nor the `parallel` of a parent holds back [M7]."""
    estimate: bool = False
    """True if one of these was counted some seconds ago: of jobs that are held, scheduled, retrying
    or dead no more than a thousand are counted each time [M1]."""
    needs: dict[str, int] = {}
    """Ready jobs in lanes whose jobs need something, by what that is: abilities, with commas
    between them [K14]."""

    @property
    def counts(self) -> tuple[int, int, int, int, int]:
        """How many are ready, running, scheduled, retrying and dead."""
        return self.ready, self.running, self.scheduled, self.retrying, self.dead


class QueueRecord(QueueSettings, frozen=True, kw_only=True):
    """A queue: its settings, and how it stands."""

    throttles: int = 0
    """Cool-downs since the queue last went well for a while [O3]."""
    cooling: float = 0.0
    """Seconds until the queue gives out jobs again."""
    pressure: Pressure = "none"
    """soft or full where its depth is, or was until it falls to 60 % [F4]."""
    refused: int = 0
    """Jobs refused because it was full, since it was declared."""
    shed: int = 0
    """Jobs shed, since it was declared [F5]."""
    rate: float | None = None
    """The rate that its governor allows, in jobs per second [F2]."""
    why: str | None = None
    """The last decision of its governor."""


class ClusterView(msgspec.Struct, frozen=True):
    """The state that a host reads each second, in one answer: queues, slots, and who serves what [K1]
    [K2]."""

    queues: dict[str, QueueRecord]
    slots: dict[int, dict[str, int]]
    """Worker → queue → slots, as the coordinator assigned them; only of the workers asked for."""
    serving: dict[str, int]
    """Queue → how many workers that are alive serve it."""
    cancels: str = ""
    """Another text after cancels of running jobs were requested; hosts that no wake-up reaches look at it."""
