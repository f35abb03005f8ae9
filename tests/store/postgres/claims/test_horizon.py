"""The published horizon: proof against holes while somebody holds back the cluster's xmin [rule 3]."""

import pytest

from tests.postgres import Server
from tests.store.postgres.kit import Base

PUBLISH = "SELECT windlass.publish_horizon()"
XID = "SELECT pg_current_xact_id()::text::bigint"


async def test_a_foreign_transaction_in_another_database_does_not_keep_holes(
    base: Base, pg_server: Server
) -> None:
    """[rule 3] [fault 11] It holds the xmin of the whole cluster; the published horizon passes it."""
    lane, worker = await base.lane(), await base.worker()
    foreign = await base.session(pg_server.dsn())
    producer, other = await base.sessions(2)
    await foreign.begin()
    await foreign.value(XID)
    await producer.begin()
    await producer.enqueue()
    await other.enqueue()
    await base.claim(lane, worker)
    await producer.rollback()
    assert (await base.claim_late(lane, worker)).status == "pending"
    assert await base.holes(lane) == 1

    assert await base.look.value(PUBLISH) > (await base.cursor(lane))["old_horizon"]
    assert await base.drain(lane, worker) == []
    assert (await base.holes(lane), await base.depth(lane)) == (0, 0)


async def test_the_horizon_stops_before_a_producer_that_is_under_way(base: Base, pg_server: Server) -> None:
    """[rule 3] Whoever holds a lock on ready may own a hole, however young the horizon would like to be."""
    lane, worker = await base.lane(), await base.worker()
    producer, other = await base.sessions(2)
    await producer.begin()
    missing = await producer.enqueue()
    await other.enqueue()
    await base.claim(lane, worker)
    assert await base.look.value(PUBLISH) <= await producer.value(XID)
    assert (await base.claim_late(lane, worker)).status == "pending"
    assert await base.holes(lane) == 1
    await producer.commit()
    await base.look.value(PUBLISH)
    assert await base.drain(lane, worker) == [missing]


async def test_a_prepared_producer_keeps_its_hole(base: Base) -> None:
    """[rule 3] [fault 25] It has no session and no process, and its lock still shows."""
    lane, worker = await base.lane(), await base.worker()
    producer, other = await base.sessions(2)
    await other.enqueue()
    assert len(await base.drain(lane, worker)) == 1
    await other.enqueue()
    await other.enqueue()
    await base.claim(lane, worker)  # a busy lane: enqueue does not notify, and may be prepared
    await producer.begin()
    xid = await producer.value(XID)
    missing = await producer.enqueue()
    await producer.run(f"PREPARE TRANSACTION '{base.queue}'")
    await other.enqueue()
    assert (await base.claim(lane, worker)).seqs == [5]
    for _ in range(2):
        assert await base.look.value(PUBLISH) <= xid
        assert (await base.claim_late(lane, worker)).status == "pending"
        assert await base.holes(lane) == 1
    await producer.run(f"COMMIT PREPARED '{base.queue}'")
    await base.look.value(PUBLISH)
    assert await base.drain(lane, worker) == [missing]
    assert await base.depth(lane) == 0


async def test_a_prepared_transaction_that_enqueued_nothing_does_not_hold_the_horizon(base: Base) -> None:
    """[rule 3] Only a lock on ready counts."""
    (foreign,) = await base.sessions(1)
    await foreign.begin()
    xid = await foreign.value(XID)
    await foreign.run(f"PREPARE TRANSACTION '{base.queue}'")
    try:
        assert await base.look.value(PUBLISH) > xid
    finally:
        await foreign.run(f"ROLLBACK PREPARED '{base.queue}'")


@pytest.mark.parametrize(
    ("xid", "near", "full"),
    [
        (90, 100, 90),
        (110, 100, 110),
        (5, (7 << 32) + 9, (7 << 32) + 5),
        (2**32 - 3, (7 << 32) + 9, (7 << 32) - 3),
        (9, (7 << 32) - 3, (7 << 32) + 9),
    ],
)
async def test_a_short_xid_finds_its_epoch(base: Base, xid: int, near: int, full: int) -> None:
    """[rule 3] pg_locks speaks of 32-bit xids; around a wrap the epoch is that of the nearer side."""
    assert await base.look.value("SELECT windlass.full_xid($1::text::xid, $2)", str(xid), near) == full
