"""A backlog that waits, and workers that start: jobs a second from the first run to the last."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any, Final

import numpy
import psutil

from bench.meters import family_cpu, spent
from bench.peers import ledger
from bench.peers.plan import Plan
from bench.peers.program import PeerFailed, Program
from bench.peers.subjects import Subject
from bench.servers import Servers

START: Final = 4.0
START_EACH: Final = 0.2
"""Seconds until the first process of a crowd works, and for each of them; what is run meanwhile must not be
all there is."""

WARM_UP: Final = 0.15
"""Seconds, for each process, until its connections have run everything once."""

LOOK_EVERY: Final = 0.1


def one(servers: Servers, subject: Subject, plan: Plan) -> dict[str, Any]:
    """By one process."""
    return _drain(servers, subject, plan, 1)


def two(servers: Servers, subject: Subject, plan: Plan) -> dict[str, Any]:
    """By two processes, on as many cores as the machine has."""
    return _drain(servers, subject, plan, 2)


def keyed(servers: Servers, subject: Subject, plan: Plan, kind: str) -> dict[str, Any]:
    """Jobs that something keeps back, or could, by one process; see `bench.peers.subjects.KINDS`."""
    return _drain(servers, subject, plan, 1, kind)


def crowd(servers: Servers, subject: Subject, plan: Plan, processes: int) -> dict[str, Any]:
    """By so many processes, from a moment after all of them have begun: nobody enqueues beside them, and what
    it takes to start, and to plan statements on new connections, does not count."""
    starting = START + (START_EACH + WARM_UP) * processes
    jobs = max(500, int(subject.rate * (plan.crowd + starting) * (1.25 if processes > 1 else 1.0)))
    with servers.fresh(subject.store) as place:
        program = Program(subject, place)
        with _begun(program, jobs, processes) as process:
            until = time.monotonic() + 2 * starting
            while ledger.begun(place.ledger) < processes and time.monotonic() < until:
                time.sleep(LOOK_EVERY)
            time.sleep(WARM_UP * processes)
            began = time.monotonic()
            before, cpu, first = place.meter.read(), family_cpu(process), program.ran()
            while (ran := program.ran()) < jobs and time.monotonic() - began < plan.crowd:
                time.sleep(LOOK_EVERY)
            took = time.monotonic() - began
            used, cpu = spent(before, place.meter.read()), family_cpu(process) - cpu
        begun = ledger.begun(place.ledger)
    if ran == first:
        raise PeerFailed(f"the backlog was gone before {processes} processes had begun")
    return {
        "rate": (ran - first) / took,
        "cpu_us": 1e6 * (cpu + (used.server or 0.0)) / (ran - first),
        "processes": begun,
        "jobs": ran - first,
    }


@contextlib.contextmanager
def _begun(program: Program, jobs: int, processes: int) -> Iterator[psutil.Process]:
    """Workers on a backlog of so many jobs, from the first run on."""
    program.tell("prepare")
    program.fill(jobs)
    with program.working(processes) as process:
        if not program.wait_for(1, 60, still=60):
            raise PeerFailed(f"no job was run within a minute; {program.words()}")
        yield process


def _drain(
    servers: Servers, subject: Subject, plan: Plan, processes: int, kind: str = "noop"
) -> dict[str, Any]:
    rate = subject.keyed.get(kind, subject.rate)
    jobs = max(500, int(rate * plan.drain * (1 + 0.4 * (processes - 1))))
    with servers.fresh(subject.store) as place:
        program = Program(subject, place, kind)
        with _begun(program, jobs, processes) as process:
            before, cpu, begun = place.meter.read(), family_cpu(process), program.ran()
            program.wait_for(jobs, plan.drain * plan.patience)
            used, cpu = spent(before, place.meter.read()), family_cpu(process) - cpu
        runs = ledger.records(place.ledger)
        left = program.left()
    done = len(runs)
    timed = max(1, done - begun)
    figures: dict[str, Any] = {
        "jobs": done,
        "rate": (done - 1) / max(1e-9, float(runs["at"][-1] - runs["at"][0])),
        "cpu_us": 1e6 * (cpu + (used.server or 0.0)) / timed,
        "worker_cpu_us": 1e6 * cpu / timed,
        "twice": done - len(numpy.unique(runs["number"])),
        "left": left,
    }
    if used.wal is not None:
        figures["wal_bytes"] = used.wal / timed
    return figures
