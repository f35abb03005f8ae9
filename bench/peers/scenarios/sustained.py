"""A producer that stays a little ahead of the workers: finished jobs a second, in each third of the time.

Once more with a snapshot that somebody holds open from before the first job, as a forgotten transaction, a
long report or a slow backup does: dead rows cannot be removed then.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any

from bench.meters import family_cpu, spent
from bench.peers import ledger
from bench.peers.plan import Plan
from bench.peers.program import PeerFailed, Program, settled
from bench.peers.subjects import Subject
from bench.servers import Servers, pinned_snapshot


def free(servers: Servers, subject: Subject, plan: Plan) -> dict[str, Any]:
    """With nobody in the way."""
    return _sustain(servers, subject, plan.sustained)


def pinned(servers: Servers, subject: Subject, plan: Plan) -> dict[str, Any]:
    """With a pinned snapshot."""
    return _sustain(servers, subject, plan.pinned, pin=True)


def _sustain(servers: Servers, subject: Subject, seconds: float, *, pin: bool = False) -> dict[str, Any]:
    with servers.fresh(subject.store) as place:
        program = Program(subject, place)
        program.tell("prepare")
        with contextlib.ExitStack() as stack:
            process = stack.enter_context(program.working())
            settled(process)
            if pin:
                stack.enter_context(pinned_snapshot(place.url))
            before, cpu = place.meter.read(), family_cpu(process)
            began = time.monotonic()
            measured = program.tell("stream", "--seconds", seconds, "--window", max(1_000, subject.rate // 4))
            ended = time.monotonic()
            after, cpu = place.meter.read(), family_cpu(process) - cpu
            used = spent(before, after)
        runs = ledger.records(place.ledger)
        processes = sum(1 for _ in ledger.by_process(place.ledger))
    if not len(runs):
        raise PeerFailed(f"no job was run; {program.words()}")
    # The producer's own start-up is not load: the time begins with the first run.
    first = float(runs["at"][0])
    length = min(seconds, ended - first)
    thirds = [_between(runs, first + length * part / 3, first + length * (part + 1) / 3) for part in range(3)]
    done = max(1, int((runs["at"] <= ended).sum()))
    figures: dict[str, Any] = {
        "rate": _between(runs, first + length / 10, first + length),
        "thirds": thirds,
        "last_third": thirds[-1],
        "cpu_us": 1e6 * (cpu + measured["cpu"] + (used.server or 0.0)) / done,
        "seconds": ended - began,
        "processes": processes,
    }
    if used.wal is not None:
        figures["wal_bytes"] = used.wal / done
        figures["dead_tuples"] = after.dead
        figures["size_mb"] = (after.size or 0) / 1e6
    return figures


def _between(runs: Any, begin: float, end: float) -> float:
    inside = ((runs["at"] >= begin) & (runs["at"] < end)).sum()
    return float(inside / max(1e-9, end - begin))
