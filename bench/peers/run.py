"""The whole run: rounds in which every peer has its turn, written down after each measurement."""

from __future__ import annotations

import datetime
import functools
import json
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from bench.machine import machine
from bench.peers.plan import Plan
from bench.peers.program import Program
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
from bench.peers.subjects import KINDS, SUBJECTS, Subject, before
from bench.peers.venvs import interpreter
from bench.servers import POSTGRESQL, REDIS, ROOT, Servers, started

Measure = Callable[[Servers, Subject, Plan], dict[str, Any]]
WAITERS: Final = 7
"""How many peers wait for their killed workers at the same time; see `bench.peers.scenarios.killed`."""


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

    yield Scenario("single", enqueue.single, plan.rounds, some)
    yield Scenario("bulk", enqueue.bulk, plan.rounds, anybody)
    yield Scenario("drain_one", drain.one, plan.rounds, worker)
    yield Scenario("drain_two", drain.two, plan.rounds, most)
    for kind in KINDS:
        measure = functools.partial(drain.keyed, kind=kind)
        yield Scenario(kind, measure, plan.rounds, functools.partial(keyed, kind))
    for kind in durable.STEPS:
        measure = functools.partial(durable.workflows, kind=kind)
        yield Scenario(f"durable_{kind}", measure, plan.rounds, durably)
    yield Scenario("durable_signals", durable.signals, plan.rounds, durably)
    yield Scenario("pick_up", pick_up.latency, plan.rounds, most)
    yield Scenario("sustained", sustained.free, plan.long_rounds, most)
    yield Scenario("pinned", sustained.pinned, plan.long_rounds, on_postgresql)
    yield Scenario("killed_child", killed.child, 1, most, together=True)
    yield Scenario("killed_host", killed.host, 1, most, together=True)
    for size in plan.idlers:
        name = "idle" if size == 1 else f"idle_{size}"
        yield Scenario(name, functools.partial(idle.cost, processes=size), 1, on_postgresql)
    yield Scenario("claims", backlog.claims, 1, windlass)
    for size in sorted({*plan.crowds, *plan.own_crowds}):
        who = on_postgresql if size in plan.crowds else windlass
        measure = functools.partial(drain.crowd, processes=size)
        yield Scenario(f"crowd_{size}", measure, plan.crowd_rounds, who)
    yield Scenario("restarted", restarted.postgresql, 1, on_postgresql, restarts=True)
    for size in (*plan.backlogs, *plan.own_backlogs):
        who = on_postgresql if size in plan.backlogs else windlass
        yield Scenario(f"backlog_{size}", functools.partial(backlog.grown, backlog=size), 1, who)


class Run:
    """One run: what is measured, when it must end, and the file that keeps what was found."""

    def __init__(
        self, plan: Plan, folder: Path, subjects: Sequence[Subject], until: float, server: str
    ) -> None:
        self.plan = plan
        self.folder = folder
        self.subjects = subjects
        self._until = until
        self._server = server
        self.found: dict[str, Any] = {}

    def go(self, only: Sequence[str] = ()) -> None:
        """Measure everything, or the scenarios whose names begin with one of `only`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for subject in self.subjects:
            _say(f"{subject.title}: virtual environment")
            interpreter(subject)
        with started(self._server) as servers:
            took_part = [each for each in self.subjects if each.store != REDIS or servers.redis]
            self._begin(servers, took_part)
            for scenario in scenarios(self.plan):
                if scenario.restarts and servers.restart is None:
                    continue
                if not only or scenario.name.startswith(tuple(only)):
                    self._rounds(servers, scenario, [each for each in took_part if scenario.takes(each)])
        self.found["seconds"] = round(time.monotonic() - self._began)
        self._write()

    def _begin(self, servers: Servers, subjects: Sequence[Subject]) -> None:
        self._began = time.monotonic()
        peers: dict[str, Any] = {}
        for subject in subjects:
            with servers.fresh(subject.store) as place:
                peers[subject.name] = {**asdict(subject), **Program(subject, place).describe()}
        self.found = {
            "measured_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "commit": _commit(),
            "plan": asdict(self.plan),
            "machine": machine(),
            "servers": servers.settings(),
            "peers": peers,
            "scenarios": {},
            "notes": servers.notes(),
        }

    def _rounds(self, servers: Servers, scenario: Scenario, subjects: Sequence[Subject]) -> None:
        for number in range(scenario.rounds):
            shift = number % max(1, len(subjects))
            order = [*subjects[shift:], *subjects[:shift]]
            if scenario.together:  # Windlass last: who comes later is measured beside others that wait
                with ThreadPoolExecutor(WAITERS) as pool:
                    list(pool.map(lambda each: self._measure(servers, scenario, each), reversed(order)))
                continue
            for subject in order:
                self._measure(servers, scenario, subject)

    def _measure(self, servers: Servers, scenario: Scenario, subject: Subject) -> None:
        kept = self.found["scenarios"].setdefault(scenario.name, {}).setdefault(subject.name, [])
        if time.monotonic() > self._until:
            self.found["notes"].append(f"{scenario.name} of {subject.title}: left out, the time was up")
            return
        began = time.monotonic()
        try:
            figures = scenario.measure(servers, subject, self.plan)
        except Exception as error:  # noqa: BLE001 - one measurement that fails must not end the others
            figures = {"failed": f"{type(error).__name__}: {error}"[:1000]}
        kept.append(figures)
        shown = {key: _short(value) for key, value in figures.items()}
        _say(f"{scenario.name:16} {subject.title:22} {time.monotonic() - began:5.0f} s  {shown}")
        self._write()

    def _write(self) -> None:
        text = json.dumps(self.found, indent=1, ensure_ascii=False)
        (self.folder / "results.json").write_text(text + "\n", "utf-8")


def _short(value: Any) -> Any:
    if isinstance(value, list):
        return [_short(each) for each in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


def _say(text: str) -> None:
    print(f"{datetime.datetime.now():%H:%M:%S}  {text}", flush=True)  # noqa: DTZ005 - a person reads it


def chosen(names: str, revision: str = "") -> list[Subject]:
    """The peers with these names, separated by commas, and Windlass; all, where none is named. With a
    `revision`, also Windlass as it was then."""
    earlier = [before(revision)] if revision else []
    if not names:
        return [*earlier, *SUBJECTS]
    wanted = {"windlass", *names.split(",")}
    if unknown := wanted - {each.name for each in SUBJECTS}:
        raise ValueError(
            f"no such peer: {', '.join(sorted(unknown))}; known: {', '.join(s.name for s in SUBJECTS)}"
        )
    return [*earlier, *(each for each in SUBJECTS if each.name in wanted)]
