"""A producer that stays a little ahead of the workers: finished jobs a second, in each third of the time.

Once more with a snapshot that somebody holds open from before the first job, as a forgotten transaction, a
long report or a slow backup does: dead rows cannot be removed then.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any

import psycopg

from bench import ledger
from bench.ground import Ground, Place
from bench.hands import Hands, PeerFailed, settled
from bench.meters import family_cpu
from bench.plan import Plan
from bench.subjects import Subject


def free(ground: Ground, subject: Subject, plan: Plan) -> dict[str, Any]:
    """With nobody in the way."""
    return _sustain(ground, subject, plan.sustained)


def pinned(ground: Ground, subject: Subject, plan: Plan) -> dict[str, Any]:
    """With a pinned snapshot."""
    return _sustain(ground, subject, plan.pinned, pin=True)


def _sustain(ground: Ground, subject: Subject, seconds: float, *, pin: bool = False) -> dict[str, Any]:
    with ground.fresh(subject) as place:
        hands = Hands(subject, place)
        hands.tell("prepare")
        with contextlib.ExitStack() as stack:
            process = stack.enter_context(hands.working())
            settled(process)
            if pin:
                stack.enter_context(_snapshot(place))
            before, cpu = place.meter.read(), family_cpu(process)
            began = time.monotonic()
            told = hands.tell("stream", "--seconds", seconds, "--window", max(1_000, subject.rate // 4))
            ended = time.monotonic()
            after, cpu = place.meter.read(), family_cpu(process) - cpu
        runs = ledger.records(place.ledger)
        used = sum(1 for _ in ledger.by_process(place.ledger))
    if not len(runs):
        raise PeerFailed(f"no job was run; {hands.words()}")
    # The producer's own start-up is not load: the time begins with the first run.
    first = float(runs["at"][0])
    length = min(seconds, ended - first)
    thirds = [_between(runs, first + length * part / 3, first + length * (part + 1) / 3) for part in range(3)]
    done = max(1, int((runs["at"] <= ended).sum()))
    figures: dict[str, Any] = {
        "rate": _between(runs, first + length / 10, first + length),
        "thirds": thirds,
        "last_third": thirds[-1],
        "cpu_us": 1e6 * (cpu + told["cpu"] + after.cpu - before.cpu) / done,
        "seconds": ended - began,
        "processes": used,
    }
    if after.wal is not None and before.wal is not None:
        figures["wal_bytes"] = (after.wal - before.wal) / done
        figures["dead_tuples"] = after.dead
        figures["size_mb"] = (after.size or 0) / 1e6
    return figures


def _between(runs: Any, begin: float, end: float) -> float:
    inside = ((runs["at"] >= begin) & (runs["at"] < end)).sum()
    return float(inside / max(1e-9, end - begin))


@contextlib.contextmanager
def _snapshot(place: Place) -> Any:
    assert place.dsn is not None
    with psycopg.connect(place.dsn) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT count(*) FROM pg_class")
        yield
        connection.rollback()
