"""Findings: what holds jobs up, by the current state and by what the doctor finds, each once.

Each says since when it holds, as the store knows it and never from when somebody happened to look. Where the
store does not know, it is None."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Self

import msgspec

from windlass.core.rollup import HOUR, Sample
from windlass.operations.operation import Ops
from windlass.presentation.cluster_state import ClusterState
from windlass.presentation.findings import DatedFinding, Deaths, deaths_of, examine, resting, state_findings
from windlass.presentation.text import iso, shaped
from windlass.store.protocol import Store
from windlass.store.records import EventRecord, Finding, GateRecord, Health, QueueRecord, ScheduleRecord

RANK: Final = {"error": 0, "warning": 1, "ok": 2}
MAX_DATED: Final = 10
"""Paused or cooling queues whose events are read for since when they are."""
_TTL: Final = 5.0
_EVENTS: Final = 100
_SEEN_ALREADY: Final = "queues"
"""The doctor's name for queues without workers. The current state names each of them."""


class FindingView(Finding, frozen=True, kw_only=True):
    """A problem that an operator should know, and what to do about it."""

    since: str | None = None
    """Since when, as far as the store knows."""

    @classmethod
    def of(cls, finding: Finding, since: float | None = None) -> Self:
        """Return the view of a record."""
        return shaped(cls, finding, since=iso(since))


async def current(ops: Ops, state: ClusterState, rows: Iterable[Sample], now: float) -> list[FindingView]:
    """Return what holds jobs up, the worst first, each with since when."""
    names = resting(state)[:MAX_DATED]
    events = await ops.shared("rests", _TTL, lambda store: _of_queues(store, names))
    rests = by_queue(state.view.queues, events)
    examined = await ops.shared("findings", _TTL, examine)
    findings = (*examined, *await diagnosis(ops))
    seen = state_findings(state, await _dead(ops, deaths_of(rows), now), rests)
    known = {_SEEN_ALREADY, *(alarm.finding.name for alarm in seen)}
    wrong = [each for each in findings if each.level != "ok" and each.name not in known]
    found = [*seen, *await _dated(ops, wrong, now)]
    return worst_first(FindingView.of(alarm.finding, alarm.since) for alarm in found)


async def diagnosis(ops: Ops) -> list[Finding]:
    """Return what the store finds wrong with itself."""
    return await ops.shared("diagnosis", 30.0, lambda store: store.diagnose(), lasting=True)


def worst_first(findings: Iterable[FindingView]) -> list[FindingView]:
    """Return findings in order of their level."""
    return sorted(findings, key=lambda each: RANK[each.level])


async def _dead(ops: Ops, deaths: Deaths, now: float) -> Deaths:
    """Return those of the last hour that are dead still: neither retried nor deleted since."""
    if not deaths.jobs:
        return deaths
    causes = await ops.shared("died", _TTL, lambda store: store.causes(since=now - HOUR))
    return msgspec.structs.replace(deaths, jobs=sum(cause.jobs for cause in causes.groups))


async def _dated(ops: Ops, findings: Sequence[Finding], now: float) -> list[DatedFinding]:
    """Return findings with since when they hold. Reads nothing where there are none."""
    if not findings:
        return []

    async def read(store: Store) -> Known:
        return Known(
            now=now,
            gates=await store.gates(),
            schedules=await store.schedules(),
            health=await store.health(),
            events=await store.events(limit=_EVENTS),
        )

    known = await ops.shared("dates", _TTL, read)
    return [DatedFinding(each, since(each, known)) for each in findings]


async def _of_queues(store: Store, names: Sequence[str]) -> dict[str, list[EventRecord]]:
    return {name: await store.events(queue=name, limit=_EVENTS) for name in names}


_PAUSED: Final = ("paused", "set: paused=True")
_RESUMED: Final = ("resumed", "set: paused=False")


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """The readings by which findings are dated."""

    now: float
    gates: Sequence[GateRecord] = ()
    schedules: Sequence[ScheduleRecord] = ()
    health: Health | None = None
    events: Sequence[EventRecord] = ()
    """The last ones, the latest first."""


def since(finding: Finding, known: Known) -> float | None:
    """Return since when the finding holds; its name says what it is about."""
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
    """Return since when each of these queues rests, where that is known."""
    found = {name: rests(queues[name], seen) for name, seen in events.items() if name in queues}
    return {name: at for name, at in found.items() if at is not None}


def rests(queue: QueueRecord, events: Iterable[EventRecord]) -> float | None:
    """Return since when a queue is paused or cools down, from its last events, the latest first."""
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
    """Return since when the first waits at a gate, or at one of a budget's."""
    waits = [gate.oldest for gate in known.gates if gate.name == name or gate.name.startswith(f"{name}/")]
    return known.now - max(waits) if waits else None


def _due(schedules: Iterable[ScheduleRecord], name: str, now: float) -> float | None:
    """Return when it was due; one that is wrong does not say since when."""
    for schedule in schedules:
        if schedule.name == name and schedule.error is None and schedule.next_at is not None:
            return schedule.next_at if schedule.next_at < now else None
    return None


def _broken(events: Iterable[EventRecord], name: str) -> float | None:
    """Return when its breaker last changed, if it is not closed."""
    for event in events:
        if event.kind == "breaker" and event.text.startswith(f"the breaker of budget {name} is "):
            return None if event.text.endswith("is closed") else event.at
    return None
