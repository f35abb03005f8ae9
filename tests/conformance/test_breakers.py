"""The circuit breaker of a budget: closed, open, half-open, and what claims make of it [F7]."""

import pytest

from tests.conformance.budget_kit import PAUSE, budget, claim, claimed_tasks, declare, promote, taken
from tests.conformance.kit import Rig


async def broken(rig: Rig, burst: int = 10) -> None:
    """A budget whose breaker has just opened."""
    await declare(rig, burst=burst, rate=1000.0, breaker=2, breaker_pause=PAUSE)
    assert await rig.store.report_calls("b", 0, 2) == "open"


async def test_a_breaker_opens_after_failures_in_a_row(rig: Rig) -> None:
    """[F7] A success in between starts the count anew."""
    await declare(rig, burst=10, breaker=2, breaker_pause=PAUSE)
    found = [await rig.store.report_calls("b", *runs) for runs in ((0, 1), (1, 0), (0, 1), (0, 0))]
    assert (found, (await budget(rig)).failures) == (["closed"] * 4, 1)
    assert await taken(rig)
    assert await rig.store.report_calls("b", 0, 1) == "open"
    record = await budget(rig)
    assert record.state == "open"
    assert record.paused_for == pytest.approx(PAUSE, abs=5)
    answer = await rig.store.take("b", 1)
    assert not answer.granted
    assert answer.wait == pytest.approx(PAUSE, abs=5)


async def test_a_budget_without_a_breaker_never_opens(rig: Rig) -> None:
    """[F7]"""
    await declare(rig)
    assert await rig.store.report_calls("b", 0, 1000) == "closed"
    assert await taken(rig)


async def test_half_open_one_call_is_the_probe(rig: Rig) -> None:
    """[F7] Over all buckets, and however many tokens it takes; its success closes the breaker."""
    await broken(rig)
    await rig.clock.advance(PAUSE + 1)
    assert (await budget(rig)).state == "half-open"
    assert await taken(rig, 3)
    assert not await taken(rig)
    assert not await taken(rig, key="other")
    assert (await budget(rig)).state == "half-open"
    assert await rig.store.report_calls("b", 1, 0) == "closed"
    assert await taken(rig)
    assert (await budget(rig)).failures == 0


async def test_a_failed_probe_opens_for_twice_as_long(rig: Rig) -> None:
    """[F7]"""
    await broken(rig)
    await rig.clock.advance(PAUSE + 1)
    assert await taken(rig)
    assert await rig.store.report_calls("b", 0, 1) == "open"
    assert (await budget(rig)).paused_for == pytest.approx(2 * PAUSE, abs=5)
    await rig.clock.advance(PAUSE + 1)
    assert not await taken(rig)
    await rig.clock.advance(PAUSE)
    assert await taken(rig)


async def test_a_lost_probe_is_followed_by_another(rig: Rig) -> None:
    """[F7] It may have died with its worker."""
    await broken(rig)
    await rig.clock.advance(PAUSE + 1)
    assert await taken(rig)
    assert not await taken(rig)
    await rig.clock.advance(PAUSE + 1)
    assert await taken(rig)


async def test_late_reports_do_not_keep_a_breaker_open(rig: Rig) -> None:
    """[F7] Runs from before it opened change nothing."""
    await broken(rig)
    assert await rig.store.report_calls("b", 0, 5) == "open"
    assert await rig.store.report_calls("b", 5, 0) == "open"
    assert (await budget(rig)).paused_for == pytest.approx(PAUSE, abs=5)


async def test_a_breaker_switched_off_is_closed(rig: Rig) -> None:
    """[F7] Live."""
    await broken(rig)
    assert (await rig.store.set_budget("b", {"breaker": 0})).state == "closed"
    assert await taken(rig)


async def test_jobs_wait_while_the_breaker_is_open(rig: Rig) -> None:
    """[F7] [F1] One of them is the probe, and the rest follow its success."""
    await broken(rig)
    ids = await rig.add("t", "t", "t")
    worker = await rig.worker()
    assert await claim(rig, worker) == []
    again = (await rig.store.promote()).next_in
    assert again == pytest.approx(PAUSE, abs=5)
    assert (await claim(rig, worker), (await budget(rig)).waiting) == ([], 3)
    await rig.clock.advance(PAUSE + 1)
    await promote(rig)
    assert [job.id for job in await claim(rig, worker)] == ids[:1]
    await promote(rig)
    assert await claim(rig, worker) == []
    assert await rig.store.report_calls("b", 1, 0) == "closed"
    await promote(rig)
    assert [job.id for job in await claim(rig, worker)] == ids[1:]


async def test_a_claim_takes_one_probe_only(rig: Rig) -> None:
    """[F7] [F1] Also from a lane where nobody has waited in line."""
    await broken(rig)
    await rig.clock.advance(PAUSE + 1)
    await rig.add("t", "other", "t", "t")
    assert await claimed_tasks(rig, await rig.worker()) == ["t", "other"]
