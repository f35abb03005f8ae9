"""Enqueueing, one job at a time and in bulk, with nobody working: jobs a second, processor time, WAL."""

from __future__ import annotations

from typing import Any

from bench.ground import Ground
from bench.hands import Hands
from bench.plan import Plan
from bench.subjects import Subject

SINGLE_AT_MOST = 20_000


def single(ground: Ground, subject: Subject, plan: Plan) -> dict[str, Any]:
    """One call a job, each durable before the next: by one client, then by sixteen."""
    with ground.fresh(subject) as place:
        hands = Hands(subject, place)
        hands.tell("prepare")
        alone = hands.tell("enqueue", "--count", 200)  # warms up, and tells how many make a measurement
        count = _enough(alone, plan.enqueue)
        alone = hands.tell("enqueue", "--count", count, "--first", 200)
        crowd = hands.tell("enqueue", "--count", count, "--first", 200 + count, "--clients", 16)
        return {"single": _rate(alone), "single_by_16": _rate(crowd)}


def bulk(ground: Ground, subject: Subject, plan: Plan) -> dict[str, Any]:
    """The library's own way for many; where it has none, one call a job by one client."""
    with ground.fresh(subject) as place:
        hands = Hands(subject, place)
        hands.tell("prepare")
        way = ["--bulk"] if hands.describe()["bulk"] else []
        count = max(1_000, int(subject.enqueues * plan.enqueue))
        hands.tell("enqueue", "--count", min(count // 10, 5_000), *way)
        before = place.meter.read()
        done = hands.tell("enqueue", "--count", count, "--first", count, *way)
        after = place.meter.read()
    figures = {"bulk": _rate(done), "cpu_us": 1e6 * (done["cpu"] + after.cpu - before.cpu) / count}
    if before.wal is not None and after.wal is not None:
        figures["wal_bytes"] = (after.wal - before.wal) / count
    return figures


def _rate(done: dict[str, Any]) -> float:
    return float(done["jobs"] / done["seconds"])


def _enough(done: dict[str, Any], seconds: float) -> int:
    return max(200, min(SINGLE_AT_MOST, int(_rate(done) * seconds)))
