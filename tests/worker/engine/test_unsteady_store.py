"""Outcomes and heartbeats against a store that fails at the wrong moment: each outcome counts once [C5]."""

import asyncio
from collections.abc import Sequence

import pytest

from windlass import Windlass
from windlass.errors import StoreUnavailable
from windlass.store.records import Finished, Heartbeat, Outcome, Room, WorkerInfo
from windlass.store.sqlite import SQLiteStore
from windlass.worker.engine import run_until_idle as module
from windlass.worker.engine.outcomes import OutcomeLog
from windlass.worker.engine.run_until_idle import RunCounts, run_until_idle


class Unsteady(SQLiteStore):
    """A store whose answer to a flush, or whose heartbeat, is lost as often as it is told."""

    def __init__(self, *, lost_answers: int = 0, lost_heartbeats: int = 0) -> None:
        super().__init__(":memory:")
        self.lost_answers = lost_answers
        self.lost_heartbeats = lost_heartbeats
        self.flushes: list[int] = []
        self.heartbeat_came_through = asyncio.Event()

    async def finish(  # type: ignore[misc]
        self, worker: int, flush: int, outcomes: Sequence[Outcome], room: Room | None = None
    ) -> Finished:
        answer = await super().finish(worker, flush, outcomes, room)
        self.flushes.append(flush)
        if self.lost_answers:
            self.lost_answers -= 1
            raise StoreUnavailable("the connection broke after the commit")
        return answer

    async def heartbeat(self, worker: int) -> Heartbeat:  # type: ignore[misc]
        if self.lost_heartbeats:
            self.lost_heartbeats -= 1
            raise StoreUnavailable("no route to host")
        answer = await super().heartbeat(worker)
        self.heartbeat_came_through.set()
        return answer


async def test_c5_a_flush_without_an_answer_is_sent_again_under_its_number(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = Unsteady(lost_answers=2)
    app = Windlass(store=store)
    job = await app.aenqueue("windlass.echo", 1)
    assert await app.arun_until_idle() == RunCounts(succeeded=1)
    assert store.flushes == [1, 1, 1]
    assert await job.aresult() == 1
    assert caplog.text.count("cannot write 1 outcome,") == 1


async def test_c4_a_failed_heartbeat_is_logged_and_tried_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HEARTBEATS", 6000)  # of a lease of 30 s
    store = Unsteady(lost_heartbeats=2)
    app = Windlass(store=store)
    proceed = asyncio.Event()

    @app.task
    async def waits() -> None:
        await proceed.wait()

    await waits.aenqueue()
    async with app._store_handle().here() as opened:
        running = asyncio.create_task(run_until_idle(opened, app.tasks))
        await store.heartbeat_came_through.wait()
        proceed.set()
        assert await running == RunCounts(succeeded=1)
    assert caplog.text.count("a heartbeat failed") == 2


async def test_c5_an_outcome_of_a_job_that_was_taken_away_is_refused_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = SQLiteStore(":memory:")
    await store.open()
    app = Windlass(store=store)
    await app.aenqueue("windlass.echo", 1)
    await store.register(WorkerInfo(id=7))
    (claim,) = await store.claim(7, ["default"], 1)
    log = OutcomeLog(store, 7)
    log.add(Outcome(job=claim.jobs[0]))
    await log.flush()
    log.add(Outcome(job=claim.jobs[0]))  # the same attempt, ended a second time
    await log.flush()
    assert log.refused == 1
    assert str(claim.jobs[0].id) in caplog.text
