"""Schedules under fault: each time fires once [K4], whoever coordinates [fault 15] and whatever the clocks of
the hosts say [fault 14].

A time is made due by moving the schedule's next time to now; each fire writes down which time it was for.
Full minutes that come while the test runs fire as well, and count like any other.
"""

import asyncio
import re
import signal
import time
from collections import Counter
from typing import Any

import pytest

from tests.chaos.figures import Figure
from tests.chaos.kit import per_soak, sized, until
from tests.chaos.workers.flow_books import Allowance
from tests.chaos.workers.flow_jobs import BURST, RATE
from tests.chaos.workers.jobs import QUEUE
from tests.chaos.workers.kit import ENDING, LEASE, Host, Scene
from tests.chaos.workers.meter import Meter
from tests.chaos.workers.test_clocks import HOUR, SHIFT, site
from tests.chaos.workers.test_coordinator import COORDINATES, TERM
from tests.chaos.workers.ticks import TICK
from tests.stopwatch import Stopwatch
from windlass.errors import TermLost
from windlass.store.records import JobFilter, ScheduleRecord

APP = "tests.chaos.workers.ticks:app"


async def schedule(scene: Scene) -> ScheduleRecord:
    """The one there is."""
    (found,) = await scene.store.schedules()
    return found


async def make_due(scene: Scene) -> float:
    """It is due now; the answer is for which time."""
    at = await scene.store.now()
    assert await scene.store.set_schedule(TICK, next_at=at) is not None
    return at


async def fired(scene: Scene, at: float) -> None:
    """Until it has fired for this time, or for a full minute after it."""

    async def there() -> bool:
        last = (await schedule(scene)).last_at
        return last is not None and last >= at - 0.001

    await until(there, ENDING)


async def leader(*hosts: Host) -> Host:
    """The host that coordinates."""
    found: list[Host] = []

    async def one() -> bool:
        readiness = [(host, await host.readiness()) for host in hosts]
        found[:] = [host for host, state in readiness if state is not None and state["coordinator"]]
        return len(found) == 1

    await until(one, ENDING)
    return found[0]


def ticks(scene: Scene) -> Counter[str]:
    """How many jobs there were for each time, by what they wrote."""
    jobs = {(entry.note, entry.job) for entry in scene.entries(what="effect") if entry.note}
    return Counter(time for time, _ in jobs)


async def check_each_fired_once(scene: Scene, due: list[float], figure: Figure) -> None:
    """As many times as were made due, or more where a minute was over, and each of them once."""
    await scene.all_ended(ENDING)
    counts = ticks(scene)
    figure("times fired", len(counts))
    assert len(counts) >= len(due)
    assert set(counts.values()) == {1}, counts
    made = await scene.store.jobs(JobFilter(task=TICK), 1000)
    assert len(made.jobs) == len(counts), "a job was made that wrote nothing"


# -- [fault 15] the coordinator is stopped past its term -------------------------------------------------


async def stop_past_its_term(scene: Scene, hosts: list[Host], *, due_first: bool) -> list[float]:
    """Stop the supervisor that coordinates until another has fired, and let it go on. With `due_first` the
    time comes a moment before it is stopped, so that it may be in the middle of its fire. The answer is the
    times that were made due."""
    former = await leader(*hosts)
    (other,) = [host for host in hosts if host is not former]
    term = int(re.findall(COORDINATES, former.log)[-1])
    due = [await make_due(scene)] if due_first else []
    if due_first:
        await asyncio.sleep(0.25)  # about half of the time from one look at the schedules to the next
    former.send(signal.SIGSTOP)
    try:
        for at in due:
            await fired(scene, at)
        due.append(await make_due(scene))
        await fired(scene, due[-1])
        later = int(re.findall(COORDINATES, other.log)[-1])
        assert later > term
        moved = (await schedule(scene)).next_at
        with pytest.raises(TermLost):
            await scene.store.fire(term, TICK, moved, [due[-1]], next_at=None)
    finally:
        former.send(signal.SIGCONT)
    await former.says(rf"term {term} is over")
    assert re.findall(COORDINATES, former.log)[-1] == str(term)
    return due


async def take_turns(scene: Scene, turns: int, figure: Figure) -> None:
    """Two hosts that coordinate in turn, each stopped while it does."""
    hosts = [scene.start(APP, queues=(f"{QUEUE}=2",)) for _ in range(2)]
    for host in hosts:
        await host.ready()
    due: list[float] = []
    for turn in range(turns):
        due += await stop_past_its_term(scene, hosts, due_first=turn % 2 == 1)
    await check_each_fired_once(scene, due, figure)
    figure("terms", len(re.findall(COORDINATES, "".join(host.log for host in hosts))))


@pytest.mark.slow
@sized("turns", (2,), (per_soak(3.0),))
async def test_fault_15_each_time_fires_once_though_its_coordinator_sleeps(
    scene: Scene, figure: Figure, turns: int
) -> None:
    assert TERM <= 1.0, "a term must be short here, else this takes long"
    await take_turns(scene, turns, figure)


# -- [fault 14] clocks an hour off -----------------------------------------------------------------------


@pytest.mark.slow
async def test_fault_14_hosts_an_hour_fast_and_an_hour_slow(pg_scene: Scene, figure: Figure) -> None:
    """[fault 14] Leases, budgets and schedules go by the store's clock, or by none. On SQLite the store's
    clock is the process's own, and all processes share the machine's, so this is for PostgreSQL alone."""
    scene, place = pg_scene, site(pg_scene.folder)
    off: list[dict[str, Any]] = [{"PYTHONPATH": place, SHIFT: str(shift)} for shift in (HOUR, -HOUR)]
    hosts = [scene.start(APP, **fields) for fields in off]
    for host in hosts:
        await host.ready()
    now, next_at = await scene.store.now(), (await schedule(scene)).next_at
    assert next_at is not None
    assert now < next_at <= now + 60.0  # seeded by the store's clock
    long = await scene.enqueue("narrow", 4, door="", seconds=1.5 * LEASE)
    calls = await scene.enqueue("call", 80)
    due: list[float] = []
    for _ in range(2):
        watch, sooner = Stopwatch(), time.monotonic() + 0.7
        due.append(await scene.store.now() + 0.7)
        await scene.store.set_schedule(TICK, next_at=due[-1])
        await fired(scene, due[-1])
        figure("a time came → it has fired, s", time.monotonic() - sooner)
        assert sooner - 0.1 < time.monotonic()
        assert watch.seconds() < 0.7 + 3.0
    await scene.all_ended(20.0)

    clocks = {round((entry.clock - time.time()) / HOUR) for entry in scene.entries()}
    assert clocks == {1, -1}, "both hosts ran jobs, and their clocks were off"
    await check_each_fired_once(scene, due, figure)
    await scene.check(long + calls)
    assert [len(scene.entries(job, "start")) for job in long] == [1] * len(long)  # no early loss
    assert all(record.deaths == 0 for record in await scene.records(long + calls))
    assert all("is dead" not in host.log and "lost its lease" not in host.log for host in hosts)
    # How many were used is not the question here: the hosts have other jobs to run, and the machine others.
    await Meter(scene, Allowance(RATE, BURST)).check(calls, figure, used=0.1)
