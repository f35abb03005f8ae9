"""Groups: their end comes after all jobs that were added, and waits while they are open [W4]."""

import itertools
from typing import Any

import pytest

from tests.conformance.kit import Rig
from windlass.core.states import Kind, State
from windlass.errors import CircularWait, GroupClosed, JobNotFound
from windlass.store.postgres import PostgresStore
from windlass.store.records import JobChange, NewJob, Options
from windlass.store.sqlite import SQLiteStore

END = Options(group_end=True, otherwise="run")


async def opened(rig: Rig) -> int:
    (receipt,) = await rig.store.enqueue([NewJob(task="end", payload="{}", options=END)])
    assert receipt.status == "scheduled"
    return receipt.id


async def add(rig: Rig, group: int, *tasks: str, options: Options | None = None) -> list[int]:
    jobs = [NewJob(task=task, payload="{}", options=options or Options()) for task in tasks]
    return [receipt.id for receipt in await rig.store.enqueue_in_group(group, jobs)]


async def test_w4_it_ends_when_it_is_closed_and_all_have_ended(rig: Rig) -> None:
    worker = await rig.worker()
    group = await opened(rig)
    a, b = await add(rig, group, "a", "b")
    await rig.finish(worker, await rig.run(worker, a))
    await rig.store.promote()
    assert await rig.state(group) is State.SCHEDULED
    assert (await rig.look(group)).reason == "its group is open for more jobs"
    assert await rig.store.close_group(group) is True
    assert await rig.store.close_group(group) is False
    await rig.store.promote()
    assert (await rig.look(group)).reason == f"waits for job {b}"
    await rig.finish(worker, await rig.run(worker, b), Kind.DEAD)
    await rig.store.promote()
    assert await rig.state(group) is State.READY
    assert (await rig.run(worker, group)).task == "end"


async def test_w4_one_whose_jobs_have_all_ended_goes_on_when_it_is_closed(rig: Rig) -> None:
    worker = await rig.worker()
    group = await opened(rig)
    (a,) = await add(rig, group, "a")
    await rig.finish(worker, await rig.run(worker, a))
    empty = await opened(rig)
    for each in (group, empty):
        assert await rig.store.close_group(each)
    await rig.store.promote()
    assert [await rig.state(each) for each in (group, empty)] == [State.READY] * 2


async def test_w4_a_group_that_is_closed_takes_no_more_and_nothing_is_enqueued(rig: Rig) -> None:
    worker = await rig.worker()
    group = await opened(rig)
    await rig.store.close_group(group)
    with pytest.raises(GroupClosed):
        await add(rig, group, "late")
    with pytest.raises(JobNotFound):
        await add(rig, 12345, "lost")
    await rig.store.promote()
    assert [job.task for job in await rig.claim(worker)] == ["end"]


@pytest.mark.parametrize("delay", [0.0, 50.0])
async def test_w4_e8_a_group_whose_end_is_changed_stays_open(rig: Rig, delay: float) -> None:
    """Its time is not before that; it still comes after its jobs, and takes more."""
    worker = await rig.worker()
    group = await opened(rig)
    (a,) = await add(rig, group, "a")
    assert await rig.store.change(group, JobChange(delay=delay)) == "changed"
    await rig.clock.advance(100)
    await rig.store.promote()
    assert await rig.state(group) is State.SCHEDULED
    (b,) = await add(rig, group, "b")
    assert await rig.store.close_group(group) is True
    for each in (a, b):
        await rig.finish(worker, await rig.run(worker, each))
    await rig.store.promote()
    assert await rig.state(group) is State.READY


@pytest.mark.parametrize("stop", ["cancel", "retry", "delete"])
async def test_w4_so_does_one_whose_end_was_managed(rig: Rig, stop: str) -> None:
    group = await opened(rig)
    (a,) = await add(rig, group, "a")
    await getattr(rig.store, stop)([group])
    with pytest.raises((GroupClosed, JobNotFound)):
        await add(rig, group, "late")
    assert await rig.store.close_group(group) is False
    worker = await rig.worker()
    await rig.finish(worker, await rig.run(worker, a))
    await rig.store.promote()
    assert await rig.state(a) is State.SUCCEEDED


async def test_w4_it_can_be_asked_what_is_in_it(rig: Rig) -> None:
    worker = await rig.worker()
    group, other = await opened(rig), await opened(rig)
    found = await add(rig, group, "a", "b", "c", "d")
    await add(rig, other, "x")
    a, b, _, d = found
    await rig.finish(worker, await rig.run(worker, a))
    await rig.finish(worker, await rig.run(worker, b), Kind.RETRY, delay=60.0)
    await rig.store.delete([d])
    assert await rig.store.group_jobs(group) == found
    assert await rig.store.group_jobs(group, found[1], 1) == found[2:3]
    assert await rig.store.group_jobs(group, found[-1]) == []
    assert await rig.store.group_jobs(group, 12345) == [], "that is none of its jobs"
    assert dict(await rig.store.group_counts(group)) == {
        "succeeded": 1, "retrying": 1, "ready": 1, "deleted": 1
    }  # fmt: skip
    assert dict(await rig.store.group_counts(12345)) == {}


@pytest.mark.parametrize("at_once", [True, False])
async def test_w4_an_end_that_is_dead_names_the_job_that_failed_first(rig: Rig, at_once: bool) -> None:
    """A later failure changes nothing about why it ended."""
    worker = await rig.worker()
    end = NewJob(task="end", payload="{}", options=Options(group_end=True))
    group = (await rig.store.enqueue([end]))[0].id
    first, second, third = await add(rig, group, "a", "b", "c")
    await rig.store.close_group(group)
    await rig.finish(worker, await rig.run(worker, first), Kind.DEAD)
    if not at_once:
        await rig.store.promote()
    await rig.finish(worker, await rig.run(worker, second), Kind.DEAD)
    await rig.store.cancel([third])
    await rig.store.promote()
    record = await rig.look(group)
    assert (record.state, record.reason) == (State.DEAD, f"job {first}, which it comes after, is dead")


@pytest.mark.parametrize("open_", [True, False])
async def test_w4_a_job_that_is_deleted_has_not_succeeded(rig: Rig, open_: bool) -> None:
    """Whether it was waiting, dead or cancelled. One that has succeeded may go."""
    worker = await rig.worker()
    group = await opened(rig)
    good, dead, cancelled, ready = await add(rig, group, "good", "dead", "cancelled", "ready")
    (later,) = await rig.store.enqueue_in_group(group, [NewJob(task="later", payload="{}", delay=99.0)])
    if not open_:
        await rig.store.close_group(group)
    await rig.finish(worker, await rig.run(worker, good))
    await rig.finish(worker, await rig.run(worker, dead), Kind.DEAD)
    await rig.store.cancel([cancelled])
    await rig.store.promote()
    await rig.store.delete([good, dead, cancelled, ready, later.id])
    await rig.store.promote()
    assert dict(await rig.store.group_counts(group)) == {"deleted": 4, "gone": 1}
    await rig.clock.advance(40 * 86400.0)  # and not only while the store knows how they ended
    await rig.store.expire()
    assert dict(await rig.store.group_counts(group)) == {"deleted": 4, "gone": 1}
    if open_:
        await rig.store.close_group(group)
        await rig.store.promote()
    assert await rig.state(group) is State.READY


async def test_w4_a_job_that_was_dead_when_it_was_added_has_not_succeeded(rig: Rig) -> None:
    """Its idempotency key is known."""
    worker = await rig.worker()
    dead = await rig.bring(State.DEAD, worker, idempotency_key="i")
    group = await opened(rig)
    (added,) = await rig.store.enqueue_in_group(group, [NewJob(task="t", payload="{}", idempotency_key="i")])
    assert added.id == dead
    await rig.store.promote()
    await rig.store.delete([dead])
    assert dict(await rig.store.group_counts(group)) == {"deleted": 1}


async def test_w4_a_job_that_succeeds_after_a_retry_has(rig: Rig) -> None:
    worker = await rig.worker()
    group = await opened(rig)
    (job,) = await add(rig, group, "t")
    await rig.finish(worker, await rig.run(worker, job), Kind.DEAD)
    await rig.store.promote()
    await rig.store.retry([job])
    await rig.finish(worker, await rig.run(worker, job))
    assert dict(await rig.store.group_counts(group)) == {"succeeded": 1}


async def after(rig: Rig, *others: int, **options: Any) -> int:
    return (await rig.one("t", after=others, otherwise="run", **options)).id


@pytest.mark.parametrize("length", [1, 2, 5])
async def test_w4_a_group_takes_no_job_that_comes_after_it(rig: Rig, length: int) -> None:
    """Over any number of jobs and groups between them; nothing is written. [P12]"""
    groups = [await opened(rig) for _ in range(length)]
    for group, other in itertools.pairwise(groups):
        await add(rig, group, "link", options=Options(after=(await after(rig, other),)))
    jobs = (await rig.depth()).scheduled
    last = Options(after=(await after(rig, groups[0]),))
    with pytest.raises(CircularWait, match="each would wait for the other"):
        await add(rig, groups[-1], "closes", options=last)
    assert (await rig.depth()).scheduled == jobs + 1
    assert len(await rig.store.group_jobs(groups[-1])) == 0
    assert not [each for each in await rig.store.diagnose() if each.name == "groups" and each.level != "ok"]
    other = await after(rig, *(await rig.add("a", "b", "c")))
    await add(rig, groups[-1], "waits", options=Options(after=(other,)))


@pytest.mark.parametrize("key", ["unique_key", "idempotency_key"])
async def test_w4_nor_the_twin_that_comes_after_it(rig: Rig, key: str) -> None:
    group = await opened(rig)
    new: dict[str, Any] = {"options": Options(unique_key="k", after=(group,))}
    if key == "idempotency_key":
        new = {"options": Options(after=(group,)), key: "k"}
    (twin,) = await rig.store.enqueue([NewJob(task="t", payload="{}", **new)])
    again: dict[str, Any] = {"options": Options(unique_key="k")} if key == "unique_key" else {key: "k"}
    with pytest.raises(CircularWait):
        await rig.store.enqueue_in_group(group, [NewJob(task="t", payload="{}", **again)])
    assert await rig.state(twin.id) is State.SCHEDULED
    assert await rig.store.group_jobs(group) == []


async def test_w4_a_circle_that_is_broken_is_none(rig: Rig) -> None:
    """The job between them has ended, or the group has."""
    worker = await rig.worker()
    group = await opened(rig)
    between = await after(rig, group)
    await rig.store.cancel([between])
    await add(rig, group, "t", options=Options(after=(between,), otherwise="run"))
    other = await opened(rig)
    await rig.store.close_group(other)
    await rig.store.promote()
    await add(rig, group, "t", options=Options(after=(await after(rig, other),)))
    assert len(await rig.claim(worker)) == 2


async def test_w4_its_jobs_are_in_the_order_in_which_they_were_added(rig: Rig) -> None:
    """Not in that of their ids: a twin is older, and an id has the number of its lane in front."""
    group = await opened(rig)
    (twin,) = await rig.add("t", unique_key="k")
    first = await add(rig, group, "a", "b")
    late = await rig.store.enqueue_in_group(
        group,
        [
            NewJob(task="c", payload="{}", delay=60.0),
            NewJob(task="t", payload="{}", options=Options(unique_key="k")),
            NewJob(task="d", payload="{}", queue="another"),
        ],
    )
    await add(rig, group, "t", options=Options(unique_key="k"))
    expected = [*first, *(receipt.id for receipt in late)]
    assert twin in expected
    assert await rig.store.group_jobs(group) == expected


@pytest.mark.parametrize("ends", [Kind.SUCCEEDED, Kind.DEAD])
@pytest.mark.parametrize("many", [1, 3])
async def test_w4_a_group_that_waits_still_waits_for_a_job_that_is_retried(
    rig: Rig, ends: Kind, many: int
) -> None:
    """Its first end is forgotten: one that has succeeded by now may go, one that is dead again may not."""
    worker = await rig.worker()
    group = await opened(rig)
    (other,) = await add(rig, group, "other")
    jobs = await add(rig, group, *"abc"[:many])
    await rig.finish(worker, await rig.run(worker, other))
    for job in jobs:
        await rig.finish(worker, await rig.run(worker, job), Kind.DEAD)
    await rig.store.promote()
    assert await rig.store.retry(jobs) == dict.fromkeys(jobs, "retried")
    await rig.store.close_group(group)
    await rig.store.promote()
    assert await rig.state(group) is State.SCHEDULED
    for job in jobs:
        assert await rig.state(group) is State.SCHEDULED
        await rig.finish(worker, await rig.run(worker, job), ends)
        await rig.store.promote()
    assert await rig.state(group) is State.READY
    await rig.store.delete(jobs)
    gone = "gone" if ends is Kind.SUCCEEDED else "deleted"
    assert dict(await rig.store.group_counts(group)) == {"succeeded": 1, gone: many}


@pytest.mark.parametrize("way", ["redrive", "retry", "retry a part"])
async def test_w4_p9_a_group_that_waits_still_waits_for_a_parent_that_is_brought_back(
    rig: Rig, way: str
) -> None:
    worker = await rig.worker()
    group = await opened(rig)
    (parent,) = await add(rig, group, "parent")
    await rig.split(worker, await rig.run(worker, parent), 1)
    (part,) = await rig.claim(worker)
    await rig.finish(worker, part, Kind.DEAD)
    await rig.store.promote()
    assert await rig.state(parent) is State.DEAD
    if way == "redrive":
        assert await rig.store.redrive(parent) == 1
    else:
        await rig.store.retry([part.id if way == "retry a part" else parent])
    await rig.store.close_group(group)
    await rig.store.promote()
    assert await rig.state(group) is State.SCHEDULED
    (part,) = await rig.claim(worker)
    await rig.finish(worker, part)
    await rig.store.promote()
    assert await rig.state(group) is State.READY


async def test_w4_who_comes_after_the_group_comes_after_its_end(rig: Rig) -> None:
    worker = await rig.worker()
    group = await opened(rig)
    (last,) = await rig.add("last", after=(group,))
    (a,) = await add(rig, group, "a")
    await rig.store.close_group(group)
    await rig.finish(worker, await rig.run(worker, a))
    await rig.store.promote()
    assert await rig.state(last) is State.SCHEDULED
    await rig.finish(worker, await rig.run(worker, group))
    await rig.store.promote()
    assert await rig.state(last) is State.READY


async def test_w4_the_twin_that_stands_for_a_job_is_in_its_place(rig: Rig) -> None:
    worker = await rig.worker()
    group = await opened(rig)
    (twin,) = await rig.add("t", unique_key="k")
    assert await add(rig, group, "t", options=Options(unique_key="k")) == [twin]
    await rig.store.close_group(group)
    await rig.store.promote()
    assert await rig.state(group) is State.SCHEDULED
    await rig.finish(worker, await rig.run(worker, twin))
    await rig.store.promote()
    assert await rig.state(group) is State.READY
    await rig.finish(worker, await rig.run(worker, group))
    again = await opened(rig)
    assert await rig.store.group_jobs(again) == []


async def test_w4_a_job_that_is_in_two_groups_holds_up_both(rig: Rig) -> None:
    worker = await rig.worker()
    first, second = await opened(rig), await opened(rig)
    (id,) = await add(rig, first, "t", options=Options(unique_key="k"))
    assert await add(rig, second, "t", options=Options(unique_key="k")) == [id]
    for group in (first, second):
        await rig.store.close_group(group)
    await rig.finish(worker, await rig.run(worker, id))
    await rig.store.promote()
    assert [await rig.state(group) for group in (first, second)] == [State.READY] * 2


async def test_w4_an_end_of_a_group_among_others_in_one_call(rig: Rig) -> None:
    plain, group, later = [
        receipt.id
        for receipt in await rig.store.enqueue(
            [
                NewJob(task="t", payload="{}"),
                NewJob(task="end", payload="{}", options=END),
                NewJob(task="t", payload="{}", delay=60.0),
            ]
        )
    ]
    await add(rig, group, "a")
    assert [await rig.state(id) for id in (plain, group, later)] == [
        State.READY, State.SCHEDULED, State.SCHEDULED
    ]  # fmt: skip


async def test_w4_lists_go_in_bounded_steps_behind_groups_that_stay(rig: Rig) -> None:
    """Older groups that are open do not keep those of later ones."""
    for _ in range(5):
        await add(rig, await opened(rig), "stays")
    gone = await opened(rig)
    jobs = await add(rig, gone, *("a" for _ in range(7)))
    await rig.store.cancel([gone, *jobs])
    await rig.store.delete([gone])
    left = [7]
    for _ in range(9):
        await rig.store.expire(limit=3)
        left.append(len(await rig.store.group_jobs(gone)))
    assert left[-1] == 0
    if isinstance(rig.store, PostgresStore | SQLiteStore):  # the model forgets them at once
        assert max(before - after for before, after in itertools.pairwise(left)) <= 3
