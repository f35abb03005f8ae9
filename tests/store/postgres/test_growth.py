"""What lies around costs nothing: depths beside jobs aside, and what a worker of many queues asks [M1]
[rule 8] [rule 10]. By rows that were read and questions that were asked, not by a clock."""

import re
from collections.abc import Collection
from typing import Any

import pytest

from tests.store.postgres.kit import Base
from tests.store.postgres.plans import explained, plans
from windlass.core.states import Kind
from windlass.store.postgres import PostgresStore
from windlass.store.postgres.claims import MANY
from windlass.store.postgres.counts import KEEP_EVERY
from windlass.store.postgres.schema import query
from windlass.store.records import NewJob, NewSchedule, Options, Outcome

ASIDE = re.compile("held|deferred|dead|schedule")
LONG = 3600.0
NAMES = [f"q{n}" for n in range(MANY + 8)]


def new(queue: str, n: int = 1, **fields: Any) -> list[NewJob]:
    """Jobs to enqueue."""
    return [NewJob(task="t", payload="{}", queue=queue, **fields)] * n


async def aside(store: PostgresStore, worker: int, n: int) -> None:
    """So many more jobs of each kind that do not wait in lanes, each in a queue of its own."""
    await store.enqueue(new("held", n, options=Options(concurrency_key="k")))
    await store.enqueue(new("fair", n, options=Options(fair_key="f")))
    await store.enqueue(new("later", n, delay=LONG))
    for queue, kind in (("retried", Kind.RETRY), ("dead", Kind.DEAD)):
        await store.enqueue(new(queue, n))
        for claim in await store.claim(worker, [queue], n):
            ends = [Outcome(job=job, kind=kind, delay=LONG) for job in claim.jobs]
            await store.finish(worker, claim.id, ends)


async def test_depths_beside_many_jobs_aside(alone: Base) -> None:
    """[M1] No more than a thousand of each kind are counted, once somebody has counted them all; the rest is
    an estimate, and says so. What is below a thousand is exact."""
    store, worker = await alone.store(head_cache=0.0), await alone.worker()
    await aside(store, worker, 1_400)
    exact = await store.depth()
    assert not any(depth.estimate for depth in exact.values())
    assert (exact["held"].ready, exact["fair"].ready, exact["later"].scheduled) == (1_400, 1_400, 1_400)
    assert (exact["retried"].retrying, exact["dead"].dead) == (1_400, 1_400)
    assert exact["held"].free == 1
    await store.count_ends()
    await aside(store, worker, 300)
    await store.enqueue(new("few", 7, delay=LONG))
    found = await store.depth()
    assert (found["later"].scheduled, found["dead"].dead) == (1_400, 1_400)
    assert {name for name, depth in found.items() if depth.estimate} == set(exact) - {"few"}
    assert (found["few"].scheduled, found["few"].estimate) == (7, False)
    session = await alone.session()
    await explained(session)
    async with plans(session) as seen:
        await session.rows("SELECT * FROM windlass.depth()")
    scans = seen.scans(ASIDE)
    assert {scan.kind for scan in scans} <= {"Index Only Scan", "Index Scan"}, scans
    assert max(scan.touched for scan in scans) <= 1_001


async def test_what_was_counted_long_ago_is_counted_anew(alone: Base) -> None:
    """[M1] Where nobody coordinates, nobody counts for the others."""
    clock, store = await alone.clock(), await alone.store()
    await store.enqueue(new("later", 1_200, delay=LONG))
    await store.count_ends()
    await store.enqueue(new("later", 5, delay=LONG))
    assert (await store.depth())["later"].estimate
    await clock.advance(601)
    depth = (await store.depth())["later"]
    assert (depth.scheduled, depth.estimate) == (1_205, False)


async def test_who_counts_for_others_does_so_now_and_then(
    alone: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[M1] Once in ten seconds at most, whoever has the duty."""
    store = await alone.store()
    asked: list[str] = []
    real = store._db.value

    async def value(name: str, *args: Any) -> Any:
        asked.append(name)
        return await real(name, *args)

    monkeypatch.setattr(store._db, "value", value)
    for _ in range(3):
        await store.count_ends()
    assert asked == ["keep_depths"]
    monkeypatch.setattr("windlass.store.postgres.counts.time.monotonic", lambda: store._counts._keep_at + 1)
    await store.count_ends()
    assert asked == ["keep_depths"] * 2
    assert KEEP_EVERY == 10


async def test_what_is_not_due_is_not_looked_at(alone: Base) -> None:
    """[K4] Of two thousand schedules one is due."""
    store = await alone.store()
    for n in range(2_000):
        await store.seed_schedule(NewSchedule(name=f"s{n:04}", cron="* * * * *", task="t"), 9e9 if n else 1.0)
    assert [schedule.name for schedule in (await store.due()).schedules] == ["s0000"]
    session = await alone.session()
    await explained(session)
    async with plans(session) as seen:
        await session.rows(query("due_schedules", "windlass"), 100)
    assert max(scan.touched for scan in seen.scans(ASIDE)) <= 1


# -- many queues ---------------------------------------------------------------------------------------------


class Asked:
    """The queues that a store's claims ask about, question by question, and the lanes that they call."""

    def __init__(self, store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.heads: list[set[str]] = []
        self.called: list[str] = []
        self.moved = 0
        rows, call = store._db.rows, store._claims._call

        async def counted_rows(name: str, *args: Any) -> Any:
            if name == "lane_heads":
                self.heads.append(set(args[0]))
            self.moved += name == "moved_lanes"
            return await rows(name, *args)

        async def counted_call(worker: int, lane: Any, limit: int) -> Any:
            self.called.append(lane.head.queue)
            return await call(worker, lane, limit)

        monkeypatch.setattr(store._db, "rows", counted_rows)
        monkeypatch.setattr(store._claims, "_call", counted_call)


async def settled(
    alone: Base, monkeypatch: pytest.MonkeyPatch, **fields: Any
) -> tuple[PostgresStore, int, Asked]:
    """A store that listens and knows that its many queues are empty."""
    store, worker = await alone.store(**{"head_cache": LONG, **fields}), await alone.worker()
    await store.wait(NAMES, 5)
    await store.enqueue([job for name in NAMES for job in new(name)])
    await drained(store, worker)
    return store, worker, Asked(store, monkeypatch)


async def drained(store: PostgresStore, worker: int, queues: Collection[str] = NAMES) -> list[str]:
    """Claim until there is nothing more: the queues of what was found."""
    found: list[str] = []
    while claims := await store.claim(worker, list(queues), 1000):
        found += [claim.queue for claim in claims]
    return found


async def test_of_many_queues_the_one_that_called_is_claimed_from(
    alone: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[rule 10] One round trip for a job, and one more question about its queue alone."""
    monkeypatch.setattr("windlass.store.postgres.claims.MOVED_EVERY", LONG)  # however long this takes
    store, worker, asked = await settled(alone, monkeypatch)
    await store.enqueue(new("q3"))
    assert await store.wait(NAMES, 5)
    assert await drained(store, worker) == ["q3"]
    assert asked.called == ["q3"]  # a lone job: see test_wakeup
    assert all(queues == {"q3"} for queues in asked.heads)
    assert asked.moved == 0


async def test_many_idle_queues_are_not_called_by_a_worker_that_is_new(
    alone: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[rule 10] Their marks say that nothing is there; one question tells of all of them."""
    await settled(alone, monkeypatch)
    store = await alone.store(head_cache=LONG)
    asked = Asked(store, monkeypatch)
    assert await drained(store, await alone.worker()) == []
    assert asked.called == []
    assert asked.heads == [set(NAMES)]


async def test_what_a_lost_wake_up_was_for_is_found_by_what_has_moved(
    alone: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[rule 10] In a lane that is known, and in one that is new; with one question about all others."""
    store, worker, asked = await settled(alone, monkeypatch, head_cache=0.0)
    monkeypatch.setattr("windlass.store.postgres.claims.MOVED_EVERY", 0.0)
    await drained(store, worker)
    monkeypatch.setattr(store._listener, "notify", lambda topic: None)
    asked.heads.clear()
    await store.enqueue([*new("q5"), *new("q7", priority=0)])
    assert sorted(await drained(store, worker)) == ["q5", "q7"]
    assert asked.moved
    assert set().union(*asked.heads) == {"q5", "q7"}


async def test_a_lane_that_others_emptied_is_watched_until_its_mark_is_set(
    alone: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[rule 10] Who took the last job may be gone: the next one is enqueued without a call."""
    store, worker, asked = await settled(alone, monkeypatch, head_cache=0.0)
    monkeypatch.setattr("windlass.store.postgres.claims.MOVED_EVERY", LONG)
    other, gone = await alone.store(), await alone.worker()
    several = ["q2", "q3", "q4"]  # so many that they are asked about and not called
    await store.enqueue([job for name in several for job in new(name)])
    assert sorted(await drained(other, gone, several)) == several
    await other.enqueue([job for name in several for job in new(name) * 2])
    assert len(await other.claim(gone, several, 6)) == 3  # and so they are left, without a mark
    while not store._claims._wakeups.unclaimed >= {*several}:
        assert await store.wait(NAMES, 5)
    assert await store.claim(worker, NAMES, 10) == []
    assert asked.called == []
    heard = store._listener.wakeups_of("q2")
    await other.enqueue(new("q2"))
    assert await drained(store, worker) == ["q2"]
    assert store._listener.wakeups_of("q2") == heard


async def test_a_queue_that_cools_down_comes_back_by_itself(
    alone: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[O3] Nobody calls when the time is over."""
    clock = await alone.clock()
    store, worker, asked = await settled(alone, monkeypatch, head_cache=0.0)
    monkeypatch.setattr("windlass.store.postgres.claims.MOVED_EVERY", LONG)
    await store.throttle("q1")
    await store.enqueue(new("q1"))
    assert await store.wait(NAMES, 5)
    assert await drained(store, worker) == []
    await clock.advance(61)
    assert await drained(store, worker) == ["q1"]
    assert asked.called[-1] == "q1"


async def test_of_many_shared_queues_those_with_jobs_are_shared(
    alone: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[K10] Of what waits, half is left to the other worker; nothing is asked about queues where nothing
    waits."""
    store, worker, _ = await settled(alone, monkeypatch)
    real, asked = store._db.query, []

    async def query(name: str, *args: Any) -> Any:
        asked.append((name, *args))
        return await real(name, *args)

    monkeypatch.setattr(store._db, "query", query)
    await store.enqueue(new("q3", 10))
    assert await store.wait(NAMES, 5)
    claims = await store.claim(worker, dict.fromkeys(NAMES, 64), 1000, peers=dict.fromkeys(NAMES, 2))
    assert [(claim.queue, len(claim.jobs)) for claim in claims] == [("q3", 5)]
    assert asked == [("waiting_in", ["q3"], [])]


async def test_queues_are_sent_when_they_have_changed(alone: Base) -> None:
    """[K1] [K2] Their stamp says so; what changes by itself is always sent."""
    store = await alone.store()
    for name in ("a", "b", "c"):
        await store.set_queue(name, {"max_depth": 5 if name == "c" else None})
    for read in (store.queues, lambda: _view(store)):
        assert [queue.name for queue in await read()] == ["a", "b", "c"]
        await alone.look.run("SELECT windlass.set_queue('b', '{\"paused\": true}')")
        assert [queue.paused for queue in await read()] == [False, True, False]
        await store.enqueue(new("c", 5))
        assert [queue.pressure for queue in await read()] == ["none", "none", "full"]
        assert (await read()) == (await read())
        await store.set_queue("b", {"paused": False})
        await alone.look.run("SELECT windlass.delete(job => id) FROM windlass.job WHERE queue = 'c'")
        assert [queue.pressure for queue in await read()][:2] == ["none", "none"]


async def _view(store: PostgresStore) -> list[Any]:
    return [queue for _, queue in sorted((await store.cluster_view([])).queues.items())]
