"""PostgreSQL restarted while jobs are enqueued and run. The producer sends what failed again; a worker that
gives up is started again, as a process manager would. Lost is what was acknowledged and did not run in time.
"""

from __future__ import annotations

import contextlib
import subprocess
import time
from typing import Any

import numpy

from bench.peers import ledger
from bench.peers.plan import Plan
from bench.peers.program import Program, end
from bench.peers.subjects import Subject
from bench.servers import Servers


def postgresql(servers: Servers, subject: Subject, plan: Plan) -> dict[str, Any]:
    """Restart in the first third; then count."""
    assert servers.restart is not None
    with servers.fresh(subject.store) as place:
        program = Program(subject, place)
        program.tell("prepare")
        worker = program.start("work")
        producer = None
        exits = 0
        try:
            producer = program.start(
                "stream", "--seconds", plan.restarted, "--window", max(200, subject.rate // 4), "--stubborn"
            )
            program.wait_for(1, 60, still=60)
            time.sleep(plan.restarted / 3)
            stopped = time.monotonic()
            servers.restart()
            started = time.monotonic()
            patience = started + plan.restarted + plan.recovery
            while time.monotonic() < patience:
                if worker.poll() is not None:
                    exits += 1
                    time.sleep(1.0)
                    worker = program.start("work")
                if producer.poll() is not None and program.ran() >= _sent(place.ledger):
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
