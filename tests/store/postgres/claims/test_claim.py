"""A claim commits by itself, in READ COMMITTED, before anybody sees its answer [rule 2]."""

import asyncio

import asyncpg
import pytest

from tests.stock import BOTH
from tests.store.postgres.claims.wire import Wire
from tests.store.postgres.kit import Base, Isolation

pytestmark = BOTH

CALL = "CALL windlass.claim($1, $2, 10, 100)"
CURRENT = "SELECT last_value FROM windlass.segment_current"


async def test_a_claim_inside_a_transaction_is_refused(base: Base) -> None:
    """[rule 2] It could not commit, so it takes nothing."""
    lane, worker = await base.lane(), await base.worker()
    job = await base.look.enqueue()
    (claimer,) = await base.sessions(1)
    await claimer.begin()
    with pytest.raises(asyncpg.InvalidTransactionTerminationError):
        await claimer.row(CALL, lane, worker)
    await claimer.rollback()
    assert await base.drain(lane, worker) == [job]


async def test_a_claim_with_an_xid_of_its_own_is_refused(base: Base) -> None:
    """[rule 3] An xid older than the read is no horizon for the holes that the read saw."""
    lane, worker = await base.lane(), await base.worker()
    await base.look.enqueue()
    (claimer,) = await base.sessions(1)
    await claimer.begin()
    await claimer.run("SELECT pg_advisory_xact_lock(windlass.lock_space(), $1)", lane)
    await claimer.value("SELECT pg_current_xact_id()")
    with pytest.raises(asyncpg.PostgresError) as refused:
        await claimer.row("SELECT * FROM windlass.claim_take($1, $2, 10)", lane, worker)
    assert refused.value.sqlstate == "WL006"
    await claimer.rollback()


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
async def test_claimers_whose_default_is_a_higher_isolation_get_disjoint_jobs(
    base: Base, isolation: Isolation
) -> None:
    """[rule 2] The second one waits for the lane; its answer must not come from before the wait."""
    lane, worker = await base.lane(), await base.worker()
    jobs = [await base.look.enqueue() for _ in range(4)]
    claimers = [await base.session(default_transaction_isolation=isolation) for _ in range(2)]
    gate = await base.session()
    await gate.begin()
    await gate.run("SELECT pg_advisory_xact_lock(windlass.lock_space(), $1)", lane)
    tasks = [
        asyncio.create_task(by.row("CALL windlass.claim($1, $2, 2, 10000)", lane, worker)) for by in claimers
    ]
    for claimer in claimers:
        await base.blocked(claimer)
    await gate.commit()
    taken = [seq for row in await asyncio.gather(*tasks) for seq in row["seqs"]]
    assert sorted(lane << 44 | seq for seq in taken) == jobs
    assert await claimers[0].value("SHOW transaction_isolation") == isolation, "the session keeps its default"


async def test_a_lane_that_another_holds_is_busy_and_not_empty(base: Base) -> None:
    """[rule 2] After its wait the answer says so, and nothing was taken or marked idle."""
    lane, worker = await base.lane(), await base.worker()
    (gate,) = await base.sessions(1)
    await gate.begin()
    await gate.run("SELECT pg_advisory_xact_lock(windlass.lock_space(), $1)", lane)
    assert (await base.claim(lane, worker)).status == "busy"
    assert await base.look.value("SHOW lock_timeout") == "0"
    await gate.commit()
    assert (await base.claim(lane, worker)).status == "empty"


async def test_an_answer_that_nobody_reads_locks_nothing(base: Base) -> None:
    """[rule 2] The client stops reading within 24 MB; the claim is committed and the lane is free."""
    lane, worker, other = await base.lane(), await base.worker(), await base.worker()
    blob = '{"a": "' + "x" * 1_000_000 + '"}'
    sql = "SELECT windlass.enqueue_many($1, 2::smallint, '{t}', array_fill($2::text, ARRAY[24]))"
    await base.look.value(sql, base.queue, blob)
    small = await base.look.enqueue()
    with await Wire.connect(base.dsn) as deaf:
        deaf.send(f"CALL windlass.claim({lane}, {worker}, 24, 100)")
        await base.until("SELECT wait_event = 'ClientWrite' FROM pg_stat_activity WHERE pid = $1", deaf.pid)
        locks = "SELECT count(*) FROM pg_locks WHERE pid = $1 AND locktype = 'advisory'"
        assert await base.look.value(locks, deaf.pid) == 0
        assert (await base.claim(lane, other)).ids == [small]
        held = "SELECT count(*) FROM windlass.holdings($1)"
        assert await base.look.value(held, worker) == 24
    assert await base.look.value("SELECT windlass.retire($1)", worker) == 24


async def test_a_lane_without_a_cursor_is_an_error(alone: Base) -> None:
    """[rule 2] Never "start at 0": that would give out every job of the lane again."""
    lane, worker = await alone.lane(), await alone.worker()
    await alone.look.enqueue()
    await alone.look.run("TRUNCATE windlass.claim")
    with pytest.raises(asyncpg.PostgresError, match="has no cursor") as refused:
        await alone.claim(lane, worker)
    assert refused.value.sqlstate == "WL003"


@pytest.mark.parametrize("later", [0, 1, 3])
async def test_the_last_jobs_of_a_lane_are_found_in_whatever_segment_they_are(
    alone: Base, later: int
) -> None:
    """[C2] [rule 7] A claim looks into the current segment first; what was offered before the switch comes
    before what was offered after it."""
    lane, worker = await alone.lane(), await alone.worker()
    old = await alone.look.value(CURRENT)
    jobs = [await alone.look.enqueue()]
    await alone.look.run("SELECT windlass.rotation_begin(true, '{}')")
    assert await alone.look.value(CURRENT) != old
    jobs += [await alone.look.enqueue() for _ in range(later)]
    assert (await alone.claim(lane, worker)).ids == jobs
    assert (await alone.claim(lane, worker)).status == "empty"
