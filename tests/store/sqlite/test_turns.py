"""Fair keys are admitted with the commit that makes room for them: nobody waits for a promotion [C3]."""

import random
from collections import Counter
from pathlib import Path

import pytest

from tests.model.oracle.turns import turns
from tests.store.sqlite.invariants import check
from tests.store.sqlite.kit import job, opened
from windlass.core.states import Kind
from windlass.store.records import Need, Outcome, WorkerInfo
from windlass.store.sqlite import SQLiteStore


async def claimed(store: SQLiteStore, limit: int, **needs: list[Need]) -> list[str]:
    """The tasks of the next jobs, without any promotion."""
    claims = await store.claim(1, ["default"], limit, needs)
    return [job.task for claim in claims for job in claim.jobs]


async def test_the_first_job_of_a_key_can_be_claimed_at_once(tmp_path: Path) -> None:
    """[C3] Enqueued, due, let through a gate or begun by the end of another."""
    path = tmp_path / "w.db"
    async with opened(path) as store:
        await store.register(WorkerInfo(id=1))
        await store.enqueue([job("a", fair_key="k", concurrency_key="c")])
        await store.enqueue([job("b", fair_key="k", concurrency_key="c")])
        (claim,) = await store.claim(1, ["default"], 10)
        assert [one.task for one in claim.jobs] == ["a"]
        await store.finish(1, 1, [Outcome(job=claim.jobs[0])])
        assert await claimed(store, 10) == ["b"]
        await store.enqueue([job("c", fair_key="k", unique_key="u")])
        (claim,) = await store.claim(1, ["default"], 10)
        await store.enqueue([job("rerun", fair_key="k", unique_key="u")])
        await store.finish(1, 2, [Outcome(job=claim.jobs[0])])
        assert await claimed(store, 10) == ["rerun"]
    check(path)


@pytest.mark.parametrize("window", [1, 3, 10])
async def test_a_claim_goes_on_with_those_it_has_made_room_for(tmp_path: Path, window: int) -> None:
    """[C3] One claim of twenty or twenty of one: the order is that of the ring, as the oracle walks it."""
    pick = random.Random(window)
    path = tmp_path / "w.db"
    async with opened(path) as store:
        await store.set_queue("default", {"window": window})
        await store.register(WorkerInfo(id=1))
        keys = [pick.choice("abcd") for _ in range(60)]
        await store.enqueue([job(key, fair_key=key) for key in keys])
        expected = turns(Counter(keys), None, len(keys))
        assert await claimed(store, 20) == expected[:20]
        one_by_one = [task for _ in range(20) for task in await claimed(store, 1)]
        assert one_by_one == expected[20:40]
        assert await claimed(store, 100) == expected[40:]
        assert await claimed(store, 100) == []
    check(path)


async def test_a_claim_that_sends_all_away_goes_on_too(tmp_path: Path) -> None:
    """[C3] [F1] A window of jobs without tokens does not hide those behind it."""
    path = tmp_path / "w.db"
    async with opened(path) as store:
        await store.set_queue("default", {"window": 2})
        await store.register(WorkerInfo(id=1))
        await store.enqueue([job("paid", fair_key="a") for _ in range(9)] + [job("free", fair_key="a")])
        assert await claimed(store, 5, paid=[Need("nobody knows it")]) == ["free"]
    check(path)


async def test_a_job_offered_again_does_not_wait_for_the_ring(tmp_path: Path) -> None:
    """[C3] [C2] It stands in the lane behind those who were admitted."""
    path = tmp_path / "w.db"
    async with opened(path) as store:
        await store.set_queue("default", {"window": 2})
        await store.register(WorkerInfo(id=1))
        await store.enqueue([job(name, fair_key="k") for name in ("a", "b", "c", "d", "e")])
        (claim,) = await store.claim(1, ["default"], 1)
        await store.finish(1, 1, [Outcome(job=claim.jobs[0], kind=Kind.RELEASED)])
        assert await claimed(store, 10) == ["b", "a", "c", "d", "e"]
    check(path)
