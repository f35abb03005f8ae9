"""Repeats scenarios in rounds and keeps what each yielded.

Scenarios that are compared stand in one group. Every second round runs a group backwards, so that neither
of them always has the warmer cache or the emptier disk queue.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from bench.engine.figures import Cpu, Figure, Taken, figure
from bench.engine.plan import Plan
from bench.meters import Meter, spent

Progress = Callable[[str], None]
THIRDS: Final = ("first_third", "second_third")
"""The names of the thirds before the last, which bears the scenario's own name."""
ENOUGH: Final = 5
"""Pairs that a ratio should rest on."""


class Step(msgspec.Struct, frozen=True):
    """A scenario, and what has to be done before it is measured."""

    run: Callable[[], Awaitable[Taken]]
    before: Callable[[], Awaitable[None]] | None = None


Group = Mapping[str, Step]


def within(rounds: int, until: float) -> Iterator[int]:
    """The numbers of as many rounds as planned and as the time allows, but at least one."""
    longest = 0.0
    for number in range(rounds):
        began = time.monotonic()
        if number and began + longest > until:
            return
        yield number
        longest = max(longest, time.monotonic() - began)


def turned(names: Iterable[str], number: int) -> list[str]:
    """The names, backwards in every second round."""
    return list(names)[:: -1 if number % 2 else 1]


def notes(done: int, planned: int) -> list[str]:
    """What a reader should know of so many rounds before trusting the figures."""
    said = []
    if done < planned:
        said.append(f"the time sufficed for {done} of {planned} rounds: a busy machine?")
    if done < ENOUGH:
        said.append(f"ratios of fewer than {ENOUGH} pairs are hints, not results")
    return said


class Rounds:
    """The measurements of one store, round by round."""

    def __init__(self, plan: Plan, meter: Meter, until: float, progress: Progress) -> None:
        """`until` is a time of the monotonic clock."""
        self._plan = plan
        self._meter = meter
        self._until = until
        self._progress = progress
        self._taken: dict[str, list[Taken]] = defaultdict(list)
        self._client: dict[str, float] = defaultdict(float)
        self._server: dict[str, float | None] = defaultdict(float)
        self._wal: dict[str, list[float]] = defaultdict(list)
        self.done = 0

    async def run(self, groups: Sequence[Group], after_each: Callable[[], Awaitable[None]]) -> None:
        """All groups in each round, as many rounds as planned and as the time allows, but at least one."""
        for number in within(self._plan.rounds, self._until):
            for group in groups:
                for name in turned(group, number):
                    self._progress(f"round {number + 1} of {self._plan.rounds}: {name}")
                    await self._measure(name, group[name])
            await after_each()
            self.done += 1

    async def _measure(self, name: str, step: Step) -> None:
        if step.before is not None:
            await step.before()
        before = self._meter.read()
        taken = await step.run()
        used = spent(before, self._meter.read())
        self._taken[name].append(taken)
        self._client[name] += used.client
        total = self._server[name]
        self._server[name] = None if total is None or used.server is None else total + used.server
        self.note_wal(name, used.wal, taken.jobs)

    def note_wal(self, name: str, wal: int | None, jobs: int) -> None:
        """Keep how much WAL a step wrote per job."""
        if wal is not None:
            self._wal[name].append(wal / max(jobs, 1))

    # -- what came of it --------------------------------------------------------------------------------

    def notes(self) -> list[str]:
        """What a reader should know before trusting the figures."""
        return notes(self.done, self._plan.rounds)

    def rates(self, name: str) -> list[float]:
        """Jobs per second of a step, one per round."""
        return [taken.rate for taken in self._taken[name]]

    def figures(self) -> dict[str, Figure]:
        """The rates of every step, and the thirds of those that have them."""
        found: dict[str, Figure] = {}
        for name, all_taken in self._taken.items():
            for third, label in enumerate(THIRDS if all_taken[0].thirds else ()):
                values = [taken.thirds[third] for taken in all_taken]
                found[f"{name}_{label}"] = figure(values, "jobs/s")
            found[name] = figure(self.rates(name), "jobs/s")
        return found

    def wal(self, name: str) -> list[float]:
        """WAL bytes per job of a step, one per round."""
        return self._wal[name]

    def cpu(self) -> dict[str, Cpu]:
        """CPU seconds per 1,000 jobs of every step, over all rounds together: the clock ticks are coarse."""
        found: dict[str, Cpu] = {}
        for name, all_taken in self._taken.items():
            thousands = max(sum(taken.jobs for taken in all_taken), 1) / 1000
            server = self._server[name]
            found[name] = Cpu(
                float(f"{self._client[name] / thousands:.4g}"),
                None if server is None else float(f"{server / thousands:.4g}"),
            )
        return found
