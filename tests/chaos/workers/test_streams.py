"""Streams meet the kill of a child, of their reader, and of the server [W3]: no event is lost, none comes
twice, the order stays, and each run that began anew is marked."""

import asyncio
import itertools
import json
import random
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.chaos.program import ROOT
from tests.chaos.workers.kit import Scene
from tests.postgres import Server
from tests.stock import BOTH
from windlass import StreamEvent, Windlass
from windlass.store.postgres import PostgresStore

READER = """
import os, signal, sys
from windlass import Windlass
url, job, book, dies_at = sys.argv[1:]
with Windlass(url) as app, open(book, "a", buffering=1) as out, open(book) as seen:
    last = max((int(line.split()[0]) for line in seen if line.endswith("\\n")), default=0)
    for event in app.job(int(job)).events(after=last):
        out.write(f"{event.position} {event.run} {event.value}\\n")
        if event.position == int(dies_at):
            os.kill(os.getpid(), signal.SIGKILL)
"""


def check(events: Sequence[tuple[int, int, int]], n: int) -> int:
    """Positions have no gap; each run counts from 0 without one, and the last one to the end. How many runs
    there were."""
    assert [position for position, _, _ in events] == list(range(1, len(events) + 1))
    runs = [
        (run, [value for _, _, value in found]) for run, found in itertools.groupby(events, lambda e: e[1])
    ]
    assert [run for run, _ in runs] == list(range(1, len(runs) + 1))
    for _, values in runs:
        assert values == list(range(len(values)))
    assert runs[-1][1] == list(range(n))
    return len(runs)


def told(events: Sequence[StreamEvent]) -> list[tuple[int, int, int]]:
    return [(event.position, event.run, event.value) for event in events]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1])
async def test_w3_fault_1_a_child_is_killed_while_it_emits(scene: Scene, seed: int) -> None:
    n, dice = 300, random.Random(seed)
    await scene.host(processes=2, lease=30.0)
    (job,) = await scene.enqueue("tells", count=n, pause=0.005)
    found: list[StreamEvent] = []
    kill_at = [dice.randrange(20, 120), dice.randrange(200, 280)]
    async with Windlass(scene.url) as app:
        async for event in app.job(job).events():
            found.append(event)
            if kill_at and event.position >= kill_at[0]:
                kill_at.pop(0)
                scene.kill(scene.entries(job, "start")[-1].pid)
        assert told([event async for event in app.job(job).events()]) == told(found)
    assert check(told(found), n) == 3
    assert {event.attempt for event in found} == {1}  # no attempt is charged; the run says what is new


@pytest.mark.slow
async def test_w3_a_reader_is_killed_and_goes_on(scene: Scene, tmp_path: Path) -> None:
    """By what it had written down itself. It is killed at events that were drawn before, not when this
    process gets to it, while the job still emits or after it."""
    await scene.host()
    n, dice = 600, random.Random(2)
    (job,) = await scene.enqueue("tells", count=n, pause=0.005)
    book = tmp_path / "book"
    book.touch()
    deaths = sorted(dice.sample(range(1, n), 3))
    for dies_at in (*deaths, 0):
        reader = await asyncio.create_subprocess_exec(
            sys.executable, "-c", READER, scene.url, str(job), str(book), str(dies_at), cwd=ROOT
        )
        ended = await asyncio.wait_for(reader.wait(), 60.0)
        assert ended == (-signal.SIGKILL if dies_at else 0)
    lines = [tuple(map(int, line.split())) for line in book.read_text().splitlines()]
    assert check([(line[0], line[1], line[2]) for line in lines], n) == 1


@BOTH
async def test_w3_many_readers_see_the_same(pg_scene: Scene) -> None:
    """Who comes at once, who comes late and who comes again."""
    await pg_scene.host()
    n = 300
    (job,) = await pg_scene.enqueue("tells", count=n, pause=0.005)
    dice = random.Random(3)

    async def follow(app: Windlass) -> list[StreamEvent]:
        found: list[StreamEvent] = []
        while not found or found[-1].position < n:
            leave_at = dice.randrange(1, n)
            async for event in app.job(job).events(after=found[-1].position if found else 0):
                found.append(event)
                if event.position % n == leave_at:
                    break
        return found

    async with Windlass(pg_scene.url) as app:
        for found in await asyncio.gather(*(follow(app) for _ in range(12))):
            assert check(told(found), n) == 1


@pytest.mark.slow
async def test_w3_fault_6_the_server_is_killed_while_a_job_emits(tmp_path: Path) -> None:
    """Reader and worker go on by themselves; what was acknowledged to neither is sent again."""
    with Server(18, settings={"synchronous_commit": "on"}) as server:
        dsn = server.dsn(server.create_database())
        await PostgresStore(dsn).migrate()
        async with Scene(dsn, tmp_path) as scene, Windlass(dsn) as app:
            await scene.host(lease=30.0)
            n = 600
            (job,) = await scene.enqueue("tells", count=n, pause=0.01)
            found: list[StreamEvent] = []
            again = [100, 300]
            async for event in app.job(job).events():
                found.append(event)
                if again and event.position >= again[0]:
                    again.pop(0)
                    await asyncio.to_thread(server.kill9)
                    await asyncio.to_thread(server.start)
            assert check(told(found), n) >= 1
            assert told([event async for event in app.job(job).events()]) == told(found)


def test_the_check_of_these_tests_finds_what_it_looks_for() -> None:
    good = [(1, 1, 0), (2, 1, 1), (3, 2, 0), (4, 2, 1)]
    assert check(good, 2) == 2
    for bad in (
        good[:3],
        good[1:],
        [*good, good[-1]],
        [good[1], good[0], *good[2:]],
        json.loads("[[1, 2, 0]]"),
    ):
        with pytest.raises(AssertionError):
            check(bad, 2)
