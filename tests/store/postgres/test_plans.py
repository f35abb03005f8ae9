"""Hot statements read by index and read little, at 0, 10³ and 10⁶ rows, with plans new or cached [rule 8]."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.stock import BOTH
from tests.store.postgres.kit import Base, Session
from tests.store.postgres.plans import explained, plans
from windlass.core.states import Kind

pytestmark = BOTH

CURSORS = {f"claim_{n}" for n in range(8)}
LIMIT = 20
FEW = 12 * LIMIT
"""More rows than any of these statements needs to look at, and far fewer than there are."""

MANY = """
SELECT cardinality(windlass.enqueue_many($1, 2::smallint, '{t}', array_fill('{}'::text, ARRAY[$2::int])))
"""
CLAIMS = """
DO $$
DECLARE s text; c bigint; q bigint[]; t text[]; a smallint[]; f float8[];
BEGIN
    FOR i IN 1..{n} LOOP
        CALL windlass.claim({lane}, {worker}, 1, 100, s, c, q, q, t, t, t, a, a, f, f, s, s);
    END LOOP;
END $$
"""
FINISH = """
SELECT f.applied
  FROM (SELECT array_agg(lane) AS lanes, array_agg(id) AS ids, array_agg(seqs::text) AS seqs,
               array_agg(n) AS ns FROM windlass.claim WHERE worker = $1) AS c
 CROSS JOIN LATERAL
       windlass.finish($1, 1, c.lanes, c.ids, c.seqs, c.ns, NULL, NULL, NULL, NULL, NULL, NULL) AS f
"""
Act = Callable[[], Awaitable[Any]]


class Bench:
    """A lane that is being filled, and the session whose plans are looked at."""

    def __init__(self, base: Base, session: Session, lane: int, worker: int) -> None:
        self.base = base
        self.session = session
        self.lane = lane
        self.worker = worker
        self.held: list[Any] = []

    async def add(self, n: int) -> None:
        """Add jobs in one statement."""
        await self.base.look.run(MANY, self.base.queue, n)

    async def fill(self, n: int) -> None:
        """Add jobs, a third of them in each of three segments."""
        for _ in range(3):
            for size in [50_000] * (n // 150_000) + [n // 3 % 50_000]:
                await self.add(size)
            await self.base.look.run("SELECT windlass.rotation_begin(true, '{0,1,2,3,4,5,6,7}')")
            await self.base.look.run("SELECT windlass.rotation_begin(true, '{}')")

    async def wear(self, n: int) -> None:
        """Leave many small claims behind, all of them ended, by a worker that has gone."""
        if not n:
            return
        other = await self.base.worker()
        await self.base.look.run(CLAIMS.format(n=n, lane=self.lane, worker=other))
        assert await self.base.look.value(FINISH, other) == n
        await self.base.look.run("SELECT windlass.retire($1)", other)

    async def claim(self) -> None:
        """One claim."""
        self.held = (await self.base.claim(self.lane, self.worker, LIMIT, by=self.session)).jobs

    async def succeed(self) -> None:
        """Half of it succeeds."""
        await self.base.finish(self.worker, self.held[: LIMIT // 2], by=self.session)

    async def fail(self) -> None:
        """The rest is tried again later."""
        await self.base.finish(
            self.worker, self.held[LIMIT // 2 :], Kind.RETRY, delay=3600.0, by=self.session
        )

    async def head(self) -> None:
        """What a claimer asks before it chooses a lane."""
        await self.session.rows("SELECT * FROM windlass.lane_heads($1)", [self.base.queue])

    async def place(self) -> None:
        """Where jobs stand: the first one and the last."""
        last = await self.base.look.value(
            "SELECT pg_sequence_last_value(position) FROM windlass.lane WHERE id = $1", self.lane
        )
        for seq in (1, last or 1):
            await self.session.rows("SELECT * FROM windlass.locate($1)", self.lane << 44 | seq)

    async def cancel(self) -> None:
        """The last job is taken ahead."""
        job = await self.base.look.enqueue()
        assert await self.session.value("SELECT windlass.cancel($1)", job) == "cancelled"

    async def depth(self) -> None:
        """The counts of every queue."""
        await self.session.rows("SELECT * FROM windlass.depth()")

    async def tasks(self) -> None:
        """The counts of every task, of the first jobs of each lane."""
        await self.session.rows("SELECT * FROM windlass.task_depths($1)", LIMIT)

    async def count(self) -> None:
        """What has ended since the last time."""
        await self.session.rows("SELECT * FROM windlass.count_ends(0, $1)", LIMIT)

    async def ended(self) -> None:
        """How many have ended, most of them counted."""
        await self.session.rows("SELECT * FROM windlass.ended()")

    async def probe(self) -> None:
        """A look into the holes."""
        await self.base.probe_due(self.lane)
        await self.claim()


async def check(bench: Bench, act: Act, *, sorts: bool = False) -> set[str]:
    """Run a step: index scans only, few rows, nothing sorted. The partitions it has read."""
    async with plans(bench.session) as found:
        await act()
    scans = found.scans()
    assert {scan.kind for scan in scans} <= {"Index Scan", "Index Only Scan"}, scans
    for scan in scans:
        assert scan.touched <= FEW, scan
    if not sorts:
        assert not found.kinds() & {"Sort", "Incremental Sort"}, found.kinds()
    return {scan.table for scan in scans}


async def check_all(bench: Bench) -> None:
    """Every hot statement, once with holes to look into and once without."""
    producer = await bench.base.session()
    read = await check(bench, bench.claim)
    assert read >= CURSORS
    assert any(table.startswith("ready_") for table in read)  # one, or all where that is not enough
    if not bench.held:
        await bench.add(LIMIT)
        await check(bench, bench.claim)
    assert await check(bench, bench.succeed) >= {f"outcome_{n}" for n in range(8)}
    await check(bench, bench.fail, sorts=True)
    await check(bench, bench.head)
    await check(bench, bench.place, sorts=True)
    await check(bench, bench.cancel, sorts=True)
    await check(bench, bench.depth, sorts=True)
    await check(bench, bench.tasks)
    while (await bench.base.look.row("SELECT * FROM windlass.count_ends(0, 10000)"))["more"]:
        pass
    await check(bench, bench.succeed)
    await check(bench, bench.ended, sorts=True)
    await check(bench, bench.count, sorts=True)
    await producer.begin()
    for _ in range(3):
        await producer.enqueue()
        await bench.base.look.enqueue()
    await check(bench, bench.probe)
    await producer.rollback()
    await check(bench, bench.probe)


@pytest.mark.slow
async def test_hot_statements_read_little_however_much_there_is(alone: Base) -> None:
    """[rule 8] [fault 13] One session from the empty table on, and one that is new at each size."""
    lane, worker = await alone.lane(), await alone.worker()
    cached = await alone.session()
    await explained(cached)
    for rows in (0, 1_000, 1_000_000):
        bench = Bench(alone, cached, lane, worker)
        await bench.fill(rows)
        await bench.wear(rows // 500)
        await check_all(bench)
        new = await alone.session()
        await explained(new)
        await check_all(Bench(alone, new, lane, worker))
    used = "SELECT count(DISTINCT segment) FROM windlass.ready WHERE lane = $1"
    assert await alone.look.value(used, lane) >= 3
    await alone.look.run("ANALYZE windlass.ready, windlass.claim, windlass.outcome")
    for session in (cached, await alone.session()):
        await explained(session)
        await check_all(Bench(alone, session, lane, worker))


async def test_no_function_of_ours_is_ever_compiled(base: Base) -> None:
    """[S1] Before PostgreSQL 18 a disabled node adds 10¹⁰ to a plan's cost: with jit on, the default, each
    such statement was compiled anew at each call, and a claim took 1.2 s. So is what the planner takes for
    large because it knows nothing of a table. What has no setting runs within one that has."""
    configured = "SELECT p.proname FROM pg_proc p WHERE p.pronamespace = 'windlass'::regnamespace"
    assert await base.look.rows(f"{configured} AND 'jit=off' <> ALL (p.proconfig)") == []
    assert len(await base.look.rows(f"{configured} AND 'jit=off' = ANY (p.proconfig)")) > 100
    assert await base.look.rows(f"{configured} AND p.prosecdef AND p.proconfig IS NULL") == []
