"""Every scenario: who takes part in it, and how often it is measured."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from bench.peers.plan import Plan
from bench.peers.scenarios import (
    backlog,
    drain,
    durable,
    enqueue,
    idle,
    killed,
    pick_up,
    restarted,
    sustained,
)
from bench.peers.subjects import KINDS, Subject
from bench.servers import POSTGRESQL, Servers

Measure = Callable[[Servers, Subject, Plan], dict[str, Any]]


SHARED: Final = ("keyed", "chain")
"""The kinds of jobs that other libraries have, too."""


@dataclass(frozen=True)
class Scenario:
    """One thing that is measured, of whom, how often."""

    name: str
    measure: Measure
    rounds: int
    of: Callable[[Subject], bool]
    together: bool = False
    restarts: bool = False

    def takes(self, subject: Subject) -> bool:
        """Whether this one is measured."""
        return self.of(subject) and (not subject.only or self.name in subject.only)


def scenarios(plan: Plan) -> Iterator[Scenario]:
    """Everything, in the order in which it is measured; what may have to be left out comes last."""

    def anybody(subject: Subject) -> bool:
        return True

    def worker(subject: Subject) -> bool:
        return subject.works

    def some(subject: Subject) -> bool:
        return plan.others or subject.store == POSTGRESQL

    def most(subject: Subject) -> bool:
        return subject.works and some(subject)

    def on_postgresql(subject: Subject) -> bool:
        return subject.works and subject.store == POSTGRESQL

    def keyed(kind: str, subject: Subject) -> bool:
        return kind in subject.keyed

    def durably(subject: Subject) -> bool:
        return subject.steps > 0 and some(subject)

    def windlass(subject: Subject) -> bool:
        return subject.name == "windlass"

    def idlers(size: int) -> Iterator[Scenario]:
        if size in plan.idlers:
            name = "idle" if size == 1 else f"idle_{size}"
            yield Scenario(name, functools.partial(idle.cost, processes=size), 1, on_postgresql)

    def backlogs(sizes: tuple[int, ...], who: Callable[[Subject], bool]) -> Iterator[Scenario]:
        for size in sizes:
            yield Scenario(f"backlog_{size}", functools.partial(backlog.grown, backlog=size), 1, who)

    def kinds(*, shared: bool) -> Iterator[Scenario]:
        for kind in KINDS:
            measure = functools.partial(drain.keyed, kind=kind)
            if (kind in SHARED) is shared:
                yield Scenario(kind, measure, plan.rounds, functools.partial(keyed, kind))

    yield Scenario("single", enqueue.single, plan.rounds, some)
    yield Scenario("bulk", enqueue.bulk, plan.rounds, anybody)
    yield Scenario("drain_one", drain.one, plan.rounds, worker)
    yield from kinds(shared=True)
    for kind in durable.STEPS:
        measure = functools.partial(durable.workflows, kind=kind)
        yield Scenario(f"durable_{kind}", measure, plan.rounds, durably)
    yield Scenario("durable_signals", durable.signals, plan.rounds, durably)
    yield Scenario("pick_up", pick_up.latency, plan.rounds, most)
    yield Scenario("pinned", sustained.pinned, plan.long_rounds, on_postgresql)
    yield Scenario("sustained", sustained.free, plan.long_rounds, most)
    yield Scenario("killed_child", killed.child, 1, most, together=True)
    yield Scenario("killed_host", killed.host, 1, most, together=True)
    yield Scenario("restarted", restarted.postgresql, 1, on_postgresql, restarts=True)
    yield from idlers(1)
    yield from backlogs(plan.backlogs, on_postgresql)
    yield Scenario("claims", backlog.claims, 1, windlass)
    for size in sorted({*plan.crowds, *plan.own_crowds}):
        who = on_postgresql if size in plan.crowds else windlass
        measure = functools.partial(drain.crowd, processes=size)
        yield Scenario(f"crowd_{size}", measure, plan.crowd_rounds, who)
    yield Scenario("drain_two", drain.two, plan.rounds, most)
    yield from kinds(shared=False)
    yield from idlers(16)
    yield from backlogs(plan.own_backlogs, windlass)
