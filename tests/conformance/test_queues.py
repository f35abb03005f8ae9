"""Queues: declared by use or by hand, with settings that last [K1] [K2]."""

import pytest

from tests.conformance.conftest import SETTINGS
from tests.conformance.kit import Rig
from windlass.store.records import QueueRecord


async def test_no_queue_before_the_first(rig: Rig) -> None:
    """[K1]"""
    assert await rig.store.queues() == []
    assert await rig.store.depth() == {}


async def test_a_queue_may_be_declared_before_its_first_job(rig: Rig) -> None:
    """[K1] With the defaults where nothing is said."""
    record = await rig.store.set_queue("mail", {"max_workers": 8})
    assert record == QueueRecord(name="mail", max_workers=8)
    assert await rig.store.queues() == [record]


async def test_every_setting_lasts(rig: Rig) -> None:
    """[K1] And one change leaves the others alone."""
    await rig.store.set_queue(
        "q", {"paused": True, "max_workers": 4, "retention": 60.0, "dead_retention": 120.0, "window": 7}
    )
    record = await rig.store.set_queue("q", {"window": 9})
    assert record == QueueRecord(
        name="q", paused=True, max_workers=4, retention=60.0, dead_retention=120.0, window=9
    )
    assert await rig.store.queues() == [record]
    cleared = await rig.store.set_queue("q", {"max_workers": None, "retention": None, "paused": False})
    assert cleared == QueueRecord(name="q", dead_retention=120.0, window=9)


async def test_a_retention_beyond_the_stores_is_refused(rig: Rig) -> None:
    """[K1] [K6] The job would go with the store's, whatever its queue says."""
    await rig.store.set_queue("q", {"retention": SETTINGS.retention})
    with pytest.raises(ValueError, match="retention") as refused:
        await rig.store.set_queue("q", {"retention": SETTINGS.retention + 1, "window": 3})
    assert str(refused.value) == (
        "retention of queue q cannot be above that of the store, 28800 s. Raise that first with "
        "WINDLASS_RETENTION, or set a shorter one"
    )
    assert await rig.store.queues() == [QueueRecord(name="q", retention=SETTINGS.retention)]
    record = await rig.store.set_queue("q", {"dead_retention": 2 * SETTINGS.retention, "retention": None})
    assert (record.retention, record.dead_retention) == (None, 2 * SETTINGS.retention)


async def test_enqueue_does_not_reset_settings(rig: Rig) -> None:
    """[K1] The stored value wins."""
    await rig.store.set_queue("q", {"window": 3})
    await rig.one(queue="q")
    assert await rig.store.queues() == [QueueRecord(name="q", window=3)]


async def test_by_name(rig: Rig) -> None:
    """[K1]"""
    for name in ("zebra", "ant", "mole"):
        await rig.one(queue=name)
    assert [queue.name for queue in await rig.store.queues()] == ["ant", "mole", "zebra"]


async def test_no_change_declares(rig: Rig) -> None:
    """[K1]"""
    assert await rig.store.set_queue("q", {}) == QueueRecord(name="q")


@pytest.mark.parametrize("changes", [{"name": "other"}, {"colour": "red"}, {"window": 5, "nonsense": 1}])
async def test_a_setting_that_does_not_exist_is_refused(rig: Rig, changes: dict[str, object]) -> None:
    """[K1] As a whole: the rest of the call is not applied either."""
    await rig.store.set_queue("q", {"window": 3})
    with pytest.raises(ValueError):
        await rig.store.set_queue("q", changes)
    assert await rig.store.queues() == [QueueRecord(name="q", window=3)]


async def test_pausing_is_for_one_queue(rig: Rig) -> None:
    """[K2]"""
    await rig.store.set_queue("a", {"paused": True})
    await rig.add("a", queue="a")
    await rig.add("b", queue="b")
    worker = await rig.worker()
    assert [job.task for job in await rig.claim(worker, "a", "b")] == ["b"]
    assert (await rig.depth("a")).ready == 1
