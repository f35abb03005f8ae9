"""Workflows of steps, one process: a backlog of them, of three steps each and of a hundred. The clock runs
from the first step to the last; each is in the ledger. The workflow's own part is counted with its steps."""

from __future__ import annotations

from typing import Any, Final

import numpy

from bench.meters import family_cpu, spent
from bench.peers import ledger
from bench.peers.plan import Plan
from bench.peers.program import PeerFailed, Program, settled
from bench.peers.subjects import Subject
from bench.servers import Servers

STEPS: Final = {"steps": 3, "long_steps": 100}
"""As in the kit."""

RATE: Final = 20
"""Signals a second."""


def workflows(servers: Servers, subject: Subject, plan: Plan, kind: str) -> dict[str, Any]:
    """Steps and workflows a second, bytes of the database for each step."""
    each = STEPS[kind]
    jobs = max(20, int(subject.steps * plan.drain / each))
    with servers.fresh(subject.store) as place:
        program = Program(subject, place, kind)
        program.tell("prepare")
        program.fill(jobs)
        size = place.meter.read().size
        with program.working() as process:
            if not program.wait_for(1, 60, still=60):
                raise PeerFailed(f"no step was run within a minute; {program.words()}")
            before, cpu, begun = place.meter.read(), family_cpu(process), program.ran()
            program.wait_for(jobs * each, plan.drain * plan.patience * 1.5)
            after = place.meter.read()
            used, cpu = spent(before, after), family_cpu(process) - cpu
        runs = ledger.records(place.ledger)
    done = len(runs)
    timed = max(1, done - begun)
    rate = (done - 1) / max(1e-9, float(runs["at"][-1] - runs["at"][0]))
    figures: dict[str, Any] = {
        "steps": done,
        "rate": rate / each,
        "steps_rate": rate,
        "cpu_us": 1e6 * (cpu + (used.server or 0.0)) / timed,
        "server_us": 1e6 * (used.server or 0.0) / timed,
    }
    if used.wal is not None:
        figures["wal_bytes"] = used.wal / timed
    if size is not None and after.size is not None:
        figures["bytes"] = (after.size - size) / done
    return figures


def signals(servers: Servers, subject: Subject, plan: Plan) -> dict[str, Any]:
    """Milliseconds from the call that sends a signal to the workflow's next line: median, 99th percentile,
    worst. Workflows that have settled down to wait, signals at an even pace, one process."""
    with servers.fresh(subject.store) as place:
        program = Program(subject, place, "waiting")
        program.tell("prepare")
        with program.working() as process:
            settled(process)
            measured = program.tell("signals", "--rate", RATE, "--seconds", plan.pick_up)
            program.wait_for(2 * measured["jobs"], 20)
        sent, runs = ledger.records(place.ledger, "sent"), ledger.records(place.ledger)
    called = dict(zip(sent["number"].tolist(), sent["at"].tolist(), strict=True))
    pairs = zip(runs["number"].tolist(), runs["at"].tolist(), strict=True)
    waits = [at - called[-number - 1] for number, at in pairs if number < 0]
    if len(waits) < len(sent):
        raise PeerFailed(f"{len(sent)} signals were sent and {len(waits)} workflows went on")
    p50, p99, worst = (1000 * float(each) for each in numpy.percentile(waits, (50, 99, 100)))
    return {"p50_ms": p50, "p99_ms": p99, "worst_ms": worst}
