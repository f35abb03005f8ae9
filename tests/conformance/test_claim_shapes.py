"""A claimed job is what its record says, however it came to its worker: claims fill it by position."""

import pytest

from tests.conformance.kit import Rig
from windlass.core.states import Kind, Priority
from windlass.store.records import ClaimedJob, JobRecord, Outcome, Room

SHARED = sorted(set(ClaimedJob.__struct_fields__) & set(JobRecord.__struct_fields__))


@pytest.mark.parametrize("how", ["claim", "unfinished", "handover"])
async def test_a_claimed_job_is_what_its_record_says(rig: Rig, how: str) -> None:
    """[C1] [C2]"""
    worker = await rig.worker()
    keyed = {"concurrency_key": "k"} if how == "handover" else {}
    (first,) = await rig.add("first", **keyed)
    job = await rig.run(worker, first)
    (id,) = await rig.add("t", payload='{"a": 1}', priority=Priority.HIGH, tags=("x",), **keyed)
    if how == "handover":
        claims = list((await rig.flush(worker, [Outcome(job=job)], Room({"default": 5}))).claims)
    else:
        await rig.finish(worker, await rig.run(worker, id), Kind.RETRY, delay=0.0)
        claims = await rig.claims(worker)
    if how == "unfinished":
        claims = await rig.store.unfinished(worker)
    (claimed,) = (each for claim in claims for each in claim.jobs if each.id == id)
    record = await rig.look(id)
    assert [getattr(claimed, name) for name in SHARED] == [getattr(record, name) for name in SHARED]
    assert claimed.attempt == (1 if keyed else 2)
    assert claimed.ready_at >= claimed.enqueued_at
