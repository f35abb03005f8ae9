"""Many jobs of every kind in one call: each gets the answer that it would get alone [O5] [O6]."""

from typing import Any, Literal

import pytest

from tests.conformance.kit import Rig, failure
from windlass.core.states import Kind, State
from windlass.store.records import ClaimedJob, JobRecord

Verb = Literal["retry", "cancel", "delete"]
NOWHERE = (0, -1, 2**40 + 5, 2**63, 2**70)
"""Ids that no job has."""


class World:
    """One job of every kind, by name. Two of these in one store are as good as strangers to each other."""

    def __init__(self, rig: Rig, worker: int, name: str) -> None:
        self._rig = rig
        self._worker = worker
        self._name = name
        self._queues: set[str] = set()
        self.jobs: dict[str, int] = {}

    async def made(self) -> "World":
        """All of them. What waits stands in a queue apart, so as not to be taken in place of others."""
        for state in (State.SUCCEEDED, State.CANCELLED, State.DEAD):
            await self._ended(state.value, Kind(state.value))
        for place in range(3):
            await self._ended(f"dead {place}", Kind.DEAD, priority=place % 2)
        await self._ended("retrying", Kind.RETRY, delay=3600.0)
        await self._ended("dead with a free key", Kind.DEAD, unique_key=f"{self._name}-free")
        await self._ended("dead with a key that a twin has", Kind.DEAD, unique_key=f"{self._name}-had")
        await self._ended("dead with a fair key", Kind.DEAD, fair_key="f")
        await self._ended("dead behind a gate", Kind.DEAD, concurrency_key=f"{self._name}-gate")
        await self._add("waits", "twin", unique_key=f"{self._name}-had")
        await self._add("waits", "beyond the gate", concurrency_key=f"{self._name}-gate")
        await self._rig.store.promote()
        await self._add("waits", "before the gate", concurrency_key=f"{self._name}-gate")
        await self._add("waits", "scheduled", delay=3600.0)
        await self._add("waits", "scheduled with a key", delay=3600.0, unique_key=f"{self._name}-later")
        later: dict[str, Any] = {"otherwise": "run", "delay": 3600.0}  # whatever becomes of the other
        await self._add("waits", "after another", after=(self.jobs["scheduled"],), **later)
        await self._add("waits", "ready with a key", unique_key=f"{self._name}-now")
        for place in range(3):
            await self._add("waits", f"ready {place}")
        await self._taken("runs", "running")
        await self._family("parent", Kind.RETRY)
        await self._family("dead parent", Kind.DEAD)
        return self

    async def _add(self, queue: str, what: str, **fields: Any) -> None:
        self._queues.add(f"{self._name}-{queue}")
        self.jobs[what] = (await self._rig.one(queue=f"{self._name}-{queue}", **fields)).id

    async def _taken(self, queue: str, what: str, **fields: Any) -> ClaimedJob:
        await self._add(queue, what, **fields)
        await self._rig.store.promote()
        return await self._rig.run(self._worker, self.jobs[what], f"{self._name}-{queue}")

    async def _ended(self, what: str, kind: Kind, delay: float = 0.0, **fields: Any) -> None:
        claimed = await self._taken("ended", what, **fields)
        error = failure(what) if kind in (Kind.DEAD, Kind.RETRY) else None
        await self._rig.finish(self._worker, claimed, kind, delay=delay, error=error)

    async def _family(self, what: str, end: Kind) -> None:
        """A parent of three parts: one has succeeded, one has ended so, and so has the third or is out."""
        claimed = await self._taken("split", what, chunked=True)
        await self._rig.split(self._worker, claimed, 3, parallel=3)
        parts = await self._rig.claim(self._worker, f"{self._name}-split")
        ended = parts[1:] if end is Kind.DEAD else parts[1:2]
        await self._rig.finish(self._worker, parts[0])
        await self._rig.finish(self._worker, ended, end, delay=3600.0, error=failure())
        await self._rig.store.promote()
        self.jobs |= {f"part {place} of {what}": part.id for place, part in enumerate(parts)}

    async def as_left(self) -> dict[str, object]:
        """How every job stands, and what a worker would get of each queue."""
        for _ in range(3):
            await self._rig.store.promote()
        names = {id: what for what, id in self.jobs.items()}
        seen = {what: _shape(await self._rig.store.job(id)) for what, id in self.jobs.items()}
        parents = {
            what: (record.state, record.out, record.dead, record.cancelled)
            for what in ("parent", "dead parent")
            if (record := await self._rig.store.parent(self.jobs[what])) is not None
        }
        given = {
            queue.removeprefix(self._name): sorted(
                (names.get(claimed.id, "new"), claimed.attempt)
                for claimed in await self._rig.claim(self._worker, queue)
            )
            for queue in self._queues
        }
        return {"jobs": seen, "parents": parents, "given": given}


def _shape(record: JobRecord | None) -> object:
    if record is None:
        return None
    errors = [(error.type, error.message, error.attempt) for error in record.errors]
    return record.state, record.attempt, record.deaths, record.task, errors


async def manage(rig: Rig, verb: Verb, ids: list[int]) -> dict[int, str]:
    match verb:
        case "retry":
            return dict(await rig.store.retry(ids))
        case "cancel":
            return dict(await rig.store.cancel(ids))
        case "delete":
            return dict(await rig.store.delete(ids))


@pytest.mark.parametrize("verb", ["retry", "cancel", "delete"])
async def test_a_mixed_batch_answers_as_one_by_one(rig: Rig, verb: Verb) -> None:
    worker = await rig.worker()
    single = await World(rig, worker, "single").made()
    batch = await World(rig, worker, "batch").made()
    alone = {what: (await manage(rig, verb, [id]))[id] for what, id in single.jobs.items()}
    ids = [*batch.jobs.values(), *NOWHERE, *batch.jobs.values()]
    answers = await manage(rig, verb, ids)
    assert list(answers) == list(dict.fromkeys(ids))
    assert {what: answers[id] for what, id in batch.jobs.items()} == alone
    assert {answers[id] for id in NOWHERE} == {"not_found"}
    assert await batch.as_left() == await single.as_left()


async def test_many_retried_go_back_in_the_order_given_and_keep_id_and_failures(rig: Rig) -> None:
    worker = await rig.worker()
    ids = await rig.add(*(["t"] * 20))
    await rig.finish(worker, await rig.claim(worker), Kind.DEAD, error=failure())
    order = ids[10:] + ids[:10]
    assert await rig.store.retry(order) == dict.fromkeys(order, "retried")
    claimed = await rig.claim(worker)
    assert [job.id for job in claimed] == order
    assert {job.attempt for job in claimed} == {1}
    assert [error.message for error in (await rig.look(ids[0])).errors] == ["boom"]


async def test_failures_outlive_the_logs_and_a_retry_of_many(rig: Rig) -> None:
    """The log of failures has turned; the dead letters have kept them, and give them back."""
    worker = await rig.worker()
    ids = await rig.add("t", "t", "t")
    await rig.finish(worker, await rig.claim(worker), Kind.DEAD, error=failure())
    await rig.turn()
    assert set((await rig.store.retry(ids)).values()) == {"retried"}
    assert [[error.message for error in (await rig.look(id)).errors] for id in ids] == [["boom"]] * 3


@pytest.mark.parametrize("verb", ["cancel", "delete"])
async def test_waiting_ones_between_others_are_never_given_out(rig: Rig, verb: Verb) -> None:
    """Every second one of a lane, then the rest is claimed: nothing twice, nothing lost, depth is right."""
    worker = await rig.worker()
    ids = await rig.add(*(["t"] * 90))
    first = await rig.claim(worker, limit=10)
    chosen = ids[10::2]
    answers = await manage(rig, verb, chosen)
    assert set(answers.values()) == {"cancelled" if verb == "cancel" else "deleted"}
    assert (await rig.depth()).ready == 40
    again = await manage(rig, verb, chosen)
    assert set(again.values()) == {"finished" if verb == "cancel" else "not_found"}
    rest = await rig.claim(worker)
    assert sorted(job.id for job in [*first, *rest]) == sorted(set(ids) - set(chosen))
    assert (await rig.depth()).ready == 0
