"""Keys, tags and names that would be code elsewhere are text to every store [M5] [E2]."""

import pytest

from tests.conformance.budget_kit import declare
from tests.conformance.kit import Rig
from tests.conformance.test_events import HOSTILE
from windlass.core.states import State
from windlass.store.records import JobFilter

KEYS = ("unique_key", "fair_key", "ordering_key", "concurrency_key", "trace")


@pytest.mark.parametrize("text", [text for text in HOSTILE if len(text) <= 64])
async def test_a_job_has_what_it_was_given(rig: Rig, text: str) -> None:
    """[M5] It is found by it, runs, and nothing else is changed."""
    other = await rig.one("other", tags=("x",))
    given = {**dict.fromkeys(KEYS, text), "tags": (text,), "headers": {text: text}}
    made = await rig.one("t", idempotency_key=text, **given)
    twin = await rig.one("t", **given)
    again = await rig.one("t", idempotency_key=text)
    assert (twin.id, again.id) == (made.id, made.id)
    record = await rig.store.job(made.id)
    assert record is not None
    assert {name: getattr(record.options, name) for name in given} == given
    page = await rig.store.jobs(JobFilter(tag=text))
    assert [job.id for job in page.jobs] == [made.id]
    assert (await rig.store.jobs(JobFilter(queue=text))).jobs == []
    worker = await rig.worker()
    jobs = [job for _ in range(2) for job in await rig.claim(worker, "default", limit=5)]
    assert {job.id for job in jobs} == {other.id, made.id}
    await rig.finish(worker, jobs)
    assert await rig.state(made.id) is State.SUCCEEDED


@pytest.mark.parametrize("text", HOSTILE)
async def test_a_bucket_is_of_its_key(rig: Rig, text: str) -> None:
    """[M5] [F1]"""
    await declare(rig, burst=2)
    assert (await rig.store.take("b", 2, text)).granted
    assert not (await rig.store.take("b", 1, text)).granted
    assert (await rig.store.take("b", 2, "")).granted
    await rig.store.drain("b", 5.0, text)
    assert [use.key for use in await rig.store.usage("b")] == sorted(["", text], key=lambda key: key != "")
