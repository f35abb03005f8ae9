"""Blocks of a budget's tokens that a process leases, and callers that are served together [F1] [F7]."""

import pytest

from tests.conformance.budget_kit import PAUSE, budget, declare, grants, taken
from tests.conformance.kit import Rig


async def test_callers_are_served_in_their_order(rig: Rig) -> None:
    """[F1] Each with all it needs or nothing, as if they had come one after the other."""
    await declare(rig, burst=10)
    lease = await rig.store.lease("b", [8, 3, 1, 2])
    assert (lease.served, lease.block) == ([True, False, True, False], 0)
    assert (await budget(rig)).tokens == 1


async def test_a_block_is_half_of_what_is_left(rig: Rig) -> None:
    """[F1] Or what was asked for; the other half is for others."""
    await declare(rig, burst=10)
    lease = await rig.store.lease("b", [1, 1], extra=100)
    assert (lease.served, lease.block) == ([True, True], 4)
    assert (await rig.store.lease("b", [1], extra=1)).block == 1
    assert await grants(rig) == 2


async def test_nobody_leases_while_somebody_waits(rig: Rig) -> None:
    """[F1]"""
    await declare(rig, burst=10)
    assert (await rig.store.lease("b", [4, 7], extra=100)).block == 0
    assert await grants(rig) == 6


async def test_what_is_left_of_a_block_comes_back(rig: Rig) -> None:
    """[F1] To its own bucket, before others of the same call are served."""
    await declare(rig, burst=10)
    first = await rig.store.lease("b", [1], "a", extra=4)
    assert first.block == 4
    second = await rig.store.lease("b", [9], "a", rest=4, leased_at=first.at)
    assert second.served == [True]
    assert (await grants(rig, key="a"), await grants(rig)) == (0, 10)


async def test_a_block_of_before_a_drain_does_not_come_back(rig: Rig) -> None:
    """[F1] Neither while the pause lasts nor later."""
    await declare(rig, burst=10)
    lease = await rig.store.lease("b", [1], extra=4)
    await rig.store.drain("b", 0)
    await rig.store.lease("b", [], rest=lease.block, leased_at=lease.at)
    assert await grants(rig) == 0


async def test_a_block_of_before_the_clock_was_set_back_does_not_come_back(rig: Rig) -> None:
    """[F1] [fault 31] Nobody knows how much has grown since."""
    await declare(rig, burst=10)
    lease = await rig.store.lease("b", [], extra=5)
    await rig.clock.advance(-1000)
    await rig.store.lease("b", [], rest=lease.block, leased_at=lease.at)
    assert await grants(rig) == 5


async def test_while_blocks_are_out_a_bucket_holds_less(rig: Rig) -> None:
    """[F1] By what it grows by until they are over: then it fills up again."""
    await declare(rig, burst=20_000, rate=20_000.0)
    lease = await rig.store.lease("b", [], extra=2000)
    assert lease.bucket is not None
    assert lease.block + lease.bucket.tokens == 19_000
    assert lease.bucket.leased_until == pytest.approx(lease.at + lease.bucket.held_for)
    await rig.clock.advance(2)
    assert (await budget(rig)).tokens == 20_000


async def test_a_change_counts_what_is_out(rig: Rig) -> None:
    """[F1] [fault 21] A smaller burst is for the block and what is in the bucket together."""
    await declare(rig, burst=100)
    lease = await rig.store.lease("b", [], extra=30)
    await rig.store.set_budget("b", {"burst": 80})
    assert lease.block + await grants(rig) in (80, 100)  # 100: it took more than 50 ms until then


async def test_an_unknown_budget_serves_nobody(rig: Rig) -> None:
    """[F1]"""
    lease = await rig.store.lease("nobody", [1, 2], extra=5, rest=3)
    assert (lease.served, lease.block, lease.bucket) == ([False, False], 0, None)


async def test_what_makes_no_sense_is_refused(rig: Rig) -> None:
    """[F1] More than the burst is never served, and takes nothing from others."""
    await declare(rig, burst=3)
    with pytest.raises(ValueError):
        await rig.store.lease("b", [1, 0])
    assert (await rig.store.lease("b", [4, 1])).served == [False, True]


async def test_a_half_open_breaker_lets_one_through(rig: Rig) -> None:
    """[F7] And no block; an open one nobody. The answer says for how long."""
    await declare(rig, burst=10, breaker=1, breaker_pause=PAUSE)
    await rig.store.report_calls("b", 0, 1)
    shut = await rig.store.lease("b", [1], extra=5)
    assert (shut.served, shut.block) == ([False], 0)
    assert shut.bucket is not None
    assert shut.bucket.paused_until - shut.at == pytest.approx(PAUSE, abs=5)
    await rig.clock.advance(PAUSE + 1)
    probe = await rig.store.lease("b", [11, 2, 1], extra=5)
    assert (probe.served, probe.block) == ([False, True, False], 0)
    assert not await taken(rig)
    await rig.store.report_calls("b", 1, 0)
    assert (await rig.store.lease("b", [1], extra=2)).block == 2


async def test_who_needs_more_than_a_leased_bucket_holds_is_served(rig: Rig) -> None:
    """[F1] Blocks keep the bucket below its burst. Once somebody has asked for more than that, there is none
    until it could fill up, in 5 s."""
    await declare(rig, burst=10, rate=2.0)
    assert (await rig.store.lease("b", [1], extra=4)).block > 0
    assert (await rig.store.lease("b", [10])).served == [False]
    await rig.clock.advance(0.01)
    assert (await rig.store.lease("b", [1], extra=4)).block == 0
    await rig.clock.advance(6)
    assert (await rig.store.lease("b", [10])).served == [True]
