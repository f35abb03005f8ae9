"""The coordinator's duties as single steps: idempotent, bounded, with their counts [K3]."""

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.worker.line import Line
from windlass.cluster import duties
from windlass.core.retry import Backoff, DeathPolicy
from windlass.core.rollup import Sample
from windlass.core.slots import MAX_SLOTS
from windlass.core.states import State
from windlass.errors import TermLost
from windlass.store.records import Expired, NewJob, QueueRecord, Report, WorkerInfo, WorkerRecord


def member(id: int, started: float, *queues: str, alive: bool = True) -> WorkerRecord:
    return WorkerRecord(
        id=id,
        label="",
        host="",
        pid=0,
        queues=queues,
        alive=alive,
        heartbeat=1,
        started_at=started,
        heartbeat_at=0.0,
    )


def test_k1_ten_over_three_in_the_order_they_joined() -> None:
    """[K1] A join takes from the oldest only what it must; the dead have none; unsized queues are left
    alone."""
    queues = [QueueRecord(name="mail", max_workers=10), QueueRecord(name="free")]
    workers = [
        member(3, 30.0, "mail", "free"),
        member(1, 10.0, "mail"),
        member(2, 20.0, "mail"),
        member(4, 5.0, "mail", alive=False),
        member(5, 1.0, "other"),
    ]
    assert duties.shares(queues, workers) == {1: {"mail": 4}, 2: {"mail": 3}, 3: {"mail": 3}}


steps = st.lists(
    st.one_of(
        st.tuples(st.just("join"), st.integers(0, 1000)),
        st.tuples(st.just("leave"), st.integers(0, 1000)),
        st.tuples(st.just("resize"), st.integers(1, 200)),
    ),
    max_size=30,
)


@given(steps, st.integers(1, 200))
def test_k1_totals_are_conserved_through_joins_losses_and_resizes(
    steps: list[tuple[str, int]], total: int
) -> None:
    """[K1] After each step the slots of the living make up the total, as far as they can use it."""
    living: dict[int, WorkerRecord] = {}
    born = 0
    for step, number in steps:
        if step == "join":
            born += 1
            living[born] = member(born, float(born), "mail")
        elif step == "leave" and living:
            living.pop(list(living)[number % len(living)])
        elif step == "resize":
            total = number
        mixed = list(living.values())
        random.Random(number).shuffle(mixed)  # the order of rows says nothing
        slots = duties.shares([QueueRecord(name="mail", max_workers=total)], mixed)
        given = [slots[id]["mail"] for id in living]
        assert sum(given) == min(total, len(living) * MAX_SLOTS) if living else given == []
        assert given == sorted(given, reverse=True)


async def test_k3_assigning_twice_is_assigning_once(line: Line) -> None:
    """[K3] And an assignment of a term that is over is refused."""
    await line.open()
    await line.set_queue("mail", {"max_workers": 10})
    for id in (1, 2, 3):
        await line.register(WorkerInfo(id=id, queues=("mail",)))
    term = await line.lead(7, 30)
    first = await duties.assign_slots(line.as_store, term)
    assert sorted(slots["mail"] for slots in first.values()) == [3, 3, 4]
    assert await duties.assign_slots(line.as_store, term) == first
    written = line.calls["assign"]
    assert await duties.assign_slots(line.as_store, term, first) == first
    assert line.calls["assign"] == written  # nothing has changed, so nothing is written
    await line.resign(7)
    await line.lead(8, 30)
    with pytest.raises(TermLost):
        await duties.assign_slots(line.as_store, term)
    answers = await line.cluster_view([1, 2, 3])
    assert answers.slots == first


async def test_k3_promoting_goes_on_until_nothing_is_due(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """[K3] In bounded steps; a second call finds nothing."""
    monkeypatch.setattr(duties, "STEP", 10)
    await line.open()
    await line.enqueue([NewJob(task="t", payload="[]", delay=0.001) for _ in range(25)])
    due = 0
    while due < 25:
        due += (await duties.promote(line.as_store)).due
        await asyncio.sleep(0.001)
    assert due == 25
    assert (await duties.promote(line.as_store)).due == 0
    assert (await line.depth())["default"].ready == 25


async def test_k6_retention_runs_until_nothing_is_left(line: Line) -> None:
    """[K6] It counts what it removed, and never runs for ever."""
    await line.open()
    left = [3000, 3000, 500]

    class Endless:
        calls = 0

        async def rotate(self) -> None: ...

        async def expire(self, limit: int) -> Expired:
            self.calls += 1
            return Expired(dead=min(limit, left.pop(0)) if left else limit)

    store = Endless()
    assert (await duties.expire(store)).dead == 2500  # type: ignore[arg-type]
    assert store.calls == 3
    assert (await duties.expire(store)).dead == duties.STEPS * duties.STEP  # type: ignore[arg-type]
    rotation, expired = await duties.retention(line.as_store)
    assert (rotation.removed, expired) == (0, Expired())


async def test_k6_a_step_says_that_more_is_left_than_it_counts() -> None:
    """[K6] Parts of parents that are gone, say."""
    steps = [Expired(parents=duties.STEP), Expired(more=True), Expired(parents=1), Expired()]

    class Stepwise:
        async def expire(self, limit: int) -> Expired:
            return steps.pop(0)

    assert await duties.expire(Stepwise()) == Expired(parents=duties.STEP + 1)  # type: ignore[arg-type]
    assert steps == [Expired()]


async def test_c8_rescue_by_hand_watches_for_a_whole_lease(line: Line) -> None:
    """[C8] The living are left alone; the dead one's jobs are offered again, once."""
    await line.open()
    for id in (1, 2):
        await line.register(WorkerInfo(id=id, queues=("default",), lease=0.2))
        await line.enqueue([NewJob(task="t", payload="[]")])
        await line.claim(id, ["default"], 1)

    async def heartbeats() -> None:
        while True:
            await line.heartbeat(2)
            await asyncio.sleep(0.02)

    beating = asyncio.create_task(heartbeats())
    try:
        ((dead, rescued),) = await duties.rescue(line.as_store, DeathPolicy(), 0.2)
        assert (dead.id, rescued.offered) == (1, 1)
        assert await duties.rescue(line.as_store, DeathPolicy(), 0.2) == []
    finally:
        beating.cancel()
    depth = (await line.depth())["default"]
    assert (depth.ready, depth.running) == (1, 1)


async def test_c8_deaths_are_capped(line: Line) -> None:
    """[C8] The first is free, the second brings a pause, the third is the last."""
    await line.open()
    (receipt,) = await line.enqueue([NewJob(task="t", payload="[]")])
    policy = DeathPolicy(backoff=Backoff(0.001))
    seen = []
    for id in (1, 2, 3):
        await line.register(WorkerInfo(id=id, queues=("default",)))
        while not await line.claim(id, ["default"], 1):
            await duties.promote(line.as_store)
        ((_, rescued),) = await duties.rescue_dead(
            line.as_store, [record for record in await line.workers() if record.id == id], policy
        )
        seen.append((rescued.offered, rescued.deferred, rescued.dead))
    assert seen == [(1, 0, 0), (0, 1, 0), (0, 0, 1)]
    record = await line.job(receipt.id)
    assert (record.state, record.attempt, record.deaths) == (State.DEAD, 1, 3)


async def test_a_queue_that_nobody_serves_is_found(line: Line) -> None:
    """[K1]"""
    await line.open()
    await line.register(WorkerInfo(id=1, queues=("mail",)))
    for queue in ("mail", "orphan"):
        await line.enqueue([NewJob(task="t", payload="[]", queue=queue)])
    queues, no_ability = await duties.unserved(line.as_store)
    assert (set(queues), no_ability) == ({"orphan"}, {})


async def test_m1_a_rollup_takes_as_many_steps_as_it_needs(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duties, "STEP", 2)
    await line.open()
    for number in range(1, 8):
        await line.report(7, number, Report(samples=[Sample(at=60, queue="mail", counts={"dead": 1})]))
    done = await duties.rollup(line.as_store)
    assert (done.folded, done.more) == (7, False)
    assert line.calls["rollup"] >= 4
    assert (await duties.rollup(line.as_store)).folded == 0
    assert [sample.counts for sample in await line.totals()] == [{"dead": 7}, {"dead": 7}]
