"""Parents: how the ends of their parts are folded into them, and how they end themselves [P9]."""

import asyncio

import pytest

from tests.conformance.kit import Rig, failure
from windlass.core.retry import DeathPolicy
from windlass.core.states import Kind, State
from windlass.errors import AlreadyEnqueued
from windlass.store.records import Checkpoint, ClaimedJob, Outcome


def indexes(jobs: list[ClaimedJob]) -> list[int]:
    """Which parts these are."""
    return [job.options.part.index for job in jobs if job.options.part is not None]


async def test_as_one_ends_the_next_is_offered(rig: Rig) -> None:
    """[P8] Never more than `parallel` at a time, in order, each once."""
    worker = await rig.worker()
    id = await rig.parent(worker, 6, parallel=2)
    running = await rig.claim(worker)
    seen = indexes(running)
    while running:
        assert (await rig.parent_record(id)).out == len(running) <= 2
        await rig.finish(worker, running.pop(0))
        await rig.store.promote()
        fresh = await rig.claim(worker)
        seen += indexes(fresh)
        running += fresh
    assert seen == list(range(6))
    parent = await rig.parent_record(id)
    assert (parent.state, parent.succeeded, parent.out) == (State.SUCCEEDED, 6, 0)
    assert (await rig.look(id)).finished_at == pytest.approx(parent.finished_at, abs=0.01)


async def test_the_next_goes_to_the_back_of_its_lane(rig: Rig) -> None:
    """[P8] [C2] Behind what waits there."""
    worker = await rig.worker()
    await rig.parent(worker, 2, parallel=1)
    (first,) = await rig.claim(worker)
    await rig.add("small")
    await rig.finish(worker, first)
    await rig.store.promote()
    assert [(job.task, bool(job.options.part)) for job in await rig.claim(worker)] == [
        ("small", False),
        ("t", True),
    ]


@pytest.mark.parametrize(
    ("way", "dead", "cancelled"),
    [
        ("succeeded", 0, 0),
        ("exhausted", 1, 0),
        ("dead", 1, 0),
        ("poison", 1, 0),
        ("cancelled by its worker", 0, 1),
        ("cancelled while it waits", 0, 1),
        ("cancelled while it runs", 0, 1),
        ("cancelled and rescued", 0, 1),
        ("deleted", 0, 1),
    ],
)
async def test_every_end_of_a_part_is_folded(rig: Rig, way: str, dead: int, cancelled: int) -> None:
    """[P9] The part shows it, the parent counts it, and the next part is offered."""
    worker, other = await rig.worker(), await rig.worker()
    id = await rig.parent(worker, 2, parallel=1, max_attempts=1)
    part = (await rig.strip(id))[0].job
    assert part is not None
    await end_part(rig, other, part, way)
    state = State.DEAD if dead else State.CANCELLED if cancelled else State.SUCCEEDED
    assert await rig.states(id) == [state, State.READY]
    parent = await rig.parent_record(id)
    assert (parent.dead, parent.cancelled, parent.out) == (dead, cancelled, 1)
    assert parent.succeeded == 1 - dead - cancelled
    assert indexes(await rig.claim(worker)) == [1]


async def end_part(rig: Rig, worker: int, part: int, way: str) -> None:
    """Let a waiting part of one attempt end in this way."""
    if way == "cancelled while it waits":
        assert await rig.store.cancel([part]) == {part: "cancelled"}
        return
    if way == "deleted":
        assert await rig.store.delete([part]) == {part: "deleted"}
        return
    job = await rig.run(worker, part)
    if way in ("cancelled while it runs", "cancelled and rescued"):
        assert await rig.store.cancel([part]) == {part: "requested"}
    if way in ("poison", "cancelled and rescued"):
        await rig.die(worker, DeathPolicy(poison=1))
        return
    kinds = {"succeeded": Kind.SUCCEEDED, "exhausted": Kind.RETRY, "dead": Kind.DEAD}
    kind = kinds.get(way, Kind.CANCELLED)
    await rig.finish(worker, job, kind, error=None if kind is Kind.SUCCEEDED else failure())


@pytest.mark.parametrize("kind", [Kind.RETRY, Kind.SNOOZE, Kind.RELEASED])
async def test_a_part_has_attempts_of_its_own(rig: Rig, kind: Kind) -> None:
    """[P9] What is tried again has not ended, and its parent waits for it."""
    worker = await rig.worker()
    id = await rig.parent(worker, 1)
    (part,) = await rig.claim(worker)
    await rig.finish(worker, part, kind, delay=60 if kind is not Kind.RELEASED else 0)
    parent = await rig.parent_record(id)
    assert (parent.state, parent.out) == (State.WAITING, 1)
    await rig.clock.advance(61)
    await rig.store.promote()
    again = await rig.run(worker, part.id)
    assert (await rig.strip(id))[0].attempt == again.attempt == (2 if kind is Kind.RETRY else 1)
    await rig.finish(worker, again)
    assert (await rig.parent_record(id)).state is State.SUCCEEDED


async def test_a_killed_workers_part_is_resumed(rig: Rig) -> None:
    """[P5] By another, at its last checkpoint; the parent notices nothing."""
    worker, other = await rig.worker(), await rig.worker()
    id = await rig.parent(worker, 1)
    (part,) = await rig.claim(worker)
    await rig.store.checkpoint(worker, part, Checkpoint('{"n":6}', done=6))
    await rig.die(worker)
    parent = await rig.parent_record(id)
    assert (parent.state, parent.out, parent.done, parent.records) == (State.WAITING, 1, 6, 6)
    again = await rig.run(other, part.id)
    assert (await rig.store.checkpoints([again.id]))[again.id].done == 6
    await rig.finish(other, again)
    assert (await rig.parent_record(id)).state is State.SUCCEEDED


async def test_a_part_removed_after_its_end(rig: Rig) -> None:
    """[P9] [O5] Has ended as it has."""
    worker = await rig.worker()
    id = await rig.parent(worker, 3, tolerated=1)
    one, two, three = await rig.claim(worker)
    await rig.finish(worker, one)
    await rig.finish(worker, two, Kind.DEAD)
    await rig.store.promote()
    assert await rig.store.delete([one.id, two.id]) == {one.id: "deleted", two.id: "deleted"}
    await rig.finish(worker, three)
    assert await rig.states(id) == [State.SUCCEEDED, State.DEAD, State.SUCCEEDED]
    assert (await rig.parent_record(id)).state is State.SUCCEEDED


@pytest.mark.parametrize("tolerated", [0, 1, 2])
async def test_tolerated_failures(rig: Rig, tolerated: int) -> None:
    """[P9] As many parts may fail as the plan says, dead or cancelled, and not one more."""
    worker = await rig.worker()
    for failed in range(3):
        id = await rig.parent(worker, 3, tolerated=tolerated)
        kinds = ([Kind.DEAD, Kind.CANCELLED])[:failed] + [Kind.SUCCEEDED] * (3 - failed)
        jobs = await rig.claim(worker)
        await rig.flush(worker, [Outcome(job=job, kind=kind) for job, kind in zip(jobs, kinds, strict=True)])
        parent, record = await rig.parent_record(id), await rig.look(id)
        assert parent.state is record.state is (State.SUCCEEDED if failed <= tolerated else State.DEAD)
        assert parent.dead + parent.cancelled == failed
        if failed > tolerated:
            verb = "is" if tolerated == 1 else "are"
            reason = f"{failed} of its parts failed, {tolerated} {verb} tolerated"
            assert (parent.reason, record.reason) == (reason, reason)


async def test_a_parent_ends_only_when_all_its_parts_have(rig: Rig) -> None:
    """[P9] However many have failed already."""
    worker = await rig.worker()
    id = await rig.parent(worker, 3, parallel=2)
    jobs = await rig.claim(worker)
    await rig.finish(worker, jobs, Kind.DEAD)
    parent = await rig.parent_record(id)
    assert (parent.state, parent.dead, parent.out) == (State.WAITING, 2, 1)
    await rig.finish(worker, await rig.claim(worker))
    assert (await rig.parent_record(id)).state is State.DEAD
    assert (await rig.depth()).dead == 3


async def test_the_finalizer_runs_once_and_speaks_for_its_parent(rig: Rig) -> None:
    """[P9] After the last part; its result is the parent's."""
    worker = await rig.worker()
    id = await rig.parent(worker, 2, finalizer=True, payload="[7]")
    one, two = await rig.claim(worker)
    await rig.finish(worker, one)
    assert (await rig.parent_record(id)).final is None
    await rig.finish(worker, two)
    await asyncio.gather(*(rig.store.promote() for _ in range(4)))
    parent = await rig.parent_record(id)
    assert (parent.state, parent.succeeded, parent.out) == (State.WAITING, 2, 0)
    (last,) = await rig.claim(worker)
    assert (last.id, last.payload) == (parent.final, "[7]")
    assert last.options.part is not None
    assert (last.options.part.parent, last.options.part.index, last.options.part.total) == (id, -1, 2)
    assert len(await rig.strip(id)) == 2
    await rig.finish(worker, last, result='{"rows":2}')
    record = (await rig.parent_record(id), await rig.look(id))[1]
    assert (record.state, record.result) == (State.SUCCEEDED, '{"rows":2}')
    assert await rig.claim(worker) == []


@pytest.mark.parametrize("kind", [Kind.DEAD, Kind.CANCELLED])
async def test_a_parent_ends_as_its_finalizer_ends(rig: Rig, kind: Kind) -> None:
    """[P9]"""
    worker = await rig.worker()
    id = await rig.parent(worker, 1, finalizer=True)
    await rig.finish(worker, await rig.claim(worker))
    await rig.store.promote()
    await rig.finish(worker, await rig.claim(worker), kind)
    parent = await rig.parent_record(id)
    assert parent.state == kind.value == await rig.state(id)
    if kind is Kind.DEAD:
        assert (parent.reason or "").startswith("its finalizer is dead")


async def test_a_finalizer_is_tried_again(rig: Rig) -> None:
    """[P9] Like any other job; the parent waits."""
    worker = await rig.worker()
    id = await rig.parent(worker, 0, finalizer=True)
    await rig.store.promote()
    await rig.finish(worker, await rig.claim(worker), Kind.RETRY, error=failure())
    assert (await rig.parent_record(id)).state is State.WAITING
    await rig.finish(worker, await rig.claim(worker))
    assert (await rig.parent_record(id)).state is State.SUCCEEDED


@pytest.mark.parametrize(("tolerated", "state"), [(0, State.DEAD), (1, State.WAITING)])
async def test_no_finalizer_after_too_many_failures(rig: Rig, tolerated: int, state: State) -> None:
    """[P9]"""
    worker = await rig.worker()
    id = await rig.parent(worker, 2, finalizer=True, tolerated=tolerated)
    one, two = await rig.claim(worker)
    await rig.finish(worker, one)
    await rig.finish(worker, two, Kind.DEAD)
    parent = await rig.parent_record(id)
    assert (parent.state, parent.final is None) == (state, state is State.DEAD)


async def test_parts_that_end_at_once(rig: Rig) -> None:
    """[P9] From several workers, while others promote: each is counted once, and the parent ends once."""
    workers = [await rig.worker() for _ in range(3)]
    id = await rig.parent(workers[0], 9, parallel=9, finalizer=True)
    held = {worker: await rig.claim(worker, limit=3) for worker in workers}
    await asyncio.gather(
        *(rig.finish(worker, job) for worker, jobs in held.items() for job in jobs),
        *(rig.store.promote() for _ in range(3)),
    )
    assert (await rig.parent_record(id)).succeeded == 9
    (last,) = await rig.claim(workers[0])
    await rig.finish(workers[0], last)
    assert (await rig.parent_record(id)).state is State.SUCCEEDED
    assert len(await rig.listing()) == 11


async def test_the_unique_key_is_held_until_the_end(rig: Rig) -> None:
    """[E6] [P9] Through the split and every part; then it is free."""
    worker = await rig.worker()
    id = await rig.parent(worker, 1, unique_key="k")
    with pytest.raises(AlreadyEnqueued):
        await rig.one(unique_key="k", on_conflict="reject")
    (part,) = await rig.claim(worker)
    with pytest.raises(AlreadyEnqueued):
        await rig.one(unique_key="k", on_conflict="reject")
    await rig.finish(worker, part)
    assert (await rig.parent_record(id)).state is State.SUCCEEDED
    assert (await rig.one(unique_key="k", on_conflict="reject")).status == "enqueued"


@pytest.mark.parametrize("policy", ["skip", "replace"])
async def test_an_edit_while_the_parts_run_is_not_lost(rig: Rig, policy: str) -> None:
    """[E6] A parent that waits for its parts is under way, like a job that runs: a twin runs after it, and
    replaces nothing."""
    worker = await rig.worker()
    id = await rig.parent(worker, 1, unique_key="k")
    receipt = await rig.one("rerun", unique_key="k", on_conflict=policy)
    assert (receipt.id, receipt.status) == (id, "rerun")
    await rig.finish(worker, await rig.claim(worker))
    assert (await rig.parent_record(id)).state is State.SUCCEEDED
    assert [job.task for job in await rig.claim(worker)] == ["rerun"]


async def test_a_rerun_that_was_asked_for_before_the_split(rig: Rig) -> None:
    """[E6] Waits for the parent's end."""
    worker = await rig.worker()
    (id,) = await rig.add("t", chunked=True, unique_key="k")
    claimed = await rig.run(worker, id)
    assert (await rig.one("rerun", unique_key="k")).status == "rerun"
    await rig.split(worker, claimed, 1)
    jobs = await rig.claim(worker)
    assert [job.task for job in jobs] == ["t"]
    await rig.finish(worker, jobs, Kind.DEAD)
    assert (await rig.parent_record(id)).state is State.DEAD
    assert [job.task for job in await rig.claim(worker)] == ["rerun"]
