"""One host in the cluster: it sends heartbeats for its workers and tells them their slots [C4] [K1] [K2]."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.stopwatch import Stopwatch
from tests.worker.line import Line, set_quick, until, until_it_is
from windlass import State, Windlass
from windlass.cluster import member as module
from windlass.cluster.member import Member
from windlass.core.retry import Backoff
from windlass.errors import SchemaMissing, StoreUnavailable
from windlass.settings import Settings
from windlass.store.records import NewJob, WakeUp, WorkerInfo
from windlass.worker.engine.assignment import Assignment


@pytest.fixture(autouse=True)
def often(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assign ten times as often, except where it is about how often that is."""
    if "within_two_seconds" not in request.node.name:
        monkeypatch.setattr(module, "STEER_EVERY", 0.1)
        monkeypatch.setattr("windlass.cluster.coordinator.SLOTS_EVERY", 0.1)


class Local:
    """A worker that only remembers what it was told."""

    def __init__(self) -> None:
        self.assignments: list[Assignment] = []
        self.cancels: list[frozenset[int]] = []
        self.lost: list[int] = []
        self.heard: list[WakeUp] = []
        self.breathing = True

    @property
    def slots(self) -> dict[str, int]:
        return self.assignments[-1].slots if self.assignments else {}

    def assign(self, assignment: Assignment) -> None:
        self.assignments.append(assignment)

    def wake(self, wake_up: WakeUp) -> None:
        self.heard.append(wake_up)

    def cancel(self, jobs: frozenset[int]) -> None:
        self.cancels.append(jobs)

    def lose(self, worker: int) -> None:
        self.lost.append(worker)

    def can_run(self) -> bool:
        return self.breathing


@asynccontextmanager
async def membership(line: Line, queues: dict[str, int | None], lease: float = 0.6) -> AsyncIterator[Member]:
    """A member that runs while the block lasts."""
    await line.open()
    member = Member(line.as_store, Settings(lease=lease, sweep=60.0), queues)
    running = asyncio.create_task(member.run())
    try:
        yield member
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def seated(
    line: Line, member: Member, *workers: int, queues: tuple[str, ...] = ("mail",)
) -> list[Local]:
    locals = []
    for worker in workers:
        await line.register(WorkerInfo(id=worker, queues=queues, lease=60.0))
        locals.append(Local())
        member.join(worker, locals[-1])
    return locals


async def heartbeats(line: Line, worker: int) -> int:
    (record,) = [record for record in await line.real.workers() if record.id == worker]
    return int(record.heartbeat)


# -- heartbeats -------------------------------------------------------------------------------------------


async def test_c4_a_failed_heartbeat_is_logged_and_tried_again_at_once(
    line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    """[C4] Before the next one would be due."""
    async with membership(line, {"mail": 2}, lease=3.0) as member:
        line.fail("heartbeat", StoreUnavailable("just now"))
        (local,) = await seated(line, member, 7)
        await until(lambda: line.calls["heartbeat"] >= 1)
        await until_it_is(lambda: heartbeats(line, 7), 1, within=0.8)
        assert local.lost == []
    assert "a heartbeat failed: just now" in caplog.text


async def test_c5_lost_is_signalled_once_and_ends_the_heartbeats(line: Line) -> None:
    """[C5] [C7]"""
    async with membership(line, {"mail": 2}, lease=1.0) as member:
        one, other = await seated(line, member, 7, 8)
        await until_it_is(lambda: _heartbeat_past(line, 7, 1), True)
        await line.retire(7)
        await until(lambda: one.lost == [7])
        seen = await heartbeats(line, 8)
        await until_it_is(lambda: _heartbeat_past(line, 8, seen + 2), True)
        assert one.lost == [7]
        assert other.lost == []


async def _heartbeat_past(line: Line, worker: int, count: int) -> bool:
    return await heartbeats(line, worker) >= count


async def test_c9_without_a_heartbeat_for_a_lease_every_worker_is_given_up(line: Line) -> None:
    """[C9] By one's own clock, while the store is still away."""
    async with membership(line, {"mail": 2}, lease=0.3) as member:
        one, other = await seated(line, member, 7, 8)
        await until_it_is(lambda: _heartbeat_past(line, 7, 1), True)
        with line.cut():
            await until(lambda: one.lost == [7] and other.lost == [8])
            await until(lambda: not member.reachable)


async def test_c9_the_fence_comes_before_anybody_else_may_take_the_jobs(line: Line) -> None:
    """[C9] Others wait for a whole lease since the last heartbeat that they saw."""
    lease = 1.0
    async with membership(line, {"mail": 2}, lease=lease) as member:
        (local,) = await seated(line, member, 7)
        await until_it_is(lambda: _heartbeat_past(line, 7, 1), True)
        line.is_cut = True
        heartbeat_at = member._identities[7].heartbeat_at
        await until(lambda: local.lost == [7])
        assert lease * 0.9 <= asyncio.get_running_loop().time() - heartbeat_at < lease
        line.is_cut = False


@pytest.mark.parametrize("hangs", [False, True])
async def test_m6_a_store_that_is_away_is_out_of_reach_long_before_the_lease_is_over(
    line: Line, hangs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[M6] It fails twice in a row, or says nothing at all."""
    monkeypatch.setattr(module, "UNANSWERED", 0.5)

    async def away(*_: object) -> None:
        if hangs:
            await asyncio.Event().wait()
        raise StoreUnavailable("away")

    async with membership(line, {"mail": 2}, lease=60.0) as member:
        await until(lambda: member.reachable)
        line.before["cluster_view"] = away
        await until(lambda: not member.reachable, within=2.0)
        del line.before["cluster_view"]
        if not hangs:
            await until(lambda: member.reachable)


@pytest.mark.slow
async def test_an_outage_is_told_once_of_each_kind_and_so_is_its_end(
    line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    """Not once for each call that fails."""
    caplog.set_level("INFO")
    async with membership(line, {"mail": 2}, lease=6.0) as member:
        await seated(line, member, 7, 8)
        await until_it_is(lambda: _heartbeat_past(line, 8, 1), True)
        with line.cut():
            calls = dict(line.calls)
            await until(lambda: line.calls["heartbeat"] >= calls["heartbeat"] + 3)
            await until(lambda: line.calls["cluster_view"] >= calls["cluster_view"] + 3)
        for kind in ("heartbeats", "assignments"):
            await until(lambda kind=kind: f"{kind}: recovered after" in caplog.text)  # type: ignore[misc]
    assert caplog.text.count("a heartbeat failed") == 1
    assert caplog.text.count("cannot read the settings of queues") == 1


async def test_o2_the_back_off_of_a_queue_is_the_stored_one(line: Line) -> None:
    """[O2] Also for whoever hands back the jobs of a child that was killed."""
    async with membership(line, {"mail": 2}) as member:
        assert member.backoff("mail") == Backoff()
        await line.set_queue("mail", {"backoff_base": 60.0, "backoff_cap": 120.0})
        await until(lambda: member.backoff("mail") == Backoff(60.0, 120.0))


async def test_c9_a_heartbeat_that_hangs_is_as_bad_as_one_that_fails(line: Line) -> None:
    """[C9] An answer that never comes must not hold up the fence."""

    async def never(worker: int) -> None:
        await asyncio.Event().wait()

    async with membership(line, {"mail": 2}, lease=0.3) as member:
        line.before["heartbeat"] = never
        (local,) = await seated(line, member, 7)
        await until(lambda: local.lost == [7])


async def test_c4_an_error_nobody_foresaw_does_not_end_the_heartbeats(
    line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    """[C4] [C9] It is told, with its traceback, and heartbeats, fence and assignments go on."""
    async with membership(line, {"mail": 2}) as member:
        line.fail("heartbeat", RuntimeError("a bug in the driver"))
        line.fail("cluster_view", RuntimeError("another bug"))
        line.fail("lead", RuntimeError("a third one"))
        (local,) = await seated(line, member, 7)
        await until_it_is(lambda: _heartbeat_past(line, 7, 2), True)
        await until(lambda: local.slots == {"mail": 2} or local.slots == {"mail": 16})
        await until(lambda: member.coordinator.term is not None)
        assert local.lost == []
    for bug in ("a bug in the driver", "another bug", "a third one"):
        assert bug in caplog.text


async def test_c5_no_heartbeat_is_sent_for_a_process_that_was_stopped(line: Line) -> None:
    """[C5] Others may have its jobs when it wakes up."""
    async with membership(line, {"mail": 2}, lease=0.3) as member:
        (local,) = await seated(line, member, 7)
        await until_it_is(lambda: _heartbeat_past(line, 7, 1), True)
        local.breathing = False
        await until(lambda: local.lost == [7])


async def test_o5_a_heartbeat_brings_the_wish_to_cancel(line: Line) -> None:
    """[O5]"""
    async with membership(line, {"mail": 2}) as member:
        (receipt,) = await line.enqueue([NewJob(task="t", payload="[]", queue="mail")])
        (local,) = await seated(line, member, 7)
        await line.claim(7, ["mail"], 1)
        await line.cancel([receipt.id])
        await until(lambda: local.cancels)
        assert local.cancels[0] == {receipt.id}


# -- slots ------------------------------------------------------------------------------------------------


async def test_k1_slots_are_shared_out_and_conserved(line: Line) -> None:
    """[K1] 10 over 3 → 4, 3, 3; when one goes, 5 and 5."""
    async with membership(line, {"mail": None}) as member:
        await line.set_queue("mail", {"max_workers": 10})
        locals = await seated(line, member, 7, 8, 9)
        await until(lambda: sorted(local.slots.get("mail", 0) for local in locals) == [3, 3, 4])
        member.leave(8)
        await line.retire(8)
        await until(lambda: [locals[0].slots.get("mail"), locals[2].slots.get("mail")] == [5, 5])


async def test_k1_before_an_assignment_a_worker_takes_its_share(line: Line) -> None:
    """[K1] Never the full total."""
    await line.open()
    await line.lead(99, 60)  # somebody coordinates, and is slow about it
    async with membership(line, {"mail": None}) as member:
        await line.set_queue("mail", {"max_workers": 10})
        locals = await seated(line, member, 7, 8, 9)
        await until(lambda: [local.slots.get("mail") for local in locals] == [4, 4, 4])


async def test_k1_a_read_error_makes_it_the_share_too(line: Line, caplog: pytest.LogCaptureFixture) -> None:
    """[K1] An old assignment no longer counts: others may have got its slots."""
    await line.open()
    term = await line.lead(99, 60)
    async with membership(line, {"mail": None}) as member:
        await line.set_queue("mail", {"max_workers": 10})
        locals = await seated(line, member, 7, 8, 9)
        await line.assign(term, {7: {"mail": 3}, 8: {"mail": 1}, 9: {"mail": 1}})
        await until(lambda: [local.slots.get("mail") for local in locals] == [3, 1, 1])

        async def broken(*_: object) -> None:
            raise StoreUnavailable("cannot be read")

        line.before["cluster_view"] = broken
        await until(lambda: [local.slots.get("mail") for local in locals] == [4, 4, 4])
    assert "cannot read the settings of queues: cannot be read" in caplog.text


@pytest.mark.parametrize("line", ["memory"], indirect=True)
async def test_k2_pause_resume_and_resize_take_effect_within_two_seconds(wired: Windlass, line: Line) -> None:
    """[K2] What runs goes on, nothing new starts; then it does."""
    set_quick(wired, lease=3.0)
    started, proceed = asyncio.Event(), asyncio.Event()
    running = most = 0

    @wired.task(queue="mail")
    async def waits() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        started.set()
        try:
            await proceed.wait()
        finally:
            running -= 1

    first = await waits.aenqueue()
    async with wired.worker({"mail": 2}) as worker:
        await started.wait()
        await line.set_queue("mail", {"paused": True})
        engine = worker._engine
        assert engine is not None
        await until(lambda: engine._assignment.slots == {"mail": 0}, within=2.2)
        others = [await waits.aenqueue() for _ in range(4)]
        assert (await first.astatus(), running) == (State.RUNNING, 1)
        await line.set_queue("mail", {"paused": False, "max_workers": 4})
        await until(lambda: running == 4, within=2.2)
        await line.set_queue("mail", {"max_workers": 1})
        await until(lambda: engine._assignment.slots == {"mail": 1}, within=2.2)
        assert running == 4  # nobody is stopped for that
        most = 0
        proceed.set()
        for job in [first, *others]:
            await until_it_is(job.astatus, State.SUCCEEDED)
    assert most <= 4


async def test_k2_a_pause_survives_a_restart(wired: Windlass, line: Line) -> None:
    """[K2]"""
    await line.open()
    await line.set_queue("mail", {"paused": True})
    job = await wired.named("windlass.echo").using(queue="mail").aenqueue(1)
    async with wired.worker({"mail": 2}) as worker:
        await until(lambda: worker._engine is not None and worker._engine._assignment.slots == {"mail": 0})
        assert await job.astatus() == State.READY
        await line.set_queue("mail", {"paused": False})
        assert await job.aresult("10s") == 1


async def test_a_worker_that_joins_is_managed_at_once(line: Line) -> None:
    """[K1] It does not wait for the next second."""
    async with membership(line, {"mail": 2}, lease=60.0) as member:
        await until(lambda: line.calls["cluster_view"] >= 1)
        watch = Stopwatch()
        (local,) = await seated(line, member, 7)
        await until(lambda: local.assignments)
        assert watch.seconds() < 0.5


@pytest.mark.parametrize(
    "error", [SchemaMissing("it is gone"), RuntimeError("nobody foresaw this")], ids=repr
)
async def test_k3_a_coordinator_that_cannot_resign_ends_all_the_same(
    line: Line, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """[fault 33] The error took the place of the cancel, and the member began again: it led for ever."""
    async with membership(line, {"mail": 1}) as member:
        await until(lambda: member.coordinator.term is not None)
        line.fail("resign", error)
    assert member.coordinator.term is None
    assert "could not resign from term" in caplog.text
    leads = line.calls["lead"]
    await asyncio.sleep(0.2)
    assert line.calls["lead"] == leads


async def test_k3_a_chore_that_fails_while_it_ends_does_not_begin_again(
    line: Line, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """[fault 33] Whatever it is."""
    began: list[int] = []

    async def fails_at_its_end(self: Member) -> None:
        began.append(1)
        try:
            await asyncio.Event().wait()
        finally:
            raise RuntimeError("nobody foresaw this")

    monkeypatch.setattr(Member, "_send_heartbeats", fails_at_its_end)
    async with membership(line, {"mail": 1}):
        await until(lambda: began)
    assert began == [1]
    assert "failed while it stopped" in caplog.text


async def test_a_worker_that_joins_is_told_how_wake_ups_arrive(line: Line) -> None:
    """On SQLite each process hears for itself, so that it is told nothing more: a call to hosts is none."""
    async with membership(line, {"mail": 1}) as member:
        (local,) = await seated(line, member, 7)
        await until(lambda: local.slots)
        assert [(word.topics, word.missed) for word in local.heard] == [((), True)]
