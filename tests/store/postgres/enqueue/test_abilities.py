"""Jobs that need abilities, as SQL and other people's transactions bring them in [K14]."""

import asyncpg
import pytest

from tests.stock import BOTH
from tests.store.postgres.kit import Base
from windlass.store.records import NewJob, Options

pytestmark = BOTH

ENQUEUE = "SELECT windlass.enqueue('t', '{}', queue => $1, needs => $2)"
BOTH_OF_THEM = frozenset({"gpu", "big-memory"})


async def test_a_set_that_nobody_has_declared_goes_over_deferred(alone: Base) -> None:
    """[rule 11] [K14] A producer declares no lane, and whoever promotes does. The text is sorted."""
    lane = await alone.lane()
    store = await alone.store()
    (producer,) = await alone.sessions(1)
    await producer.begin()
    job = await producer.value(ENQUEUE, alone.queue, ["gpu", "big-memory", "gpu"])
    await producer.commit()
    assert await alone.look.value("SELECT count(*) FROM windlass.deferred") == 1
    await store.promote()
    worker = await alone.worker()
    assert await store.claim(worker, [alone.queue], 10) == []
    (claim,) = await store.claim(worker, [alone.queue], 10, abilities=BOTH_OF_THEM)
    assert claim.lane != lane
    (got,) = claim.jobs
    assert (got.id, got.options.needs) == (job, "big-memory,gpu")


async def test_one_in_a_transaction_of_the_callers_own(alone: Base) -> None:
    """[E1] [K14] Once its lane is there, it goes straight into it."""
    store = await alone.store()
    wanted = NewJob(task="t", payload="{}", queue=alone.queue, options=Options(needs="gpu"))
    await store.enqueue([wanted])
    (producer,) = await alone.sessions(1)
    await producer.begin()
    (receipt,) = await store.enqueue([wanted], connection=producer.connection)
    await producer.commit()
    assert await alone.look.value("SELECT count(*) FROM windlass.deferred") == 0
    worker = await alone.worker()
    assert await store.claim(worker, [alone.queue], 10) == []
    (claim,) = await store.claim(worker, [alone.queue], 10, abilities=BOTH_OF_THEM)
    assert claim.jobs[-1].id == receipt.id


async def test_a_call_of_many_is_of_one_lane(alone: Base) -> None:
    """[K14] A job that needs something does not go where any worker would take it."""
    await alone.lane()
    with pytest.raises(asyncpg.PostgresError, match="different abilities"):
        await alone.look.value(
            "SELECT windlass.enqueue_many($1, 2::smallint, '{t}', $2, $3)",
            alone.queue,
            ["{}", "{}"],
            ['{"needs": "gpu"}', None],
        )


@pytest.mark.parametrize("needs", [["GPU"], ["a b"], ["a,,b"], [str(n) for n in range(9)]])
async def test_malformed_ones_are_refused(alone: Base, needs: list[str]) -> None:
    """[E4] [K14] No lane could be asked for them."""
    await alone.lane()
    with pytest.raises(asyncpg.PostgresError, match="the option needs is malformed"):
        await alone.look.value(ENQUEUE, alone.queue, needs)


async def test_none_is_the_same_as_an_empty_list(alone: Base) -> None:
    """[K14]"""
    lane, worker = await alone.lane(), await alone.worker()
    none: list[str] = []
    ids = [await alone.look.value(ENQUEUE, alone.queue, needs) for needs in (None, none)]
    assert await alone.drain(lane, worker) == ids
