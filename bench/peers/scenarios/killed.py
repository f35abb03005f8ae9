"""Long jobs, and SIGKILL for those who run them. The ledger tells which were interrupted, when each began
anew, which were lost and which ended twice.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from typing import Any, Final

import numpy
import psutil

from bench.peers import ledger
from bench.peers.plan import Plan
from bench.peers.program import PeerFailed, Program, settled
from bench.peers.subjects import Subject
from bench.servers import Servers

SLOTS: Final = 4
JOBS: Final = 2 * SLOTS
"""As many as run at once: what was interrupted waits for nobody but its rescue."""
FIRST: Final = 4.0
"""Seconds after a kill in which nobody else starts anything: who is quick is back by then."""
UNDISTURBED: Final = threading.Lock()
"""Peers wait for their rescue at the same time, but are started and killed one after the other."""


def child(servers: Servers, subject: Subject, plan: Plan) -> dict[str, Any]:
    """One of two worker processes of a host is killed; what supervises it lives on."""
    with contextlib.ExitStack() as stack:
        with UNDISTURBED:
            program = _prepared(stack, servers, subject, BENCH_LONG=str(plan.long_job))
            process = stack.enter_context(program.working(2, SLOTS))
            settled(process)
            program.fill(JOBS)
            victim = _busy(program)
            family = {each.pid for each in process.children(recursive=True)} | {process.pid}
            if victim not in family:
                raise PeerFailed(f"process {victim} does not belong to the worker")
            killed = time.monotonic()
            os.kill(victim, signal.SIGKILL)
            time.sleep(FIRST)
        return _aftermath(program, {victim}, killed, plan)


def host(servers: Servers, subject: Subject, plan: Plan) -> dict[str, Any]:
    """One of two hosts is gone, every process of it at once; nobody starts it again."""
    with contextlib.ExitStack() as stack:
        with UNDISTURBED:
            program = _prepared(stack, servers, subject, BENCH_LONG=str(plan.long_job), BENCH_HOSTS="2")
            process, other = (stack.enter_context(program.working(1, SLOTS)) for _ in range(2))
            settled(process)
            settled(other)
            program.fill(JOBS)
            family = [process, *process.children(recursive=True)]
            _busy(program, {each.pid for each in family})
            killed = time.monotonic()
            kill(family)
            time.sleep(FIRST)
        return _aftermath(program, {each.pid for each in family}, killed, plan)


def kill(family: list[psutil.Process]) -> None:
    """Kill the processes of a host, the group of the first at once, and then those that left it, as RQ's do
    that run a job."""
    os.killpg(family[0].pid, signal.SIGKILL)
    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(family, 10)


def _prepared(stack: contextlib.ExitStack, servers: Servers, subject: Subject, **settings: str) -> Program:
    """A peer on a fresh database, which goes with the stack."""
    program = Program(subject, stack.enter_context(servers.fresh(subject.store)), "long", **settings)
    program.tell("prepare")
    return program


def _busy(program: Program, among: set[int] | None = None) -> int:
    """A process that runs jobs, a second after it began one."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        for pid, runs in ledger.by_process(program.place.ledger):
            if (among is None or pid in among) and _running(runs):
                time.sleep(1.0)
                return pid
        time.sleep(0.05)
    raise PeerFailed(f"no job began within a minute; {program.words()}")


def _running(runs: Any) -> set[int]:
    numbers = runs["number"].tolist()
    return {n for n in numbers if n >= 0} - {-n - 1 for n in numbers if n < 0}


def _aftermath(program: Program, victims: set[int], killed: float, plan: Plan) -> dict[str, Any]:
    folder = program.place.ledger
    mine = [runs for pid, runs in ledger.by_process(folder) if pid in victims]
    interrupted = set().union(*(_running(runs) for runs in mine))
    if not interrupted:
        raise PeerFailed("the killed process had nothing running")
    until = killed + plan.recovery
    back: dict[int, float] = {}
    while time.monotonic() < until:
        for pid, runs in ledger.by_process(folder):
            for number, at in zip(runs["number"].tolist(), runs["at"].tolist(), strict=True):
                if number in interrupted and at > killed and pid not in victims:
                    back.setdefault(number, at - killed)
        if len(back) == len(interrupted) and len(_ended(folder)) == JOBS:
            break
        time.sleep(0.1)
    ends = [-n - 1 for n in ledger.records(folder)["number"].tolist() if n < 0]
    return {
        "interrupted": len(interrupted),
        "came_back": len(back),
        "first_back_s": min(back.values(), default=None),
        "all_back_s": max(back.values()) if len(back) == len(interrupted) else None,
        "not_ended": JOBS - len(set(ends)),
        "ended_twice": len(ends) - len(set(ends)),
        "waited_s": plan.recovery,
    }


def _ended(folder: Any) -> set[int]:
    numbers = ledger.records(folder)["number"]
    return set(numpy.unique(numbers[numbers < 0]).tolist())
