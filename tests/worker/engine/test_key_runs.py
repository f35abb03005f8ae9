"""Runs of keys: a worker runs the jobs that were handed over together one after the other in one slot, and
hands back those that it does not come to [F3] [F6]. What stores hand over is tested in tests/conformance."""

import asyncio
import threading
import time
from typing import Any

import pytest

from tests.worker.line import Line, until
from tests.worker.worker_sessions import on_session
from windlass import Context, Retry, State, Windlass
from windlass.core.states import Kind
from windlass.store.records import DEFAULT_OPTIONS, ClaimedJob, JobRecord, Outcome
from windlass.worker.engine.key_runs import KeyRuns
from windlass.worker.engine.worker_session import WorkerSession


class Links:
    """A task of one key whose runs are noted, and whose jobs may wait or fail by their number."""

    def __init__(self, app: Windlass) -> None:
        self.ran: list[int] = []
        self.at_once = self.most_at_once = 0
        self.ids: list[int] = []
        self.proceed = asyncio.Event()
        self.waits: set[int] = set()
        self.fails: set[int] = set()

        @app.task(name="link", retry=Retry(3, base=0), timeout="5s")
        async def link(ctx: Context, n: int) -> None:
            self.ran.append(n)
            self.at_once += 1
            self.most_at_once = max(self.at_once, self.most_at_once)
            try:
                if n in self.waits:
                    await self.proceed.wait()
                if n in self.fails and ctx.attempt == 1:
                    raise OSError("once")
            finally:
                self.at_once -= 1

        self._link = link

    async def enqueue(self, n: int, **key: Any) -> None:
        for i in range(n):
            self.ids.append((await self._link.using(**key).aenqueue(i)).id)


@pytest.fixture
async def links(wired: Windlass) -> Links:
    return Links(wired)


def short(session: WorkerSession) -> None:
    """As if the queue's jobs were known to be short."""
    session.capacity.prefetch["default"].seconds = 0.0005


async def record(line: Line, id: int) -> JobRecord:
    found = await line.job(id)
    assert isinstance(found, JobRecord)
    return found


async def states(line: Line, ids: list[int]) -> list[State]:
    return [(await record(line, id)).state for id in ids]


KEYS = [{"ordering_key": "k"}, {"concurrency_key": "k"}]


@pytest.mark.parametrize("key", KEYS)
async def test_f3_f6_a_chain_needs_no_flush_for_each_link(
    wired: Windlass, line: Line, links: Links, key: dict[str, str]
) -> None:
    """[F3] [F6] Each link begins when the one before it has ended."""
    await links.enqueue(200, **key)
    async with on_session(wired, line) as session:
        short(session)
        await until(lambda: len(links.ran) == 200)
        await until(lambda: session.holdings.none)
        assert not session.capacity.runs
        assert session.capacity.busy["default"] == 0
        assert not session.capacity.reserved
    assert links.ran == list(range(200))
    assert links.most_at_once == 1
    assert line.calls["finish"] < 60
    assert set(await states(line, links.ids)) == {State.SUCCEEDED}


async def test_jobs_that_take_long_come_one_by_one(wired: Windlass, line: Line, links: Links) -> None:
    """As far as is known."""
    await links.enqueue(3, ordering_key="k")
    links.waits = {1}
    async with on_session(wired, line) as session:
        session.capacity.prefetch["default"].seconds = 10.0
        await until(lambda: links.ran == [0, 1])
        assert await states(line, links.ids) == [State.SUCCEEDED, State.RUNNING, State.READY]
        links.proceed.set()
        await until(lambda: len(links.ran) == 3)


async def test_f6_nobody_starts_behind_one_that_failed(wired: Windlass, line: Line, links: Links) -> None:
    """[F6] It tries again first."""
    await links.enqueue(30, ordering_key="k")
    links.fails = {4, 9}
    async with on_session(wired, line) as session:
        short(session)
        await until(lambda: len(links.ran) == 32)
        await until(lambda: session.holdings.none)
    assert links.ran == [*range(5), *range(4, 10), *range(9, 30)]
    assert {(await record(line, id)).attempt for n, id in enumerate(links.ids) if n not in (4, 9)} == {1}


async def test_f3_others_of_a_concurrency_key_go_on(wired: Windlass, line: Line, links: Links) -> None:
    """[F3] The one that failed waits for its turn."""
    await links.enqueue(30, concurrency_key="k")
    links.fails = {4}
    async with on_session(wired, line) as session:
        short(session)
        await until(lambda: len(links.ran) == 31)
        await until(lambda: session.holdings.none)
    assert links.ran[:6] == list(range(6))
    assert sorted(links.ran) == sorted([*range(30), 4])
    assert links.most_at_once == 1


@pytest.mark.parametrize("key", KEYS)
async def test_what_waits_behind_a_long_one_goes_back(
    wired: Windlass, line: Line, links: Links, key: dict[str, str]
) -> None:
    """[F3] [F6] Another worker may have slots for it; of these keys nobody may start it meanwhile."""
    await links.enqueue(20, **key)
    links.waits = {1}
    async with on_session(wired, line) as session:
        short(session)
        await until(lambda: links.ran == [0, 1])
        assert list(session.capacity.runs)
        await until(lambda: not session.capacity.runs and session.log.settled)
        assert (await states(line, links.ids))[1:4] == [State.RUNNING, State.READY, State.READY]
        assert session.capacity.prefetch["default"].long
        links.proceed.set()
        await until(lambda: len(links.ran) == 20)
    assert links.ran == list(range(20))


async def test_o5_a_follower_is_cancelled_before_it_starts(wired: Windlass, line: Line, links: Links) -> None:
    """[O5] The others go on without it."""
    await links.enqueue(6, ordering_key="k")
    links.waits = {1}
    async with on_session(wired, line) as session:
        short(session)
        await until(lambda: links.ran == [0, 1])
        session.cancel({links.ids[3]})
        await until(lambda: session.log.settled)
        links.proceed.set()
        await until(lambda: len(links.ran) == 5)
        await until(lambda: session.holdings.none)
    assert links.ran == [0, 1, 2, 4, 5]
    assert (await states(line, links.ids))[3] is State.CANCELLED


async def test_c7_a_worker_that_closes_hands_followers_back(
    wired: Windlass, line: Line, links: Links
) -> None:
    """[C7] At once, while the first one may end; none is charged."""
    await links.enqueue(6, ordering_key="k")
    links.waits = {1}
    async with on_session(wired, line) as session:
        short(session)
        await until(lambda: links.ran == [0, 1])
        session.close()
        await until(lambda: session.log.settled)
        assert (await states(line, links.ids))[1:] == [State.RUNNING, *[State.READY] * 4]
        links.proceed.set()
        await session.finish(10)
    assert links.ran == [0, 1]
    assert {(await record(line, id)).attempt for id in links.ids} == {1}
    async with on_session(wired, line):
        await until(lambda: len(links.ran) == 6)
    assert links.ran == list(range(6))


async def test_s4_followers_are_held(wired: Windlass, line: Line, links: Links) -> None:
    """[S4] The comparison with the store knows them."""
    await links.enqueue(6, ordering_key="k")
    links.waits = {1}
    async with on_session(wired, line) as session:
        short(session)
        await until(lambda: links.ran == [0, 1])
        for _ in range(3):
            await session.holdings.compare()
        assert len(list(session.capacity.runs)) == 4
        links.proceed.set()
        await until(lambda: len(links.ran) == 6)
    assert links.ran == list(range(6))


async def test_s4_nobody_starts_behind_one_that_is_lost(wired: Windlass, line: Line, links: Links) -> None:
    """[S4] [F6] It may run elsewhere."""
    await links.enqueue(6, ordering_key="k")
    links.waits = {1}
    async with on_session(wired, line) as session:
        short(session)
        await until(lambda: links.ran == [0, 1])
        third = next(job for job in session.capacity.runs if job.id == links.ids[3])
        await line.real.finish(session.worker, 999, [Outcome(job=third, kind=Kind.RELEASED)])
        session.claimer.closed = True  # so that nothing starts again here
        for _ in range(3):
            await session.holdings.compare()
        assert not session.capacity.runs
        links.proceed.set()
        await until(lambda: session.holdings.none)
    assert links.ran == [0, 1]


async def test_time_limits_count_from_the_start_of_each(wired: Windlass, line: Line) -> None:
    """[C7] Not from that of the run."""
    ended: list[int] = []

    @wired.task(name="slow", timeout="400ms")
    async def slow(n: int) -> None:
        await asyncio.sleep(0.15)
        ended.append(n)

    for n in range(6):
        await slow.using(ordering_key="k").aenqueue(n)
    async with on_session(wired, line) as session:
        short(session)
        await until(lambda: len(ended) == 6)
    assert ended == list(range(6))


async def test_f6_plain_functions_run_one_after_the_other(wired: Windlass, line: Line) -> None:
    """[F6] In threads."""
    ran: list[int] = []
    one = threading.Lock()

    @wired.task(name="plain")
    def plain(n: int) -> None:
        assert one.acquire(blocking=False)
        time.sleep(0.001)
        ran.append(n)
        one.release()

    for n in range(60):
        await plain.using(ordering_key="k").aenqueue(n)
    async with on_session(wired, line) as session:
        short(session)
        await until(lambda: len(ran) == 60)
        await until(lambda: session.holdings.none)
    assert ran == list(range(60))
    assert line.calls["finish"] < 60  # not one for each


async def test_f6_a_queue_that_is_closed_gives_its_followers_back(
    wired: Windlass, line: Line, links: Links
) -> None:
    """[F6] Paused, or without slots here."""
    await links.enqueue(6, ordering_key="k")
    links.waits = {1}
    async with on_session(wired, line) as session:
        short(session)
        await until(lambda: links.ran == [0, 1])
        session.assign(session.assignment.without("default"))
        await until(lambda: session.log.settled)
        assert not session.capacity.runs
        links.proceed.set()
        await until(lambda: session.holdings.none)
    assert links.ran == [0, 1]


def job(id: int, claim: int, run: int) -> ClaimedJob:
    return ClaimedJob(id, 1, claim, id, "t", "{}", "q", 2, 1, 0, DEFAULT_OPTIONS, 0.0, run=run)


def test_runs_are_told_apart_by_claim_and_number() -> None:
    waiting = KeyRuns()
    firsts = waiting.put([job(1, 1, 5), job(2, 1, 6), job(3, 1, 0), job(4, 1, 5), job(5, 1, 6), job(6, 1, 5)])
    assert [one.id for one in firsts] == [1, 2, 3]
    assert [one.id for one in waiting.put([job(7, 2, 5), job(8, 2, 5)])] == [7]
    assert waiting.waiting("q") == 4
    assert waiting.next_of(job(3, 1, 0)) is None
    following = waiting.next_of(firsts[0])
    assert following is not None
    assert following.id == 4
    assert [one.id for one in waiting.rest_of(following)] == [6]
    waiting.remove(job(5, 1, 6))
    assert waiting.next_of(firsts[1]) is None
    assert [one.id for one in waiting.empty("q")] == [8]
    assert not waiting
