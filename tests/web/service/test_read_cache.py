"""Reads that many viewers share."""

import asyncio
import threading
from itertools import count
from typing import Self

import pytest

from windlass import Windlass
from windlass.store.protocol import Store
from windlass.web.service.read_cache import MAX_ENTRIES, ReadCache
from windlass.web.service.store_access import StoreAccess


class Source:
    """Counts how often it was read, and answers when let."""

    def __init__(self) -> None:
        self.reads = 0
        self.given_up = 0
        self.open = asyncio.Event()

    async def read(self) -> int:
        self.reads += 1
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        return self.reads


async def begun(source: Source) -> None:
    while not source.reads:  # noqa: ASYNC110
        await asyncio.sleep(0)


async def test_many_who_ask_at_once_cost_one_read() -> None:
    memo, source = ReadCache(), Source()
    asking = [asyncio.create_task(memo.get("k", 60, source.read)) for _ in range(10)]
    await begun(source)
    source.open.set()
    assert await asyncio.gather(*asking) == [1] * 10
    assert await memo.get("k", 60, source.read) == 1


async def test_an_answer_grows_old() -> None:
    now = 0.0
    memo, source = ReadCache(lambda: now), Source()
    source.open.set()
    assert await memo.get("k", 5, source.read) == 1
    now = 4.9
    assert await memo.get("k", 5, source.read) == 1
    now = 5.1
    assert await memo.get("k", 5, source.read) == 2


async def test_who_leaves_takes_nothing_from_the_others() -> None:
    memo, source = ReadCache(), Source()
    first = asyncio.create_task(memo.get("k", 60, source.read))
    second = asyncio.create_task(memo.get("k", 60, source.read))
    await begun(source)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    source.open.set()
    assert await second == 1


async def test_when_the_last_one_leaves_the_read_is_given_up() -> None:
    memo, source = ReadCache(), Source()
    only = asyncio.create_task(memo.get("k", 60, source.read))
    await begun(source)
    only.cancel()
    with pytest.raises(asyncio.CancelledError):
        await only
    await asyncio.sleep(0)
    assert source.given_up == 1
    source.open.set()
    assert await memo.get("k", 60, source.read) == 2


async def test_a_change_is_seen_by_whoever_asks_next() -> None:
    memo, source = ReadCache(), Source()
    early = asyncio.create_task(memo.get("k", 60, source.read))
    await begun(source)
    memo.clear()
    source.open.set()
    assert await memo.get("k", 60, source.read) == 2
    await early
    assert await memo.get("k", 60, source.read) == 2


async def test_errors_are_not_kept_and_answers_not_without_end() -> None:
    memo = ReadCache()

    async def fails() -> None:
        raise LookupError

    for _ in range(2):
        with pytest.raises(LookupError):
            await memo.get("k", 60, fails)
    for n in range(MAX_ENTRIES + 10):

        async def read(n: int = n) -> int:
            return n

        await memo.get(n, 60, read)
    assert len(memo._kept) <= MAX_ENTRIES


async def test_what_has_grown_old_is_dropped_when_something_is_kept() -> None:
    now = 0.0
    memo = ReadCache(lambda: now)

    async def read() -> bytes:
        return b"x"

    for minute in range(10):
        now = minute * 60.0
        await memo.get(("measured", minute), 2.0, read)
        assert len(memo._kept) == 1


async def test_of_too_many_those_go_that_would_go_first() -> None:
    memo = ReadCache()

    async def read() -> bytes:
        return b"x"

    await memo.get("lasting", 600.0, read)
    for n in range(2 * MAX_ENTRIES):
        await memo.get(n, 60.0, read)
    assert "lasting" in memo._kept
    assert len(memo._kept) == MAX_ENTRIES <= 100


async def test_what_no_action_changes_outlives_a_change(app: Windlass) -> None:
    """[M3] As what the store finds wrong with itself, which is dear to know."""
    access, reads = StoreAccess(app), count(1)

    async def read(_: Store) -> int:
        return next(reads)

    async with app:
        assert [await access.shared("k", 60, read, lasting=lasting) for lasting in (False, True)] == [1, 2]
        access.changed()
        assert [await access.shared("k", 60, read, lasting=lasting) for lasting in (False, True)] == [3, 2]


class Hour(float):
    """The seconds to keep an answer. When somebody looks whether they have passed, another thread says that
    something was changed."""

    def __new__(cls, memo: ReadCache, seconds: float = 3600.0) -> Self:
        made = super().__new__(cls, seconds)
        made.memo = memo
        return made

    memo: ReadCache

    def __radd__(self, now: float) -> "Hour":
        return Hour(self.memo, now + float(self))

    def __gt__(self, now: float) -> bool:
        change = threading.Thread(target=self.memo.clear)
        change.start()
        change.join(0.1)
        return float(self) > now


async def test_a_change_on_another_thread_waits_for_what_is_being_kept() -> None:
    """Operations read on the store's loop, and the server's says that something was changed."""
    memo, source = ReadCache(), Source()
    source.open.set()
    for key in "abc":
        assert await memo.get(key, Hour(memo), source.read) == source.reads
