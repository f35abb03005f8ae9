"""Jobs that come with the answer to a flush: the worker starts them like claimed ones, and neither loses nor
doubles one [F3] [F6] [S4]. What stores hand over is tested in tests/conformance."""

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

from tests.worker.line import Line, until
from tests.worker.worker_sessions import on_session
from windlass import Windlass
from windlass.errors import StoreUnavailable
from windlass.store.records import Finished, Outcome, Room
from windlass.store.sqlite import SQLiteStore
from windlass.worker.engine import unanswered_claims


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unanswered_claims, "RECHECK", 0.02)


class Generous:
    """Makes a store hand over whatever a claim would give out."""

    def __init__(self, line: Line) -> None:
        self.rooms: list[Room] = []
        self.handed = 0
        self.lost_answers = 0
        self.answer = asyncio.Event()
        self.answer.set()
        self._finish, self._claim = line.real.finish, line.real.claim
        line.real.finish = self.finish  # type: ignore[method-assign]
        self._step = asyncio.Lock()
        """A store does both in one transaction: no claim comes in between."""
        line.before["claim"] = self._wait

    async def finish(
        self, worker: int, flush: int, outcomes: Sequence[Outcome], room: Room | None = None
    ) -> Finished:
        async with self._step:
            finished = await self._finish(worker, flush, outcomes)
            if room is None:
                return finished
            self.rooms.append(room)
            claims = await self._claim(worker, dict(room.queues), sum(room.queues.values()))
            self.handed += len(claims)
        if claims and self.lost_answers:
            self.lost_answers -= 1
            raise StoreUnavailable("the connection broke after the commit")
        await self.answer.wait()
        return msgspec.structs.replace(finished, claims=tuple(claims))

    async def _wait(self, *_: object, **__: object) -> None:
        async with self._step:
            pass


class Chain:
    """A task that notes its runs."""

    def __init__(self, app: Windlass) -> None:
        self.ran: list[int] = []

        @app.task(name="link")
        async def link(n: int) -> None:
            self.ran.append(n)

        self._link = link

    async def enqueue(self, n: int, key: str = "") -> None:
        task = self._link.using(ordering_key=key) if key else self._link
        for i in range(n):
            await task.aenqueue(i)


@pytest.mark.parametrize("slots", [1, 4])
async def test_f6_the_next_of_a_key_comes_with_the_answer_to_the_flush(
    wired: Windlass, line: Line, slots: int
) -> None:
    store, chain = Generous(line), Chain(wired)
    await chain.enqueue(20, "k")
    async with on_session(wired, line, slots=slots):
        await until(lambda: len(chain.ran) == 20)
    assert chain.ran == list(range(20))
    assert store.handed  # a claim may come first, now and then
    if not isinstance(line.real, SQLiteStore):  # whose flush lets a job go, and wakes the worker
        assert line.calls["claim"] < 40 - store.handed  # not one for each that was handed over


async def test_plain_jobs_ask_for_nothing(wired: Windlass, line: Line) -> None:
    store, chain = Generous(line), Chain(wired)
    await chain.enqueue(20)
    async with on_session(wired, line):
        await until(lambda: len(chain.ran) == 20)
    assert store.rooms == []


async def test_s4_what_came_with_a_lost_answer_goes_back_and_runs_once(wired: Windlass, line: Line) -> None:
    store, chain = Generous(line), Chain(wired)
    store.lost_answers = 1
    await chain.enqueue(3, "k")
    async with on_session(wired, line):
        await until(lambda: len(chain.ran) == 3)
    assert store.lost_answers == 0
    assert chain.ran == [0, 1, 2]


async def test_s4_a_job_on_its_way_is_not_handed_back(wired: Windlass, line: Line) -> None:
    """A comparison that is due while the answer is under way waits for it."""
    store, chain = Generous(line), Chain(wired)
    store.answer.clear()
    await chain.enqueue(2, "k")
    async with on_session(wired, line) as session:
        await until(lambda: store.handed)
        comparing = asyncio.create_task(session.holdings.compare())
        await until(lambda: session.log._withheld)
        assert not comparing.done()
        store.answer.set()
        await comparing
        await until(lambda: len(chain.ran) == 2 and session.holdings.none)
        assert chain.ran == [0, 1]


async def test_what_is_not_handed_over_is_claimed(wired: Windlass, line: Line) -> None:
    """Every slot is kept for the next of its key, which does not exist; a job of another key comes."""
    chain = Chain(wired)
    await chain.enqueue(1, "a")
    async with on_session(wired, line, slots=1) as session:
        await until(lambda: chain.ran == [0])
        await until(lambda: session.holdings.none)
        await chain.enqueue(2, "b")
        await until(lambda: chain.ran == [0, 0, 1])
        await until(lambda: session.holdings.none)  # its slot is kept until its outcome is written
        assert not session.capacity.reserved
