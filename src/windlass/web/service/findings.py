"""What holds jobs up, for the overview: what the current state shows and what the doctor finds, each once.

Each says since when it holds, as the store knows it and never from when somebody happened to look. Where the
store does not know, it is None. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from windlass.core.rollup import HOUR, Sample
from windlass.presentation.cluster_state import ClusterState
from windlass.presentation.findings import DatedFinding, Deaths, deaths_of, examine, resting, state_findings
from windlass.store.protocol import Store
from windlass.store.records import EventRecord, Finding, GateRecord, Health, QueueRecord, ScheduleRecord
from windlass.web.service import views
from windlass.web.service.shapes import FindingShape
from windlass.web.service.store_access import StoreAccess

RANK: Final = {"error": 0, "warning": 1, "ok": 2}
MAX_DATED: Final = 10
"""Paused or cooling queues whose events are read for since when they are."""
_TTL: Final = 5.0
_EVENTS: Final = 100
_SEEN_ALREADY: Final = "queues"
"""The doctor's name for queues without workers. The current state names each of them."""


class Findings:
    """What an operator should know."""

    def __init__(self, store: StoreAccess) -> None:
        self._store = store

    async def current(self, state: ClusterState, rows: Iterable[Sample], now: float) -> list[FindingShape]:
        """What holds jobs up, the worst first, each with since when."""
        names = resting(state)[:MAX_DATED]
        events = await self._store.shared("rests", _TTL, lambda store: _of_queues(store, names))
        rests = by_queue(state.view.queues, events)
        examined = await self._store.shared("findings", _TTL, examine)
        findings = (*examined, *await self.diagnosis())
        seen = state_findings(state, await self._dead(deaths_of(rows), now), rests)
        known = {_SEEN_ALREADY, *(alarm.finding.name for alarm in seen)}
        wrong = [each for each in findings if each.level != "ok" and each.name not in known]
        found = [*seen, *await self._dated(wrong, now)]
        shapes = [views.finding_shape(alarm.finding, alarm.since) for alarm in found]
        return worst_first(shapes)

    async def _dead(self, deaths: Deaths, now: float) -> Deaths:
        """Those of the last hour that are dead still: neither retried nor deleted since."""
        if not deaths.jobs:
            return deaths
        causes = await self._store.shared("died", _TTL, lambda store: store.causes(since=now - HOUR))
        return msgspec.structs.replace(deaths, jobs=sum(cause.jobs for cause in causes.groups))

    async def _dated(self, findings: Sequence[Finding], now: float) -> list[DatedFinding]:
        """Findings with since when they hold. Reads nothing where there are none."""
        if not findings:
            return []

        async def ask(store: Store) -> Known:
            return Known(
                now=now,
                gates=await store.gates(),
                schedules=await store.schedules(),
                health=await store.health(),
                events=await store.events(limit=_EVENTS),
            )

        known = await self._store.shared("dates", _TTL, ask)
        return [DatedFinding(each, since(each, known)) for each in findings]

    async def diagnosis(self) -> list[Finding]:
        """What the store finds wrong with itself."""
        diagnose = self._store.slow_cache.get
        return await diagnose("diagnosis", 30.0, lambda: self._store.ask(lambda store: store.diagnose()))


def worst_first(findings: Iterable[FindingShape]) -> list[FindingShape]:
    """Findings in order of their level."""
    return sorted(findings, key=lambda each: RANK[each.level])


async def _of_queues(store: Store, names: Sequence[str]) -> dict[str, list[EventRecord]]:
    return {name: await store.events(queue=name, limit=_EVENTS) for name in names}


_PAUSED: Final = ("paused", "set: paused=True")
_RESUMED: Final = ("resumed", "set: paused=False")


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """What findings are dated by."""

    now: float
    gates: Sequence[GateRecord] = ()
    schedules: Sequence[ScheduleRecord] = ()
    health: Health | None = None
    events: Sequence[EventRecord] = ()
    """The last ones, the latest first."""


def since(finding: Finding, known: Known) -> float | None:
    """Since when the finding holds; its name says what it is about."""
    kind, _, name = finding.name.partition(" ")
    match kind:
        case "gate":
            return _first_in_line(known, name)
        case "schedule":
            return _due(known.schedules, name, known.now)
        case "budget":
            return _broken(known.events, name) or _first_in_line(known, f"budget:{name}")
        case "rotation":
            return None if known.health is None else known.health.blocked_since
        case "snapshots" | "locks" if known.health is not None:
            held = known.health.oldest_snapshot if kind == "snapshots" else known.health.locks_held
            return None if held is None else known.now - held
    return None


def by_queue(
    queues: Mapping[str, QueueRecord], events: Mapping[str, Sequence[EventRecord]]
) -> dict[str, float]:
    """Since when each of these queues rests, where that is known."""
    found = {name: rests(queues[name], seen) for name, seen in events.items() if name in queues}
    return {name: at for name, at in found.items() if at is not None}


def rests(queue: QueueRecord, events: Iterable[EventRecord]) -> float | None:
    """Since when a queue is paused or cools down, from its last events, the latest first."""
    for event in events:
        if not queue.paused and event.kind == "throttled":
            return event.at
        if queue.paused and event.kind == "operator":
            if event.text.startswith(_RESUMED):  # and paused again by somebody who left no word
                return None
            if event.text.startswith(_PAUSED):
                return event.at
    return None


def _first_in_line(known: Known, name: str) -> float | None:
    """Since when the first waits at a gate, or at one of a budget's."""
    waits = [gate.oldest for gate in known.gates if gate.name == name or gate.name.startswith(f"{name}/")]
    return known.now - max(waits) if waits else None


def _due(schedules: Iterable[ScheduleRecord], name: str, now: float) -> float | None:
    """When it was due; one that is wrong does not say since when."""
    for schedule in schedules:
        if schedule.name == name and schedule.error is None and schedule.next_at is not None:
            return schedule.next_at if schedule.next_at < now else None
    return None


def _broken(events: Iterable[EventRecord], name: str) -> float | None:
    """When its breaker last changed, if it is not closed."""
    for event in events:
        if event.kind == "breaker" and event.text.startswith(f"the breaker of budget {name} is "):
            return None if event.text.endswith("is closed") else event.at
    return None
