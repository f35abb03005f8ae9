"""Brings a store into a state in which every page has something to show, by the engine's own operations, with
hostile text in every field that takes text [M5]."""

from __future__ import annotations

import math
import random
import secrets
import time
from dataclasses import dataclass
from typing import Final

from tests.browser.shop import HOSTILE, PART
from tests.browser.stage import Stage
from windlass.core.histogram import buckets
from windlass.core.rollup import MINUTE, Sample
from windlass.core.states import State
from windlass.store.fields import NewBudget
from windlass.store.records import Event, Report, WorkerInfo

QUIET: Final = "backlog"
"""A queue that nobody serves: what goes there stays ready."""
COOLING: Final = "cooling"
FILE: Final = "orders.ndjson"


@dataclass(frozen=True)
class Filled:
    """The ids of what was made."""

    sent: int
    retrying: int
    dead: int
    scheduled: int
    ready: int
    running: int
    parent: int
    silent: int
    """A worker that has said its name and no more."""
    waiting: int
    """A job that waits for a signal."""
    group: int
    """A group that is open, one of whose jobs is dead."""


async def fill(stage: Stage, text: str = HOSTILE) -> Filled:
    """Do it all, with this text wherever there is room for one; every job is in its state when this
    returns."""
    named, store = stage.shop.app.named, stage.store
    marked = named("mail.send").using(tags=["eu", text[:40]], headers={"note": text})
    sent = await marked.aenqueue(text, subject="Hello")
    retrying = await named("mail.flaky").using(concurrency_key=text).aenqueue("ada@example.com")
    dead = await named("orders.ship").aenqueue(text)
    scheduled = await named("mail.send").using(delay="1h", unique=text).aenqueue("later@example.com")
    ready = await named("mail.send").using(queue=QUIET, fair_key=text).aenqueue("nobody@example.com")
    running = await named("reports.build").aenqueue(text)
    parent = await named("imports.load").using(tags=["nightly"]).aenqueue(FILE, 12 * PART, fail=2)
    waiting = await named("orders.approve").aenqueue(text)
    group = await stage.shop.app.aopen_group(text)
    quoted = await group.aenqueue(named("orders.quote"), text)
    unshipped = await group.aenqueue(named("orders.ship"), text)
    await store.set_queue(QUIET, {"paused": True})
    await store.set_queue(COOLING, {"cool_base": 600.0})
    await store.throttle(COOLING)
    await store.declare_budget(NewBudget(name="smtp", rate=2.0, burst=10))
    silent = WorkerInfo(id=secrets.randbelow(2**62) + 1, label=text[:60], queues=(QUIET,), lease=86_400.0)
    await store.register(silent)
    await _tell(stage, text)
    await stage.split(parent.id)
    stage.go_on(FILE, 20)
    await stage.reached(sent.id, State.SUCCEEDED)
    await stage.reached(retrying.id, State.RETRYING)
    await stage.reached(dead.id, State.DEAD)
    await stage.reached(running.id, State.RUNNING)
    await stage.reached(unshipped.id, State.DEAD)
    await stage.reached(quoted.id, State.SUCCEEDED)
    await stage.reached(waiting.id, State.SCHEDULED)
    return Filled(
        sent=sent.id,
        retrying=retrying.id,
        dead=dead.id,
        scheduled=scheduled.id,
        ready=ready.id,
        running=running.id,
        parent=parent.id,
        silent=silent.id,
        waiting=waiting.id,
        group=group.id,
    )


async def _tell(stage: Stage, text: str) -> None:
    """An hour that was measured, busier in the middle, and some events."""
    now = int(time.time())
    samples = [_minute(now - now % MINUTE - minute * MINUTE, minute) for minute in range(1, 60)]
    events = [
        Event(at=now - 300.0, kind="operator", text="paused queue backlog", worker=text[:60]),
        Event(at=now - 30.0, kind="retry", text=text, queue="flaky", task="mail.flaky", attempt=1),
    ]
    report = Report(samples=samples, events=events)
    await stage.store.report(secrets.randbelow(2**62) + 1, 1, report)
    while (await stage.store.rollup()).more:
        pass


def _minute(at: int, ago: int) -> Sample:
    """The jobs of one minute; the same for every run."""
    chance = random.Random(ago)
    wave = 1 + 0.8 * math.sin(ago / 9) + (1.5 if 20 <= ago < 32 else 0)
    runs = int(60 * wave + chance.uniform(5, 25))
    slow = 2.0 if 20 <= ago < 32 else 1.0
    return Sample(
        at=at,
        queue="mail",
        task="mail.send",
        counts={"succeeded": runs, "retry": runs // 25, "dead": int(ago % 17 == 0)},
        waits=buckets([chance.lognormvariate(1.5, 0.7) * slow for _ in range(runs)]),
        runs=buckets([chance.lognormvariate(3.0, 0.5) for _ in range(runs)]),
    )
