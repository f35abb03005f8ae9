"""Single jobs at an even 200 a second to an idle worker: from the call of enqueue to the handler's start."""

from __future__ import annotations

from typing import Any, Final

import numpy

from bench.peers import ledger
from bench.peers.plan import Plan
from bench.peers.program import PeerFailed, Program, settled
from bench.peers.subjects import Subject
from bench.servers import Servers

RATE: Final = 200
WARM_UP: Final = 200
"""Jobs that are left out: new connections plan their statements once."""


def latency(servers: Servers, subject: Subject, plan: Plan) -> dict[str, Any]:
    """Milliseconds: median, 99th percentile, worst."""
    with servers.fresh(subject.store) as place:
        program = Program(subject, place)
        program.tell("prepare")
        with program.working() as process:
            settled(process)
            measured = program.tell("pace", "--rate", RATE, "--seconds", plan.pick_up + WARM_UP / RATE)
            program.wait_for(measured["jobs"], 20)
        sent, runs = ledger.records(place.ledger, "sent"), ledger.records(place.ledger)
    if len(runs) < len(sent):
        raise PeerFailed(f"{len(sent)} jobs were sent and {len(runs)} ran")
    called = dict(zip(sent["number"].tolist(), sent["at"].tolist(), strict=True))
    numbers, at = runs["number"].tolist(), runs["at"].tolist()
    waits = [at - called[number] for number, at in zip(numbers, at, strict=True) if number >= WARM_UP]
    p50, p99, worst = (1000 * float(each) for each in numpy.percentile(waits, (50, 99, 100)))
    return {"p50_ms": p50, "p99_ms": p99, "worst_ms": worst}
