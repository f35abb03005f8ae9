"""Claims that draw from buckets with keys take from all of them in one step where each has enough; else one
by one. Both ways grant the same [F1] [F7]."""

import asyncio
import json
from typing import Any

import pytest

from tests.store.postgres.kit import Base, answer
from windlass.store.fields import NewBudget

CLAIM = "CALL windlass.claim($1, $2, 100, 50, p_needs => $3)"
NEEDS = json.dumps({"t": [{"budget": "b", "argument": "key", "place": 0}]})
HOLDS = "SELECT key, tokens::int FROM windlass.bucket WHERE budget = 'b' AND key <> '' ORDER BY key"
WAITING = "SELECT count(*) FROM windlass.held WHERE gate LIKE 'budget:b/%'"
AT_ONCE = """
SELECT windlass.claim_tokens_at_once(
    ARRAY(SELECT ROW (w.place, w.n, 'b', w.key)::windlass.want
            FROM json_to_recordset($1) AS w (place int, n int, key text)), 50)
"""


def wants(**ns: int) -> str:
    """What jobs need, by key."""
    return json.dumps([{"place": i + 1, "n": n, "key": key} for i, (key, n) in enumerate(ns.items())])


async def declare(base: Base, burst: int, **settings: Any) -> None:
    await (await base.store()).declare_budget(
        NewBudget(name="b", rate=0.0, burst=burst, key="key", **settings)
    )


async def add(base: Base, *keys: str) -> None:
    payloads = [json.dumps({"key": key}) for key in keys]
    await base.look.run("SELECT windlass.enqueue_many($1, 2::smallint, '{t}', $2)", base.queue, payloads)


async def claimed(base: Base, lane: int, worker: int) -> list[int]:
    return answer(lane, await base.look.row(CLAIM, lane, worker, NEEDS)).seqs


async def holds(base: Base) -> dict[str, int]:
    return {row["key"]: row["tokens"] for row in await base.look.rows(HOLDS)}


async def test_f1_new_and_known_buckets_are_taken_from_in_one_step(alone: Base) -> None:
    lane, worker = await alone.lane(), await alone.worker()
    await declare(alone, 5)
    await add(alone, "x", "y", "x")
    assert len(await claimed(alone, lane, worker)) == 3
    assert await holds(alone) == {"x": 3, "y": 4}
    await add(alone, "x", "z")
    assert len(await claimed(alone, lane, worker)) == 2
    assert await holds(alone) == {"x": 2, "y": 4, "z": 4}


async def test_f1_where_one_bucket_lacks_tokens_nothing_is_taken_in_one_step(alone: Base) -> None:
    lane, worker = await alone.lane(), await alone.worker()
    await declare(alone, 2)
    assert await alone.look.value(AT_ONCE, wants(x=1, y=2))
    assert not await alone.look.value(AT_ONCE, wants(x=1, y=1))
    assert await holds(alone) == {"x": 1, "y": 0}
    await add(alone, "x", "y", "z")
    assert len(await claimed(alone, lane, worker)) == 2  # the general way: all but the one of y
    assert await holds(alone) == {"x": 0, "y": 0, "z": 1}
    assert await alone.look.value(WAITING) == 1


async def test_f1_nobody_overtakes_a_waiting_list(alone: Base) -> None:
    lane, worker = await alone.lane(), await alone.worker()
    await declare(alone, 1)
    await add(alone, "x", "x")
    assert len(await claimed(alone, lane, worker)) == 1
    await (await alone.store()).give_back("b", 1, "x")
    assert not await alone.look.value(AT_ONCE, wants(x=1))
    assert await alone.look.value(AT_ONCE, wants(y=1))


async def test_f1_a_drained_budget_grants_nothing_in_one_step(alone: Base) -> None:
    await declare(alone, 5)
    assert await alone.look.value(AT_ONCE, wants(x=1))
    await (await alone.store()).drain("b", 60.0)
    assert not await alone.look.value(AT_ONCE, wants(x=1))
    assert not await alone.look.value(AT_ONCE, wants(new=1))


async def test_f7_an_open_breaker_grants_nothing_in_one_step(alone: Base) -> None:
    await declare(alone, 5, breaker=1)
    await (await alone.store()).report_calls("b", 0, 1)
    assert not await alone.look.value(AT_ONCE, wants(x=1))


@pytest.mark.parametrize("known", [True, False])
async def test_s2_a_bucket_that_another_holds_is_not_waited_for(alone: Base, known: bool) -> None:
    """Somebody takes tokens of the bucket by hand, in an open transaction."""
    await declare(alone, 5)
    if known:
        assert await alone.look.value(AT_ONCE, wants(x=1))
    holder = await alone.session()
    await holder.begin()
    await holder.run("SELECT windlass.take_tokens('b', 1, 'x')")
    assert not await alone.look.value(AT_ONCE, wants(a=1, x=1))
    assert (await holds(alone)).get("a") in (None, 5)
    await holder.commit()
    assert await alone.look.value(AT_ONCE, wants(a=1, x=1))
    assert await holds(alone) == {"a": 4, "x": 2 if known else 3}


async def test_f1_a_claim_that_must_wait_for_a_bucket_holds_no_later_one(alone: Base) -> None:
    """Whoever has locked y may lock z: that is the order, and nobody who waits for y has z."""
    lane, worker = await alone.lane(), await alone.worker()
    await declare(alone, 5)
    assert await alone.look.value(AT_ONCE, wants(x=1, y=1, z=1))
    await add(alone, "x", "y", "z")
    holder, claimer = await alone.sessions(2)
    await holder.begin()
    await holder.run("SELECT FROM windlass.bucket WHERE budget = 'b' AND key = 'y' FOR UPDATE")
    waiting = "CALL windlass.claim($1, $2, 100, 10000, p_needs => $3)"
    claiming = asyncio.create_task(claimer.row(waiting, lane, worker, NEEDS))
    await alone.blocked(claimer)
    await holder.run("SELECT FROM windlass.bucket WHERE budget = 'b' AND key = 'z' FOR UPDATE NOWAIT")
    await holder.commit()
    assert len(answer(lane, await claiming).jobs) == 3
    assert await holds(alone) == {"x": 3, "y": 3, "z": 3}
