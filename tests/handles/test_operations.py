"""A verb is one function, whoever calls it: what it checks, refuses and tells this process is the same from a
handle, over HTTP and in a command [K11]."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.apps import endless
from tests.stopwatch import within
from tests.web.kit import visiting
from windlass import Group, Job, Part, Ranges, Windlass
from windlass.errors import BudgetTimeout, JobNotFound

Cancel = Callable[[Windlass, Job[Any]], Awaitable[object]]


async def by_python(_: Windlass, job: Job[Any]) -> None:
    await (job.acancel_jobs() if isinstance(job, Group) else job.acancel())


async def by_http(app: Windlass, job: Job[Any]) -> None:
    of = "groups" if isinstance(job, Group) else "jobs"
    async with visiting(app) as visitor:
        answer = await visitor.post(f"/api/{of}/{job}/cancel", json={})
    assert answer.status_code == 200


async def of_job(app: Windlass, started: asyncio.Event, stopped: asyncio.Event) -> Job[Any]:
    job: Job[Any] = await task(app, started, stopped).aenqueue()
    return job


async def of_group(app: Windlass, started: asyncio.Event, stopped: asyncio.Event) -> Job[Any]:
    group = await app.aopen_group()
    await group.aenqueue(task(app, started, stopped))
    return group


async def of_parent(app: Windlass, started: asyncio.Event, stopped: asyncio.Event) -> Job[Any]:
    @app.chunked(name="chunks", split=Ranges(1, size=1))
    async def chunks(part: Part) -> None:
        del part
        await until_stopped(started, stopped)

    return await chunks.aenqueue()


def task(app: Windlass, started: asyncio.Event, stopped: asyncio.Event) -> Any:
    @app.task(name="task")
    async def task() -> None:
        await until_stopped(started, stopped)

    return task


async def until_stopped(started: asyncio.Event, stopped: asyncio.Event) -> None:
    try:
        started.set()
        await asyncio.Event().wait()
    finally:
        stopped.set()


@pytest.mark.parametrize("cancel", [by_python, by_http])
@pytest.mark.parametrize("made", [of_job, of_group, of_parent])
async def test_o5_a_cancel_stops_what_runs_in_this_process_without_a_wake_up(
    app: Windlass, monkeypatch: pytest.MonkeyPatch, made: Any, cancel: Cancel
) -> None:
    started, stopped = asyncio.Event(), asyncio.Event()
    job = await made(app, started, stopped)
    async with app.worker(["default"]) as worker, within(20):
        await started.wait()
        monkeypatch.setattr(worker, "cancel", lambda _: None)  # what the store says is not heard
        await cancel(app, job)
        await stopped.wait()


async def test_f1_a_drain_over_http_takes_what_this_process_holds(app: Windlass) -> None:
    budget = app.budget("api", rate="1000/s", burst=1000)
    while not app._store_handle().tokens.of("api", "")._block.left:
        await budget.aacquire()
    async with visiting(app) as visitor:
        answer = await visitor.post("/api/budgets/api/drain", json={"pause": 600})
    assert answer.status_code == 200
    with pytest.raises(BudgetTimeout):
        await budget.aacquire(timeout=0)


async def test_w4_a_job_that_ends_no_group_is_not_cancelled_as_one(any_app: Windlass) -> None:
    waits, _ = endless(any_app)
    job = await waits.using(delay="1h").aenqueue()
    with pytest.raises(JobNotFound, match="there is no group"):
        await any_app.group(job.id).acancel_jobs()
    with pytest.raises(JobNotFound, match="there is no group"):
        await any_app.group(job.id).aclose()
    assert await job.astatus() == "scheduled"


async def test_p9_a_plain_job_has_no_parts_to_redrive(any_app: Windlass) -> None:
    waits, _ = endless(any_app)
    job = await waits.aenqueue()
    with pytest.raises(JobNotFound, match="is a plain job"):
        await any_app.parent(job.id).aredrive()


@pytest.mark.parametrize("seconds", [2e9, float("nan")])
def test_k11_a_time_that_is_too_long_is_refused_and_changes_nothing(app: Windlass, seconds: float) -> None:
    mail = app.queue("mail")
    mail.ensure()
    with pytest.raises(ValueError, match="cool_base"):
        mail.set(cool_base=seconds)
    assert mail.settings().cool_base == app.queue("other").ensure().cool_base


def test_k11_a_handle_adds_nothing_to_the_timeline(any_app: Windlass) -> None:
    waits, _ = endless(any_app)
    any_app.queue("mail").ensure()
    any_app.queue("mail").pause()
    waits.using(delay="1h").enqueue().cancel()
    assert any_app.jobs().delete() == {"deleted": 1}
    kinds = {each.kind for each in any_app._store_handle().call(lambda store: store.events(limit=100))}
    assert "operator" not in kinds
