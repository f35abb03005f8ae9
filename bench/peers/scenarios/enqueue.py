"""Enqueueing, one job at a time and in bulk, with nobody working: jobs a second, processor time, WAL."""

from __future__ import annotations

from typing import Any

from bench.meters import spent
from bench.peers.plan import Plan
from bench.peers.program import Program
from bench.peers.subjects import Subject
from bench.servers import Servers

SINGLE_AT_MOST = 20_000


def single(servers: Servers, subject: Subject, plan: Plan) -> dict[str, Any]:
    """One call a job, each durable before the next: by one client, then by sixteen."""
    with servers.fresh(subject.store) as place:
        program = Program(subject, place)
        program.tell("prepare")
        alone = program.tell("enqueue", "--count", 200)  # warms up, and tells how many make a measurement
        count = _enough(alone, plan.enqueue)
        alone = program.tell("enqueue", "--count", count, "--first", 200)
        crowd = program.tell("enqueue", "--count", count, "--first", 200 + count, "--clients", 16)
        return {"single": _rate(alone), "single_by_16": _rate(crowd)}


def bulk(servers: Servers, subject: Subject, plan: Plan) -> dict[str, Any]:
    """The library's own way for many; where it has none, one call a job by one client."""
    with servers.fresh(subject.store) as place:
        program = Program(subject, place)
        program.tell("prepare")
        way = ["--bulk"] if program.describe()["bulk"] else []
        count = max(1_000, int(subject.enqueues * plan.enqueue))
        program.tell("enqueue", "--count", min(count // 10, 5_000), *way)
        before = place.meter.read()
        done = program.tell("enqueue", "--count", count, "--first", count, *way)
        used = spent(before, place.meter.read())
    figures = {"bulk": _rate(done), "cpu_us": 1e6 * (done["cpu"] + (used.server or 0.0)) / count}
    if used.wal is not None:
        figures["wal_bytes"] = used.wal / count
    return figures


def _rate(done: dict[str, Any]) -> float:
    return float(done["jobs"] / done["seconds"])


def _enough(done: dict[str, Any], seconds: float) -> int:
    return max(200, min(SINGLE_AT_MOST, int(_rate(done) * seconds)))
