"""Admission in SQL is that of windlass.core; what a refusal leaves behind, and that nobody waits for it [F4]
[F5]."""

import json
import random
from typing import Any

import asyncpg
import pytest

from tests.store.postgres.kit import Base
from windlass.core.flow.admission import Pressure, is_full, is_shed, pressure, shed_level
from windlass.errors import QueueFull, Refused, Shed
from windlass.store.records import NewJob

BEFORE: tuple[Pressure, ...] = ("none", "soft", "full")


def job(base: Base, **fields: Any) -> NewJob:
    """A job of the test's queue."""
    return NewJob(task="t", payload="{}", queue=base.queue, **fields)


async def measured(base: Base, function: str, columns: dict[str, Any], *measures: Any) -> Any:
    """What a function of the schema says of a queue with these columns."""
    places = ", ".join(f"${i}" for i, _ in enumerate(measures, 2))
    return await base.look.value(
        f"SELECT windlass.{function}(jsonb_populate_record(NULL::windlass.queue, $1), {places})",
        json.dumps(columns),
        *measures,
    )


async def test_pressure_is_that_of_the_core(base: Base) -> None:
    """[F4] Every depth around the thresholds, from every pressure before."""
    for most in (1, 7, 10, 1000):
        for before in BEFORE:
            columns = {"max_depth": most, "pressure": before}
            for depth in {0, *(round(most * share / 10) + i for share in (6, 7, 10) for i in (-1, 0, 1))}:
                wanted = pressure(depth, most, before)
                assert await measured(base, "pressure_at", columns, depth) == wanted


async def test_the_level_is_that_of_the_core(base: Base) -> None:
    """[F5] Random measures against random limits."""
    dice = random.Random(5)
    for _ in range(100):
        limits = (
            dice.choice([None, dice.randint(1, 100)]),
            dice.choice([None, dice.uniform(0.1, 100.0)]),
            dice.choice([None, dice.uniform(0.1, 10.0)]),
        )
        measures = dice.randint(0, 150), dice.uniform(0, 150), dice.uniform(0, 15)
        columns = dict(zip(("shed_depth", "shed_wait", "shed_latency"), limits, strict=True))
        assert await measured(base, "shed_level", columns, *measures) == shed_level(*measures, limits)


async def judged(base: Base, priority: int) -> type[Refused] | None:
    """What becomes of a job of this priority; nothing is added."""
    try:
        await base.look.run("SELECT windlass.check_load($1, $2, 1)", base.queue, priority)
    except asyncpg.PostgresError as error:
        return {"WL011": QueueFull, "WL012": Shed}[error.sqlstate]
    return None


@pytest.mark.parametrize("depth", [5, 6, 7, 9, 10, 12])
async def test_a_judgement_is_that_of_the_core(base: Base, depth: int) -> None:
    """[F4] [F5] Shedding first, then whether the queue is full, for each priority."""
    store = await base.store()
    await store.enqueue([job(base)] * depth)
    noted: Pressure = "none"
    for before in BEFORE:
        for shed_depth in (None, 10, 14):
            await store.set_queue(base.queue, {"max_depth": 10, "shed_depth": shed_depth})
            await base.look.run("SELECT windlass.change_pressure($1, $2, $3)", base.queue, noted, before)
            noted = before
            for priority in range(4):
                level = shed_level(depth, 0.0, 0.0, (shed_depth, None, None))
                full = is_full(depth, 10, pressure(depth, 10, before), priority)
                wanted = Shed if is_shed(level, priority) else QueueFull if full else None
                assert await judged(base, priority) is wanted, (before, shed_depth, priority)


async def test_a_refusal_in_the_callers_transaction_is_counted_all_the_same(base: Base) -> None:
    """[F4] His transaction rolls back; the count and the pressure do not hang on it."""
    store = await base.store()
    await store.enqueue([job(base)] * 3)
    await store.set_queue(base.queue, {"max_depth": 3})
    producer = await base.session()
    await producer.begin()
    with pytest.raises(QueueFull) as refused:
        await store.enqueue([job(base)] * 2, connection=producer.connection)
    await producer.rollback()
    assert (refused.value.queue, refused.value.retry_after, refused.value.status) == (base.queue, 5.0, 429)
    record = next(queue for queue in await store.queues() if queue.name == base.queue)
    assert (record.refused, record.pressure) == (2, "full")


async def test_a_refusal_by_sql_says_what_to_do(base: Base) -> None:
    """[F5] From psql, a trigger or any language."""
    store = await base.store()
    await store.enqueue([job(base)] * 9)
    await store.set_queue(base.queue, {"shed_depth": 10})
    wanted = "at 90% of its limit, and refuses jobs of priority normal"
    with pytest.raises(asyncpg.PostgresError, match=wanted) as refused:
        await base.look.enqueue()
    assert refused.value.sqlstate == "WL012"
    assert "higher priority" in str(refused.value.hint)
    assert await base.look.enqueue(priority="high") > 0


async def test_what_fell_between_two_promotes_is_remembered(base: Base) -> None:
    """[F4] A queue that nobody refuses anything of: promote notes that it was full, and when it no longer
    is."""
    store = await base.store()
    await store.enqueue([job(base)] * 10)
    await store.set_queue(base.queue, {"max_depth": 10})
    lane, worker = await base.lane(), await base.worker()
    await store.promote()
    await base.drain(lane, worker, 3)
    noted = "SELECT pressure FROM windlass.queue WHERE name = $1"
    assert await base.look.value(noted, base.queue) == "full"
    await store.promote()
    assert await base.look.value(noted, base.queue) == "none"


async def test_producers_do_not_wait_for_each_other(base: Base) -> None:
    """[rule 3] [F4] Judging locks nothing, so a transaction that stays open holds up nobody."""
    store = await base.store()
    await base.lane()
    await store.set_queue(base.queue, {"max_depth": 10, "shed_depth": 100})
    first, second = await base.sessions(2)
    await first.begin()
    await first.enqueue()
    await second.run("SET lock_timeout = '100ms'")
    assert await second.enqueue() > 0
    await store.set_queue(base.queue, {"max_depth": 20})
    await first.rollback()


async def test_a_sweep_without_anybody_waiting_writes_nothing(alone: Base) -> None:
    """[rule 8] It follows each step of promotion: a row lock made each one sync a commit of its own."""
    session = await alone.session()
    await session.begin()
    row = await session.row("SELECT * FROM windlass.sweep_gates(1000)")
    assert (row["admitted"], row["next_in"]) == (0, None)
    assert await session.value("SELECT pg_current_xact_id_if_assigned()::text") is None
    await session.rollback()
