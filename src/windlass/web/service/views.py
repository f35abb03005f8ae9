"""From records to what the service answers with. Values in, values out; nothing is asked here."""

from __future__ import annotations

from typing import Any

from windlass.operations.queues import QueueView
from windlass.presentation.cluster_state import ClusterState
from windlass.presentation.text import iso, shaped
from windlass.presentation.waiting import worker_in_words
from windlass.store.records import (
    Finding,
    Health,
    Vitals,
    WorkerRecord,
)
from windlass.web.service.shapes import (
    BusyShape,
    FindingShape,
    Operations,
    SegmentShape,
    VitalsShape,
    WorkerView,
)


def worst_first(queue: QueueView) -> tuple[Any, ...]:
    """The order in which an overview lists queues: those that hold jobs up, then those with the longest
    wait."""
    stands = queue.ready > 0 and (not queue.workers or bool(queue.state_text))
    refuses = queue.pressure == "full"
    return (not stands, not refuses, -(queue.oldest or 0.0), -queue.ready, -queue.running, queue.name)


def worker_view(worker: WorkerRecord, state: ClusterState) -> WorkerView:
    """A worker, and how it is doing."""
    vitals = None if worker.vitals is None else _vitals(worker.vitals, worker.vitals_at, state.at)
    return WorkerView.of(
        worker, state, state_text=worker_in_words(worker, state.at, state.stuck_since(worker)), vitals=vitals
    )


def _vitals(vitals: Vitals, at: float | None, now: float) -> VitalsShape:
    return shaped(
        VitalsShape,
        vitals,
        at=iso(at),
        age=None if at is None else round(max(now - at, 0.0), 3),
        cpu=round(vitals.cpu, 3),
        lag=round(vitals.lag, 4),
        jobs=[BusyShape(str(busy.job), busy.task, busy.queue, iso(busy.since) or "") for busy in vitals.jobs],
    )


def finding_shape(finding: Finding, since: float | None = None) -> FindingShape:
    """A finding as JSON has it."""
    return shaped(FindingShape, finding, since=iso(since))


def operations(health: Health, now: float, **more: Any) -> Operations:
    """How the store is doing; `more` is what its health does not tell."""
    return shaped(
        Operations,
        health,
        at=iso(now),
        tables=list(health.tables),
        segments=[shaped(SegmentShape, each) for each in health.segments],
        cache_hits=_share(health.cache_hits, health.cache_misses),
        leads=health.coordinator_until is not None and health.coordinator_until > now,
        **more,
    )


def _share(hits: int | None, misses: int | None) -> float | None:
    return hits / (hits + misses) if hits is not None and misses is not None and hits + misses else None
