"""Jobs that are cancelled and deleted while they sleep and while they wait, by Python, SQL, HTTP [O5] [W2]:
what becomes of their steps, signals, unique keys and of those that come after them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from tests.stopwatch import within
from tests.web.kit import rigged, visiting
from windlass import Context, Job, Windlass
from windlass.core.states import State
from windlass.errors import JobNotFound, SignalRefused

pytestmark = pytest.mark.usefixtures("often")
WAYS = ("python", "sql", "http", "many")


class Told:
    """An app with a job that sleeps or waits, and those that depend on it."""

    def __init__(self, app: Windlass) -> None:
        self.app = app
        self.ran: list[str] = []

        async def plan() -> str:
            return "planned"

        @app.task(name="told")
        async def told(ctx: Context, how: str) -> None:
            await ctx.step("plan", plan)
            await ctx.emit("planned")
            if how == "sleep":
                await ctx.sleep("1h")
            else:
                await ctx.wait("go", timeout="1h")
            self.ran.append("told")

        @app.task(name="after")
        async def after(name: str) -> None:
            self.ran.append(name)

        self.told, self.after = told, after

    async def suspended(self, how: str) -> Job[None]:
        """It is suspended, with a signal that it does not wait for."""
        job = await self.told.using(unique="k").aenqueue(how)
        async with within(10):
            while True:
                record = await job.arecord()
                if record.state == "scheduled":
                    break
                await asyncio.sleep(0.01)
        assert await job.asignal("other", 1) == "kept"
        return job


@asynccontextmanager
async def telling(app: Windlass) -> AsyncIterator[Told]:
    told = Told(app)
    await app.amigrate()
    async with app.worker({"default": 2}):
        yield told


async def manage(app: Windlass, verb: str, way: str, job: int) -> Any:
    """Cancel or delete it; the answer in one word."""
    if way == "python":
        return await (app.job(job).acancel() if verb == "cancel" else app.job(job).adelete())
    if way == "many":
        async with rigged(app) as rig:
            (other,) = await rig.add("other", delay=3600.0)
            answers = await (rig.store.cancel if verb == "cancel" else rig.store.delete)([job, other])
            return answers[job]
    if way == "http":
        async with visiting(app) as visitor:
            if verb == "cancel":
                answer = await visitor.post(f"/api/jobs/{job}/cancel")
            else:
                answer = await visitor.delete(f"/api/jobs/{job}")
            assert answer.status_code == 200, answer.text
            return answer.json()["answers"][str(job)]
    connection = await asyncpg.connect(str(app.settings.database_url))
    try:
        return await connection.fetchval(f"SELECT windlass.{verb}($1)", job)
    finally:
        await connection.close()


@pytest.mark.parametrize("how", ["sleep", "wait"])
@pytest.mark.parametrize("way", WAYS)
async def test_w2_o5_it_is_cancelled(any_app: Windlass, url: str, way: str, how: str) -> None:
    """It keeps its steps and stream, and never goes on."""
    if way == "sql" and not url.startswith("postgresql"):
        pytest.skip("SQLite has no functions")
    async with telling(any_app) as told:
        job = await told.suspended(how)
        loyal = await told.after.using(after=[job]).aenqueue("loyal")
        whatever = await told.after.using(after=[job], otherwise="run").aenqueue("whatever")
        assert await manage(any_app, "cancel", way, job.id) == "cancelled"
        assert await job.astatus() == "cancelled"
        await whatever.aresult("10s")
        assert await ended(loyal) == "dead"
        with pytest.raises(SignalRefused, match="cancelled"):
            await job.asignal("go", 1)
        again = await told.suspended("sleep")
        assert again.id != job.id, "its key is free"
        async with rigged(any_app) as rig:
            assert [step.name for step in await rig.store.steps(job.id)][:1] == ["plan"]
            assert await rig.store.waits() == []
        events = [event.value async for event in any_app.job(job.id).events(follow=False)]
        assert events == ["planned"]
        assert told.ran == ["whatever"]


@pytest.mark.parametrize("how", ["sleep", "wait"])
@pytest.mark.parametrize("way", WAYS)
async def test_w2_o5_it_is_deleted(any_app: Windlass, url: str, way: str, how: str) -> None:
    """Nothing of it is left, and nobody waits for it."""
    if way == "sql" and not url.startswith("postgresql"):
        pytest.skip("SQLite has no functions")
    async with telling(any_app) as told:
        job = await told.suspended(how)
        loyal = await told.after.using(after=[job]).aenqueue("loyal")
        whatever = await told.after.using(after=[job], otherwise="run").aenqueue("whatever")
        assert await manage(any_app, "delete", way, job.id) == "deleted"
        with pytest.raises(JobNotFound):
            await job.astatus()
        await whatever.aresult("10s")
        assert await ended(loyal) == "dead"
        with pytest.raises(JobNotFound):
            await job.asignal("go", 1)
        again = await told.suspended("sleep")
        assert again.id != job.id, "its key is free"
        async with rigged(any_app) as rig:
            assert await rig.store.steps(job.id) == []
            assert await rig.store.waits() == []
            await rig.store.expire()
            page = await rig.store.wait_stream(job.id, 0, 0.0)
            assert (page.batches, page.state) == ([], None)
            assert await rig.state(job.id) is None
            assert await rig.state(again.id) is State.SCHEDULED
        assert told.ran == ["whatever"]


async def ended(job: Job[None]) -> str:
    """How it has ended, once it has."""
    async with within(10):
        while (state := await job.astatus()) in ("scheduled", "ready", "running"):  # noqa: ASYNC110 - as below
            await asyncio.sleep(0.01)
    return str(state)
