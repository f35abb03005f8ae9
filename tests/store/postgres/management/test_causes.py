"""What jobs died of on PostgreSQL: read by index, as little as was asked for, and also from rows that were
written before the type of their last failure had a column of its own [O4] [rule 8]."""

import re
from collections.abc import Callable

from tests.conformance.kit import Rig, failure, job
from tests.store.postgres.kit import Base
from tests.store.postgres.plans import explained, plans
from windlass.core.states import Kind, State
from windlass.store.postgres.listing_walk import MAX_ROWS, Walk
from windlass.store.records import JobFilter

ROUNDS, EACH = 22, MAX_ROWS // 10
TABLES = re.compile(r"(failure_\d|deferred|dead|parent)")


async def test_the_dead_are_read_by_index_and_no_further_than_asked(alone: Base) -> None:
    """[rule 8] Of all queues and of one, though with few queues a plan could prefer another index."""
    rig = Rig(await alone.store(), await alone.clock(), "postgres")
    worker = await rig.worker()
    for _ in range(ROUNDS):  # those of a queue do not lie together, those of a time do
        await rig.store.enqueue([job(queue=queue) for _ in range(EACH // 2) for queue in ("one", "other")])
        held = [await rig.claim(worker, queue, limit=EACH) for queue in ("one", "other")]
        mixed = [each for pair in zip(*held, strict=True) for each in pair]
        await rig.finish(worker, mixed[2:], Kind.DEAD, error=failure())
        await rig.finish(worker, mixed[:2], Kind.RETRY, delay=3600, error=failure())
    await alone.look.run("ANALYZE")
    session = await alone.session()
    await explained(session)
    for asked in (None, "one", "other"):
        async with plans(session) as found:
            await session.rows("SELECT * FROM windlass.list_causes($1, NULL, 50, NULL)", asked)
        for scan in found.scans(TABLES):
            assert scan.kind in ("Index Scan", "Index Only Scan"), scan
            assert scan.touched <= 60, (asked, scan)
        for where in (JobFilter(queue=asked, state=State.DEAD), JobFilter(queue=asked, error="ValueError")):
            async with plans(session) as found:
                await Walk("windlass", where, 10, None).run(session.connection)
            for scan in found.scans(TABLES):
                assert scan.kind in ("Index Scan", "Index Only Scan"), scan
                assert scan.touched <= MAX_ROWS, (where, scan)


async def test_a_reader_may_ask(alone: Base, role: Callable[[str | None], str]) -> None:
    """[rule 11]"""
    rig = Rig(await alone.store(), await alone.clock(), "postgres")
    worker = await rig.worker()
    await rig.add("t")
    await rig.finish(worker, await rig.claim(worker), Kind.DEAD, error=failure())
    reader = await alone.store(role("reader"))
    assert [group.error for group in (await reader.causes()).groups] == ["ValueError"]
    assert len((await reader.jobs(JobFilter(error="ValueError"))).jobs) == 1
