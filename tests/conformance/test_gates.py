"""Limits: how many jobs of a task, or of a concurrency key, run at a time [F3]."""

import pytest

from tests.conformance.gate_kit import reason, settle, take, tasks
from tests.conformance.kit import Rig, job
from windlass.core.states import Priority, State

# -- a limit holds ------------------------------------------------------------------------------------------


async def test_no_more_of_a_key_than_its_limit(rig: Rig) -> None:
    """[F3] Over all workers, and as long as they run."""
    await rig.add(*(["t"] * 5), concurrency_key="k", key_limit=3)
    one, other = await rig.worker(), await rig.worker()
    first = await take(rig, one)
    assert len(first) == 3
    assert await take(rig, other) == []
    await rig.finish(one, first[0])
    assert len(await take(rig, other)) == 1
    assert await take(rig, one) == []


async def test_no_more_of_a_task_than_its_limit(rig: Rig) -> None:
    """[F3] As the code says it."""
    await rig.add(*(["t"] * 5), task_limit=3)
    worker = await rig.worker()
    first = await take(rig, worker)
    assert len(first) == 3
    assert await take(rig, worker) == []
    await rig.finish(worker, first)
    assert len(await take(rig, worker)) == 2


async def test_all_of_them_run_in_the_end(rig: Rig) -> None:
    """[F3] Each once, in the order of their enqueues."""
    ids = await rig.add(*(["t"] * 6), concurrency_key="k", key_limit=2, task_limit=4)
    worker, seen = await rig.worker(), list[int]()
    while claimed := await take(rig, worker):
        assert len(claimed) <= 2
        seen += [job.id for job in claimed]
        await rig.finish(worker, claimed)
    assert seen == ids
    assert (await rig.depth()).ready == 0


async def test_keys_do_not_share_their_limits(rig: Rig) -> None:
    """[F3] One job of each key."""
    await rig.store.enqueue([job(f"{key}{n}", concurrency_key=key) for key in "abc" for n in range(3)])
    assert sorted(await tasks(rig, await rig.worker())) == ["a0", "b0", "c0"]


async def test_one_key_that_is_full_stops_nobody_else(rig: Rig) -> None:
    """[F3] A hundred jobs wait on one key; others pass, of the same task and of no key."""
    await rig.add(*(["t"] * 100), concurrency_key="busy")
    worker = await rig.worker()
    assert len(await take(rig, worker)) == 1
    await rig.store.enqueue([job("t", concurrency_key="free"), job("plain")])
    assert sorted(await tasks(rig, worker)) == ["plain", "t"]
    assert (await rig.depth()).ready == 99


async def test_the_line_of_a_task_is_not_filled_by_one_key(rig: Rig) -> None:
    """[F3] Two may run, and one key waits with many: the next key's job comes at once."""
    await rig.add(*(["t"] * 20), concurrency_key="busy", task_limit=2)
    late = (await rig.one("t", concurrency_key="late", task_limit=2)).id
    claimed = await take(rig, await rig.worker())
    assert len(claimed) == 2
    assert late in [job.id for job in claimed]


async def test_a_limit_counts_over_queues_and_priorities(rig: Rig) -> None:
    """[F3] A key is one, whatever the queue."""
    await rig.add("a", concurrency_key="k", queue="one")
    await rig.add("b", concurrency_key="k", queue="two", priority=Priority.URGENT)
    await settle(rig)
    (first,) = await rig.claim(worker := await rig.worker(), "one", "two")
    assert first.task == "a"
    await rig.finish(worker, first)
    await settle(rig)
    assert [job.task for job in await rig.claim(worker, "one", "two")] == ["b"]


async def test_a_claim_asks_for_less_than_there_is_room_for(rig: Rig) -> None:
    """[F3] Those that were let in and not claimed hold their places, and nobody else's."""
    await rig.add(*(["t"] * 5), concurrency_key="k", key_limit=3)
    worker = await rig.worker()
    counts = [len(await take(rig, worker, limit=1)) for _ in range(4)]
    assert counts == [1, 1, 1, 0]


# -- what a waiting job looks like --------------------------------------------------------------------------


async def test_a_waiting_job_is_ready_and_says_why_it_waits(rig: Rig) -> None:
    """[F3] [M4]"""
    await rig.one("t", concurrency_key="k")
    receipt = await rig.one("t", concurrency_key="k")
    assert receipt.status == "held"
    await settle(rig)
    record = await rig.look(receipt.id)
    assert (record.state, record.reason) == (State.READY, "waits for a slot of concurrency key 'k'")
    limited = [(await rig.one("u", task_limit=1)).id for _ in range(2)]
    assert await reason(rig, limited[1]) == "waits for a slot of task u"
    assert await reason(rig, limited[0]) == ""
    assert (await rig.depth()).ready == 4
    assert len(await rig.listing(state=State.READY)) == 4


async def test_waiting_for_a_slot_is_waiting(rig: Rig) -> None:
    """[F3] [M1] The oldest counts, also where it stands aside."""
    await rig.add("t", "t", concurrency_key="k")
    worker = await rig.worker()
    assert len(await take(rig, worker)) == 1
    await rig.clock.advance(300)
    assert (await rig.store.depth())["default"].oldest == pytest.approx(300, abs=30)


async def test_a_fair_job_says_so_while_it_waits_for_its_turn(rig: Rig) -> None:
    """[C3] [M4]"""
    await rig.store.set_queue("default", {"window": 1})
    first, second = await rig.add("t", "t", fair_key="a")
    await settle(rig)
    assert (await rig.look(first)).reason is None
    assert (await rig.look(second)).reason == "waits for the turn of its fair key"
    await rig.run(await rig.worker(), first)
    await settle(rig)
    assert (await rig.look(second)).reason is None


async def test_gates_that_somebody_waits_at_are_listed(rig: Rig) -> None:
    """[F3] With who is beyond, who waits and for how long, the longest first."""
    await rig.add(*(["t"] * 4), concurrency_key="k", key_limit=2)
    await rig.clock.advance(60)
    await rig.add(*(["u"] * 2), task_limit=1)
    await rig.add("free", task_limit=1)
    await settle(rig)
    found = await rig.store.gates()
    assert [(gate.name, gate.passes, gate.waiting) for gate in found] == [("key:k", 2, 2), ("task:u", 1, 1)]
    assert found[0].oldest == pytest.approx(60, abs=20)
    assert [gate.name for gate in await rig.store.gates(limit=1)] == ["key:k"]
    await rig.finish(worker := await rig.worker(), await take(rig, worker))
    await take(rig, worker)
    assert await rig.store.gates() == []


# -- limits that change -------------------------------------------------------------------------------------


async def test_a_tasks_setting_overrides_what_its_jobs_say(rig: Rig) -> None:
    """[F3] For the task as for its keys."""
    await rig.store.set_task("t", {"concurrency": 2})
    await rig.store.set_task("u", {"key_concurrency": 3})
    await rig.add(*(["t"] * 5), task_limit=4)
    await rig.add(*(["u"] * 5), concurrency_key="k")
    claimed = await tasks(rig, await rig.worker())
    assert (claimed.count("t"), claimed.count("u")) == (2, 3)


async def test_a_task_without_a_limit_gets_one(rig: Rig) -> None:
    """[F3] By its setting alone, for jobs enqueued from then on."""
    await rig.store.set_task("t", {"concurrency": 1})
    first, second = await rig.add("t", "t")
    worker = await rig.worker()
    (claimed,) = await take(rig, worker)
    assert claimed.id == first
    assert await reason(rig, second) == "waits for a slot of task t"
    await rig.finish(worker, claimed)
    assert [job.id for job in await take(rig, worker)] == [second]


async def test_a_new_limit_holds_for_those_that_wait_already(rig: Rig) -> None:
    """[F3] They stood in their lane before it was set; those that run count, too."""
    await rig.add(*(["t"] * 5))
    await rig.add("other")
    worker = await rig.worker()
    (running,) = await take(rig, worker, limit=1)
    await rig.store.set_task("t", {"concurrency": 2})
    assert await tasks(rig, worker) == ["t", "other"]
    assert await tasks(rig, worker) == []
    assert (await rig.depth()).ready == 3
    await rig.finish(worker, running)
    assert await tasks(rig, worker) == ["t"]


@pytest.mark.parametrize("setting", ["concurrency", "key_concurrency"])
async def test_a_limit_is_raised_and_lowered_live(rig: Rig, setting: str) -> None:
    """[F3] More may run at once; fewer as runs end."""
    await rig.store.set_task("t", {setting: 1})
    await rig.add(*(["t"] * 6), concurrency_key="k", key_limit=9, task_limit=9)
    worker = await rig.worker()
    running = await take(rig, worker)
    assert len(running) == 1
    await rig.store.set_task("t", {setting: 3})
    running += await take(rig, worker)
    assert len(running) == 3
    await rig.store.set_task("t", {setting: 2})
    await rig.finish(worker, running.pop())
    assert await take(rig, worker) == []
    await rig.finish(worker, running.pop())
    assert len(await take(rig, worker)) == 1


async def test_a_limit_that_goes_lets_everybody_on(rig: Rig) -> None:
    """[F3] Nobody is left in a line that has no end."""
    await rig.store.set_task("t", {"concurrency": 1})
    await rig.add(*(["t"] * 4))
    worker = await rig.worker()
    assert len(await take(rig, worker)) == 1
    await rig.store.set_task("t", {"concurrency": None})
    assert len(await take(rig, worker)) == 3


# -- parts --------------------------------------------------------------------------------------------------


async def test_parts_keep_to_the_limits_of_their_parent(rig: Rig) -> None:
    """[F3] [P8] Its key and its task's limit are theirs; the parent itself holds no slot meanwhile."""
    await rig.one(concurrency_key="k", key_limit=2, task_limit=3, chunked=True)
    worker = await rig.worker()
    (parent,) = await take(rig, worker)
    await rig.split(worker, parent, parts=5)
    seen: list[int] = []
    while claimed := await take(rig, worker):
        assert len(claimed) <= 2
        seen += [job.options.part.index for job in claimed if job.options.part]
        await rig.finish(worker, claimed)
    assert seen == [0, 1, 2, 3, 4]
    assert (await rig.parent_record(parent.id)).state is State.SUCCEEDED


async def test_parts_share_a_slot_with_others_of_the_key(rig: Rig) -> None:
    """[F3] With a limit of one the parent's own slot is given up when it is split, or no part could run."""
    await rig.one("t", concurrency_key="k", chunked=True)
    other = (await rig.one("other", concurrency_key="k")).id
    worker = await rig.worker()
    (parent,) = await take(rig, worker)
    await rig.split(worker, parent, parts=2)
    order: list[int] = []
    while claimed := await take(rig, worker):
        assert len(claimed) == 1
        order.append(claimed[0].id)
        await rig.finish(worker, claimed)
    assert len(order) == 3
    assert other in order
    assert (await rig.parent_record(parent.id)).state is State.SUCCEEDED


# -- gates and fair keys ------------------------------------------------------------------------------------


async def test_after_its_gates_a_job_waits_for_its_turn(rig: Rig) -> None:
    """[F3] [C3] Keys interleave among those that have room."""
    await rig.store.enqueue(
        [
            job(f"{fair}{n}", fair_key=fair, concurrency_key=f"{fair}{n % 2}")
            for fair in "ab"
            for n in range(4)
        ]
    )
    assert await tasks(rig, await rig.worker()) == ["a0", "b0", "a1", "b1"]


async def test_waiting_jobs_survive_rotation(rig: Rig) -> None:
    """[F3] [F6] [K6] With their places and their order."""
    ids = await rig.add("t", "t", "t", concurrency_key="k", ordering_key="o")
    worker = await rig.worker()
    (claimed,) = await take(rig, worker)
    await rig.turn()
    assert await take(rig, worker) == []
    (mark,) = await rig.store.watermarks("default")
    assert (mark.position, mark.waiting) == (0, 3)
    order = [claimed.id]
    while len(order) < 3:
        await rig.finish(worker, claimed)
        (claimed,) = await take(rig, worker)
        order.append(claimed.id)
    assert order == ids
