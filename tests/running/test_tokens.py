"""Tokens by hand: callers who come together share a statement, and who comes often gets a block [F1]."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.stopwatch import Stopwatch, within
from windlass import Windlass
from windlass.core.flow.bucket import HELD_FOR
from windlass.errors import BudgetTimeout, StoreUnavailable
from windlass.running import tokens as tokens_module
from windlass.store.records import Lease


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Windlass]:
    app = Windlass(f"sqlite:///{tmp_path}/tokens.db")
    yield app
    app.close()


class Calls:
    """The leases that a store was asked for. `hold` keeps the answer back until it is set."""

    def __init__(self) -> None:
        self.asked: list[tuple[list[int], dict[str, Any]]] = []
        self.answers: list[Lease] = []
        self.hold: asyncio.Event | None = None
        self.came = asyncio.Event()
        self.answered = asyncio.Event()
        self.fail: Exception | None = None


@asynccontextmanager
async def watched(app: Windlass) -> AsyncIterator[Calls]:
    """The calls that go to the store while the block lasts."""
    calls = Calls()
    async with app._store_handle().here() as store:
        lease = store.lease

        async def asked(budget: str, needs: list[int], key: str = "", **more: Any) -> Lease:
            calls.asked.append((list(needs), more))
            calls.came.set()
            if calls.fail is not None:
                raise calls.fail
            answer = await lease(budget, needs, key, **more)
            calls.answers.append(answer)
            calls.answered.set()
            if calls.hold is not None:
                await calls.hold.wait()
            return answer

        monkeypatch = pytest.MonkeyPatch()
        monkeypatch.setattr(store, "lease", asked)
        try:
            yield calls
        finally:
            monkeypatch.undo()


async def leased(app: Windlass, name: str = "api", **about: Any) -> Any:
    """A budget of which this process holds a block."""
    budget = app.budget(name, **({"rate": 0, "burst": 1000} | about))
    block = app._store_handle().tokens.of(name, "")._block
    while not block.left:
        await budget.aacquire()
    return budget


async def test_f1_callers_who_come_together_share_a_statement(app: Windlass) -> None:
    """[F1] Those who come while one is under way go along with the next."""
    budget = app.budget("api", rate=0, burst=100)
    await budget.aacquire()
    async with watched(app) as calls:
        calls.hold = asyncio.Event()
        first = asyncio.create_task(budget.aacquire(timeout=0))
        await calls.came.wait()
        others = [asyncio.create_task(budget.aacquire(n, timeout=0)) for n in (1, 2, 3)]
        await asyncio.sleep(0)
        calls.hold.set()
        await asyncio.gather(first, *others)
    served = [needs for needs, _ in calls.asked]
    assert served[0] == [1]
    assert len(served) <= 2  # a block may have served some of them


async def test_f1_who_is_cancelled_takes_no_answer_from_others(app: Windlass) -> None:
    """[F1]"""
    budget = app.budget("api", rate=0, burst=100)
    await budget.aacquire()
    async with watched(app) as calls:
        calls.hold = asyncio.Event()
        first = asyncio.create_task(budget.aacquire())
        await calls.came.wait()
        second = asyncio.create_task(budget.aacquire())
        await asyncio.sleep(0)
        first.cancel()
        calls.hold.set()
        await second
    assert isinstance((await asyncio.gather(first, return_exceptions=True))[0], asyncio.CancelledError)


async def test_f1_a_store_that_fails_fails_those_who_asked(app: Windlass) -> None:
    """[F1] And the next one asks anew."""
    budget = app.budget("api", rate=0, burst=2)
    await budget.aacquire()
    async with watched(app) as calls:
        calls.fail = StoreUnavailable("away")
        found = await asyncio.gather(budget.aacquire(), budget.aacquire(), return_exceptions=True)
        assert [type(each) for each in found] == [StoreUnavailable] * 2
        calls.fail = None
        await budget.aacquire(timeout=0)


async def test_f1_who_calls_often_gets_a_block(app: Windlass) -> None:
    """[F1] Then most calls ask nobody; in the end no more was granted than there was."""
    budget = app.budget("api", rate=0, burst=2000)
    async with watched(app) as calls:
        for _ in range(1500):
            await budget.aacquire(timeout=0)
    assert len(calls.asked) < 1000
    record = await budget.arecord()
    assert record is not None
    assert record.tokens <= 500


async def test_f1_who_calls_seldom_leases_nothing(app: Windlass) -> None:
    """[F1] Nor does anybody of a budget that is nearly empty: 10/s with a burst of 10 stays for all."""
    budget = app.budget("api", rate=10, burst=10)
    async with watched(app) as calls:
        for _ in range(3):
            await budget.aacquire()
            await asyncio.sleep(HELD_FOR)  # how seldom it calls
    assert [answer.block for answer in calls.answers] == [0, 0, 0]


async def test_f1_what_is_left_of_a_block_is_given_back(app: Windlass) -> None:
    """[F1] Before it is over, by itself."""
    budget = app.budget("api", rate=0, burst=1000)
    block, count = app._store_handle().tokens.of("api", "")._block, 0
    while not block.left:
        await budget.aacquire()
        count += 1
    async with within(5):
        while (record := await budget.arecord()) is None or record.tokens < 1000 - count:
            assert record is not None
    assert record.tokens == 1000 - count


async def test_f1_one_who_needs_more_than_the_block_has_gets_it_with_what_is_left(app: Windlass) -> None:
    """[F1] The block goes back with the call that asks for more."""
    budget = app.budget("api", rate=0, burst=20)
    block, count = app._store_handle().tokens.of("api", "")._block, 0
    while not block.left:
        await budget.aacquire()
        count += 1
    await budget.aacquire(20 - count, timeout=5)
    with pytest.raises(BudgetTimeout):
        await budget.aacquire(timeout=0)


async def test_f1_after_a_drain_this_process_hands_out_nothing(app: Windlass) -> None:
    """[F1] Though it held tokens, or they were on their way."""
    budget = await leased(app)
    await budget.adrain("1h")
    with pytest.raises(BudgetTimeout):
        await budget.aacquire(timeout=0)


async def test_f1_a_block_that_comes_after_a_drain_is_void(app: Windlass) -> None:
    """[F1]"""
    budget = await leased(app, burst=10_000)
    tokens = app._store_handle().tokens.of("api", "")
    tokens.void()
    async with watched(app) as calls:
        calls.hold = asyncio.Event()
        taking = asyncio.create_task(budget.aacquire())
        await calls.came.wait()
        await calls.answered.wait()
        await budget.adrain("1h")
        calls.hold.set()
        await taking
    assert calls.answers[0].block
    assert not tokens._block.left


async def test_f7_an_open_breaker_voids_the_block(app: Windlass) -> None:
    """[F7] This process knows of it, having reported the failure."""
    budget = await leased(app, breaker=1, breaker_pause="1h")
    await budget.afailed()
    with pytest.raises(BudgetTimeout):
        await budget.aacquire(timeout=0)


async def test_f1_each_key_has_a_block_of_its_own(app: Windlass) -> None:
    """[F1] And a drain of one leaves the others."""
    budget = app.budget("api", rate=0, burst=1000)
    held = app._store_handle().tokens
    while not held.of("api", "a")._block.left or not held.of("api", "b")._block.left:
        await budget.aacquire(key="a")
        await budget.aacquire(key="b")
    await budget.adrain("1h", key="a")
    await budget.aacquire(key="b", timeout=0)
    with pytest.raises(BudgetTimeout):
        await budget.aacquire(key="a", timeout=0)


def test_f1_threads_share_a_block(app: Windlass) -> None:
    """[F1] None of its tokens is handed out twice."""
    budget = app.budget("api", rate=0, burst=3000)
    got: list[int] = []

    def take() -> None:
        count = 0
        try:
            while True:
                budget.acquire(timeout=0)
                count += 1
        except BudgetTimeout:
            got.append(count)

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 0 < sum(got) <= 3000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_f1_a_forked_child_has_no_block(app: Windlass) -> None:
    """[F1] Its parent hands those tokens out."""
    asyncio.run(leased(app))
    child = os.fork()
    if not child:
        os._exit(int(bool(app._store_handle().tokens.of("api", "")._block.left)))
    assert os.waitpid(child, 0)[1] == 0
    assert app._store_handle().tokens.of("api", "")._block.left


def test_f1_keys_that_are_not_in_use_are_forgotten(app: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
    """[F1] A process may see millions of keys."""
    monkeypatch.setattr(tokens_module, "MAX_IDLE", 10)
    held = app._store_handle().tokens
    for number in range(100):
        held.of("api", str(number))
    assert len(held._buckets) <= 10


async def test_f1_other_tasks_get_a_turn(app: Windlass) -> None:
    """[F1] Though the calls of a block wait for nothing."""
    budget = await leased(app, rate=1_000_000, burst=1_000_000)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    watch = Stopwatch()
    while turns < 20 and watch.seconds() < 5:
        await budget.aacquire()
    task.cancel()
    assert turns >= 20
