"""What a flush hands over: the jobs that its ends let go come with its answer, in the same transaction, and
only where a claim could give them out and nobody is overtaken [F3] [F6] [C2]."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.store.sqlite.invariants import check
from tests.store.sqlite.kit import job, opened
from windlass.core.retry import DeathPolicy
from windlass.core.states import Kind
from windlass.store.records import (
    Claim,
    ClaimedJob,
    Finished,
    Outcome,
    PartPlan,
    Plan,
    Room,
    WorkerInfo,
)
from windlass.store.sqlite import SQLiteStore

ROOM = Room({"default": 10})


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SQLiteStore]:
    path = tmp_path / "w.db"
    async with opened(path) as store:
        await store.register(WorkerInfo(id=1))
        yield store
    check(path)


async def begin(store: SQLiteStore, limit: int = 10) -> list[ClaimedJob]:
    return _jobs(await store.claim(1, ["default"], limit))


async def end(store: SQLiteStore, jobs: list[ClaimedJob], flush: int = 1, room: Room = ROOM) -> Finished:
    return await store.finish(1, flush, [Outcome(job=job) for job in jobs], room)


def _jobs(claims: list[Claim] | tuple[Claim, ...]) -> list[ClaimedJob]:
    return [job for claim in claims for job in claim.jobs]


def tasks(finished: Finished) -> list[str]:
    return [job.task for job in _jobs(finished.claims)]


@pytest.mark.parametrize("key", ["ordering_key", "concurrency_key"])
async def test_f6_the_next_of_a_key_comes_with_the_answer(store: SQLiteStore, key: str) -> None:
    await store.enqueue([job(task, **{key: "k"}) for task in "abc"])
    running, seen = await begin(store), []
    for flush in (1, 2, 3):
        seen += [one.task for one in running]
        running = _jobs((await end(store, running, flush)).claims)
    assert seen == ["a", "b", "c"]
    assert running == []
    assert await store.unfinished(1) == []


async def test_c5_a_flush_sent_again_hands_over_nothing(store: SQLiteStore) -> None:
    """What came with a lost answer is found among what the worker has not finished."""
    await store.enqueue([job(task, ordering_key="k") for task in "abc"])
    first = await begin(store)
    handed = await end(store, first)
    again = await end(store, first)
    assert (again.applied, again.repeated, again.claims) == (0, 1, ())
    assert await store.unfinished(1) == list(handed.claims)


async def test_c2_nothing_is_handed_over_past_a_job_that_waits(store: SQLiteStore) -> None:
    await store.enqueue([job(task, ordering_key="k") for task in "ab"])
    first = await begin(store)
    await store.enqueue([job("other")])
    assert (await end(store, first)).claims == ()
    assert [one.task for one in await begin(store)] == ["other", "b"]


async def test_room_bounds_what_is_handed_over(store: SQLiteStore) -> None:
    await store.enqueue([job(key + n, ordering_key=key) for n in "12" for key in "abc"])
    first = await begin(store)
    finished = await end(store, first, room=Room({"default": 2, "elsewhere": 5}))
    assert tasks(finished) == ["a2", "b2"]
    assert [one.task for one in await begin(store)] == ["c2"]
    assert (await end(store, [])).claims == ()


async def test_without_room_nothing_is_handed_over(store: SQLiteStore) -> None:
    await store.enqueue([job(task, ordering_key="k") for task in "ab"])
    first = await begin(store)
    assert (await end(store, first, room=Room({"default": 0}))).claims == ()
    assert [one.task for one in await begin(store)] == ["b"]


@pytest.mark.parametrize("change", [{"paused": True}, {"concurrency": 1}])
async def test_f3_the_rules_of_the_queue_hold(store: SQLiteStore, change: dict[str, object]) -> None:
    await store.enqueue([job(task, concurrency_key=key) for key in "kl" for task in "ab"])
    first, still_running = await begin(store)
    await store.set_queue("default", change)
    assert (await end(store, [first])).claims == ()
    assert await begin(store) == []
    assert [claim.jobs for claim in await store.unfinished(1)] == [[still_running]]


async def test_f3_a_limit_of_the_task_is_handed_on(store: SQLiteStore) -> None:
    await store.set_task("t", {"concurrency": 2})
    await store.enqueue([job("t") for _ in range(5)])
    running, widths = await begin(store), []
    for flush in (1, 2, 3):
        widths.append(len(running))
        running = _jobs((await end(store, running, flush)).claims)
    assert widths == [2, 2, 1]


async def test_f3_who_waits_at_a_lifted_limit_keeps_its_pass_of_a_key(store: SQLiteStore) -> None:
    """It is not counted twice, nor stopped by its own pass."""
    await store.set_task("t", {"concurrency": 1})
    await store.enqueue([job("t", concurrency_key="k", key_limit=2) for _ in range(4)])
    (first,) = await begin(store)
    await store.set_task("t", {"concurrency": None})
    (second,) = await begin(store)
    handed = _jobs((await end(store, [first, second])).claims)
    assert len({first.id, second.id, *(one.id for one in handed)}) == 4
    assert (await end(store, handed, 2)).claims == ()


async def test_f1_what_needs_tokens_is_left_to_a_claim(store: SQLiteStore) -> None:
    await store.enqueue([job(task, ordering_key="k") for task in "abc"])
    first = await begin(store)
    finished = await end(store, first, room=Room({"default": 10}, frozenset({"b"})))
    assert finished.claims == ()
    assert [one.task for one in await begin(store)] == ["b"]


async def test_c8_what_has_seen_a_worker_die_is_left_to_a_claim(store: SQLiteStore) -> None:
    await store.enqueue([job(task, concurrency_key="k") for task in "ab"])
    await store.register(WorkerInfo(id=2, lease=0.0))
    await store.claim(2, ["default"], 1)
    assert await store.rescue(2, 0, DeathPolicy()) is not None
    (crashed,) = await begin(store)
    assert crashed.deaths == 1
    await store.finish(1, 1, [Outcome(job=crashed, kind=Kind.RETRY, delay=0.001)])
    (second,) = await begin(store)
    while not (await store.promote()).due:
        pass
    assert (await end(store, [second], 2)).claims == ()
    assert [one.id for one in await begin(store)] == [crashed.id]


async def test_p8_parts_take_turns_as_claims_let_them(store: SQLiteStore) -> None:
    await store.enqueue([job("parent", chunked=True)])
    (parent,) = await begin(store)
    plan = Plan(parts=[PartPlan("0", 1)] * 3, parallel=1)
    await store.split(1, 1, parent, plan)
    (part,) = await begin(store)
    assert (await end(store, [part], 2)).claims == ()
    assert len(await begin(store)) == 1
