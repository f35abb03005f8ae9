"""What operators do is in the timeline, whatever else they do at the same moment [M2] [M5]."""

import asyncio
import logging
from typing import Any

import pytest

from tests.stopwatch import within
from tests.web.kit import rigged, visiting
from windlass import Windlass
from windlass.errors import StoreUnavailable
from windlass.store.records import Report
from windlass.store.sqlite import SQLiteStore


async def operators(visitor: Any) -> list[dict[str, Any]]:
    events = (await visitor.get("/api/events", params={"limit": 500})).json()["events"]
    return [event for event in events if event["kind"] == "operator"]


async def test_of_many_actions_at_once_each_is_told(any_app: Windlass) -> None:
    async with any_app, rigged(any_app) as rig, visiting(any_app, timeout=30.0) as visitor:
        ids = await rig.add(*["a"] * 30, delay=3600.0)
        answers = await asyncio.gather(*(visitor.post(f"/api/jobs/{id}/cancel") for id in ids))
        assert {answer.status_code for answer in answers} == {200}
        assert {event["job"] for event in await operators(visitor)} == {str(id) for id in ids}


class Slow(SQLiteStore):
    """A store that accepts reports one by one, when it is let."""

    def __init__(self) -> None:
        super().__init__(":memory:")
        self.calls: list[int] = []
        self.begun = asyncio.Event()
        self.go = asyncio.Event()

    async def report(self, source: int, number: int, report: Report) -> float:  # type: ignore[misc]
        self.calls.append(len(report.events))
        self.begun.set()
        await self.go.wait()
        return await super().report(source, number, report)


async def test_what_is_done_meanwhile_is_told_together_and_leaving_loses_nothing() -> None:
    store = Slow()
    with Windlass(store=store) as app:
        async with rigged(app) as rig, visiting(app, timeout=0.2) as visitor:
            first, *others = await rig.add(*["a"] * 6, delay=3600.0)
            asking = [asyncio.create_task(visitor.post(f"/api/jobs/{first}/cancel"))]
            await store.begun.wait()
            asking += [asyncio.create_task(visitor.post(f"/api/jobs/{id}/cancel")) for id in others]
            answers = await asyncio.gather(*asking)
            assert {answer.status_code for answer in answers} == {503}  # they waited for the timeline
            store.go.set()
            async with within(5):
                while len(await operators(visitor)) < 6:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
    assert store.calls == [1, 5]


class Unwritable(SQLiteStore):
    """A store that accepts no reports."""

    async def report(self, source: int, number: int, report: Report) -> float:  # type: ignore[misc]
        raise self.error

    error: Exception = StoreUnavailable("postgresql://user:hunter2@db")


@pytest.mark.parametrize("error", [StoreUnavailable("hunter2"), RuntimeError("hunter2")])
async def test_the_deed_is_done_where_it_cannot_be_told(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    store = Unwritable(":memory:")
    store.error = error
    with Windlass(store=store) as app:
        async with visiting(app) as visitor:
            with caplog.at_level(logging.WARNING):
                assert (await visitor.put("/api/queues/mail", json={"max_depth": 3})).status_code == 200
            assert "not in the timeline" in caplog.text
            assert (await visitor.get("/api/queues/mail")).json()["max_depth"] == 3
