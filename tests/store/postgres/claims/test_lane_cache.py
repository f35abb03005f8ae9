"""What a claim costs, and how soon it knows of a new lane [C2] [rule 10]."""

from collections import Counter
from typing import Any

import pytest

from tests.store.postgres.kit import Base
from windlass.core.states import Priority
from windlass.store.postgres import PostgresStore
from windlass.store.records import NewJob

LONG = 3600.0
"""A head cache that does not grow old during a test."""


def trips(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts from now on what the store's claims ask the server."""
    counts: Counter[str] = Counter()
    claimer = store._claims
    for name in ("_refresh", "_claim_lane"):
        real = getattr(claimer, name)

        async def counted(*args: Any, _name: str = name, _real: Any = real) -> Any:
            counts[_name] += 1
            return await _real(*args)

        monkeypatch.setattr(claimer, name, counted)
    return counts


def new(queue: str, priority: Priority = Priority.NORMAL) -> NewJob:
    """A job to enqueue."""
    return NewJob(task=priority.name.lower(), payload="{}", queue=queue, priority=priority)


@pytest.fixture
async def store(alone: Base) -> PostgresStore:
    """A store whose heads do not grow old, and that listens."""
    store = await alone.store(head_cache=LONG)
    await store.wait(["q"], 5)
    return store


async def test_a_claim_from_one_lane_is_one_round_trip(
    alone: Base, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[rule 10] Busy or idle."""
    worker = await alone.worker()
    await store.enqueue([new("q")] * 3)
    await store.claim(worker, ["q"], 1)
    counts = trips(store, monkeypatch)
    for left in (2, 1, 0, 0, 0):
        assert len(await store.claim(worker, {"q": 1, "other": 0}, 1)) == (left > 0)
    assert counts == {"_claim_lane": 5}


async def test_a_new_lane_is_found_by_its_wake_up(
    alone: Base, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[rule 10] Heard of, and nothing in the lanes that are known: then they are asked for anew."""
    worker = await alone.worker()
    await store.enqueue([new("q")])
    assert len(await store.claim(worker, ["q"], 1)) == 1
    assert await store.claim(worker, ["q"], 1) == []
    counts = trips(store, monkeypatch)
    await store.enqueue([new("q", Priority.URGENT)])
    assert await store.wait(["q"], 5)
    (claim,) = await store.claim(worker, ["q"], 1)
    assert claim.priority == Priority.URGENT
    assert counts["_refresh"] == 1


async def test_a_new_lane_beside_a_busy_one_is_found_within_the_head_cache(alone: Base) -> None:
    """[rule 10] The wake-up was explained by the lane that is known; so the next wait is a short one."""
    store, worker = await alone.store(head_cache=0.3), await alone.worker()
    await store.wait(["q"], 5)
    await store.enqueue([new("q")])
    assert len(await store.claim(worker, ["q"], 1)) == 1
    assert await store.claim(worker, ["q"], 1) == []
    await store.enqueue([new("q"), new("q", Priority.LOW)])
    assert await store.wait(["q"], 5)
    assert len(await store.claim(worker, ["q"], 1)) == 1
    seen = await store.claim(worker, ["q"], 1)
    if not seen:
        assert await store.wait(["q"], 60)
        seen = await store.claim(worker, ["q"], 1)
    assert [claim.priority for claim in seen] == [Priority.LOW]


async def test_who_was_outrun_does_not_look_for_new_lanes(
    alone: Base, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[rule 10] A word wakes all of a crowd: others have taken what it was for, so there is no riddle."""
    other = await alone.store()
    worker, faster = await alone.worker(), await alone.worker()
    await store.enqueue([new("q")])
    assert len(await store.claim(worker, ["q"], 1)) == 1
    assert await store.claim(worker, ["q"], 1) == []
    counts = trips(store, monkeypatch)
    await store.enqueue([new("q")])
    assert await store.wait(["q"], 5)
    assert len(await other.claim(faster, ["q"], 1)) == 1
    assert await store.claim(worker, ["q"], 1) == []
    assert counts == {"_claim_lane": 1}


async def test_queues_without_room_are_left_alone(
    alone: Base, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[K1] Each queue has its own bound, over all its lanes; the queues may change from call to call."""
    worker = await alone.worker()
    for priority in (Priority.HIGH, Priority.NORMAL):
        await store.enqueue([new("a", priority)] * 3 + [new("b", priority)] * 3)
    await store.claim(worker, ["a", "b"], 1)
    counts = trips(store, monkeypatch)
    for bounds, expected in (
        ({"a": 1}, {"a": 1}),
        ({"a": 0, "b": 4}, {"b": 4}),
        ({"a": 2, "b": 1, "unknown": 0}, {"a": 2, "b": 1}),
        ({}, {}),
    ):
        claims = await store.claim(worker, bounds, 100)
        assert Counter(claim.queue for claim in claims for _ in claim.jobs) == expected
    assert counts["_refresh"] == 0
    assert await store.claim(worker, {"a": 5}, 0) == []


async def test_a_lane_that_came_first_for_its_age_is_ranked_anew_only_where_it_has_rivals(
    alone: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[C2] A long backlog in one lane must not cost a question for each claim."""
    clock, worker = await alone.clock(), await alone.worker()
    store = await alone.store(head_cache=LONG)
    await store.wait(["q"], 5)
    await store.enqueue([new("q", Priority.LOW)] * 3)
    await clock.advance(300)
    await store.claim(worker, ["q"], 1)
    counts = trips(store, monkeypatch)
    await store.claim(worker, ["q"], 1)
    assert counts == {"_claim_lane": 1}
    fresh = await alone.store(head_cache=LONG)
    await store.enqueue([new("q", Priority.LOW), new("q", Priority.URGENT)])
    assert [claim.priority for claim in await fresh.claim(worker, ["q"], 1)] == [Priority.LOW]
    assert [claim.priority for claim in await fresh.claim(worker, ["q"], 1)] == [Priority.URGENT]


async def test_k2_a_queue_that_is_resumed_or_warmed_calls(alone: Base, store: PostgresStore) -> None:
    """[K2] [O3] Who asked meanwhile was sent away, and would ask again seconds later."""
    worker = await alone.worker()
    await store.enqueue([new("q")])
    for close, reopen in (
        (store.set_queue("q", {"paused": True}), lambda: store.set_queue("q", {"paused": False})),
        (store.throttle("q"), lambda: store.warm("q", force=True)),
    ):
        await close
        assert await store.claim(worker, ["q"], 1) == []
        before = store._listener.wakeups_of("q")
        await reopen()
        while store._listener.wakeups_of("q") == before:
            assert await store.wait(["q"], 5)
    assert len(await store.claim(worker, ["q"], 1)) == 1
