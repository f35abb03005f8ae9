"""Tokens are kept for a moment for those who were let out of their line, and not for longer: nobody may be
there to claim them, while others of the budget could run [F1] [F7]."""

from tests.conformance.budget_kit import budget, declare, promote, taken
from tests.conformance.kit import Rig
from windlass.store.records import Need

NEEDS = {"stuck": [Need("b")], "brisk": [Need("b")]}
KEPT = 5.0
"""Seconds for which tokens are kept."""


async def claim(rig: Rig, worker: int, *queues: str) -> list[int]:
    claims = await rig.store.claim(worker, queues or ["slow", "fast"], 100, NEEDS)
    return [job.id for claim in claims for job in claim.jobs]


async def let_out(rig: Rig, worker: int, n: int = 1) -> list[int]:
    """Jobs of a queue that were let out of their line for tokens, and whose queue was paused then."""
    await declare(rig, burst=n)
    assert await taken(rig, n)
    ids = await rig.add(*["stuck"] * n, queue="slow")
    assert await claim(rig, worker) == []
    await rig.store.give_back("b", n)
    await promote(rig)
    await rig.store.set_queue("slow", {"paused": True})
    return ids


async def test_a_paused_queue_does_not_starve_those_in_line_behind_it(rig: Rig) -> None:
    """[F1] They wait for a moment, and then they get what was kept."""
    worker = await rig.worker()
    await let_out(rig, worker)
    brisk = await rig.add("brisk", queue="fast")
    assert await claim(rig, worker) == []
    await promote(rig)
    assert await claim(rig, worker) == []
    await rig.clock.advance(KEPT + 1)
    await promote(rig)
    assert await claim(rig, worker) == brisk


async def test_a_paused_queue_does_not_starve_newcomers(rig: Rig) -> None:
    """[F1] Where nobody is in line they need not go there."""
    worker = await rig.worker()
    await let_out(rig, worker)
    await rig.clock.advance(KEPT + 1)
    brisk = await rig.add("brisk", queue="fast")
    assert await claim(rig, worker) == brisk


async def test_all_that_was_kept_is_free_and_no_more(rig: Rig) -> None:
    """[F1] Tokens that were granted are not granted again, however late those come they were kept for."""
    worker = await rig.worker()
    stuck = await let_out(rig, worker, 3)
    await rig.clock.advance(KEPT + 1)
    brisk = await rig.add(*["brisk"] * 2, queue="fast")
    assert await claim(rig, worker, "fast") == brisk
    await rig.store.set_queue("slow", {"paused": False})
    assert await claim(rig, worker) == stuck[:1]
    assert (await budget(rig)).tokens == 0


async def test_those_who_come_late_take_what_is_there(rig: Rig) -> None:
    """[F1] Nobody wanted it meanwhile."""
    worker = await rig.worker()
    stuck = await let_out(rig, worker, 2)
    await rig.clock.advance(KEPT + 1)
    await rig.store.set_queue("slow", {"paused": False})
    assert await claim(rig, worker) == stuck
    assert not await taken(rig)


async def test_those_who_come_too_late_are_the_first_in_line(rig: Rig) -> None:
    """[F1] Others have taken their tokens; the next are theirs, before those who came after them."""
    worker = await rig.worker()
    stuck = await let_out(rig, worker)
    await rig.clock.advance(KEPT + 1)
    first, *others = await rig.add(*["brisk"] * 3, queue="fast")
    assert await claim(rig, worker) == [first]
    await rig.store.set_queue("slow", {"paused": False})
    assert await claim(rig, worker) == []
    for next_one in [*stuck, *others]:
        await rig.store.give_back("b", 1)
        await promote(rig)
        assert await claim(rig, worker) == [next_one]


async def test_one_let_out_again_has_a_moment_again(rig: Rig) -> None:
    """[F1] Who was too late and is let out once more finds what is kept for him."""
    worker = await rig.worker()
    stuck = await let_out(rig, worker)
    await rig.clock.advance(KEPT + 1)
    assert await taken(rig)
    await rig.store.set_queue("slow", {"paused": False})
    assert await claim(rig, worker) == []
    await rig.store.give_back("b", 1)
    await promote(rig)
    await rig.add("brisk", queue="fast")
    assert await claim(rig, worker, "fast") == []
    assert await claim(rig, worker, "slow") == stuck


async def test_a_probe_that_nobody_claims_keeps_no_breaker_open(rig: Rig) -> None:
    """[F7] Another one is the probe then."""
    worker = await rig.worker()
    await declare(rig, burst=2, breaker=1)
    assert await taken(rig, 2)
    await rig.add("stuck", queue="slow")
    assert await claim(rig, worker) == []
    await rig.store.give_back("b", 2)
    assert await rig.store.report_calls("b", 0, 1) == "open"
    brisk = await rig.add("brisk", queue="fast")
    assert await claim(rig, worker) == []
    await rig.clock.advance(31)
    await promote(rig)  # the first of the line is to be the probe
    await rig.store.set_queue("slow", {"paused": True})
    assert await claim(rig, worker) == []
    await rig.clock.advance(KEPT + 1)
    await promote(rig)
    assert await claim(rig, worker) == brisk
    assert await rig.store.report_calls("b", 1, 0) == "closed"
