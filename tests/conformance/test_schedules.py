"""Schedules in a store: seeded and not fired, changed, paused, dropped, and found when they are due [K4]."""

import math

import msgspec
import pytest

from tests.conformance.kit import Rig
from tests.conformance.schedule_kit import MINUTE, fire, look, ready, schedule, seed
from windlass.core.states import Priority
from windlass.store.records import Options, ScheduleRecord

# -- declaring ----------------------------------------------------------------------------------------------


async def test_a_new_schedule_is_seeded_and_not_fired(rig: Rig) -> None:
    """[K4] It waits for its first time."""
    declared = schedule(
        cron="0 9 * * MON-FRI",
        tz="Europe/Paris",
        payload='{"n":1}',
        queue="reports",
        priority=Priority.HIGH,
        options=Options(max_attempts=2, tags=("a",)),
        missed="all",
        overlap="queue",
        grace=5.0,
        jitter=3.0,
    )
    at = float(math.floor(await rig.store.now() + MINUTE))
    record = await rig.store.seed_schedule(declared, at)
    assert record == ScheduleRecord(**msgspec.structs.asdict(declared), next_at=at)
    assert await rig.store.schedules() == [record]
    assert (await rig.store.due()).schedules == []
    assert await rig.listing() == []


async def test_schedules_are_listed_by_name(rig: Rig) -> None:
    """[K4]"""
    for name in "cab":
        await seed(rig, name)
    assert [found.name for found in await rig.store.schedules()] == ["a", "b", "c"]


async def test_seeding_again_changes_nothing(rig: Rig) -> None:
    """[K4] Each worker that starts does it."""
    at = await seed(rig)
    await fire(rig, at)
    before = await look(rig)
    assert await rig.store.seed_schedule(schedule(), at + 1000) == before
    assert await look(rig) == before


async def test_a_new_definition_keeps_its_time_and_what_it_has_done(rig: Rig) -> None:
    """[K4]"""
    at = await seed(rig)
    await fire(rig, at, skipped=2)
    await rig.store.set_schedule("s", paused=True)
    changed = await rig.store.seed_schedule(
        schedule(task="u", payload="[1]", overlap="queue"), at + 1000, "wrong"
    )
    assert (changed.task, changed.payload, changed.overlap) == ("u", "[1]", "queue")
    assert (changed.next_at, changed.last_at, changed.skipped) == (at + MINUTE, at, 2)
    assert (changed.paused, changed.error) == (True, None)


async def test_a_changed_expression_moves_its_time_and_keeps_its_pause(rig: Rig) -> None:
    """[K4]"""
    at = await seed(rig)
    await fire(rig, at)
    await rig.store.set_schedule("s", paused=True)
    for n, change in enumerate(({"cron": "0 * * * *"}, {"cron": "0 * * * *", "tz": "Europe/Paris"})):
        changed = await rig.store.seed_schedule(schedule(**change), at + n * MINUTE)
        assert (changed.next_at, changed.paused, changed.last_at) == (at + n * MINUTE, True, at)


async def test_a_bad_expression_is_recorded(rig: Rig) -> None:
    """[K4] It is never due, until it is mended; the others go on."""
    record = await rig.store.seed_schedule(schedule(cron="x"), None, "no cron expression")
    assert (record.next_at, record.error) == (None, "no cron expression")
    await seed(rig, "other")
    assert [found.name for found in (await rig.store.due()).schedules] == ["other"]
    mended = await rig.store.seed_schedule(schedule(), await rig.store.now())
    assert mended.error is None
    assert len((await rig.store.due()).schedules) == 2


async def test_one_that_was_never_due_is_mended_without_a_change(rig: Rig) -> None:
    """[K4] The host that declared it first did not know its time zone; the next one does. Once it is due
    nobody else takes that back."""
    mine = schedule(tz="Europe/Paris")
    await rig.store.seed_schedule(mine, None, "there is no time zone 'Europe/Paris' here")
    still = await rig.store.seed_schedule(mine, None, "no data of time zones here")
    assert (still.next_at, still.error) == (None, "no data of time zones here")
    at = await rig.store.now()
    mended = await rig.store.seed_schedule(mine, at)
    assert (mended.next_at, mended.error) == (at, None)
    kept = await rig.store.seed_schedule(mine, None, "there is no time zone 'Europe/Paris' here")
    assert (kept.next_at, kept.error) == (at, None)
    assert [found.name for found in (await rig.store.due()).schedules] == ["s"]


async def test_a_dropped_schedule_is_gone_and_its_jobs_stay(rig: Rig) -> None:
    """[K4]"""
    at = await seed(rig)
    await fire(rig, at)
    assert await rig.store.drop_schedule("s") is True
    assert await rig.store.drop_schedule("s") is False
    assert (await rig.store.schedules(), await ready(rig)) == ([], 1)
    assert await fire(rig, at + MINUTE) is None
    assert await rig.store.set_schedule("s", paused=True) is None


# -- who is due ---------------------------------------------------------------------------------------------


async def test_the_one_due_longest_comes_first(rig: Rig) -> None:
    """[K4] By the store's clock, which is told with them."""
    for name, due_in in (("b", -20), ("a", -10), ("c", -30), ("later", 1000)):
        await seed(rig, name, due_in=due_in)
    due = await rig.store.due()
    assert [found.name for found in due.schedules] == ["c", "b", "a"]
    assert due.now == pytest.approx(await rig.store.now(), abs=30)
    assert [found.name for found in (await rig.store.due(limit=1)).schedules] == ["c"]
    await rig.clock.advance(1001)
    assert len((await rig.store.due()).schedules) == 4


async def test_a_paused_one_is_not_due(rig: Rig) -> None:
    """[K4] Nor does it fire; resumed, it is due from the time that was given."""
    at = await seed(rig, due_in=-10)
    paused = await rig.store.set_schedule("s", paused=True)
    assert paused is not None
    assert (paused.paused, paused.next_at) == (True, at)
    assert (await rig.store.due()).schedules == []
    assert await fire(rig, at) is None
    resumed = await rig.store.set_schedule("s", paused=False, next_at=at + 100)
    assert resumed is not None
    assert (resumed.paused, resumed.next_at) == (False, at + 100)
    assert (await rig.store.due()).schedules == []
    assert await ready(rig) == 0
