"""Many jobs by filter: counted, retried, cancelled, deleted, each once, in batches [O6]."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.conformance.kit import Rig, failure
from windlass import Windlass
from windlass.core.states import Kind, State
from windlass.errors import InvalidOption
from windlass.operations import walks
from windlass.operations.operation import CODE, Ops
from windlass.operations.walks import Count
from windlass.store.records import JobFilter, Matches


class Echoing:
    """A store that finds every job a second time, as one that moved between two moments might be."""

    def __init__(self, rig: Rig) -> None:
        self.retry = rig.store.retry
        self._store = rig.store

    async def matches(self, where: JobFilter, most: int, cursor: str | None, within: float | None) -> Matches:
        found = await self._store.matches(where, most, None, within)
        return Matches(found.ids, "again" if cursor is None else None)


class Busy:
    """A store in which everything that can begins to run after each batch."""

    def __init__(self, rig: Rig, worker: int) -> None:
        self._rig, self._worker = rig, worker
        self.matches = rig.store.matches

    async def cancel(self, jobs: Sequence[int]) -> Mapping[int, str]:
        answers = await self._rig.store.cancel(jobs)
        await self._rig.store.promote()
        await self._rig.claim(self._worker)
        return answers


def asked(store: Any) -> Ops:
    return Ops(Windlass(), store, CODE)


async def dead(rig: Rig, count: int) -> list[int]:
    ids = await rig.add(*(["t"] * count), tags=("red",))
    worker = await rig.worker()
    await rig.finish(worker, await rig.claim(worker, limit=count), Kind.DEAD, error=failure())
    return ids


@pytest.mark.parametrize(("cap", "found"), [(100, Count(7)), (7, Count(7)), (6, Count(6, more=True))])
async def test_count_stops_at_its_cap(rig: Rig, cap: int, found: Count) -> None:
    await rig.add(*(["t"] * 7))
    await rig.one("other")
    assert await walks.count(rig.store, JobFilter(task="t"), cap) == found
    assert str(found) == ("6 or more" if found.more else "7")


@pytest.mark.parametrize("batch", [1, 3, 500])
async def test_retry_where_the_jobs_leave_the_filter(rig: Rig, batch: int) -> None:
    ids = await dead(rig, 7)
    seen: list[int] = []
    answers = await walks.apply(
        asked(rig.store), JobFilter(state=State.DEAD), "retry", batch=batch, progress=seen.append
    )
    assert answers == {"retried": 7}
    assert seen[-1] == 7
    assert seen == sorted(seen)
    assert {job.id for job in await rig.listing(state=State.READY)} == set(ids)


@pytest.mark.parametrize("batch", [1, 3, 500])
async def test_retry_where_the_jobs_stay_in_the_filter(rig: Rig, batch: int) -> None:
    await dead(rig, 5)
    await rig.add("t", "t", tags=("red",))
    answers = await walks.apply(asked(rig.store), JobFilter(tag="red"), "retry", batch=batch)
    assert answers == {"retried": 5, "unchanged": 2}


async def test_cancel_and_delete(rig: Rig) -> None:
    worker = await rig.worker()
    await rig.bring(State.RUNNING, worker)
    await rig.add("t", "t", "t")
    await rig.one(queue="other")
    where = JobFilter(queue="default")
    assert await walks.apply(asked(rig.store), where, "cancel", batch=2) == {"cancelled": 3, "requested": 1}
    assert await walks.apply(asked(rig.store), where, "delete", batch=2) == {"deleted": 3, "requested": 1}
    assert len(await rig.listing()) == 2


async def test_a_limit_takes_the_newest(rig: Rig) -> None:
    ids = await rig.add("a", "b", "c", "d", "e")
    assert await walks.apply(asked(rig.store), JobFilter(), "delete", batch=2, limit=3) == {"deleted": 3}
    assert sorted(job.id for job in await rig.listing()) == sorted(ids[:2])


async def test_no_job_is_acted_on_twice(rig: Rig) -> None:
    await dead(rig, 5)
    answers = await walks.apply(asked(Echoing(rig)), JobFilter(tag="red"), "retry", batch=2)
    assert answers == {"retried": 5}


@pytest.mark.parametrize("state", [None, State.READY])
async def test_every_job_is_acted_on_that_matched_when_it_began(rig: Rig, state: State | None) -> None:
    """[S5] Jobs that went to the top of their lane, or began to run, between two batches were passed over."""
    worker = await rig.worker()
    await rig.add("a", "a", "a")
    for n in range(3):
        await rig.one("held", fair_key=f"k{n}")
    if state is None:
        for _ in range(2):
            await rig.one("later", delay=1)
        await rig.clock.advance(2)
    some = await rig.listing(state=state) if state else await rig.listing()
    answers = await walks.apply(asked(Busy(rig, worker)), JobFilter(state=state), "cancel", batch=1)
    assert answers == {"cancelled": 1, "requested": len(some) - 1}


@pytest.mark.parametrize("step", [1, 3])
async def test_a_count_and_a_walk_go_on_where_a_moment_is_over(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """[S5] A snapshot must not last: what is left is looked at in another one, and told as such."""
    if rig.name == "memory":
        monkeypatch.setattr(walks, "AT_ONCE", step)
    else:
        monkeypatch.setattr(walks, "MOMENT", 0.0)
        monkeypatch.setattr(f"windlass.store.{rig.name}.listing.MAX_ROWS", step)
        monkeypatch.setattr("windlass.store.postgres.listing.MAX_ROWS", step)
        monkeypatch.setattr("windlass.store.postgres.listing_walk.FEW_ROWS", 1)
    ids = await rig.add(*["t"] * 7)
    assert await walks.count(rig.store, JobFilter()) == Count(7)
    if rig.name != "memory":
        assert await walks.count(rig.store, JobFilter(), within=0.0) == Count(step, more=True)
    assert await walks.apply(asked(rig.store), JobFilter(), "cancel", batch=2, limit=5) == {"cancelled": 5}
    assert {job.id for job in await rig.listing(state=State.READY)} == set(ids[:2])
    assert await walks.apply(asked(rig.store), JobFilter(), "delete", batch=2) == {"deleted": 7}


@pytest.mark.parametrize("wrong", [{"batch": 0}, {"limit": 0}])
async def test_a_walk_needs_room(rig: Rig, wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidOption):
        await walks.apply(asked(rig.store), JobFilter(), "retry", **wrong)  # type: ignore[arg-type]
