"""The cluster: one coordinator by a term in the store, and the slots it assigns [K1] [K3]."""

import asyncio

import pytest

from tests.conformance.kit import Rig
from windlass.errors import TermLost
from windlass.store.records import QueueRecord

ANN, BOB, EVE = 101, 102, 103


async def test_one_leads(rig: Rig) -> None:
    """[K3] The others hear that somebody does."""
    term = await rig.store.lead(ANN, 30)
    assert term is not None
    assert await rig.store.lead(BOB, 30) is None
    assert await rig.store.lead(EVE, 30) is None


async def test_of_many_at_once_one_leads(rig: Rig) -> None:
    """[K3]"""
    terms = await asyncio.gather(*(rig.store.lead(candidate, 30) for candidate in range(1, 11)))
    assert sum(term is not None for term in terms) == 1


async def test_whoever_renews_in_time_keeps_the_term(rig: Rig) -> None:
    """[K3] Each renewal counts from now, by the store's clock."""
    term = await rig.store.lead(ANN, 30)
    for _ in range(4):
        await rig.clock.advance(20)
        assert await rig.store.lead(BOB, 30) is None
        assert await rig.store.lead(ANN, 30) == term


async def test_a_term_that_ran_out_is_taken_over(rig: Rig) -> None:
    """[K3] Under a higher number; the one before cannot renew any more."""
    first = await rig.store.lead(ANN, 30)
    await rig.clock.advance(31)
    second = await rig.store.lead(BOB, 30)
    assert first is not None
    assert second is not None
    assert second > first
    assert await rig.store.lead(ANN, 30) is None


async def test_nobody_renews_what_has_run_out(rig: Rig) -> None:
    """[K3] Who comes back late may lead again, but not in the old term: somebody may have led between."""
    first = await rig.store.lead(ANN, 30)
    await rig.clock.advance(31)
    again = await rig.store.lead(ANN, 30)
    assert first is not None
    assert again is not None
    assert again > first
    with pytest.raises(TermLost):
        await rig.store.assign(first, {})


async def test_who_resigns_makes_room_at_once(rig: Rig) -> None:
    """[K3]"""
    first = await rig.store.lead(ANN, 30)
    await rig.store.resign(ANN)
    second = await rig.store.lead(BOB, 30)
    assert first is not None
    assert second is not None
    assert second > first
    with pytest.raises(TermLost):
        await rig.store.assign(first, {})


async def test_resigning_is_for_oneself(rig: Rig) -> None:
    """[K3] Also when nobody leads, or twice."""
    await rig.store.resign(ANN)
    term = await rig.store.lead(ANN, 30)
    await rig.store.resign(BOB)
    assert await rig.store.lead(BOB, 30) is None
    assert await rig.store.lead(ANN, 30) == term
    await rig.store.resign(ANN)
    await rig.store.resign(ANN)
    with pytest.raises(TermLost):
        await rig.store.assign(term or 0, {})


async def test_the_slots_of_an_assignment(rig: Rig) -> None:
    """[K1] Of the workers asked for, and no others."""
    one, two, three = [await rig.worker() for _ in range(3)]
    term = await rig.lead(ANN)
    await rig.store.assign(term, {one: {"a": 4, "b": 0}, two: {"a": 3}, three: {"a": 3}})
    assert (await rig.store.cluster_view([one, three])).slots == {one: {"a": 4, "b": 0}, three: {"a": 3}}
    assert (await rig.store.cluster_view([])).slots == {}


async def test_an_assignment_replaces_the_whole_of_the_last_one(rig: Rig) -> None:
    """[K1] A worker that is no longer named has none, which is not the same as 0."""
    one, two = await rig.worker(), await rig.worker()
    term = await rig.lead(ANN)
    await rig.store.assign(term, {one: {"a": 4, "b": 2}, two: {"a": 3}})
    await rig.store.assign(term, {one: {"a": 5}})
    assert (await rig.store.cluster_view([one, two])).slots == {one: {"a": 5}}
    await rig.store.assign(term, {one: {"a": 5}})
    assert (await rig.store.cluster_view([one, two])).slots == {one: {"a": 5}}
    await rig.store.assign(term, {})
    assert (await rig.store.cluster_view([one, two])).slots == {}


@pytest.mark.parametrize("by", ["time", "another", "resigning", "a number to come"])
async def test_an_assignment_of_the_past_is_refused(rig: Rig, by: str) -> None:
    """[K3] A paused ex-coordinator wakes up and writes: nothing is changed. Slots outlive their term."""
    worker = await rig.worker()
    term = await rig.lead(ANN)
    await rig.store.assign(term, {worker: {"a": 1}})
    if by == "resigning":
        await rig.store.resign(ANN)
    elif by == "a number to come":
        term += 1
    else:
        await rig.clock.advance(31)
    if by == "another":
        await rig.lead(BOB)
    with pytest.raises(TermLost):
        await rig.store.assign(term, {worker: {"a": 9}})
    with pytest.raises(TermLost):
        await rig.store.assign(term, {worker: {"a": 1}})  # not even what would change nothing
    assert (await rig.store.cluster_view([worker])).slots == {worker: {"a": 1}}


async def test_a_renewed_term_still_assigns(rig: Rig) -> None:
    """[K3]"""
    worker = await rig.worker()
    term = await rig.lead(ANN)
    await rig.clock.advance(20)
    assert await rig.lead(ANN) == term
    await rig.clock.advance(20)
    await rig.store.assign(term, {worker: {"a": 2}})
    assert (await rig.store.cluster_view([worker])).slots == {worker: {"a": 2}}


async def test_assigning_before_anybody_leads(rig: Rig) -> None:
    """[K3]"""
    for term in (0, 1):
        with pytest.raises(TermLost):
            await rig.store.assign(term, {})


async def test_who_serves_what(rig: Rig) -> None:
    """[K1] Workers that are alive, by what they said when they registered."""
    one = await rig.worker("a", "b")
    two = await rig.worker("b")
    await rig.worker()
    assert (await rig.store.cluster_view([])).serving == {"a": 1, "b": 2}
    await rig.store.retire(one)
    assert (await rig.store.cluster_view([])).serving == {"b": 1}
    await rig.die(two)
    assert (await rig.store.cluster_view([])).serving == {}


async def test_the_queue_that_workers_publish_for_a_task(rig: Rig) -> None:
    """[E5] Of workers that are alive: one that serves the queue it names, then the one that started last."""
    assert await rig.store.published_queue("mail.send") is None
    assert await rig.store.published_tasks() == []
    idle = await rig.worker("other", tasks={"mail.send": "post", "load": "imports"})
    assert await rig.store.published_queue("mail.send") == "post"
    assert await rig.store.published_queue("load") == "imports"
    assert await rig.store.published_queue("mail.sent") is None
    old = await rig.worker("mail", tasks={"mail.send": "mail"})
    await rig.worker("other", tasks={"mail.send": "elsewhere"})
    assert await rig.store.published_queue("mail.send") == "mail"
    await rig.clock.advance(1)
    new = await rig.worker("mail", "letters", tasks={"mail.send": "letters", 'it\'s "odd".$': "x"})
    assert await rig.store.published_queue("mail.send") == "letters"
    assert await rig.store.published_queue('it\'s "odd".$') == "x"
    assert await rig.store.published_tasks() == ['it\'s "odd".$', "load", "mail.send"]
    await rig.store.retire(new)
    assert await rig.store.published_queue("mail.send") == "mail"
    await rig.die(old)
    assert await rig.store.published_queue("mail.send") == "elsewhere"
    await rig.store.retire(idle)
    assert await rig.store.published_queue("load") is None


async def test_the_queues_as_they_stand(rig: Rig) -> None:
    """[K1] [K2] Settings and cool-downs, of every queue that is declared."""
    await rig.one(queue="plain")
    await rig.store.set_queue("small", {"max_workers": 2, "paused": True, "safety_bound": 9.0})
    await rig.store.throttle("hot")
    seen = (await rig.store.cluster_view([])).queues
    assert set(seen) == {"plain", "small", "hot"}
    assert seen["plain"] == QueueRecord(name="plain")
    assert seen["small"] == QueueRecord(name="small", max_workers=2, paused=True, safety_bound=9.0)
    assert seen["hot"].throttles == 1
    assert seen["hot"].cooling == pytest.approx(60, abs=2)


async def test_an_empty_store(rig: Rig) -> None:
    """[K1]"""
    seen = await rig.store.cluster_view([1, 2])
    assert (seen.queues, seen.slots, seen.serving) == ({}, {}, {})


async def test_a_worker_tells_its_lease(rig: Rig) -> None:
    """[C4] Observers go by the lease of the worker, and not by their own."""
    usual, short = await rig.worker(), await rig.worker(lease=5.0)
    leases = {worker.id: worker.lease for worker in await rig.store.workers()}
    assert leases == {usual: 30.0, short: 5.0}
