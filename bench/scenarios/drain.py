"""A backlog that waits, and workers that start: jobs a second from the first run to the last."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any, Final

import numpy
import psutil

from bench import ledger
from bench.ground import Ground
from bench.hands import Hands, PeerFailed
from bench.meters import family_cpu
from bench.plan import Plan
from bench.subjects import Subject

START: Final = 4.0
START_EACH: Final = 0.2
"""Seconds until the first process of a crowd works, and for each of them; what is run meanwhile must not be
all there is."""

WARM_UP: Final = 0.15
"""Seconds, for each process, until its connections have run everything once."""

LOOK_EVERY: Final = 0.1


def one(ground: Ground, subject: Subject, plan: Plan) -> dict[str, Any]:
    """By one process."""
    return _drain(ground, subject, plan, 1)


def two(ground: Ground, subject: Subject, plan: Plan) -> dict[str, Any]:
    """By two processes, on as many cores as the machine has."""
    return _drain(ground, subject, plan, 2)


def crowd(ground: Ground, subject: Subject, plan: Plan, processes: int) -> dict[str, Any]:
    """By so many processes, from a moment after all of them have begun: nobody enqueues beside them, and what
    it takes to start, and to plan statements on new connections, does not count."""
    starting = START + (START_EACH + WARM_UP) * processes
    jobs = max(500, int(subject.rate * (plan.crowd + starting) * (1.25 if processes > 1 else 1.0)))
    with ground.fresh(subject) as place:
        hands = Hands(subject, place)
        with _begun(hands, jobs, processes) as process:
            until = time.monotonic() + 2 * starting
            while ledger.begun(place.ledger) < processes and time.monotonic() < until:
                time.sleep(LOOK_EVERY)
            time.sleep(WARM_UP * processes)
            began = time.monotonic()
            before, cpu, first = place.meter.read(), family_cpu(process), hands.ran()
            while (ran := hands.ran()) < jobs and time.monotonic() - began < plan.crowd:
                time.sleep(LOOK_EVERY)
            took = time.monotonic() - began
            after, cpu = place.meter.read(), family_cpu(process) - cpu
        used = ledger.begun(place.ledger)
    if ran == first:
        raise PeerFailed(f"the backlog was gone before {processes} processes had begun")
    return {
        "rate": (ran - first) / took,
        "cpu_us": 1e6 * (cpu + after.cpu - before.cpu) / (ran - first),
        "processes": used,
        "jobs": ran - first,
    }


@contextlib.contextmanager
def _begun(hands: Hands, jobs: int, processes: int) -> Iterator[psutil.Process]:
    """Workers on a backlog of so many jobs, from the first run on."""
    hands.tell("prepare")
    hands.fill(jobs)
    with hands.working(processes) as process:
        if not hands.wait_for(1, 60, still=60):
            raise PeerFailed(f"no job was run within a minute; {hands.words()}")
        yield process


def _drain(ground: Ground, subject: Subject, plan: Plan, processes: int) -> dict[str, Any]:
    jobs = max(500, int(subject.rate * plan.drain * (1 + 0.4 * (processes - 1))))
    with ground.fresh(subject) as place:
        hands = Hands(subject, place)
        with _begun(hands, jobs, processes) as process:
            before, cpu, begun = place.meter.read(), family_cpu(process), hands.ran()
            hands.wait_for(jobs, plan.drain * 4)
            after, cpu = place.meter.read(), family_cpu(process) - cpu
        runs = ledger.records(place.ledger)
        left = hands.left()
    done = len(runs)
    timed = max(1, done - begun)
    figures: dict[str, Any] = {
        "jobs": done,
        "rate": (done - 1) / max(1e-9, float(runs["at"][-1] - runs["at"][0])),
        "cpu_us": 1e6 * (cpu + after.cpu - before.cpu) / timed,
        "worker_cpu_us": 1e6 * cpu / timed,
        "twice": done - len(numpy.unique(runs["number"])),
        "left": left,
    }
    if before.wal is not None and after.wal is not None:
        figures["wal_bytes"] = (after.wal - before.wal) / timed
    return figures
