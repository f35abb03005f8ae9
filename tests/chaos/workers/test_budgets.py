"""[fault 21] A budget of R tokens a second, with kills, a live change and tokens taken by hand [F1].

Every run of a task that draws from the budget writes down when it starts, and so does who takes a token by
hand. In any window of t seconds there are at most rate·t + burst of them; where the rate was changed within
it, each rate counts for its own time. See `meter` for what that rests on.
"""

import asyncio
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.chaos.figures import Figure
from tests.chaos.kit import SOAK_SECONDS
from tests.chaos.workers import takers
from tests.chaos.workers.flow_books import Allowance
from tests.chaos.workers.flow_jobs import BUDGET, BURST, RATE
from tests.chaos.workers.kit import Host, Scene
from tests.chaos.workers.meter import WITHIN, Meter
from windlass.core.flow.bucket import HELD_FOR
from windlass.store.fields import NewBudget

APP = "tests.chaos.workers.flow_jobs:app"
FASTER = 120
CALM = 0.6
"""The share of its tokens that is used while jobs wait and nobody is killed."""


async def started(scene: Scene, n: int) -> None:
    """Wait until so many jobs have started."""
    await scene.seen(n=n, within=30.0)


async def crew(scene: Scene, hosts: int) -> list[Host]:
    """So many hosts of two processes each, started side by side."""
    made = [scene.start(APP, processes=2, WINDLASS_POISON="1000") for _ in range(hosts)]
    for host in made:
        await host.ready(2)
    return made


@pytest.mark.slow
async def test_fault_21_a_budget_with_kills_and_a_live_change(scene: Scene, figure: Figure) -> None:
    hosts = await crew(scene, 2)
    meter = Meter(scene, Allowance(RATE, BURST))
    await scene.enqueue("call", 200)
    async with meter.taking_by_hand():
        await started(scene, 30)
        scene.kill(scene.entries(what="start")[-1].pid)
        await started(scene, 60)
        await meter.change(FASTER)
        await started(scene, 110)
        scene.kill_host(hosts[1])
        await started(scene, 150)
        await meter.change(RATE)
        await scene.all_ended(30.0)
    await scene.check()
    await meter.check(scene.acknowledged, figure)


@pytest.mark.soak
async def test_fault_21_for_long(scene: Scene, figure: Figure) -> None:
    """Children and hosts are killed at random and the rate is changed, over and over."""
    dice = random.Random(21)
    hosts = await crew(scene, 2)
    meter = Meter(scene, Allowance(RATE, BURST))
    until = time.monotonic() + SOAK_SECONDS
    async with meter.taking_by_hand():
        while time.monotonic() < until:
            if sum(depth.ready for depth in (await scene.store.depth()).values()) < FASTER:
                await scene.enqueue("call", 2 * FASTER)
            await asyncio.sleep(dice.uniform(0.2, 1.0))
            match dice.randrange(6):
                case 0:
                    await meter.change(dice.choice([RATE / 2, RATE, FASTER]))
                case 1:
                    scene.kill_host(hosts.pop(0))
                    hosts += await crew(scene, 1)
                case _:
                    children = [pid for host in hosts for pid in host.children()]
                    scene.kill(dice.choice(children)) if children else None
        await meter.change(FASTER)
        await scene.all_ended(120.0)
    figure("processes killed", len(scene.killed))
    await scene.check()
    await meter.check(scene.acknowledged, figure)


@pytest.mark.slow
async def test_f1_a_budget_is_used_and_drained_it_grants_nothing(scene: Scene, figure: Figure) -> None:
    """[F1] While jobs wait, what grows is used, also after the coordinator was late once and found the bucket
    full. After a 429 nobody starts for as long as was asked for, in no process; then the rate is kept from
    nothing on: there is no burst where none is welcome."""
    pause = 1.0
    (host,) = await crew(scene, 1)
    await scene.enqueue("call", 70)
    await started(scene, BURST)
    host.send(signal.SIGSTOP)
    await asyncio.sleep(0.4)  # how long it is late
    host.send(signal.SIGCONT)
    times = sorted(entry.at for entry in await scene.seen(n=70, within=30.0))
    share = 70 / (RATE * (times[-1] - times[0]) + BURST)
    figure("share of the tokens that was used", share)
    await scene.store.drain(BUDGET, pause)
    at = time.monotonic()
    await scene.enqueue("call", 30)
    after = [entry.at - at for entry in (await scene.seen(n=100, within=30.0))[70:]]
    figure("drained for 1 s → the first start, s", min(after))
    assert min(after) > pause - WITHIN
    assert len(after) <= RATE * (max(after) - pause + WITHIN) + 1
    assert share > CALM


@pytest.mark.slow
async def test_fault_21_blocks_of_tokens_with_kills_and_a_drain(
    scene: Scene, figure: Figure, tmp_path: Path
) -> None:
    """[F1] Processes that take tokens by hand lease blocks of them and are killed over and over. No window of
    time has more grants than it may, without any tolerance but one token for rounding. A drain is noticed
    within 50 ms: no call that began later was granted a token before the pause was over. When a call was
    granted one within it, its process alone knows, so only calls that ended in time count."""
    ledger = tmp_path / "grants"
    ledger.touch()
    await scene.store.declare_budget(NewBudget(name=takers.BUDGET, rate=takers.RATE, burst=takers.BURST))
    crew = [taker(scene, ledger, number) for number in range(3)]
    drains: list[tuple[float, float]] = []
    try:
        for number in range(3, 11):
            await takers.more_grants(ledger, 700)
            victim = crew.pop(0)
            victim.kill()
            victim.wait()
            crew.append(taker(scene, ledger, number))
            if number % 4 == 0:
                until = time.monotonic() + 0.5
                await scene.store.drain(takers.BUDGET, 0.5)
                drains.append((time.monotonic(), until))
        await takers.more_grants(ledger, 700)
    finally:
        for each in crew:
            each.kill()
            each.wait()
    found = takers.grants(ledger)
    over = max(
        count - takers.RATE * (end - start) - takers.BURST for start, end, count in takers.windows(found)
    )
    figure("tokens granted by hand", len(found))
    figure("the worst window, tokens beyond what it may hold", over)
    assert len(found) > takers.RATE
    assert over <= 1
    for since, until in drains:
        assert not [grant for grant in found if since + HELD_FOR < grant[0] and grant[1] < until]


def taker(scene: Scene, ledger: Path, seed: int) -> subprocess.Popen[bytes]:
    """A process that takes tokens of the budget by hand."""
    command = [sys.executable, "-m", takers.__name__, scene.url, str(ledger), str(seed)]
    return subprocess.Popen(command)
