"""Many jobs by filter, over HTTP: preview, progress, stop [O6]."""

import asyncio
from typing import Any

import httpx
import pytest

from tests.stopwatch import within
from tests.web.kit import rigged, visiting
from windlass import Windlass
from windlass.core.states import Kind
from windlass.operations.bulk import MAX_RUNNING
from windlass.operations.walks import Acted
from windlass.store.sqlite import SQLiteStore


async def ended(visitor: httpx.AsyncClient, id: str) -> dict[str, Any]:
    """How an operation ended."""
    async with within(5):
        while (answer := (await visitor.get(f"/api/bulk/{id}")).json())["state"] == "running":  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    return dict(answer)


async def test_dead_jobs_are_counted_then_retried(any_app: Windlass) -> None:
    async with any_app, rigged(any_app) as rig, visiting(any_app) as visitor:
        worker = await rig.worker()
        await rig.add(*["a"] * 30, *["b"] * 5)
        await rig.finish(worker, await rig.claim(worker), Kind.DEAD)
        where = {"state": "dead", "task": "a"}
        assert (await visitor.post("/api/bulk/preview", json=where)).json() == {"jobs": 30, "more": False}
        counted = await visitor.post("/api/bulk/preview", json={"state": "dead"})
        assert counted.json() == {"jobs": 35, "more": False}
        started = await visitor.post("/api/bulk", json={"verb": "retry", "where": where})
        assert started.status_code == 202
        answer = await ended(visitor, started.json()["id"])
        assert (answer["state"], answer["done"], answer["expected"], answer["answers"]) == (
            "done", 30, 30, {"retried": 30},
        )  # fmt: skip
        assert (answer["where"], answer["by"]) == (where, "local")
        assert (await visitor.post("/api/bulk/preview", json={"state": "dead"})).json()["jobs"] == 5
        listed = (await visitor.get("/api/bulk")).json()["operations"]
        assert [each["id"] for each in listed] == [answer["id"]]
        events = (await visitor.get("/api/events")).json()["events"]
        assert any(event["text"] == "bulk retry done: 30 retried" for event in events)


async def test_everything_must_be_meant(visitor: httpx.AsyncClient) -> None:
    answer = await visitor.post("/api/bulk", json={"verb": "delete", "where": {}})
    assert (answer.status_code, answer.json()["error"]["field"]) == (400, "everything")
    empty = await visitor.post("/api/bulk", json={"verb": "delete", "where": {"tag": ""}})
    assert empty.status_code == 400
    meant = await visitor.post("/api/bulk", json={"verb": "delete", "where": {}, "everything": True})
    assert meant.status_code == 202
    await ended(visitor, meant.json()["id"])


class Halting(SQLiteStore):
    """A store that lets one batch through at a time."""

    def __init__(self) -> None:
        super().__init__(":memory:")
        self.allowed = asyncio.Semaphore(0)
        self.waiting = asyncio.Event()

    async def cancel(self, jobs: Any) -> Any:  # type: ignore[misc]
        self.waiting.set()
        await self.allowed.acquire()
        return await super().cancel(jobs)


async def test_one_can_be_stopped_between_two_batches() -> None:
    store = Halting()
    with Windlass(store=store) as app:
        async with rigged(app) as rig, visiting(app) as visitor:
            await rig.add(*["a"] * 600)
            id = (await visitor.post("/api/bulk", json={"verb": "cancel", "where": {"task": "a"}})).json()[
                "id"
            ]
            await store.waiting.wait()
            stopping = (await visitor.post(f"/api/bulk/{id}/stop")).json()
            assert stopping["state"] == "running"
            store.allowed.release()
            ended_as = await ended(visitor, id)
            assert (ended_as["state"], ended_as["done"], ended_as["answers"]) == (
                "stopped",
                500,
                {"cancelled": 500},
            )
            assert (await rig.depth()).ready == 100


async def test_only_a_few_run_at_a_time() -> None:
    store = Halting()
    with Windlass(store=store) as app:
        async with rigged(app) as rig, visiting(app) as visitor:
            await rig.add("a")
            wanted = {"verb": "cancel", "where": {"task": "a"}}
            ids = [(await visitor.post("/api/bulk", json=wanted)).json()["id"] for _ in range(MAX_RUNNING)]
            one_more = await visitor.post("/api/bulk", json=wanted)
            assert (one_more.status_code, one_more.json()["error"]["code"]) == (429, "busy")
            assert int(one_more.headers["retry-after"]) >= 1
            for _ in ids:
                store.allowed.release()
            for id in ids:
                assert (await ended(visitor, id))["state"] == "done"


class Failing(SQLiteStore):
    """A store that cannot delete."""

    async def delete(self, jobs: Any) -> Any:  # type: ignore[misc]
        raise RuntimeError("postgresql://user:hunter2@db")


async def test_one_that_fails_says_so_without_the_drivers_words(caplog: pytest.LogCaptureFixture) -> None:
    with Windlass(store=Failing(":memory:")) as app:
        async with rigged(app) as rig, visiting(app) as visitor:
            await rig.add("a")
            answer = await visitor.post("/api/bulk", json={"verb": "delete", "where": {"task": "a"}})
            found = await ended(visitor, answer.json()["id"])
            assert found["state"] == "failed"
            assert "hunter2" not in str(found)
    assert (await no_such(app)) == 404


async def no_such(app: Windlass) -> int:
    async with visiting(app) as visitor:
        return (await visitor.get("/api/bulk/feedbeef0000")).status_code


def test_a_long_walk_remembers_the_last_jobs_and_not_all() -> None:
    acted = Acted(most=10)
    for job in range(1, 1001):
        acted.update([job])
        assert all(each in acted for each in range(max(job - 9, 1), job + 1))
    assert sum(each in acted for each in range(1, 1001)) <= 20


async def test_one_that_runs_is_told_of_wherever_jobs_are_looked_at() -> None:
    store = Halting()
    with Windlass(store=store) as app:
        async with rigged(app) as rig, visiting(app) as visitor:
            await rig.add("a")
            wanted = {"verb": "cancel", "where": {"task": "a"}}
            id = (await visitor.post("/api/bulk", json=wanted)).json()["id"]
            await store.waiting.wait()
            for path in ("/", "/jobs", "/dead", "/operations"):
                assert f"/bulk/{id}" in (await visitor.get(path)).text, path
            store.allowed.release()
            await ended(visitor, id)
            assert f"/bulk/{id}" not in (await visitor.get("/jobs")).text
