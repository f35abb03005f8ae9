"""What is done at gates reads by index and reads little, however many stand in line [rule 8] [rule 14]
[F3]."""

import json
import re

import pytest

from tests.stock import BOTH
from tests.store.postgres.kit import Base, Session
from tests.store.postgres.plans import explained, plans

pytestmark = BOTH

TABLES = re.compile(r"held|pass|changed_gate|list_start|order_mark|open_claim")
FEW = 60
"""More rows than any of these needs to look at."""

ADD = """
SELECT cardinality(windlass.enqueue_many($1, 2::smallint, '{t}', array_fill('{}'::text, ARRAY[$3::int]),
                                         array_fill($2::text, ARRAY[$3::int])))
"""
STRAIGHT = "SELECT windlass.enqueue_many($1, 2::smallint, '{t}', '{[]}', ARRAY[$2::text], p_own => true)"
SPREAD = """
SELECT cardinality(windlass.enqueue_many($1, 2::smallint, '{t}', array_fill('{}'::text, ARRAY[$2::int]),
                                         ARRAY(SELECT json_build_object('ordering_key', 'k' || n % 5000)::text
                                                 FROM generate_series(1, $2::int) AS n)))
"""


async def check(session: Session, sql: str, *args: object) -> None:
    """Run a step: index scans, or rows by their place, and few. Notes are taken as a whole."""
    async with plans(session) as found:
        await session.rows(sql, *args)
    for scan in found.scans(TABLES):
        assert scan.kind in ("Index Scan", "Index Only Scan", "Tid Scan"), scan
        assert scan.table == "changed_gate" or scan.touched <= FEW, scan


async def check_all(base: Base, session: Session, queue: str) -> None:
    """Every step, each with somebody in the line and with room for one."""
    lane, worker = await base.lane(queue), await base.worker()
    gates = [f"key:{queue}", f"order:{queue}/k1"]
    await base.look.value(ADD, queue, f'{{"concurrency_key": "{queue}"}}', 2)
    await base.look.value(SPREAD, queue, 2)
    await check(session, "SELECT windlass.admit_gates($1, 10)", gates)
    got = await base.claim(lane, worker, 10)
    await check(session, "SELECT windlass.drop_passes($1, 'all', true)", got.ids)
    await base.finish(worker, got.jobs)
    await check(session, "SELECT windlass.admit_gates($1, 10)", gates)
    await check(session, "SELECT windlass.next_waiting_lists('', NULL, '', 20)")
    await check(session, "SELECT windlass.sweep_passes(10)")
    await check(session, "SELECT windlass.admit(10)")
    await check(session, "SELECT windlass.mark_gates_changed($1)", gates)
    own = json.dumps({"concurrency_key": f"{queue}.{worker}"})
    await check(session, STRAIGHT, queue, own)


@pytest.mark.slow
async def test_steps_at_gates_read_little_however_many_wait(alone: Base) -> None:
    """[F3] One session from the empty table on, and one that is new at each size."""
    cached = await alone.session()
    await explained(cached)
    queue = alone.queue
    await alone.lane()
    for rows in (0, 1_000, 100_000):
        for size in [20_000] * (rows // 40_000) + [rows // 2 % 20_000]:
            if size:
                await alone.look.value(ADD, queue, f'{{"concurrency_key": "{queue}"}}', size)
                await alone.look.value(SPREAD, queue, size)
        new = await alone.session()
        await explained(new)
        for session in (cached, new):
            await check_all(alone, session, queue)
    await alone.look.run("ANALYZE windlass.held, windlass.pass, windlass.changed_gate")
    for session in (cached, await alone.session()):
        await explained(session)
        await check_all(alone, session, queue)
