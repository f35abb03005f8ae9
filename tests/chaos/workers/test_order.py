"""Order [F6] and limits [F3] over several processes while children and hosts are killed and handlers fail.

What the handlers wrote down says when each job ran and when it had its effect; a run whose process was killed
was over then. The store's own counts are not asked.
"""

import asyncio
import random
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec
import pytest

from tests.chaos.figures import Figure
from tests.chaos.kit import SOAK_SECONDS, per_soak, sized, until
from tests.chaos.workers.books import Books, read
from tests.chaos.workers.flow_books import grouped, most_at_once, spans
from tests.chaos.workers.jobs import QUEUE
from tests.chaos.workers.kit import Host, Scene
from windlass.store.records import NewJob, Options

APP = "tests.chaos.workers.flow_jobs:app"
FAILS = 0.1
DOOR = "the only door"


async def crew(scene: Scene, *processes: int) -> list[Host]:
    """Hosts of so many processes each, started side by side. A job may see many deaths here, and none of
    them is its fault."""
    made = [scene.start(APP, processes=n, WINDLASS_POISON="1000") for n in processes]
    for host, n in zip(made, processes, strict=True):
        await host.ready(n)
    return made


async def recovered(scene: Scene, starts: int = 0) -> None:
    """Wait until so many jobs have started, the last of them in a process that lives, and whatever ran in one
    that was killed has run to its end since: a second death would bring it a back-off of seconds [C8]."""

    async def is_so() -> bool:
        entries = scene.entries()
        hit = {entry.job for entry in entries if entry.pid in scene.killed}
        begun = [entry for entry in entries if entry.what == "start"]
        enough = len(begun) >= starts and begun[-1].pid not in scene.killed
        return enough and hit <= {entry.job for entry in entries if entry.what == "done"}

    await until(is_so, 90.0, pause=0.005)


async def harass(scene: Scene, kills: int, starts: int) -> None:
    """Kill so many processes, each once some jobs more have started, and the one that started the last."""
    before = len(scene.entries(what="start"))
    for number in range(1, kills + 1):
        await recovered(scene, before + number * starts)
        scene.kill(scene.entries(what="start")[-1].pid)


# -- order ------------------------------------------------------------------------------------------------


class Lines:
    """Jobs of several ordering keys, and how far the store says each has come."""

    def __init__(self, scene: Scene, dice: random.Random, seconds: float = 0.005) -> None:
        self.scene = scene
        self.dice = dice
        self.seconds = seconds
        self.line: dict[int, str] = {}
        self.length: dict[str, int] = defaultdict(int)
        self.marks: dict[str, list[int]] = defaultdict(list)

    async def enqueue(self, lines: Sequence[str], steps: int) -> None:
        """So many steps more of each line, in one commit."""
        jobs = [
            self._job(line, self.length[line] + number, self.dice.random() < FAILS)
            for number in range(1, steps + 1)
            for line in lines
        ]
        for job, receipt in zip(jobs, await self.scene.store.enqueue(jobs), strict=True):
            self.scene.acknowledged.append(receipt.id)
            assert job.options.ordering_key is not None
            self.line[receipt.id] = job.options.ordering_key
        for line in lines:
            self.length[line] += steps

    def _job(self, line: str, number: int, fails: bool) -> NewJob:
        payload = msgspec.json.encode(
            {"line": line, "number": number, "fails": fails, "seconds": self.seconds}
        ).decode()
        return NewJob(task="step", payload=payload, queue=QUEUE, options=Options(ordering_key=line))

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Ask for the watermarks all the while."""
        over = asyncio.Event()

        async def watch() -> None:
            while not over.is_set():
                await self._look()
                await asyncio.sleep(0.02)

        task = asyncio.create_task(watch())
        try:
            yield
        finally:
            over.set()
            await task
        await self._look()

    async def _look(self) -> None:
        for mark in await self.scene.store.watermarks(QUEUE, limit=1000):
            self.marks[mark.key].append(mark.position)

    def check(self, figure: Figure) -> None:
        """One at a time, in order, and the watermarks rose to the end of each line."""
        runs = spans(self.scene.entries(), self.scene.killed)
        for line, of_line in grouped(runs, self.line.__getitem__).items():
            assert most_at_once(of_line) == 1, f"two jobs of line {line} ran at the same time: {of_line}"
        assert self._effects() == {line: list(range(1, n + 1)) for line, n in self.length.items()}
        for line, marks in self.marks.items():
            assert marks == sorted(marks), f"the watermark of line {line} fell: {marks}"
        assert {line: marks[-1] for line, marks in self.marks.items()} == dict(self.length)
        figure("jobs", len(self.line))
        figure("runs", len(runs))
        figure("processes killed", len(self.scene.killed))
        figure("looks at a watermark", max(len(marks) for marks in self.marks.values()))

    def _effects(self) -> dict[str, list[int]]:
        """The steps of each line, by their first effects."""
        found: dict[str, list[int]] = defaultdict(list)
        for entry in sorted(self.scene.entries(what="effect"), key=lambda entry: entry.at):
            line, number = entry.note.rsplit(" ", 1)
            if int(number) not in found[line]:
                found[line].append(int(number))
        return found


@pytest.mark.slow
async def test_f6_each_line_runs_in_order_whoever_dies(scene: Scene, figure: Figure) -> None:
    dice = random.Random(6)
    lines = Lines(scene, dice)
    hosts = await crew(scene, 2, 2)
    async with lines.watched():
        await lines.enqueue("abcdefgh", 12)
        await harass(scene, 2, 20)
        await recovered(scene)
        scene.kill_host(hosts.pop())
        await lines.enqueue("abcdefgh", 8)  # behind those that are there
        await harass(scene, 2, 20)
        await scene.all_ended(30.0)
    lines.check(figure)


async def test_f6_short_steps_come_in_runs_and_in_order_whoever_dies(scene: Scene, figure: Figure) -> None:
    """A worker is handed several steps of a line at once; those that it does not come to wait again."""
    lines = Lines(scene, random.Random(61), seconds=0.001)
    await crew(scene, 2, 1)
    async with lines.watched():
        for _ in range(5):
            await lines.enqueue("abcd", 30)
            await harass(scene, 1, 25)
        await scene.all_ended(60.0)
    lines.check(figure)
    figure("steps of a line in one claim, at the most", _longest(scene))
    assert _longest(scene) > 3 or not scene.url.startswith("sqlite")  # others may find the lane busy


def _longest(scene: Scene) -> int:
    """How many jobs of one line began under one claim."""
    begun = {(entry.fence, entry.job) for entry in scene.entries(what="start")}
    lines = {entry.job: entry.note.rsplit(" ", 1)[0] for entry in scene.entries(what="effect")}
    return max(Counter((fence, lines.get(job)) for fence, job in begun).values())


@pytest.mark.soak
async def test_f6_for_long(scene: Scene, figure: Figure) -> None:
    """A new host takes the place of each that was killed."""
    dice = random.Random(66)
    lines = Lines(scene, dice)
    hosts = await crew(scene, 2, 2)
    deadline = time.monotonic() + SOAK_SECONDS
    async with lines.watched():
        while time.monotonic() < deadline:
            await lines.enqueue("abcdefgh", 25)
            await harass(scene, 3, 40)
            if dice.random() < 0.2:
                await recovered(scene)
                scene.kill_host(hosts.pop(0))
                hosts += await crew(scene, 2)
            await scene.all_ended(120.0)
    lines.check(figure)


# -- limits -----------------------------------------------------------------------------------------------


async def limited(scene: Scene, n: int, kills: int, dice: random.Random, figure: Figure) -> None:
    """n jobs of a key of which two may run at a time, over three processes of two hosts."""
    await crew(scene, 2, 1)
    options = Options(concurrency_key=DOOR, key_limit=2)
    for _ in range(n // 10):
        seconds = dice.uniform(0.0, 0.04)  # so that they do not keep step
        await scene.enqueue("narrow", 10, options=options, door=DOOR, seconds=seconds)
    await harass(scene, kills, n // (kills + 2))
    await scene.all_ended(30.0 + n / 10)
    runs = spans(scene.entries(), scene.killed)
    figure("at a time, at the most", most_at_once(runs))
    figure("runs", len(runs))
    figure("processes killed", len(scene.killed))
    assert most_at_once(runs) == 2  # no more, and no less: the limit is there to be used
    assert len({entry.pid for entry in scene.entries()}) >= 3
    await scene.check()
    Books(read(scene.ledger), scene.killed).check(scene.acknowledged)


async def test_f3_runs_of_a_key_count_as_one_whoever_dies(scene: Scene, figure: Figure) -> None:
    """No more than two at once, though each worker is handed many."""
    await crew(scene, 2, 1)
    options = Options(concurrency_key=DOOR, key_limit=2)
    for _ in range(5):
        await scene.enqueue("narrow", 80, options=options, door=DOOR, seconds=0.003)
        await harass(scene, 1, 25)
    await scene.all_ended(60.0)
    runs = spans(scene.entries(), scene.killed)
    claims = Counter(entry.fence for entry in scene.entries(what="start"))
    figure("runs", len(runs))
    figure("of them in one claim, at the most", max(claims.values()))
    assert most_at_once(runs) <= 2
    assert max(claims.values()) > 3 or not scene.url.startswith("sqlite")
    await scene.check()
    Books(read(scene.ledger), scene.killed).check(scene.acknowledged)


@sized("n, kills", (90, 4), (per_soak(1 / 40), per_soak(1.0)))
async def test_f3_no_more_than_two_of_a_key_whoever_dies(
    scene: Scene, figure: Figure, n: int, kills: int
) -> None:
    await limited(scene, n, kills, random.Random(3), figure)
