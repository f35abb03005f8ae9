"""Single jobs at an even 200 a second to an idle worker: from the call of enqueue to the handler's start."""

from __future__ import annotations

from typing import Any, Final

import numpy

from bench import ledger
from bench.ground import Ground
from bench.hands import Hands, PeerFailed, settled
from bench.plan import Plan
from bench.subjects import Subject

RATE: Final = 200
WARM_UP: Final = 200
"""Jobs that are left out: new connections plan their statements once."""


def latency(ground: Ground, subject: Subject, plan: Plan) -> dict[str, Any]:
    """Milliseconds: median, 99th percentile, worst."""
    with ground.fresh(subject) as place:
        hands = Hands(subject, place)
        hands.tell("prepare")
        with hands.working() as process:
            settled(process)
            told = hands.tell("pace", "--rate", RATE, "--seconds", plan.pick_up + WARM_UP / RATE)
            hands.wait_for(told["jobs"], 20)
        sent, runs = ledger.records(place.ledger, "sent"), ledger.records(place.ledger)
    if len(runs) < len(sent):
        raise PeerFailed(f"{len(sent)} jobs were sent and {len(runs)} ran")
    called = dict(zip(sent["number"].tolist(), sent["at"].tolist(), strict=True))
    numbers, at = runs["number"].tolist(), runs["at"].tolist()
    waits = [at - called[number] for number, at in zip(numbers, at, strict=True) if number >= WARM_UP]
    p50, p99, worst = (1000 * float(each) for each in numpy.percentile(waits, (50, 99, 100)))
    return {"p50_ms": p50, "p99_ms": p99, "worst_ms": worst}
