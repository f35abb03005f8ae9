"""The overview: whether all is well, and where not, at a glance [M1] [M3]."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from windlass.core.rollup import MINUTE, Sample, rate
from windlass.operations.events import EventView, find_events
from windlass.operations.findings import FindingView, current
from windlass.operations.measures import (
    FAILED,
    Percentiles,
    Point,
    Range,
    last_hour,
    percentiles,
    points,
    summed,
)
from windlass.operations.operation import Ops, Subject
from windlass.operations.partial import PartialAnswer
from windlass.operations.queues import QueueView, held, rates
from windlass.presentation.cluster_state import ClusterState
from windlass.presentation.findings import late_or_lost
from windlass.presentation.text import iso

LATELY: Final = 300.0
"""Seconds that the percentiles of the overview cover."""
Level = Literal["ok", "warning", "error"]
overview: Final = Subject("overview")


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs by state, over all queues."""

    ready: int = 0
    running: int = 0
    scheduled: int = 0
    retrying: int = 0
    dead: int = 0


class Overview(Percentiles, frozen=True, kw_only=True):
    """The health of the cluster at a glance. Percentiles are those of the last five minutes."""

    at: str
    healthy: Level
    findings: list[FindingView]
    """The worst first."""
    queues: list[QueueView]
    """The worst first."""
    totals: Totals | None = None
    oldest: float | None = None
    """How long the oldest ready job of all queues has waited, in seconds."""
    workers_alive: int | None = None
    workers_lost: int | None = None
    slots: int | None = None
    running: int | None = None
    """Slots in use, as workers report them."""
    succeeded_per_second: float | None = None
    failed_per_second: float | None = None
    spark: list[Point] = msgspec.field(default_factory=list)
    """Minute by minute, the last hour."""
    events: list[EventView]
    """The last 20, the latest first."""
    missing: dict[str, str] = msgspec.field(default_factory=dict)
    """The parts that could not be read (totals, rates, queues, findings, events, …), each with the error.
    Their fields are null or empty."""


@overview.get("/overview")
async def show_overview(ops: Ops) -> Overview:
    """Get the health of the cluster: findings, totals, rates and recent events"""
    return await ops.shared("overview", 0.9, lambda _: _read(ops))


async def _read(ops: Ops) -> Overview:
    parts = PartialAnswer(ops.in_words)
    state, hour, events = await asyncio.gather(
        parts.get("totals", ops.state()),
        parts.get("rates", last_hour(ops)),
        parts.get("events", find_events(ops, limit=20)),
    )
    parts.check()
    now, wanted, rows = hour or (time.time(), None, [])
    queues: list[QueueView] = []
    found: list[FindingView] | None = None
    if state is None:
        parts.missing["queues"] = parts.missing["findings"] = parts.missing["totals"]
    else:
        per_minute, waits, found = await asyncio.gather(
            parts.get("rates of queues", rates(ops, state)),
            parts.get("gates", held(ops, state)),
            parts.get("findings", current(ops, state, rows, now)),
        )
        queues = [QueueView.of(state, name, per_minute or {}, waits or {}) for name in state.names()]
    found = [*_missing(parts.missing), *(found or ())]
    return Overview(
        at=iso(now) or "",
        healthy=found[0].level if found else "ok",
        findings=found,
        queues=sorted(queues, key=_worst_first),
        **({} if state is None else _totals(state)),
        **({} if wanted is None else _rates(rows, now, wanted)),
        events=[] if events is None else events.events,
        missing=parts.missing,
    )


def _worst_first(queue: QueueView) -> tuple[Any, ...]:
    """Order queues: those that hold jobs up, then those with the longest wait."""
    stands = queue.ready > 0 and (not queue.workers or bool(queue.state_text))
    refuses = queue.pressure == "full"
    return (not stands, not refuses, -(queue.oldest or 0.0), -queue.ready, -queue.running, queue.name)


def _missing(parts: Mapping[str, str]) -> list[FindingView]:
    """Return a finding of its own for parts that cannot be shown."""
    if not parts:
        return []
    message = f"parts of this page cannot be shown: {', '.join(parts)}"
    return [FindingView(name="overview", level="error", text=message, advice=next(iter(parts.values())))]


def _totals(state: ClusterState) -> dict[str, Any]:
    """Return the totals of the current state."""
    gone = late_or_lost(state.workers, state.at)
    vitals = [worker.vitals for worker in state.workers if worker.alive and worker.vitals is not None]
    depths = state.depth.values()
    return {
        "totals": Totals(
            **{name: sum(getattr(depth, name) for depth in depths) for name in Totals.__struct_fields__}
        ),
        "oldest": max((depth.oldest for depth in depths if depth.oldest is not None), default=None),
        "workers_alive": len(state.workers) - len(gone),
        "workers_lost": len(gone),
        "slots": sum(reported.slots for reported in vitals),
        "running": sum(reported.running for reported in vitals),
    }


def _rates(rows: Sequence[Sample], now: float, wanted: Range) -> dict[str, Any]:
    """Return rates and percentiles of late."""
    return {
        "succeeded_per_second": rate(rows, now),
        "failed_per_second": rate(rows, now, FAILED),
        **percentiles(summed(row for row in rows if row.at >= now - LATELY - MINUTE)),
        "spark": points(rows, wanted),
    }
