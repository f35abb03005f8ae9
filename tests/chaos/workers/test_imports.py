"""[fault 20] A chunked import with random kills, poison parts, a cancel at half, and redrives.

What is in the table at the end is the whole file, each record once; and each run of a part began exactly
where the rows of the runs before it end [P5] [P9].
"""

import asyncio
import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import msgspec
import pytest

from tests.chaos.figures import Figure
from tests.chaos.kit import SOAK_SECONDS, until
from tests.chaos.workers.imports import PACE, TABLE
from tests.chaos.workers.kit import Host, Scene
from windlass.store.records import Options, ParentRecord

APP = "tests.chaos.workers.imports:app"
LINES = 1500
POISON = (400, 1100)


def write_file(path: Path, lines: int = LINES) -> None:
    """About fifty records a part, two of them poison. The last may be held up."""
    with path.open("wb") as file:
        for number in range(lines):
            record = {"id": number, "poison": number in POISON, "held": number == lines - 1}
            file.write(msgspec.json.encode(record) + b"\n")


def mend(path: Path) -> None:
    """From now on nothing is poison."""
    path.with_name(f"{path.name}.mended").touch()


async def rows(scene: Scene, sql: str) -> list[tuple[Any, ...]]:
    """Run a statement on the store's database and give its rows."""
    if scene.url.startswith("sqlite"):
        connection = apsw.Connection(scene.url.removeprefix("sqlite:///"))
        connection.set_busy_timeout(10_000)
        try:
            return list(connection.execute(sql))
        finally:
            connection.close()
    other = await asyncpg.connect(scene.url)
    try:
        return [tuple(row) for row in await other.fetch(sql)]
    finally:
        await other.close()


class Import:
    """One import under way."""

    def __init__(self, scene: Scene, job: int) -> None:
        self.scene = scene
        self.job = job

    async def record(self) -> ParentRecord | None:
        return await self.scene.store.parent(self.job)

    async def reached(self, share: float, within: float = 30.0) -> None:
        """Wait until so much of it is done."""

        async def there() -> bool:
            record = await self.record()
            return record is not None and record.done >= share * record.size

        await until(there, within, pause=0.01)

    async def ended(self, state: str, within: float = 40.0) -> ParentRecord:
        """Wait until it has ended, and so."""
        await self.scene.state(self.job, "succeeded", "dead", "cancelled", within=within)
        record = await self.record()
        assert record is not None
        assert record.state == state, record
        return record

    async def check_each_run_began_where_the_last_one_stopped(self) -> int:
        """Count what each run of a part began with against the rows of the runs before it [P5]."""
        done: dict[int, Counter[int]] = defaultdict(Counter)
        for part, fence in await rows(self.scene, "SELECT part, fence FROM imported"):
            done[part][fence] += 1
        resumed = 0
        before: dict[int, list[int]] = defaultdict(list)
        for entry in sorted(self.scene.entries(what="start"), key=lambda entry: entry.at):
            if entry.note == "final":
                continue
            part, n = map(int, entry.note.split())
            assert n == sum(done[part][fence] for fence in before[part]), entry
            resumed += n > 0
            before[part].append(entry.fence)
        return resumed


async def start(scene: Scene, *, pace: float, hosts: int = 2) -> tuple[Import, list[Host], Path]:
    """A file, workers, and its import enqueued."""
    path = scene.folder / "dump.ndjson"
    write_file(path)
    await rows(scene, TABLE)
    fields: dict[str, Any] = {"processes": 2, PACE: str(pace), "WINDLASS_POISON": "1000"}
    crew = [await scene.host(APP, queues=("work=4",), **fields) for _ in range(hosts)]
    (job,) = await scene.enqueue("load", path=str(path), options=Options(max_attempts=2, chunked=True))
    return Import(scene, job), crew, path


async def kill_children(scene: Scene, crew: list[Host], dice: random.Random, kills: int) -> None:
    """Kill children at random, one after the other."""
    for _ in range(kills):
        await asyncio.sleep(dice.uniform(0.05, 0.25))
        children = [pid for host in crew for pid in host.children()]
        if children:
            scene.kill(dice.choice(children))


@pytest.mark.slow
async def test_fault_20_kills_poison_cancel_and_redrive(scene: Scene, figure: Figure) -> None:
    dice = random.Random(20)
    held = scene.folder / "dump.ndjson.held"
    held.touch()  # so that it cannot end before the cancel, however late that comes
    work, crew, path = await start(scene, pace=0.01)
    await asyncio.gather(kill_children(scene, crew, dice, 3), work.reached(0.5))
    assert (await scene.store.cancel([work.job]))[work.job] == "requested"
    held.unlink()
    record = await work.ended("cancelled")
    figure("parts done when it was cancelled", record.succeeded)
    assert await scene.store.redrive(work.job) == record.total - record.succeeded
    await kill_children(scene, crew, dice, 3)
    record = await work.ended("dead")
    assert (record.dead, record.succeeded) == (len(POISON), record.total - len(POISON))
    assert not scene.entries(what="final")

    mend(path)
    ran = len(scene.entries(what="done"))
    assert await scene.store.redrive(work.job) == len(POISON)
    record = await work.ended("succeeded")
    assert len(scene.entries(what="done")) == ran + len(POISON)  # the others did not run again [P9]
    counts = await rows(scene, "SELECT count(*), count(DISTINCT id), min(id), max(id) FROM imported")
    assert counts == [(LINES, LINES, 0, LINES - 1)]
    assert record.done == record.size == path.stat().st_size
    assert record.records == LINES
    assert len(scene.entries(what="final")) == 1
    resumed = await work.check_each_run_began_where_the_last_one_stopped()
    figure("runs that began at a checkpoint", resumed)
    figure("children killed", len(scene.killed))
    assert resumed >= 1


async def test_p9_the_finalizer_comes_once_however_its_worker_is_killed(sqlite_scene: Scene) -> None:
    """It is one job, whose attempts may be cut off like any other's."""
    scene = sqlite_scene
    mend(scene.folder / "dump.ndjson")
    work, crew, _ = await start(scene, pace=0, hosts=1)

    async def finalizing() -> bool:
        return any(entry.note == "final" for entry in scene.entries(what="start"))

    await until(finalizing, 60.0, pause=0.01)
    (first,) = [entry for entry in scene.entries(what="start") if entry.note == "final"]
    scene.kill(first.pid)
    await work.ended("succeeded")
    starts = [entry for entry in scene.entries(what="start") if entry.note == "final"]
    assert [entry.job for entry in starts] == [first.job] * 2  # the same job, begun again
    assert len(scene.entries(what="final")) == 1
    assert crew[0].code is None


@pytest.mark.soak
async def test_fault_20_for_long(scene: Scene, figure: Figure) -> None:
    """The same with kills for as long as it lasts, the file imported over and over."""
    dice = random.Random(21)
    work, crew, path = await start(scene, pace=0.02)
    mend(path)
    deadline = asyncio.get_running_loop().time() + SOAK_SECONDS
    imports = 0
    while True:
        await asyncio.gather(kill_children(scene, crew, dice, 10), work.ended("succeeded", 120.0))
        imports += 1
        counts = await rows(scene, "SELECT count(*), count(DISTINCT id) FROM imported")
        assert counts == [(imports * LINES, LINES)]
        if asyncio.get_running_loop().time() > deadline:
            break
        options = Options(max_attempts=2, chunked=True)
        (job,) = await scene.enqueue("load", path=str(path), options=options)
        work = Import(scene, job)
    figure("imports", imports)
    figure("children killed", len(scene.killed))


async def test_p5_three_processes_take_parts_in_parallel(sqlite_scene: Scene) -> None:
    """Each of three children has a part of one parent at the same time; one is killed, and its part goes on
    elsewhere behind the rows that it had written, not at its start."""
    scene = sqlite_scene
    path = scene.folder / "dump.ndjson"
    mend(path)
    write_file(path, 400)
    await rows(scene, TABLE)
    await scene.host(APP, processes=3, queues=("work=3",), **{PACE: "0.1"})
    (job,) = await scene.enqueue("load", path=str(path), options=Options(max_attempts=2, chunked=True))
    work = Import(scene, job)
    starts = await scene.seen(n=3)
    assert len({entry.pid for entry in starts}) == 3
    assert not scene.entries(what="done")

    async def halfway() -> bool:
        return bool(await rows(scene, f"SELECT 1 FROM imported WHERE fence = {starts[0].fence} LIMIT 1"))

    await until(halfway, 10.0)
    scene.kill(starts[0].pid)
    await work.ended("succeeded")
    assert await rows(scene, "SELECT count(*), count(DISTINCT id) FROM imported") == [(400, 400)]
    assert await work.check_each_run_began_where_the_last_one_stopped() == 1
