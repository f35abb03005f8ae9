"""Workflows of steps, one process: a backlog of them, of three steps each and of a hundred. The clock runs
from the first step to the last; each is in the ledger. The workflow's own part is counted with its steps."""

from __future__ import annotations

from typing import Any, Final

from bench.meters import family_cpu, spent
from bench.peers import ledger
from bench.peers.plan import Plan
from bench.peers.program import PeerFailed, Program
from bench.peers.subjects import Subject
from bench.servers import Servers

STEPS: Final = {"steps": 3, "long_steps": 100}
"""As in the kit."""


def workflows(servers: Servers, subject: Subject, plan: Plan, kind: str) -> dict[str, Any]:
    """Steps and workflows a second, bytes of the database for each step."""
    each = STEPS[kind]
    jobs = max(20, int(subject.steps * plan.drain / each))
    with servers.fresh(subject.store) as place:
        program = Program(subject, place)
        program.tell("prepare")
        program.fill(jobs, kind)
        size = place.meter.read().size
        with program.working() as process:
            if not program.wait_for(1, 60, still=60):
                raise PeerFailed(f"no step was run within a minute; {program.words()}")
            before, cpu, begun = place.meter.read(), family_cpu(process), program.ran()
            program.wait_for(jobs * each, plan.drain * 6)
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
