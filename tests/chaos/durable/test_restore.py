"""[fault 24] [fault 28] [S3] [W1] [W2] [W3] [W4] A store is dumped and restored into another cluster while
jobs sleep, wait, have signals that nobody has looked at yet, steps, streams and an open group; and a server
loses what it had acknowledged while its worker goes on. Nothing is lost that the copy must have, nothing
comes twice, and no number of a signal, a step or an event means two things."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.kit import connected, opened, until
from tests.chaos.test_lost_history import forgetful, patiently, written
from tests.chaos.test_restore import dump, restore
from tests.conformance.kit import Rig
from tests.conformance.test_groups import add
from tests.conformance.test_groups import opened as open_group
from tests.conformance.test_streams import emit, read, values
from tests.postgres import Server
from tests.stopwatch import Stopwatch
from windlass.core.states import Kind, State
from windlass.errors import WorkerLost
from windlass.store.postgres import PostgresStore
from windlass.store.records import SIGNAL, TIMEOUT, ClaimedJob, Step, Wait

LONG = 3600.0
SOON = 1.0


class Real:
    """The server's own time."""

    async def advance(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@asynccontextmanager
async def rigged(dsn: str) -> AsyncIterator[Rig]:
    """A store with a worker's hands."""
    async with opened(dsn) as store:
        yield Rig(store, Real(), "restored")


class Scenario:
    """What stands in the store when it is dumped."""

    def __init__(self, rig: Rig, worker: int) -> None:
        self.rig = rig
        self.worker = worker

    @classmethod
    async def made(cls, rig: Rig) -> "Scenario":
        made = cls(rig, await rig.worker())
        tasks = ("asleep", "soon", "waits", "timed", "signalled", "runs")
        made.ids = dict(zip(tasks, await rig.add(*tasks), strict=True))
        made.jobs = {job.task: job for job in await rig.claim(made.worker)}
        for job in made.jobs.values():
            await rig.store.save_step(made.worker, job, Step(name="plan", result=f'"{job.task}"', code="c"))
            assert await emit(rig, made.worker, job, None, "a", "b") == 2
        await made.sleep("asleep", LONG)
        await made.sleep("soon", SOON)
        await made.wait("waits", LONG)
        await made.wait("timed", SOON)
        await made.wait("signalled", LONG)
        await rig.store.promote()  # looks at the notes of those who wait
        for value in ("1", "2"):
            await rig.store.signal(made.ids["runs"], "go", value)
        (made.follower,) = await rig.add("follower", after=(made.ids["soon"],))
        (made.keyed,) = [(await rig.one("keyed", unique_key="k", delay=LONG)).id]
        made.group = await open_group(rig)
        made.ended, made.member = await add(rig, made.group, "ended", "member")
        jobs = {job.id: job for job in await rig.claim(made.worker)}
        await rig.finish(made.worker, jobs[made.ended])
        await rig.finish(made.worker, jobs[made.member], Kind.SNOOZE, delay=SOON)
        return made

    ids: dict[str, int]
    jobs: dict[str, ClaimedJob]
    follower: int
    keyed: int
    group: int
    ended: int
    member: int

    async def sleep(self, task: str, seconds: float) -> None:
        job = self.jobs[task]
        await self.rig.store.save_step(self.worker, job, Step(name="sleep", sleep=seconds))
        await self.rig.finish(self.worker, job, Kind.SNOOZE, delay=seconds)

    async def wait(self, task: str, seconds: float) -> None:
        job = self.jobs[task]
        assert await ask(self.rig, self.worker, job, 1, seconds) == "waits"
        await self.rig.finish(self.worker, job, Kind.SNOOZE, delay=seconds)


async def ask(rig: Rig, worker: int, job: ClaimedJob, no: int, timeout: float | None = LONG) -> Any:
    """How a wait stands."""
    answer = await rig.store.wait_for_signal(
        worker, job, Wait(name=f"wait:go#{no}", signal="go", timeout=timeout)
    )
    return "waits" if answer.step is None else (answer.step.code, answer.step.result)


async def seen(rig: Rig, ids: list[int]) -> list[Any]:
    """What the store knows of these jobs, but for what adoption changes: who runs them."""
    found: list[Any] = []
    for id in ids:
        page = await read(rig, id)
        steps = [
            (step.name, step.result, step.code, step.attempt, step.at) for step in await rig.store.steps(id)
        ]
        waits = [(wait.signal, wait.since, wait.until, wait.number) for wait in await rig.store.waits(job=id)]
        found.append((id, steps, waits, [(each.position, each.run, each.events) for each in page.batches]))
    return found


async def test_a_copy_has_all_that_jobs_which_wait_have(
    pg_server: Server, pg_dsn: str, tmp_path: Path
) -> None:
    async with rigged(pg_dsn) as rig:
        made = await Scenario.made(rig)
        ids = list(made.ids.values())
        async with connected(pg_dsn) as sender, connected(pg_dsn) as late:
            send = "SELECT windlass.signal($1, 'go', $2::json)"
            undone = late.transaction()
            await undone.start()
            assert await late.fetchval(send, made.ids["waits"], '"never"') == "delivered"
            assert await sender.fetchval(send, made.ids["signalled"], '"kept"') == "delivered"
            before = await seen(rig, ids)
            watch = Stopwatch()
            await dump(pg_server, pg_dsn, tmp_path / "copy.dump")
            await undone.commit()
    with Server(18, fsync=False) as other:
        copy = await restore(other, tmp_path / "copy.dump")
        async with rigged(copy) as rig:
            assert await seen(rig, ids) == before
            await goes_on(rig, made)
        assert watch.seconds() < LONG


async def refused(rig: Rig, made: Scenario) -> None:
    """The original's worker has no say here."""
    job = made.jobs["runs"]
    with pytest.raises(WorkerLost):
        await rig.store.save_step(made.worker, job, Step(name="late"))
    with pytest.raises(WorkerLost):
        await emit(rig, made.worker, job, 2, "late")
    with pytest.raises(WorkerLost):
        await ask(rig, made.worker, job, 1)


async def goes_on(rig: Rig, made: Scenario) -> None:
    """Everybody goes on in the copy as in the original."""
    await refused(rig, made)
    worker = await rig.worker()
    twin = await rig.one("keyed", unique_key="k")
    assert (twin.id, twin.status) == (made.keyed, "skipped")
    (more,) = await add(rig, made.group, "more")
    assert await rig.store.signal(made.ids["runs"], "go", "3") == "kept"
    due = {made.ids[task] for task in ("soon", "timed", "signalled", "runs")} | {more, made.member}
    jobs: dict[int, ClaimedJob] = {}

    async def all_due() -> bool:
        await rig.store.promote()
        for job in await rig.claim(worker):
            assert job.id not in jobs, f"{job.task} was given out twice"
            jobs[job.id] = job
        return jobs.keys() >= due

    await until(all_due, 20.0)
    assert jobs.keys() == due
    for task in ("soon", "timed", "signalled", "runs"):
        job = jobs[made.ids[task]]
        fresh = (job.attempt, job.deaths, job.ready_at) == (1, 0, job.enqueued_at)
        assert not fresh, f"the run of {task} would not look for steps"
        assert await emit(rig, worker, job, None, "c") == 3
        page = await read(rig, job.id)
        assert (values(page), page.batches[-1].run) == (["a", "b", "c"], 2)
    assert await ask(rig, worker, jobs[made.ids["signalled"]], 1) == (SIGNAL, '"kept"')
    assert await ask(rig, worker, jobs[made.ids["timed"]], 1, SOON) == (TIMEOUT, "null")
    runs = jobs[made.ids["runs"]]
    found = [await ask(rig, worker, runs, no) for no in (1, 2, 3, 4)]
    assert found == [(SIGNAL, "1"), (SIGNAL, "2"), (SIGNAL, "3"), "waits"]
    await rig.store.save_step(worker, runs, Step(name="act"))
    names = [step.name for step in await rig.store.steps(runs.id)]
    assert names == ["plan", *(f"wait:go#{no}" for no in (1, 2, 3)), "act"]
    assert await rig.state(made.group) is State.SCHEDULED
    await rig.finish(worker, [*jobs.values()])
    assert await rig.store.close_group(made.group)
    await rig.store.promote()
    ends = {job.id for job in await rig.claim(worker)}
    assert ends == {made.group, made.follower}, "the group's end and who came after a sleeper, once each"
    states = {await rig.state(made.ids[task]) for task in ("asleep", "waits")}
    assert states == {State.SCHEDULED}
    assert [wait.job for wait in await rig.store.waits()] == [made.ids["waits"]]
    assert await rig.store.signal(made.ids["waits"], "go", '"now"') == "delivered"
    (woken,) = await claimed(rig, worker)
    assert (woken.id, woken.attempt) == (made.ids["waits"], 1)
    assert await ask(rig, worker, woken, 1) == (SIGNAL, '"now"'), "what was not committed never came"


async def claimed(rig: Rig, worker: int) -> list[ClaimedJob]:
    """What can be claimed now, holes included."""
    jobs: list[ClaimedJob] = []

    async def some() -> bool:
        await rig.store.promote()
        jobs.extend(await rig.claim(worker))
        return bool(jobs)

    await until(some, 10.0)
    return jobs


async def test_numbers_that_a_crash_has_undone_are_not_used_again() -> None:
    """The worker lives on, and has seen its events acknowledged. A reader that has seen those that are lost
    misses none that come after."""
    async with forgetful() as (server, dsn), opened(dsn) as store:
        rig = Rig(store, Real(), "forgetful")
        worker = await rig.worker()
        (id,) = await rig.add("t")
        job = await rig.run(worker, id)
        await store.save_step(worker, job, Step(name="kept"))
        assert await emit(rig, worker, job, None, 1, 2, 3) == 3
        assert await store.signal(id, "go", '"kept"') == "kept"
        await written(dsn)
        await store.save_step(worker, job, Step(name="lost"))
        assert await emit(rig, worker, job, 3, 4, 5) == 5
        assert await store.signal(id, "go", '"lost"') == "kept"
        server.kill9()
        server.start()
        assert await patiently(lambda: store.heartbeat(worker))
        assert [step.name for step in await store.steps(id)] == ["kept"]
        assert values(await read(rig, id)) == [1, 2, 3]
        assert await emit(rig, worker, job, 5, 6, 7) == 7
        assert values(await read(rig, id, 5)) == [6, 7]
        assert values(await read(rig, id)) == [1, 2, 3, 6, 7]
        assert await emit(rig, worker, job, 5, 6, 7) == 7, "sent again, it is known"
        assert values(await read(rig, id, 5)) == [6, 7]
        assert await store.signal(id, "go", '"again"') == "kept"
        await store.save_step(worker, job, Step(name="after"))
        found = [await ask(rig, worker, job, no) for no in (1, 2, 3)]
        assert found == [(SIGNAL, '"kept"'), (SIGNAL, '"again"'), "waits"]
        assert [step.name for step in await store.steps(id)] == ["kept", "after", "wait:go#1", "wait:go#2"]


async def test_a_worker_that_lost_its_signal_asks_again() -> None:
    """A wait was answered, and the server has forgotten it: the signal is there again, and is taken once."""
    async with forgetful() as (server, dsn), opened(dsn) as store:
        assert isinstance(store, PostgresStore)
        rig = Rig(store, Real(), "forgetful")
        worker = await rig.worker()
        (id,) = await rig.add("t")
        job = await rig.run(worker, id)
        await store.signal(id, "go", "1")
        await written(dsn)
        assert await ask(rig, worker, job, 1) == (SIGNAL, "1")
        server.kill9()
        server.start()
        assert await patiently(lambda: store.heartbeat(worker))
        assert await store.steps(id) == []
        assert await ask(rig, worker, job, 2) == (SIGNAL, "1")
        assert await ask(rig, worker, job, 1) == "waits"
