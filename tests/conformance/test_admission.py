"""Whether a queue takes new jobs: backpressure on its own depth [F4], and load shedding [F5]."""

from typing import Any

import pytest

from tests.conformance.kit import Rig, job
from windlass.core.states import Kind, Priority, State
from windlass.errors import QueueFull, Refused, Shed
from windlass.store.records import NewJob, QueueRecord

LOW, NORMAL, HIGH, URGENT = Priority.LOW, Priority.NORMAL, Priority.HIGH, Priority.URGENT


async def queue(rig: Rig, name: str = "default") -> QueueRecord:
    return next(found for found in await rig.store.queues() if found.name == name)


async def fill(rig: Rig, n: int, **fields: Any) -> None:
    """Let so many jobs wait; the queue has no limits yet."""
    await rig.store.enqueue([job(**fields) for _ in range(n)])


async def limited(rig: Rig, ready: int, **settings: Any) -> None:
    """A queue with so many jobs and these limits."""
    await fill(rig, ready)
    await rig.store.set_queue("default", settings)


async def refusal(rig: Rig, *jobs: NewJob) -> Refused | None:
    """What a call raises, if it is refused; nothing of it was added then."""
    before = (await rig.depth()).ready
    try:
        await rig.store.enqueue(jobs)
    except Refused as refused:
        refused_with = refused
    else:
        return None
    assert (await rig.depth()).ready == before
    assert (refused_with.queue, refused_with.retry_after > 0) == ("default", True)
    return refused_with


async def is_refused(rig: Rig, *jobs: NewJob) -> bool:
    """Whether a call, of one job if nothing is said, is refused because the queue is full."""
    refused_with = await refusal(rig, *(jobs or [job()]))
    assert refused_with is None or (type(refused_with), refused_with.status) == (QueueFull, 429)
    return refused_with is not None


async def shed(rig: Rig) -> list[Priority]:
    """The priorities that are shed. What is accepted is taken back."""
    gone: list[Priority] = []
    for priority in Priority:
        refused_with = await refusal(rig, job("probe", priority=priority))
        assert refused_with is None or (type(refused_with), refused_with.status) == (Shed, 503)
        if refused_with is not None:
            gone.append(priority)
        else:
            await rig.store.delete([found.id for found in await rig.listing(task="probe")])
    return gone


async def run(rig: Rig, n: int) -> None:
    """Let so many of the ready jobs end."""
    worker = await rig.worker()
    claimed = await rig.claim(worker, limit=n)
    assert len(claimed) == n
    await rig.finish(worker, claimed)


async def test_a_refusal_has_the_same_words_on_every_store(rig: Rig) -> None:
    """[F4] [F5]"""
    await limited(rig, 1, max_depth=1)
    assert str(await refusal(rig, job())) == (
        "queue default is full: 1 job is ready, and its max_depth is 1. Try again in 5 s; it takes jobs "
        "again when it has fallen to 60%"
    )
    await rig.store.set_queue("default", {"max_depth": 1000})
    await fill(rig, 999)
    assert "1,000 jobs are ready, and its max_depth is 1,000. Try again" in str(await refusal(rig, job()))
    await rig.store.set_queue("default", {"max_depth": None, "shed_depth": 1000})
    assert str(await refusal(rig, job(), job())) == (
        "queue default is overloaded, at 100% of its limit, and refuses jobs of priority normal. Try again "
        "in 10 s, or enqueue with a higher priority what cannot wait"
    )


# -- backpressure -------------------------------------------------------------------------------------------


async def test_off_by_default(rig: Rig) -> None:
    """[F4] [F5]"""
    await fill(rig, 50)
    record = await queue(rig)
    assert (record.max_depth, record.pressure, record.refused, record.shed) == (None, "none", 0, 0)
    assert (await rig.one()).pressure is None


async def test_from_70_percent_on_there_is_a_hint(rig: Rig) -> None:
    """[F4] Accepted, with a word about it in every receipt."""
    await fill(rig, 14)
    for max_depth, hint in ((21, None), (20, 0.8), (20, 0.9)):
        await rig.store.set_queue("default", {"max_depth": max_depth})
        receipts = await rig.store.enqueue([job(), job()])
        assert [receipt.pressure for receipt in receipts] == [pytest.approx(hint) if hint else None] * 2
    assert (await queue(rig)).refused == 0


async def test_at_100_percent_it_is_full(rig: Rig) -> None:
    """[F4] Nothing of the call is added, and each job is counted."""
    await limited(rig, 9, max_depth=10)
    assert not await is_refused(rig)
    assert await is_refused(rig)
    assert await is_refused(rig, job(priority=HIGH), job(priority=HIGH))
    record = await queue(rig)
    assert (record.pressure, record.refused) == ("full", 3)


async def test_a_call_is_judged_by_what_stood_before_it(rig: Rig) -> None:
    """[F4] All of a batch or none of it."""
    await limited(rig, 0, max_depth=10)
    assert not await is_refused(rig, *[job()] * 25)
    assert await is_refused(rig)


async def test_urgent_jobs_find_room_until_120_percent(rig: Rig) -> None:
    """[F4]"""
    await limited(rig, 10, max_depth=10)
    assert not await is_refused(rig, job(priority=URGENT))
    assert not await is_refused(rig, job(priority=URGENT))
    assert await is_refused(rig, job(priority=URGENT))
    assert (await rig.depth()).ready == 12


async def test_a_full_queue_is_full_until_it_falls_to_60_percent(rig: Rig) -> None:
    """[F4] Else it would flicker between full and not."""
    await limited(rig, 9, max_depth=10)
    assert not await is_refused(rig)
    assert await is_refused(rig)
    await run(rig, 3)
    assert await is_refused(rig)
    await run(rig, 1)
    assert not await is_refused(rig)
    assert not await is_refused(rig)
    assert (await queue(rig)).pressure == "soft"


async def test_pressure_is_soft_until_60_percent(rig: Rig) -> None:
    """[F4] And shown with the queue."""
    await limited(rig, 14, max_depth=20)
    await rig.one()
    assert (await queue(rig)).pressure == "soft"
    await run(rig, 2)
    assert (await queue(rig)).pressure == "soft"
    await run(rig, 1)
    await rig.one()
    assert (await rig.depth()).ready == 13
    assert (await queue(rig)).pressure == "none"


async def test_a_raised_limit_makes_room(rig: Rig) -> None:
    """[F4] Live; and without one there is no end."""
    await limited(rig, 10, max_depth=10)
    assert await is_refused(rig)
    await rig.store.set_queue("default", {"max_depth": 100})
    assert not await is_refused(rig)
    await rig.store.set_queue("default", {"max_depth": 5})
    assert await is_refused(rig)
    await rig.store.set_queue("default", {"max_depth": None})
    assert not await is_refused(rig)
    assert (await queue(rig)).pressure == "none"


async def test_only_ready_jobs_count(rig: Rig) -> None:
    """[F4] Not those that run, or wait for their time; but those that wait at a gate, which are ready."""
    await rig.store.set_queue("default", {"max_depth": 3})
    await rig.add("t", "t", delay=3600)
    await rig.add("t", "t", "t", concurrency_key="k")
    await rig.store.promote()
    assert await is_refused(rig)
    worker = await rig.worker()
    assert len(await rig.claim(worker)) == 1
    assert (await rig.depth()).ready == 2


async def test_another_queue_is_not_concerned(rig: Rig) -> None:
    """[F4] But one call is all or none."""
    await limited(rig, 10, max_depth=10)
    assert (await rig.one(queue="other")).status == "enqueued"
    assert await is_refused(rig, job(queue="other"), job())
    assert (await rig.depth("other")).ready == 1


async def test_a_scheduled_job_is_judged_when_it_is_enqueued(rig: Rig) -> None:
    """[F4] And not again when it is due."""
    await limited(rig, 9, max_depth=10)
    await rig.one(delay=60)
    await fill(rig, 1)
    assert await is_refused(rig, job(delay=60))
    await rig.clock.advance(61)
    await rig.store.promote()
    assert (await rig.depth()).ready == 11


async def test_sending_again_what_was_accepted_is_not_refused(rig: Rig) -> None:
    """[F4] [E7] Its idempotency key was seen; beside a new job it is."""
    await rig.store.set_queue("default", {"max_depth": 1})
    first = await rig.one(idempotency_key="i")
    again = await rig.one(idempotency_key="i")
    assert (again.id, again.status) == (first.id, "repeated")
    assert await is_refused(rig, job(idempotency_key="i"), job())
    assert await is_refused(rig, job(idempotency_key="new"))


async def test_an_idempotency_key_that_is_forgotten_is_judged_as_a_new_one(rig: Rig) -> None:
    """[F4] [E7] Whether or not anybody has swept."""
    again = [job(idempotency_key=f"i{n}") for n in range(2)]
    await rig.store.enqueue(again)
    await rig.store.set_queue("default", {"max_depth": 1})
    assert not await is_refused(rig, *again)
    await rig.clock.advance(86400 + 60)
    assert await is_refused(rig, *again)


async def test_what_was_accepted_is_never_turned_away(rig: Rig) -> None:
    """[F4] [F5] Retries, releases and rescues."""
    ids = await rig.add("t", "t", "t", priority=LOW)
    worker, gone = await rig.worker(), await rig.worker()
    retried, released = await rig.claim(worker, limit=2)
    await rig.claim(gone)
    await fill(rig, 2)
    await rig.store.set_queue("default", {"max_depth": 1, "shed_depth": 1})
    await rig.finish(worker, retried, Kind.RETRY)
    await rig.finish(worker, released, Kind.RELEASED)
    assert (await rig.die(gone)).offered == 1
    assert [await rig.state(id) for id in ids] == [State.READY] * 3
    assert (await rig.depth()).ready == 5


async def test_parts_and_reruns_are_never_turned_away(rig: Rig) -> None:
    """[F4] [F5] [P9] [E6] The store makes them itself."""
    worker = await rig.worker()
    await rig.one(chunked=True)
    (parent,) = await rig.claim(worker)
    await rig.one(unique_key="u")
    (twin,) = await rig.claim(worker)
    assert (await rig.one("again", unique_key="u")).status == "rerun"
    await fill(rig, 2)
    await rig.store.set_queue("default", {"max_depth": 1, "shed_depth": 1})
    await rig.split(worker, parent, parts=3)
    await rig.finish(worker, twin)
    await rig.store.promote()
    assert (await rig.depth()).ready == 6


# -- shedding -----------------------------------------------------------------------------------------------


async def test_the_deeper_the_queue_the_more_is_shed(rig: Rig) -> None:
    """[F5] Low at 70 %, normal at 90 %, high at 100 %; urgent never."""
    await fill(rig, 18)
    seen = []
    for limit in (26, 25, 21, 20, 19, 18, 10):
        await rig.store.set_queue("default", {"shed_depth": limit})
        seen.append(len(await shed(rig)))
    assert seen == [0, 1, 1, 2, 2, 3, 3]
    assert await shed(rig) == [HIGH, NORMAL, LOW]
    assert (await queue(rig)).shed == sum(seen) + 3


async def test_the_longer_the_oldest_waits_the_more_is_shed(rig: Rig) -> None:
    """[F5]"""
    await limited(rig, 1, shed_wait=1000.0)
    for more, gone in ((600, []), (200, [LOW]), (150, [NORMAL, LOW]), (300, [HIGH, NORMAL, LOW])):
        await rig.clock.advance(more)
        assert await shed(rig) == gone


async def test_the_slower_the_store_the_more_is_shed(rig: Rig) -> None:
    """[F5] As the coordinator says it; old news do not count."""
    await limited(rig, 1, shed_latency=0.5)
    assert await shed(rig) == []
    for latency, gone in ((2.0, [HIGH, NORMAL, LOW]), (0.46, [NORMAL, LOW]), (0.4, [LOW]), (0.3, [])):
        await rig.store.observe(latency)
        assert await shed(rig) == gone
    await rig.store.observe(2.0)
    await rig.clock.advance(31)
    assert await shed(rig) == []


async def test_the_largest_of_the_three_counts(rig: Rig) -> None:
    """[F5] And is told."""
    await limited(rig, 5, shed_depth=100, shed_latency=1.0)
    await rig.store.observe(0.95)
    with pytest.raises(Shed) as found:
        await rig.one()
    assert found.value.level == pytest.approx(0.95)


async def test_shedding_comes_before_backpressure(rig: Rig) -> None:
    """[F5] [F4] Counted as the one and not as the other."""
    await limited(rig, 10, shed_depth=10, max_depth=10)
    assert await shed(rig) == [HIGH, NORMAL, LOW]
    record = await queue(rig)
    assert (record.shed, record.refused) == (3, 0)


async def test_what_is_shed_leaves_no_trace(rig: Rig) -> None:
    """[F5] No unique key is taken, no idempotency key remembered."""
    await limited(rig, 10, shed_depth=10)
    with pytest.raises(Shed):
        await rig.one(unique_key="u", idempotency_key="i")
    await rig.store.set_queue("default", {"shed_depth": None})
    assert (await rig.one(unique_key="u", idempotency_key="i")).status == "enqueued"
    assert (await rig.depth()).ready == 11


async def test_f4_a_limit_that_was_taken_away_is_forgotten(rig: Rig) -> None:
    """[F4] A new one judges by the depth alone, and not by what stood there when the old one was reached."""
    await limited(rig, 13, max_depth=10)
    assert isinstance(await refusal(rig, job()), QueueFull)
    await rig.store.promote(100)
    await rig.store.set_queue("default", {"max_depth": None})
    await rig.store.promote(100)
    assert (await queue(rig)).pressure == "none"
    await rig.store.set_queue("default", {"max_depth": 20})  # 65 %: full would still be full here
    assert await refusal(rig, job()) is None
