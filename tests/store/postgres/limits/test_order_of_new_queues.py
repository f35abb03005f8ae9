"""Jobs of an ordering key have their turns in the order in which they are committed from the first job of a
queue on: before it has a lane, while it gets one, and on a server that was not adopted yet [F6]."""

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable

import pytest

from tests.stock import BOTH
from tests.store.postgres.kit import Base, Isolation, Session
from tests.store.postgres.limits.test_order_of_commit import add, line
from windlass.store.records import NewJob, Options

pytestmark = BOTH


async def add_by_store(base: Base, session: Session, *tasks: str) -> None:
    """In one call of the store, as an application sends it, with one job that is more than plain."""
    options = Options(ordering_key="k")
    jobs = [NewJob(task=task, payload="{}", queue=base.queue, options=options) for task in tasks]
    jobs.append(NewJob(task="later", payload="{}", queue=base.queue, delay=60.0))
    await (await base.store()).enqueue(jobs, connection=session.connection)


async def add_one_by_one(base: Base, session: Session, *tasks: str) -> None:
    for task in tasks:
        await session.enqueue(task, ordering_key="k", idempotency_key=base.queue + task)


async def add_many(base: Base, session: Session, *tasks: str) -> None:
    await add(session, *tasks)


@pytest.mark.parametrize("adding", [add_many, add_one_by_one, add_by_store])
@pytest.mark.parametrize("isolation", ["read committed", "repeatable read"])
async def test_a_queue_that_becomes_known_meanwhile_keeps_the_order(
    base: Base, isolation: Isolation, adding: Callable[..., Awaitable[None]]
) -> None:
    """[F6] A job of a queue without a lane took its turn when it was promoted: behind those that came later,
    even within its transaction."""
    (session,) = await base.sessions(1)
    await session.begin(isolation)
    await adding(base, session, "1", "2")
    await base.lane()
    await adding(base, session, "3")
    await session.commit()
    await adding(base, base.look, "4")
    assert await line(base) == ["1", "2", "3", "4"]


@pytest.mark.parametrize("seed", range(3))
async def test_the_first_moments_of_a_new_queue(base: Base, seed: int) -> None:
    """[F6] Four producers of one key, in transactions of one or two jobs and of two priorities, one of whom
    makes the queue known meanwhile. Whoever began after another had committed comes after it: of some hundred
    jobs up to 437 pairs did not."""
    moments = itertools.count()
    spans: list[tuple[int, int, list[str]]] = []

    async def produce(session: Session, name: str) -> None:
        chance = random.Random(f"{seed}{name}")
        for number in range(15):
            began = next(moments)
            await session.begin(chance.choice(["read committed", "repeatable read"]))
            tasks = [f"{name}{number}.{each}" for each in range(chance.choice([1, 2]))]
            for task in tasks:
                once = {} if chance.random() < 0.7 else {"idempotency_key": base.queue + task}
                priority = chance.choice(["normal", "low"])
                await session.enqueue(task, ordering_key="k", priority=priority, **once)
            if (name, number) == ("a", 3 * seed):
                await base.lane()
            await session.commit()
            spans.append((began, next(moments), tasks))

    sessions = await base.sessions(4)
    await asyncio.gather(*(produce(session, name) for session, name in zip(sessions, "abcd", strict=True)))
    place = {task: number for number, task in enumerate(await line(base))}
    assert place.keys() == {task for _, _, tasks in spans for task in tasks}
    swapped = [
        (first, later)
        for (_, committed, tasks), (began, _, others) in itertools.product(spans, repeat=2)
        if committed < began
        for first, later in itertools.product(tasks, others)
        if place[first] > place[later]
    ]
    assert swapped == []
    assert all(place[tasks[0]] <= place[tasks[-1]] for _, _, tasks in spans)


async def test_a_priority_that_is_new_keeps_the_order(base: Base) -> None:
    """[F6] Its lane is another, the key is the same."""
    lane = await base.lane()
    worker = await base.worker()
    first = await base.look.enqueue("1", ordering_key="k", priority="low")
    await add(base.look, "2")
    assert await line(base) == ["1", "2"]
    store = await base.store()
    await store.promote()
    assert (await base.claim(lane, worker)).ids == []
    assert (await base.claim(await base.lane(priority=3), worker)).ids == [first]


@pytest.mark.parametrize("copied", [False, True])
async def test_a_server_that_was_not_adopted_yet_keeps_the_order(alone: Base, *, copied: bool) -> None:
    """[F6] [S3] [rule 15] Nothing goes into a lane before, and logical replication brings no turns."""
    await alone.lane()
    await add(alone.look, *"12345")
    if copied:
        await alone.look.run("SELECT setval('windlass.held_turn', 1), setval('windlass.job_id', 1)")
        await alone.look.run("UPDATE windlass.meta SET database = 0")
    await alone.look.run("DELETE FROM windlass.epoch_mark")  # as a recovery does
    await add(alone.look, "6")
    await alone.look.run("SELECT windlass.adopt(false)")
    await add(alone.look, "7")
    assert await line(alone) == list("1234567")


async def test_a_job_that_came_after_another_keeps_the_order_from_the_end_of_that(alone: Base) -> None:
    """[F6] [P12] Its queue has no lane yet when it may go on."""
    lane, worker = await alone.lane("first"), await alone.worker()
    first = await alone.look.enqueue(queue="first")
    await alone.look.enqueue("1", ordering_key="k", after=[first])
    plain = await alone.look.enqueue(after=[first])
    assert await alone.drain(lane, worker) == [first]
    await alone.lane()
    await add(alone.look, "2")
    assert await line(alone) == ["1", "2"]
    assert await alone.state(plain) == "scheduled", "due now"


async def test_those_without_a_key_wait_for_their_lane_beside_it(alone: Base) -> None:
    """[F6] [C3] [rule 11] The ring of a fair key belongs to a lane; of a call each job goes its own way, and
    all of them run."""
    worker = await alone.worker()
    tasks = ["1", "fair", "plain", "2"]
    options = ['{"ordering_key": "k"}', '{"fair_key": "f"}', None, '{"ordering_key": "k"}']
    ids = await alone.look.value(
        "SELECT windlass.enqueue_many($1, 2::smallint, $2, array_fill('{}'::text, ARRAY[4]), $3)",
        alone.queue, tasks, options,
    )  # fmt: skip
    statuses = await alone.look.value("SELECT windlass.statuses_of($1)", ids)
    assert statuses == ["held", "enqueued", "enqueued", "held"]
    assert await line(alone) == ["1", "2"]
    store = await alone.store()
    ran: list[int] = []
    while len(ran) < len(ids):
        await store.promote()
        ran += await alone.drain(await alone.lane(), worker)
    assert sorted(ran) == sorted(ids)
    assert ran.index(ids[0]) < ran.index(ids[3])
