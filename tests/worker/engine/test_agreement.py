"""[S4] [fault 29] What a worker runs and what its store says it holds are compared, and made one.

A server that crashes with `synchronous_commit = off` forgets what it had acknowledged. Here a call is
acknowledged and not done, or undone behind the worker's back; `tests/chaos/outages/test_amnesia.py` really
crashes a server.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tests.worker.engine.test_crashed_before import one_that_waits
from tests.worker.line import Line, until, until_it_is
from tests.worker.worker_sessions import Handlers, on_session
from windlass import Context, Retry, State, Windlass
from windlass.core.states import Kind
from windlass.store.records import ClaimedJob, Fence, Finished, Outcome, Room
from windlass.worker.engine import unanswered_claims
from windlass.worker.engine.worker_session import WorkerSession


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait long where the accounts may differ; the lease of these sessions is short already."""
    monkeypatch.setattr(unanswered_claims, "RECHECK", 0.02)


class Amnesia:
    """A store that forgets, from now on, the outcomes of these jobs: once each."""

    def __init__(self, line: Line) -> None:
        self.forgets: set[int] = set()
        self.forgot: list[Fence] = []
        self._finish = line.real.finish
        line.real.finish = self._forget  # type: ignore[method-assign]

    async def _forget(
        self, worker: int, flush: int, outcomes: Sequence[Outcome], room: Room | None = None
    ) -> Finished:
        lost = [outcome for outcome in outcomes if outcome.job.id in self.forgets]
        self.forgets -= {outcome.job.id for outcome in lost}
        self.forgot += [outcome.job.fence for outcome in lost]
        done = await self._finish(worker, flush, [each for each in outcomes if each not in lost])
        return Finished(done.applied + len(lost), done.repeated, done.refused)


async def undo_claims(line: Line, session: WorkerSession, *ids: int) -> list[ClaimedJob]:
    """Have the store forget that it gave this worker these jobs: they are ready again."""
    held = [
        job for claim in await line.real.unfinished(session.worker) for job in claim.jobs if job.id in ids
    ]
    assert len(held) == len(ids)
    await line.real.finish(session.worker, 1 << 50, [Outcome(job=job, kind=Kind.RELEASED) for job in held])
    return held


def idle(session: WorkerSession) -> bool:
    return not any(session.capacity.busy.values()) and session.holdings.none


async def test_s4_an_outcome_that_was_lost_while_the_worker_is_full(
    wired: Windlass, line: Line, handlers: Handlers
) -> None:
    """Nothing was claimed, so nobody asked: the job stayed `running` for as long as its worker lived."""
    amnesia = Amnesia(line)
    quick = await handlers.quick.aenqueue()
    amnesia.forgets.add(quick.id)
    others = [await handlers.waits.aenqueue() for _ in range(2)]
    async with on_session(wired, line, slots=2) as session:
        await until(lambda: amnesia.forgot and len(handlers.running) == 2)

        async def holds_it() -> bool:
            return amnesia.forgot[0] in await line.real.fences(session.worker)

        await until_it_is(holds_it, False)
        handlers.proceed.set()
        for job in (quick, *others):
            await until_it_is(job.astatus, State.SUCCEEDED)
        assert handlers.runs == {quick.id: 2, others[0].id: 1, others[1].id: 1}
        assert (await quick.arecord()).attempt == 1
        await until(lambda: idle(session))


async def test_s4_a_claim_that_was_lost_ends_its_run_and_no_slot_leaks(wired: Windlass, line: Line) -> None:
    """The job came again while its old run unwound: runs were kept by the job's id, so that the end of the
    first threw the second one out, the end of the second was a KeyError, and its slot never came free."""
    starts: list[tuple[int, bool]] = []
    unwind, proceed = asyncio.Event(), asyncio.Event()

    @wired.task(name="slow", retry=Retry(1))
    async def slow(ctx: Context) -> str:
        first = not starts
        starts.append((ctx.fence, first))
        try:
            await proceed.wait()
        except asyncio.CancelledError:
            await unwind.wait()
            raise
        return "second" if not first else "first"

    job = await slow.aenqueue()
    async with on_session(wired, line, slots=2) as session:
        await until(lambda: len(starts) == 1)
        await undo_claims(line, session, job.id)
        await until(lambda: len(starts) == 2)
        assert starts[0][0] != starts[1][0]
        assert [run.job.id for run in session.running] == [job.id, job.id]
        unwind.set()
        await until(lambda: len(session.running) == 1)
        proceed.set()
        await until_it_is(job.astatus, State.SUCCEEDED)
        assert await job.aresult() == "second"
        await until(lambda: idle(session))
        assert session.log.refused == 0  # nothing was written for the first
        more = [await slow.aenqueue() for _ in range(4)]
        for each in more:
            await until_it_is(each.astatus, State.SUCCEEDED)


async def test_s4_what_a_lost_run_returns_is_not_written(wired: Windlass, line: Line) -> None:
    """A handler that swallows its cancel ends well; but the job is another's."""
    fences: list[int] = []
    sent: list[Outcome] = []
    proceed = asyncio.Event()

    async def see(worker: int, flush: int, outcomes: list[Outcome]) -> None:
        sent.extend(outcomes)

    line.before["finish"] = see

    @wired.task(name="stubborn", retry=Retry(1))
    async def stubborn(ctx: Context) -> str:
        fences.append(ctx.fence)
        if len(fences) == 1:
            try:
                await proceed.wait()
            except asyncio.CancelledError:
                asyncio.current_task().uncancel()  # type: ignore[union-attr]
                return "the first"
        return "the second"

    job = await stubborn.aenqueue()
    async with on_session(wired, line, slots=1) as session:
        await until(lambda: len(fences) == 1)
        await undo_claims(line, session, job.id)
        await until_it_is(job.astatus, State.SUCCEEDED)
        await until(lambda: idle(session))
        assert await job.aresult() == "the second"
        assert session.log.refused == 1  # counted, and never sent
        assert all(each.job.claim != fences[0] for each in sent)


async def test_s4_what_waits_for_a_slot_is_dropped_where_its_claim_was_lost(
    wired: Windlass, line: Line, handlers: Handlers
) -> None:
    """It would have been started here and elsewhere."""
    async with on_session(wired, line, slots=1) as session:
        warm = [await handlers.quick.aenqueue() for _ in range(30)]  # short ones: some are claimed ahead
        for job in warm:
            await until_it_is(job.astatus, State.SUCCEEDED)
        waits = await handlers.waits.aenqueue()
        ahead = [await handlers.quick.aenqueue() for _ in range(3)]
        await until(lambda: any(session.capacity.buffers.values()))
        (first, *_) = [job.id for buffer in session.capacity.buffers.values() for job in buffer]
        (old,) = await undo_claims(line, session, first)
        await until(lambda: all(job.fence != old.fence for job in session.capacity.buffers["default"]))
        handlers.proceed.set()
        for job in (waits, *ahead):
            await until_it_is(job.astatus, State.SUCCEEDED)
        assert all(n == 1 for n in handlers.runs.values())


async def test_s4_a_crashed_job_that_waits_is_dropped_where_its_claim_was_lost(
    wired: Windlass, line: Line, handlers: Handlers
) -> None:
    """[C8] The quarantine opens again, or nothing would be claimed any more."""
    async with one_that_waits(wired, line, handlers) as (session, alone, _beside):
        waiting = session.slots.quarantine.waiting
        assert waiting is not None
        line.before["claim"] = asyncio.Event().wait  # or it would come again at once
        await undo_claims(line, session, alone)
        await until(lambda: session.slots.quarantine.waiting is not waiting)
        assert not session.slots.quarantine.closed
    assert handlers.runs[alone] == 0


async def test_s4_the_others_of_a_batch_go_on(wired: Windlass, line: Line) -> None:
    """Only the one whose claim was lost is not written."""
    calls: list[list[int]] = []
    proceed = asyncio.Event()

    @wired.task(name="many", batch=3)
    async def many(numbers: list[int]) -> None:
        calls.append(numbers)
        if len(calls) == 1:
            await proceed.wait()

    jobs = [await many.aenqueue(n) for n in range(3)]
    async with on_session(wired, line, slots=1) as session:
        await until(lambda: calls == [[0, 1, 2]])
        await undo_claims(line, session, jobs[1].id)
        await until(lambda: any(run.why is not None for run in session.running))
        assert len(session.running) == 3
        proceed.set()
        for job in jobs:
            await until_it_is(job.astatus, State.SUCCEEDED)
        await until(lambda: idle(session))
        assert calls == [[0, 1, 2], [1]]
        assert session.log.refused == 1


@pytest.mark.parametrize("line", ["sqlite"], indirect=True)  # the model has no transactions of handlers
async def test_s4_one_that_ends_with_its_own_transaction_is_not_stopped(wired: Windlass, line: Line) -> None:
    """The store does not hold it any more while its handler goes on: that is no loss."""
    after = asyncio.Event()

    @wired.task(name="own")
    async def own(ctx: Context) -> str:
        async with ctx.transaction():
            ctx.result = "mine"
        compared = line.calls["fences"]
        await until(lambda: line.calls["fences"] >= compared + 4)
        after.set()
        return "too late"

    job = await own.aenqueue()
    async with on_session(wired, line, slots=1) as session:
        await until(after.is_set)
        await until(lambda: idle(session))
    assert await job.aresult() == "mine"


async def test_s4_nothing_is_taken_for_lost_in_the_thick_of_it(
    wired: Windlass,
    line: Line,
    handlers: Handlers,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Outcomes in flight, jobs ahead of their slots, answers that come late: each job runs once."""
    monkeypatch.setattr(unanswered_claims, "EVERY", 0.0)

    async def late(*_: Any) -> None:
        await asyncio.sleep(0.004)

    for name in ("finish", "fences", "claim"):
        line.after[name] = line.before[name] = late
    jobs = [await handlers.quick.aenqueue() for _ in range(300)]
    async with on_session(wired, line, slots=8) as session:
        for job in jobs:
            await until_it_is(job.astatus, State.SUCCEEDED)
        await until(lambda: idle(session))
        await until(lambda: line.arguments["fences"][1] > 1)  # what had ended is not looked at again
    assert line.calls["fences"] > 3
    assert set(handlers.runs.values()) == {1}
    assert "handed back" not in caplog.text
    assert "not this worker's" not in caplog.text
