"""What holds jobs up, for the overview: what one look shows, what the doctor finds, each once, and since when
as far as the store knows (see `windlass.web.since`). Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from windlass.core.rollup import Sample as Measured
from windlass.store.measures import EventRecord
from windlass.store.protocol import Store
from windlass.store.records import Finding
from windlass.web import views
from windlass.web.looking import Looking
from windlass.web.shapes import FindingShape
from windlass.web.since import Known, by_queue, since
from windlass.words.alarms import Alarm, alarms, deaths_of, resting
from windlass.words.sample import Sample
from windlass.words.symptoms import examine

RANK: Final = {"error": 0, "warning": 1, "ok": 2}
MOST_DATED: Final = 10
"""Of so many queues that rest, the events are asked for since when they do."""
_FRESH: Final = 5.0
_EVENTS: Final = 100
_SEEN_ALREADY: Final = "queues"
"""The doctor's word for queues that nobody serves; the look says the same of each by its name."""


class Judging(Looking):
    """What an operator should know."""

    async def _findings(self, sample: Sample, rows: Iterable[Measured], now: float) -> list[FindingShape]:
        """What holds jobs up, the worst first, each with since when."""
        names = resting(sample)[:MOST_DATED]
        events = await self.shared("rests", _FRESH, lambda store: _of_queues(store, names))
        rests = by_queue(sample.steering.queues, events)
        held_up = await self.shared("findings", _FRESH, examine)
        told = (*held_up, *await self._diagnosis())
        seen = alarms(sample, deaths_of(rows), rests)
        known = {_SEEN_ALREADY, *(alarm.finding.name for alarm in seen)}
        wrong = [each for each in told if each.level != "ok" and each.name not in known]
        found = [*seen, *await self._dated(wrong, now)]
        shapes = [views.finding_shape(alarm.finding, alarm.since) for alarm in found]
        return sorted(shapes, key=lambda shape: RANK[shape.level])

    async def _dated(self, findings: Sequence[Finding], now: float) -> list[Alarm]:
        """Findings with since when they hold. Nothing is asked where there is none."""
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

        known = await self.shared("dates", _FRESH, ask)
        return [Alarm(each, since(each, known)) for each in findings]

    async def _diagnosis(self) -> list[Finding]:
        return await self.lasting.get("diagnosis", 30.0, lambda: self.ask(lambda store: store.diagnose()))


async def _of_queues(store: Store, names: Sequence[str]) -> dict[str, list[EventRecord]]:
    return {name: await store.events(queue=name, limit=_EVENTS) for name in names}
