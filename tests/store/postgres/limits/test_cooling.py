"""Cool-downs [O3] and what a queue's settings may be [K1], where only PostgreSQL can go wrong."""

import asyncio
from typing import Any

import asyncpg
import pytest

from tests.store.postgres.kit import Base

THROTTLE = "SELECT windlass.throttle($1)"
SET = "SELECT windlass.set_queue($1, $2)"


async def test_of_two_throttles_at_once_one_counts(base: Base) -> None:
    """[O3] Neither has seen the queue cool; the second waits for the row and is told the first one's time."""
    await base.lane()
    one, two = await base.sessions(2)
    await one.begin()
    assert await one.value(THROTTLE, base.queue) == 60
    other = asyncio.create_task(two.value(THROTTLE, base.queue))
    await base.blocked(two)
    await one.commit()
    assert 50 < await other <= 60
    assert await base.look.value("SELECT throttles FROM windlass.queue WHERE name = $1", base.queue) == 1


async def test_a_cooling_queue_gives_nothing_and_writes_nothing(alone: Base) -> None:
    """[O3] As if it were paused; when the time is over its jobs come in order."""
    clock = await alone.clock()
    lane, worker = await alone.lane(), await alone.worker()
    jobs = [await alone.look.enqueue() for _ in range(2)]
    await alone.look.value(THROTTLE, alone.queue)
    before = await alone.cursor(lane)
    assert (await alone.claim(lane, worker)).status == "paused"
    assert await alone.cursor(lane) == before
    heads = await alone.look.rows("SELECT shut FROM windlass.lane_heads($1)", [alone.queue])
    assert [head["shut"] for head in heads] == [True]
    await clock.advance(61)
    assert (await alone.claim(lane, worker)).ids == jobs


@pytest.mark.parametrize(
    "changes",
    [
        '{"colour": "red"}', '{"name": "other"}', '{"throttles": 0}', '{"cool_until": null}',
        '{"max_workers": 0}', '{"max_workers": -1}', '{"max_workers": 1.5}', '{"max_workers": 1e10}',
        '{"window": 0}', '{"window": null}', '{"shards": 2}', '{"paused": 1}', '{"paused": null}',
        '{"cool_base": 0}', '{"cool_cap": 0}', '{"safety_bound": 0}', '{"retention": -1}',
        '{"backoff_base": -0.1}', '{"backoff": "yes"}', '{"dead_retention": "1"}',
        '{"paused": true, "backoff_cap": -1}',
    ],
)  # fmt: skip
async def test_a_setting_that_makes_no_sense_is_refused(base: Base, changes: str) -> None:
    """[K1] From psql as from Python; nothing is changed, and the queue is not even declared."""
    with pytest.raises(asyncpg.PostgresError) as refused:
        await base.look.run(SET, base.queue, changes)
    assert refused.value.sqlstate == "WL005"
    assert await base.look.rows("SELECT FROM windlass.queue WHERE name = $1", base.queue) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [("max_workers", None), ("retention", None), ("retention", 0), ("backoff", False), ("backoff_base", 0),
     ("cool_base", 0.5), ("dead_retention", 0), ("safety_bound", 0.1)],
)  # fmt: skip
async def test_a_setting_that_makes_sense_is_kept(base: Base, name: str, value: Any) -> None:
    """[K1] Nothing else changes with it."""
    before = dict(await base.look.row(f"SELECT * FROM {SET.removeprefix('SELECT ')}", base.queue, "{}"))
    changes = "jsonb_build_object($2::text, $3::jsonb)"
    text = "null" if value is None else str(value).lower()
    sql = f"SELECT * FROM windlass.set_queue($1, {changes})"
    assert dict(await base.look.row(sql, base.queue, name, text)) == {**before, name: value}
