"""The overview: whether all is well, and where not, at a glance [M1] [M3]."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from windlass.core.rollup import MINUTE, Sample, rate
from windlass.operations.principal import Principal, Role
from windlass.operations.queues import QueueView, held, rates
from windlass.presentation.cluster_state import ClusterState
from windlass.presentation.findings import lost
from windlass.presentation.text import iso
from windlass.web.service import views
from windlass.web.service.events import Events
from windlass.web.service.findings import Findings
from windlass.web.service.measures import FAILED, Measures, Range, percentiles, points, summed
from windlass.web.service.partial import PartialAnswer
from windlass.web.service.shapes import FindingShape, Overview, Totals
from windlass.web.service.store_access import StoreAccess

LATELY: Final = 300.0
"""Seconds that the percentiles of the overview cover."""


class Overviews:
    """Puts the overview together from the other parts of the service."""

    def __init__(self, store: StoreAccess, events: Events, measures: Measures, findings: Findings) -> None:
        self._store = store
        self._events = events
        self._measures = measures
        self._findings = findings

    async def get(self, principal: Principal) -> Overview:
        """Healthy or not, where, since when."""
        principal.require(Role.READ)
        return await self._store.cache.get("overview", 0.9, lambda: self._read(principal))

    async def _read(self, principal: Principal) -> Overview:
        parts = PartialAnswer()
        state, hour, events = await asyncio.gather(
            parts.get("totals", self._store.state()),
            parts.get("rates", self._measures.last_hour()),
            parts.get("events", self._events.find(principal, limit=20)),
        )
        parts.check()
        now, wanted, rows = hour or (time.time(), None, [])
        queues: list[QueueView] = []
        found: list[FindingShape] | None = None
        if state is None:
            parts.missing["queues"] = parts.missing["findings"] = parts.missing["totals"]
        else:
            per_minute, waits, found = await asyncio.gather(
                parts.get("rates of queues", rates(self._store, state)),
                parts.get("gates", held(self._store, state)),
                parts.get("findings", self._findings.current(state, rows, now)),
            )
            queues = [QueueView.of(state, name, per_minute or {}, waits or {}) for name in state.names()]
        found = [*_missing(parts.missing), *(found or ())]
        return Overview(
            at=iso(now) or "",
            healthy=found[0].level if found else "ok",
            findings=found,
            queues=sorted(queues, key=views.worst_first),
            **({} if state is None else _totals(state)),
            **({} if wanted is None else _rates(rows, now, wanted)),
            events=[] if events is None else events.events,
            missing=parts.missing,
        )


def _missing(parts: Mapping[str, str]) -> list[FindingShape]:
    """A part that cannot be shown is a finding of its own."""
    if not parts:
        return []
    message = f"parts of this page cannot be shown: {', '.join(parts)}"
    return [FindingShape(name="overview", level="error", text=message, advice=next(iter(parts.values())))]


def _totals(state: ClusterState) -> dict[str, Any]:
    """Totals of the current state."""
    gone = lost(state.workers, state.at)
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
    """Rates and percentiles of late."""
    return {
        "succeeded_per_second": rate(rows, now),
        "failed_per_second": rate(rows, now, FAILED),
        **percentiles(summed(row for row in rows if row.at >= now - LATELY - MINUTE)),
        "spark": points(rows, wanted),
    }
