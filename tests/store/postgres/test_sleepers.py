"""A hundred thousand jobs that sleep, and a thousand that wait, beside claims, enqueues and signals: no plan
reads them, whatever the statistics say [W2] [S1] [rule 8]."""

import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from tests.stock import BOTH
from tests.store.postgres.kit import Base, Session
from tests.store.postgres.plans import explained, plans
from tests.store.postgres.waiting import LOOK, OWN, SEND, ask
from windlass.core.states import Kind
from windlass.store.postgres.schema import query
from windlass.store.records import ClaimedJob, NewJob

pytestmark = BOTH
ASLEEP, WAITING, LIMIT = 100_000, 1_000, 20
FEW = 6 * LIMIT
"""More rows than any of these calls needs to look at, and far fewer than there are."""
ASIDE = re.compile("deferred|deferred_left|wait|signal|signal_note|step|after_edge")
ASK = """
SELECT cardinality(w.states)
  FROM (SELECT ARRAY[cardinality($2::bigint[])] AS n) AS c
 CROSS JOIN LATERAL windlass.wait_for_signals(
            $1, ARRAY[$4::int], ARRAY[$5::bigint], array_fill(1, c.n), $3::bigint[], $2::bigint[],
            array_fill(1, c.n), array_fill('wait:go'::text, c.n), array_fill('go'::text, c.n),
            array_fill(3600::float8, c.n), array_fill(NULL::text, c.n)) AS w
"""


class Crowd:
    """A lane with its worker, and the session whose plans are looked at."""

    def __init__(self, base: Base, session: Session, lane: int, worker: int) -> None:
        self.base = base
        self.session = session
        self.lane = lane
        self.worker = worker
        self.jobs: list[ClaimedJob] = []

    async def enqueue(self) -> None:
        """A few jobs for now, and one for later."""
        for _ in range(LIMIT):
            await self.session.enqueue()
        await self.session.enqueue(delay=timedelta(hours=2))

    async def claim(self) -> None:
        """All of them."""
        self.jobs = (await self.base.claim(self.lane, self.worker, by=self.session)).jobs
        assert len(self.jobs) >= LIMIT

    async def wait(self) -> None:
        """Two of them ask for a signal."""
        for job in self.jobs[:2]:
            assert await ask(self.session, self.worker, job) == "waits"

    async def suspend(self) -> None:
        """They are put off, and so is one that sleeps; the others end."""
        await self.base.finish(self.worker, self.jobs[:3], Kind.SNOOZE, delay=3600.0, by=self.session)
        await self.base.finish(self.worker, self.jobs[3:], by=self.session)

    async def signal(self) -> None:
        """One is woken at once and the other by a look."""
        assert await self.session.value(OWN, self.jobs[0].id) == "delivered"
        assert await self.session.value(SEND, self.jobs[1].id) == "delivered"

    async def look(self) -> None:
        """What is left of notes."""
        await self.session.run(LOOK)

    async def promote(self) -> None:
        """Whether anything is due, and what falls due, as far as one step goes."""
        await self.session.rows("SELECT * FROM windlass.upkeep()")
        await self.session.value("SELECT windlass.promote($1)", LIMIT)

    async def goes_on(self) -> None:
        """Who was woken takes the signal, and ends."""
        woken = (await self.base.claim_late(self.lane, self.worker)).jobs
        assert {self.jobs[0].id, self.jobs[1].id} <= {job.id for job in woken}
        for job in woken:
            if job.id in (self.jobs[0].id, self.jobs[1].id):
                assert await ask(self.session, self.worker, job) == "answered"
        await self.base.finish(self.worker, woken, by=self.session)

    async def cancel(self) -> None:
        """One that sleeps."""
        assert await self.session.value("SELECT windlass.cancel($1)", self.jobs[2].id) == "cancelled"

    async def list(self) -> None:
        """The first page of who waits."""
        await self.session.rows(query("waits", "windlass"), None, None, None, LIMIT)

    async def forget(self) -> None:
        """One step of looking for what is left of jobs that are gone."""
        await self.session.value("SELECT windlass.expire_signals($1)", LIMIT)


async def check(crowd: Crowd, act: Callable[[], Awaitable[Any]]) -> set[str]:
    """It reads by index, and little. Of which tables."""
    async with plans(crowd.session) as found:
        await act()
    for scan in found.scans(ASIDE):
        assert scan.kind in ("Index Scan", "Index Only Scan", "Tid Scan"), scan
        assert scan.touched <= FEW, scan
    return {scan.table for scan in found.scans(ASIDE)}


async def check_all(crowd: Crowd) -> None:
    read: set[str] = set()
    for act in (
        crowd.enqueue, crowd.claim, crowd.wait, crowd.suspend, crowd.look, crowd.promote, crowd.signal,
        crowd.look, crowd.promote, crowd.goes_on, crowd.cancel, crowd.promote, crowd.list, crowd.forget,
    ):  # fmt: skip
        read |= await check(crowd, act)
    assert read >= {"deferred", "wait", "signal", "signal_note", "step"}


async def put_to_sleep(base: Base, lane: int, worker: int) -> None:
    """So many that sleep, some of which fall due, and some that wait."""
    store = await base.store()
    sleeper = NewJob(task="t", payload="{}", queue=base.queue, delay=7200.0)
    for _ in range(ASLEEP // 10_000):
        await store.enqueue([sleeper] * 10_000)
    await store.enqueue([NewJob(task="t", payload="{}", queue=base.queue)] * WAITING)
    jobs = (await base.claim(lane, worker, WAITING)).jobs
    assert len(jobs) == WAITING
    ids, seqs = [job.id for job in jobs], [job.seq for job in jobs]
    await base.look.value(ASK, worker, ids, seqs, lane, jobs[0].claim)
    await base.finish(worker, jobs, Kind.SNOOZE, delay=3600.0)
    while await base.look.value(LOOK):
        pass


async def test_w2_s1_who_sleeps_and_waits_is_not_read(alone: Base) -> None:
    """With plans made when the tables were empty, with new ones, and with fresh statistics."""
    clock = await alone.clock()
    lane, worker = await alone.lane(), await alone.worker()
    cached = await alone.session()
    await explained(cached)
    await check_all(Crowd(alone, cached, lane, worker))
    await put_to_sleep(alone, lane, worker)
    await clock.advance(6)
    await alone.look.value("SELECT windlass.promote(1)")  # looks at what is new, once: see its watermark
    for analysed in (False, True):
        if analysed:
            await alone.look.run("ANALYZE windlass.deferred, windlass.wait, windlass.signal, windlass.step")
        new = await alone.session()
        await explained(new)
        for session in (cached, new):
            await check_all(Crowd(alone, session, lane, worker))
    await clock.advance(8000)
    crowd = Crowd(alone, cached, lane, worker)
    for _ in range(3):
        await check(crowd, crowd.promote)
    assert await alone.depth(lane) >= 3 * LIMIT
