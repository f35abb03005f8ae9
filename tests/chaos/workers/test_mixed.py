"""Everything at once: jobs of every kind, kills, rotations, other people's open transactions, and limits that
change, on both stores. What was acknowledged has its effect, what is over leaves no row behind, and nobody
meets a deadlock [C1] [C8] [F3] [P9] [S2] [K6]."""

import asyncio
import contextlib
import random
import re
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import msgspec
import pytest

from tests.chaos.figures import Figure
from tests.chaos.kit import SOAK_SECONDS, until
from tests.chaos.workers.jobs import QUEUE
from tests.chaos.workers.kit import Host, Scene
from tests.chaos.workers.mixed import BUDGET, OTHER, PARTS
from tests.chaos.workers.test_imports import rows
from windlass.errors import AlreadyEnqueued
from windlass.store.records import NewJob, Options

APP = "tests.chaos.workers.mixed:app"
HOST: dict[str, Any] = {"processes": 2, "queues": (f"{QUEUE}=8", f"{OTHER}=8"), "WINDLASS_POISON": "1000"}
TASKS = (("mixed.plain", QUEUE), ("mixed.flaky", OTHER), ("mixed.call", OTHER))
LEFT_BEHIND = {
    "postgresql": (
        "held",
        "deferred",
        "pass",
        "unsettled",
        "after_edge",
        "unique_key",
        "changed_gate",
        "part_event",
    ),
    "sqlite": ("windlass_unique", "windlass_pass", "windlass_after", "windlass_awaited"),
}
"""Tables that hold something only while jobs are unfinished."""
HELD = (
    "SELECT windlass.cancel({victim})",
    "SELECT windlass.retry({victim})",
    "SELECT windlass.enqueue('mixed.plain', {payload}, queue => 'work', unique_key => 'held')",
    "SELECT windlass.enqueue('mixed.plain', {payload}, queue => 'work', delay => interval '1 s')",
    "SELECT windlass.set_queue('other', '{{\"window\": 50}}'::jsonb)",
)
"""What somebody does in a transaction and then leaves open."""


class Mixed:
    """The load and the troubles of one scene."""

    def __init__(self, scene: Scene, dice: random.Random) -> None:
        self.scene = scene
        self.dice = dice
        self.due: set[int] = set()
        """Jobs that must have their effect."""
        self.loose: list[int] = []
        """Jobs that may be cancelled, replaced or deleted; they must only end."""
        self.parents: set[int] = set()
        self.hosts: list[Host] = []
        self.held = 0
        self.kills = 0
        self.numbers = iter(range(1, 1 << 60))

    # -- what comes in --------------------------------------------------------------------------------------

    def job(self, **options: Any) -> NewJob:
        task, queue = self.dice.choice(TASKS)
        fields = {
            name: options.pop(name) for name in ("delay", "idempotency_key", "on_conflict") if name in options
        }
        payload = msgspec.json.encode({"seconds": self.dice.uniform(0, 0.03)}).decode()
        return NewJob(
            task=task, queue=queue, payload=payload, options=Options(max_attempts=1000, **options), **fields
        )

    async def must(self, *jobs: NewJob) -> list[int]:
        ids = [receipt.id for receipt in await self.scene.store.enqueue(list(jobs))]
        self.due.update(ids)
        return ids

    async def produce(self) -> None:
        """One call of a producer, of whatever kind."""
        dice, key = self.dice, str(self.dice.randrange(5))
        match dice.randrange(9):
            case 0 | 1:
                await self.must(*(self.job() for _ in range(dice.randrange(1, 30))))
            case 2:
                await self.must(*(self.job(delay=dice.uniform(0, 1)) for _ in range(10)))
            case 3:
                await self.must(*(self.job(ordering_key=key) for _ in range(5)))
            case 4:
                await self.must(*(self.job(concurrency_key=key, key_limit=2) for _ in range(5)))
            case 5:
                await self.must(*(self.job(fair_key=key) for _ in range(8)))
            case 6:
                first = await self.must(self.job())
                await self.must(self.job(after=tuple(first)), self.job(after=tuple(first), fair_key=key))
            case 7:
                await self.twice(key)
            case 8:
                new = NewJob(
                    task="mixed.split",
                    payload="{}",
                    queue=QUEUE,
                    options=Options(chunked=True, max_attempts=1000),
                )
                (receipt,) = await self.scene.store.enqueue([new])
                self.parents.add(receipt.id)

    async def twice(self, key: str) -> None:
        """A job that is sent twice, and twins of a key."""
        once = self.job(idempotency_key=f"once {next(self.numbers)}")
        (first,), (second,) = await self.must(once), await self.must(once)
        assert first == second, "one idempotency key gave two jobs"
        for policy in ("skip", "replace", "reject"):
            with contextlib.suppress(AlreadyEnqueued):
                twin = self.job(
                    unique_key=f"twin {key}", on_conflict=policy, delay=self.dice.choice([None, 0.3])
                )
                self.loose += [receipt.id for receipt in await self.scene.store.enqueue([twin])]

    # -- what goes wrong ------------------------------------------------------------------------------------

    def troubles(self) -> list[Callable[[], Awaitable[object]]]:
        common = [
            self.kill_child,
            self.kill_child,
            self.rotate,
            self.limit,
            self.limit,
            self.pause,
            self.end_some,
        ]
        server = [self.hold, self.hold, self.hold] if self.scene.url.startswith("postgres") else []
        return [*common, *server]

    async def kill_child(self) -> None:
        children = [pid for host in self.hosts for pid in host.children()]
        if children:
            self.kills += 1
            self.scene.kill(self.dice.choice(children))

    async def kill_host(self) -> None:
        self.kills += 1
        self.scene.kill_host(self.hosts.pop(0))
        self.hosts.append(await self.scene.host(APP, **HOST))

    async def rotate(self) -> None:
        await self.scene.store.rotate(force=True)

    async def limit(self) -> None:
        store, dice = self.scene.store, self.dice
        match dice.randrange(4):
            case 0:
                await store.set_queue(dice.choice([QUEUE, OTHER]), {"concurrency": dice.choice([None, 1, 4])})
            case 1:
                await store.set_task("mixed.plain", {"concurrency": dice.choice([None, 1, 3])})
            case 2:
                await store.set_budget(
                    BUDGET, {"rate": dice.choice([50.0, 500.0]), "burst": dice.choice([5, 50])}
                )
            case 3:
                for parent in list(self.parents)[-3:]:
                    await store.set_parent(parent, parallel=dice.choice([1, 4]))

    async def pause(self) -> None:
        queue = self.dice.choice([QUEUE, OTHER])
        await self.scene.store.set_queue(queue, {"paused": True})
        await asyncio.sleep(self.dice.uniform(0.1, 1.0))
        await self.scene.store.set_queue(queue, {"paused": False})

    async def end_some(self) -> None:
        some = self.loose[-20:]
        verb = self.dice.choice(["cancel", "delete", "retry"])
        await getattr(self.scene.store, verb)(self.dice.sample(some, len(some) // 2))

    async def hold(self) -> None:
        """Somebody does something in a transaction, and leaves it open for a while."""
        self.held += 1
        victim = self.dice.choice(self.loose) if self.loose else 0  # an id that no job has
        statement = self.dice.choice(HELD).format(victim=victim, payload="json_build_object('seconds', 0)")
        keep = self.dice.random() < 0.5
        connection = await asyncpg.connect(self.scene.url, server_settings={"application_name": "somebody"})
        try:
            transaction = connection.transaction()
            await transaction.start()
            try:
                answer = await connection.fetchval(statement, timeout=20)
                await asyncio.sleep(self.dice.uniform(0.2, 3.0))
            except BaseException:
                await transaction.rollback()
                raise
            await (transaction.commit() if keep else transaction.rollback())
            if keep and "enqueue" in statement:
                self.loose.append(int(answer))
        finally:
            await connection.close()

    # -- the run and its end --------------------------------------------------------------------------------

    async def go(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self.hosts = [await self.scene.host(APP, **HOST) for _ in range(2)]
        over = loop.time() + seconds

        async def produce() -> None:
            while loop.time() < over:
                await self.produce()
                await asyncio.sleep(self.dice.uniform(0.01, 0.1))

        async def trouble() -> None:
            while loop.time() < over:
                await self.dice.choice(self.troubles())()
                await asyncio.sleep(self.dice.uniform(0.05, 0.4))

        async def deploys() -> None:
            while loop.time() + 8 < over:
                await asyncio.sleep(self.dice.uniform(4, 12))
                await self.kill_host()

        async with asyncio.TaskGroup() as group:
            group.create_task(produce())
            for _ in range(3):
                group.create_task(trouble())
            group.create_task(deploys())

    async def calm(self, within: float) -> None:
        """Take everything back that holds jobs up, and wait until all have ended."""
        store = self.scene.store
        for queue in (QUEUE, OTHER):
            await store.set_queue(queue, {"concurrency": None, "paused": False})
        await store.set_task("mixed.plain", {"concurrency": None})
        await store.set_budget(BUDGET, {"rate": 2000.0, "burst": 100})
        await self.scene.all_ended(within)

        async def clean() -> bool:
            return not await self.leftovers()

        try:
            await until(clean, 30.0, pause=0.2)
        except AssertionError:
            raise AssertionError(f"left behind: {await self.leftovers()}") from None

    async def leftovers(self) -> dict[str, int]:
        """How many rows stand in tables that should be empty."""
        kind = self.scene.url.partition(":")[0]
        prefix = "windlass." if kind == "postgresql" else ""
        found = {}
        for table in LEFT_BEHIND[kind]:
            ((n,),) = await rows(self.scene, f"SELECT count(*) FROM {prefix}{table}")
            if n:
                found[table] = n
        return found

    async def check(self, figure: Figure) -> None:
        entries = self.scene.entries()
        effects = {entry.job for entry in entries if entry.what == "effect"}
        missing = self.due - effects
        assert not missing, (
            f"{len(missing)} jobs had no effect, such as {[await self.tell(j) for j in list(missing)[:3]]}"
        )
        parts = {entry.note for entry in entries if entry.what == "part"}
        wanted = {f"{parent} {index}" for parent in self.parents for index in range(PARTS)}
        assert wanted <= parts, f"parts that never ran: {sorted(wanted - parts)[:5]}"
        finals = [int(entry.note) for entry in entries if entry.what == "final"]
        assert set(finals) == self.parents, f"finalizers that never ran: {self.parents - set(finals)}"
        for job in self.loose:
            record = await self.scene.store.job(job)
            assert record is None or record.state in ("succeeded", "cancelled", "dead"), f"stuck: {record}"
        logs = "\n".join(host.log for host in self.scene.hosts)
        assert not re.search("deadlock", logs, re.IGNORECASE), "a worker met a deadlock"
        tracebacks = logs.count("Traceback (most recent call last)") - logs.count("the first attempt fails")
        figure("jobs that had to run", len(self.due))
        figure("jobs that might be ended", len(self.loose))
        figure("parents", len(self.parents))
        figure("kills", self.kills)
        figure("transactions left open", self.held)
        figure("effects beyond one a job", sum(e.what == "effect" for e in entries) - len(effects))
        figure("tracebacks in logs", max(0, tracebacks))

    async def tell(self, job: int) -> str:
        record = await self.scene.store.job(job)
        return f"{job}: {record and (record.task, str(record.state), record.reason, record.options)}"


async def mixed(scene: Scene, seconds: float, seed: int, figure: Figure) -> None:
    load = Mixed(scene, random.Random(seed))
    await load.go(seconds)
    await load.calm(60.0 + seconds)
    await load.check(figure)


@pytest.mark.slow
async def test_everything_at_once(scene: Scene, figure: Figure) -> None:
    await mixed(scene, 5.0, 1, figure)


@pytest.mark.soak
@pytest.mark.parametrize(
    "scene", ["postgres", "sqlite", pytest.param("stock", marks=pytest.mark.stock)], indirect=True
)
async def test_everything_at_once_for_long(scene: Scene, figure: Figure) -> None:
    seed = random.randrange(1 << 30)
    figure("seed", seed)
    await mixed(scene, SOAK_SECONDS, seed, figure)
