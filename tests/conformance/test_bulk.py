"""Many jobs by filter: counted, retried, cancelled, deleted, each once, in batches [O6]."""

import pytest

from tests.conformance.kit import Rig, failure
from windlass import bulk
from windlass.bulk import Count
from windlass.core.states import Kind, State
from windlass.errors import InvalidOption
from windlass.store.records import JobFilter, Page


class Echoing:
    """A store whose listing shows every job a second time, as one that moved under the walk might be."""

    def __init__(self, rig: Rig) -> None:
        self.retry = rig.store.retry
        self._store = rig.store
        self._again = True

    async def jobs(self, where: JobFilter, limit: int = 50, cursor: str | None = None) -> Page:
        page = await self._store.jobs(where, limit, None if cursor == "again" else cursor)
        if page.cursor is None and self._again:
            self._again = False
            return Page(page.jobs, "again")
        return page


async def dead(rig: Rig, count: int) -> list[int]:
    ids = await rig.add(*(["t"] * count), tags=("red",))
    worker = await rig.worker()
    await rig.finish(worker, await rig.claim(worker, limit=count), Kind.DEAD, error=failure())
    return ids


@pytest.mark.parametrize(("cap", "found"), [(100, Count(7)), (7, Count(7)), (6, Count(6, more=True))])
async def test_count_stops_at_its_cap(rig: Rig, cap: int, found: Count) -> None:
    await rig.add(*(["t"] * 7))
    await rig.one("other")
    assert await bulk.count(rig.store, JobFilter(task="t"), cap) == found
    assert str(found) == ("6 or more" if found.more else "7")


@pytest.mark.parametrize("batch", [1, 3, 500])
async def test_retry_where_the_jobs_leave_the_filter(rig: Rig, batch: int) -> None:
    ids = await dead(rig, 7)
    told: list[int] = []
    answers = await bulk.apply(
        rig.store, JobFilter(state=State.DEAD), "retry", batch=batch, progress=told.append
    )
    assert answers == {"retried": 7}
    assert told[-1] == 7
    assert told == sorted(told)
    assert {job.id for job in await rig.listing(state=State.READY)} == set(ids)


@pytest.mark.parametrize("batch", [1, 3, 500])
async def test_retry_where_the_jobs_stay_in_the_filter(rig: Rig, batch: int) -> None:
    await dead(rig, 5)
    await rig.add("t", "t", tags=("red",))
    answers = await bulk.apply(rig.store, JobFilter(tag="red"), "retry", batch=batch)
    assert answers == {"retried": 5, "unchanged": 2}


async def test_cancel_and_delete(rig: Rig) -> None:
    worker = await rig.worker()
    await rig.bring(State.RUNNING, worker)
    await rig.add("t", "t", "t")
    await rig.one(queue="other")
    where = JobFilter(queue="default")
    assert await bulk.apply(rig.store, where, "cancel", batch=2) == {"cancelled": 3, "requested": 1}
    assert await bulk.apply(rig.store, where, "delete", batch=2) == {"deleted": 3, "requested": 1}
    assert len(await rig.listing()) == 2


async def test_a_limit_takes_the_newest(rig: Rig) -> None:
    ids = await rig.add("a", "b", "c", "d", "e")
    assert await bulk.apply(rig.store, JobFilter(), "delete", batch=2, limit=3) == {"deleted": 3}
    assert sorted(job.id for job in await rig.listing()) == sorted(ids[:2])


async def test_no_job_is_acted_on_twice(rig: Rig) -> None:
    await dead(rig, 5)
    answers = await bulk.apply(Echoing(rig), JobFilter(tag="red"), "retry", batch=2)  # type: ignore[arg-type]
    assert answers == {"retried": 5}


@pytest.mark.parametrize("wrong", [{"batch": 0}, {"limit": 0}])
async def test_a_walk_needs_room(rig: Rig, wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidOption):
        await bulk.apply(rig.store, JobFilter(), "retry", **wrong)  # type: ignore[arg-type]
