"""A job waits for longer than anything is kept: every segment of the ring of PostgreSQL has had its turn,
more than once, and the retention of SQLite has passed several times [K6] [W1] [W2] [W3] [W4]. What it has
done, emitted and was handed is there then, with its types."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.conformance.kit import Clock, HandClock, ServerClock
from tests.stopwatch import within
from tests.web.kit import rigged
from windlass import Context, Job, Windlass, result_of, results_of
from windlass.contrib.encryption import Encrypted, new_key
from windlass.store.settings import StoreSettings
from windlass.store.sqlite import SQLiteStore

pytestmark = pytest.mark.usefixtures("often")
RETENTION = 8 * 3600.0
Age = Callable[[float], Awaitable[None]]


@dataclass
class Plan:
    """What steps, signals and other jobs give."""

    name: str
    at: datetime
    parts: dict[int, list[str]]


AT = datetime(2026, 11, 19, 1, 2, 3, tzinfo=UTC)


@pytest.fixture(params=["sqlite", "postgresql"])
async def aged(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Windlass, Age]]:
    """An app, and what lets time pass for its store with all chores that fall due meanwhile."""
    clock: Clock
    if request.param == "sqlite":
        clock = hands = HandClock()
        settings = StoreSettings(retention=RETENTION)
        app = Windlass(store=SQLiteStore(tmp_path / "jobs.db", settings=settings, clock=hands))
        await app.amigrate()
    else:
        dsn = request.getfixturevalue("pg_dsn")
        app = Windlass(dsn, retention=RETENTION)
        await app.amigrate()
        clock = server = ServerClock(dsn)
        await server.install()

    async def age(seconds: float) -> None:
        async with rigged(app) as rig:
            for _ in range(int(seconds / (RETENTION / 8))):
                await clock.advance(RETENTION / 8)
                await rig.store.promote()
                await rig.store.rotate()
                await rig.store.expire()

    with app:
        yield app, age
    if isinstance(clock, ServerClock):
        await clock.close()


@asynccontextmanager
async def working(app: Windlass) -> AsyncIterator[None]:
    async with app.worker({"default": 2}):
        yield


@pytest.mark.parametrize("how", ["wait", "sleep"])
async def test_w2_k6_a_job_goes_on_after_all_that_is_kept_has_gone(
    aged: tuple[Windlass, Age], how: str
) -> None:
    app, age = aged
    runs: list[int] = []

    @app.task
    async def first(name: str) -> Plan:
        return Plan(name, AT, {1: ["a"], 2: []})

    async def plan(of: Plan) -> Plan:
        return Plan(f"of {of.name}", of.at, {3: [*of.parts[1], "b"]})

    @app.task
    async def second(ctx: Context, handed: Plan) -> str:
        runs.append(ctx.fence)
        assert handed == Plan("one", AT, {1: ["a"], 2: []})
        mine = await ctx.step("plan", plan, handed)
        assert mine == Plan("of one", AT, {3: ["a", "b"]})
        await ctx.emit({"run": len(runs)})
        if how == "sleep":
            await ctx.sleep(5 * RETENTION)
            answer = await ctx.wait("other", type=Plan)
        else:
            answer = await ctx.wait("go", type=Plan)
        return f"{mine.name} {answer.at:%Y} {answer.parts[1]}"

    one = await first.aenqueue("one")
    job = await second.using(unique="k").aenqueue(result_of(one))
    async with working(app):
        assert (await one.aresult("10s")).name == "one"
        await suspended(app, job)
    assert await job.asignal("other", Plan("kept", AT, {1: ["kept"]})) == "kept"
    await age(5 * RETENTION + RETENTION / 4)
    async with rigged(app) as rig:
        assert await rig.state(one.id) is None, "nothing has passed"
    if how == "wait":
        assert await job.asignal("go", Plan("sent", AT, {1: ["kept"]})) == "delivered"
    async with working(app):
        assert await job.aresult("10s") == "of one 2026 ['kept']"
    assert len(runs) == 2
    events = [(event.position, event.run, event.value) async for event in job.events(follow=False)]
    assert events == [(1, 1, {"run": 1}), (2, 2, {"run": 2})]


async def suspended(app: Windlass, job: Job[str]) -> None:
    """Until it has run and waits: its stream has begun, and it is put off."""
    async with within(10):
        while True:
            begun = [event async for event in job.events(follow=False)]
            if begun and await job.astatus() == "scheduled":
                return
            await asyncio.sleep(0.01)


async def test_w4_a_plain_handler_keeps_what_it_was_handed_sealed(tmp_path: Path) -> None:
    """[W1] The jobs it came from are deleted while it sleeps; nobody can read it in the store."""
    with Windlass(f"sqlite:///{tmp_path}/jobs.db", codec=Encrypted({"2026": new_key()})) as app:

        @app.task
        def word(name: str) -> str:
            return name

        @app.task
        def joined(ctx: Context, words: list[str], last: str) -> str:
            ctx.blocking.wait("go")
            return " ".join([*words, last])

        await app.amigrate()
        jobs = [await word.aenqueue(name) for name in ("first", "second", "third")]
        job = await joined.aenqueue(results_of(jobs[:2]), last=result_of(jobs[2]))
        async with working(app):
            async with within(10), rigged(app) as rig:
                while not await rig.store.waits(job=job.id):  # noqa: ASYNC110 - the event is in the store
                    await asyncio.sleep(0.01)
                (kept,) = await rig.store.steps(job.id)
            for each in jobs:
                assert await each.adelete() == "deleted"
            assert kept.name == "#results"
            assert "second" not in kept.result
            assert await job.asignal("go") == "delivered"
            assert await job.aresult("10s") == "first second third"
