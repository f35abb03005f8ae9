"""Jobs by what they failed with: found by the type of their last failure; dead ones counted by it
[O4] [O6]."""

from typing import Any

import pytest

from tests.conformance.kit import Rig
from windlass.core.retry import DeathPolicy
from windlass.core.states import Kind, State
from windlass.store.records import Cause, Failure, JobFilter

BOUND = 4


async def die(rig: Rig, worker: int, task: str, *errors: str, queue: str = "default") -> int:
    """A job that failed with each of these in turn, and died of the last; its queue must be empty."""
    (id,) = await rig.add(task, queue=queue)
    for error in errors[:-1]:
        await fail(rig, worker, id, error, queue, Kind.RETRY)
    await fail(rig, worker, id, errors[-1], queue, Kind.DEAD)
    return id


async def fail(
    rig: Rig, worker: int, id: int, error: str, queue: str, kind: Kind, delay: float = 0.0
) -> None:
    """An attempt of this job, which must be the next of its queue, fails."""
    job = await rig.run(worker, id, queue)
    kept = Failure(error, f"{error} of {id}", "Traceback ...")
    await rig.finish(worker, job, kind, delay=delay, error=kept)


async def retry_later(rig: Rig, worker: int, error: str) -> int:
    """A job that has failed with this and waits for its next attempt."""
    (id,) = await rig.add("t")
    await fail(rig, worker, id, error, "default", Kind.RETRY, delay=3600)
    return id


async def dead_parent(rig: Rig, worker: int) -> tuple[int, list[int]]:
    """A parent that died of its parts, and these."""
    id = await rig.parent(worker, parts=2, tolerated=0)
    parts = await rig.claim(worker)
    await rig.finish(worker, parts, Kind.DEAD, error=Failure("PartError", "cut", ""))
    assert (await rig.parent_record(id)).state is State.DEAD
    return id, [part.id for part in parts]


async def ids(rig: Rig, **filters: Any) -> list[int]:
    return [job.id for job in await rig.listing(**filters)]


def pairs(groups: list[Cause]) -> list[tuple[str, str, int]]:
    return [(group.task, group.error, group.jobs) for group in groups]


async def test_the_last_failure_counts(rig: Rig) -> None:
    """[O4] A job that failed with one thing and died of another is dead of the other."""
    worker = await rig.worker()
    both = await die(rig, worker, "t", "KeyError", "ValueError")
    other = await die(rig, worker, "t", "KeyError")
    later = await retry_later(rig, worker, "ValueError")
    assert await ids(rig, error="ValueError") == [later, both]
    assert await ids(rig, error="ValueError", state=State.DEAD) == [both]
    assert await ids(rig, error="ValueError", state=State.RETRYING) == [later]
    assert await ids(rig, error="KeyError") == [other]
    assert await ids(rig, error="ValueError", task="t", queue="default") == [later, both]
    assert await ids(rig, error="ValueError", task="u") == []
    assert await ids(rig, error="ValueError", queue="nowhere") == []


@pytest.mark.parametrize("error", ["valueerror", "Value%", "Value", "ValueError "])
async def test_an_error_nobody_had_finds_nothing(rig: Rig, error: str) -> None:
    """[O6] The type as it stands: no pattern, no part of it."""
    worker = await rig.worker()
    await die(rig, worker, "t", "ValueError")
    assert await ids(rig, error=error) == []


async def test_only_dead_and_retrying_jobs_are_found_by_error(rig: Rig) -> None:
    """[O6] Not those that have failed once and went on."""
    worker = await rig.worker()
    for kind in (Kind.SUCCEEDED, Kind.CANCELLED, Kind.SNOOZE):
        (id,) = await rig.add("t")
        await fail(rig, worker, id, "ValueError", "default", Kind.RETRY)
        delay = 3600.0 if kind is Kind.SNOOZE else 0.0
        await rig.finish(worker, await rig.run(worker, id), kind, delay=delay)
    (ready,) = await rig.add("t")
    await fail(rig, worker, ready, "ValueError", "default", Kind.RETRY)
    assert await ids(rig, error="ValueError") == []
    for state in State:
        page = await rig.store.jobs(JobFilter(error="ValueError", state=state))
        assert (page.jobs, page.cursor) == ([], None), state


async def test_jobs_without_a_failure_are_found_by_an_empty_one(rig: Rig) -> None:
    """[O6] Poison, parents, and those that were put off because their workers died."""
    worker, doomed = await rig.worker(), await rig.worker()
    await die(rig, worker, "t", "ValueError")
    (poison,) = await rig.add("t")
    await rig.run(doomed, poison)
    await rig.die(doomed, DeathPolicy(poison=1))
    parent, parts = await dead_parent(rig, worker)
    (put_off,) = await rig.add("t")
    for _ in range(2):
        doomed = await rig.worker()
        await rig.run(doomed, put_off)
        await rig.die(doomed)
    assert sorted(await ids(rig, error="")) == sorted([poison, parent, put_off])
    assert sorted(await ids(rig, error="", state=State.DEAD)) == sorted([poison, parent])
    assert sorted(await ids(rig, error="PartError")) == sorted(parts)


async def test_a_walk_by_error_comes_past_all_others(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """[M3] In bounded steps, each job once, the newest first."""
    monkeypatch.setattr("windlass.store.sqlite.listing.MAX_ROWS", BOUND)
    monkeypatch.setattr("windlass.store.postgres.listing_walk.MAX_ROWS", BOUND)
    monkeypatch.setattr("windlass.store.postgres.listing_walk.FEW_ROWS", 1)
    worker = await rig.worker()
    wanted: list[int] = []
    for turn in range(9):
        error = "ValueError" if turn % 3 == 0 else "KeyError"
        made = [await die(rig, worker, "t", error), await retry_later(rig, worker, error)]
        wanted += made if error == "ValueError" else []
        await rig.clock.advance(1)
    found: list[int] = []
    cursor: str | None = None
    while True:
        page = await rig.store.jobs(JobFilter(error="ValueError"), 1, cursor)
        assert rig.name == "memory" or page.looked <= BOUND
        found += [job.id for job in page.jobs]
        cursor = page.cursor
        if cursor is None:
            break
    assert found == wanted[::-1]


async def test_dead_jobs_are_counted_by_what_they_died_of(rig: Rig) -> None:
    """[O4] The largest group first; its message is that of the one that died last."""
    worker, doomed = await rig.worker(), await rig.worker()
    await die(rig, worker, "mail", "ValueError")
    last = await die(rig, worker, "mail", "KeyError", "ValueError")
    await die(rig, worker, "mail", "KeyError", "KeyError", "ValueError", queue="slow")
    key = await die(rig, worker, "mail", "KeyError")
    await rig.clock.advance(5)
    await die(rig, worker, "load", "ValueError", queue="slow")
    (poison,) = await rig.add("load")
    await rig.run(doomed, poison)
    await rig.die(doomed, DeathPolicy(poison=1))
    await retry_later(rig, worker, "ValueError")

    found = await rig.store.causes(queue="default")
    assert pairs(found.groups) == [("mail", "ValueError", 2), ("load", "", 1), ("mail", "KeyError", 1)]
    assert (found.looked, found.more) == (4, False)
    first, second, third = found.groups
    assert first.message == f"ValueError of {last}"
    assert first.last_at == pytest.approx((await rig.look(last)).finished_at, abs=1e-3)
    assert (second.message, third.message) == ("poison", f"KeyError of {key}")

    everything = await rig.store.causes()
    assert sum(group.jobs for group in everything.groups) == everything.looked == 6
    assert pairs(everything.groups)[0] == ("mail", "ValueError", 3)
    of_task = await rig.store.causes(task="load")
    assert sorted(pairs(of_task.groups)) == [("load", "", 1), ("load", "ValueError", 1)]
    assert (await rig.store.causes(task="nobody")).groups == []
    lately = await rig.store.causes(since=((await rig.look(key)).finished_at or 0.0) + 1)
    assert sorted(pairs(lately.groups)) == [("load", "", 1), ("load", "ValueError", 1)]
    assert (await rig.store.causes(queue="nowhere")).looked == 0


async def test_dead_parents_are_counted_by_their_reason(rig: Rig) -> None:
    """[O4] [P9]"""
    worker = await rig.worker()
    parent, _ = await dead_parent(rig, worker)
    found = await rig.store.causes()
    assert pairs(found.groups) == [("t", "PartError", 2), ("t", "", 1)]
    assert found.groups[1].message == (await rig.look(parent)).reason
    assert found.looked == 3


async def test_a_parent_that_failed_before_it_was_split_shows_that(rig: Rig) -> None:
    """[O4] Its last failure is the one that its page shows, also where it died of its parts."""
    worker = await rig.worker()
    (id,) = await rig.add("t", chunked=True)
    await fail(rig, worker, id, "OSError", "default", Kind.RETRY)
    await rig.split(worker, await rig.run(worker, id), 1)
    await rig.finish(worker, await rig.claim(worker), Kind.DEAD)
    assert (await rig.parent_record(id)).state is State.DEAD
    assert [error.type for error in (await rig.look(id)).errors] == ["OSError"]
    assert await ids(rig, error="OSError") == [id]
    assert ("t", "OSError", 1) in pairs((await rig.store.causes()).groups)


async def test_only_the_newest_dead_jobs_are_looked_at(rig: Rig) -> None:
    """[M3] And it is said that there are more."""
    worker = await rig.worker()
    for _ in range(3):
        await die(rig, worker, "old", "KeyError")
    await rig.clock.advance(1)
    for _ in range(2):
        await die(rig, worker, "new", "ValueError")
    found = await rig.store.causes(limit=3)
    assert pairs(found.groups) == [("new", "ValueError", 2), ("old", "KeyError", 1)]
    assert (found.looked, found.more) == (3, True)
    found = await rig.store.causes(limit=2, task="old")
    assert (found.groups, found.looked, found.more) == ([], 2, True)
    found = await rig.store.causes(limit=5)
    assert (found.looked, found.more) == (5, False)


async def test_jobs_that_were_brought_back_are_no_longer_counted(rig: Rig) -> None:
    """[O6] And one that dies again counts as what it died of then."""
    worker = await rig.worker()
    id = await die(rig, worker, "t", "KeyError")
    assert await rig.store.retry([id]) == {id: "retried"}
    assert (await rig.store.causes()).looked == 0
    assert await ids(rig, error="KeyError") == []
    await fail(rig, worker, id, "ValueError", "default", Kind.RETRY, delay=3600)
    assert await ids(rig, error="ValueError") == [id]
    await rig.store.retry([id])
    await fail(rig, worker, id, "OSError", "default", Kind.DEAD)
    assert pairs((await rig.store.causes()).groups) == [("t", "OSError", 1)]
