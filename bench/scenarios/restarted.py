"""PostgreSQL restarted while jobs are enqueued and run. The producer sends what failed again; a worker that
gives up is started again, as a process manager would. Lost is what was acknowledged and never ran.
"""

from __future__ import annotations

import contextlib
import subprocess
import time
from typing import Any

import numpy

from bench import ledger
from bench.ground import Ground
from bench.hands import Hands, end
from bench.plan import Plan
from bench.subjects import Subject


def postgresql(ground: Ground, subject: Subject, plan: Plan) -> dict[str, Any]:
    """Restart in the first third; then count."""
    assert ground.restart is not None
    with ground.fresh(subject) as place:
        hands = Hands(subject, place)
        hands.tell("prepare")
        worker = hands.start("work")
        producer = None
        exits = 0
        try:
            producer = hands.start(
                "stream", "--seconds", plan.restarted, "--window", max(200, subject.rate // 4), "--stubborn"
            )
            hands.wait_for(1, 60, still=60)
            time.sleep(plan.restarted / 3)
            stopped = time.monotonic()
            ground.restart()
            started = time.monotonic()
            patience = started + plan.restarted + 60
            while time.monotonic() < patience:
                if worker.poll() is not None:
                    exits += 1
                    time.sleep(1.0)
                    worker = hands.start("work")
                if producer.poll() is not None and hands.ran() >= _sent(place.ledger):
                    break
                time.sleep(0.2)
            with contextlib.suppress(subprocess.TimeoutExpired):
                producer.wait(30)
            time.sleep(1.0)
        finally:
            end(worker)
            if producer is not None:
                end(producer)
        runs, sent = ledger.records(place.ledger), ledger.records(place.ledger, "sent")
    ran = numpy.unique(runs["number"])
    after = runs["at"][runs["at"] > started]
    return {
        "acknowledged": len(numpy.unique(sent["number"])),
        "lost": len(numpy.setdiff1d(sent["number"], ran)),
        "twice": len(runs) - len(ran),
        "down_s": started - stopped,
        "working_again_s": float(after[0] - started) if len(after) else None,
        "worker_exits": exits,
    }


def _sent(folder: Any) -> int:
    return len(numpy.unique(ledger.records(folder, "sent")["number"]))
