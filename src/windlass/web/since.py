"""Since when a finding holds, from what the store knows and never from when somebody happened to look. Values
in, values out; where nothing is known the answer is None, which is better than a wrong time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from windlass.store.flow import GateRecord, ScheduleRecord
from windlass.store.measures import EventRecord, Health
from windlass.store.records import Finding, QueueRecord

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
    found = {name: rests(queues[name], told) for name, told in events.items() if name in queues}
    return {name: at for name, at in found.items() if at is not None}


def rests(queue: QueueRecord, events: Iterable[EventRecord]) -> float | None:
    """Since when a queue is paused or cools down, from its last events, the latest first."""
    for event in events:
        if not queue.paused and event.kind == "throttled":
            return event.at
        if queue.paused and event.kind == "operator":
            if event.told.startswith(_RESUMED):  # and paused again by somebody who left no word
                return None
            if event.told.startswith(_PAUSED):
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
        if event.kind == "breaker" and event.told.startswith(f"the breaker of budget {name} is "):
            return None if event.told.endswith("is closed") else event.at
    return None
