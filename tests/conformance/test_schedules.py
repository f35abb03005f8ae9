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
    before = await rig.store.now()
    record = await rig.store.seed_schedule(declared, at)
    assert record.declared_at == pytest.approx(before, abs=30)
    assert record == ScheduleRecord(
        **msgspec.structs.asdict(declared), next_at=at, declared=declared, declared_at=record.declared_at
    )
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
    await rig.clock.advance(5)
    after = await rig.store.seed_schedule(schedule(), at + 1000)
    assert (after.declared_at or 0.0) >= (before.declared_at or 0.0) + 5
    assert msgspec.structs.replace(after, declared_at=before.declared_at) == before
    assert await look(rig) == after


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


# -- at run time --------------------------------------------------------------------------------------------


async def test_one_made_at_run_time_is_there_once(rig: Rig) -> None:
    """[K4] A second of its name is not made, and one that is not there is not changed."""
    at = float(math.floor(await rig.store.now() + MINUTE))
    assert await rig.store.put_schedule(schedule(), at, new=False) is None
    made = await rig.store.put_schedule(schedule(), at, new=True)
    assert made == ScheduleRecord(**msgspec.structs.asdict(schedule()), next_at=at, live=True)
    assert await rig.store.put_schedule(schedule(task="u"), at + 1, new=True) is None
    assert await rig.store.schedules() == [made]


async def test_one_made_at_run_time_fires_as_any_other(rig: Rig) -> None:
    """[K4]"""
    at = float(math.floor(await rig.store.now()))
    await rig.store.put_schedule(schedule(queue="reports"), at, new=True)
    assert [found.name for found in (await rig.store.due()).schedules] == ["s"]
    (receipt,) = await fire(rig, at) or []
    assert (await rig.look(receipt.id)).queue == "reports"
    assert ((await look(rig)).live, (await look(rig)).last_job) == (True, receipt.id)


async def test_what_was_changed_at_run_time_survives_the_code(rig: Rig) -> None:
    """[K4] As budgets have it: a default in code never overwrites what was changed live."""
    at = await seed(rig)
    await fire(rig, at, skipped=2)
    live = await rig.store.put_schedule(schedule(cron="0 8 * * *", task="u"), at + 500, new=False)
    assert live is not None
    assert (live.live, live.cron, live.task, live.next_at) == (True, "0 8 * * *", "u", at + 500)
    assert (live.declared, live.skipped, live.last_at) == (schedule(), 2, at)
    again = await rig.store.seed_schedule(schedule(cron="0 7 * * *"), at + 900)
    assert (again.live, again.cron, again.task, again.next_at) == (True, "0 8 * * *", "u", at + 500)
    assert again.declared == schedule(cron="0 7 * * *")


async def test_the_way_back_is_to_put_what_code_says(rig: Rig) -> None:
    """[K4] From then on the code is heeded again."""
    at = await seed(rig, options=Options(tags=("a",), headers={"z": "1", "b": "2"}), payload='{"b":1,"a":2}')
    await rig.store.put_schedule(schedule(cron="0 8 * * *"), at + 500, new=False)
    declared = (await look(rig)).declared
    assert declared is not None
    back = await rig.store.put_schedule(declared, at + 700, new=False)
    assert back is not None
    assert (back.live, back.cron, back.payload, back.next_at) == (
        False,
        "* * * * *",
        '{"b":1,"a":2}',
        at + 700,
    )
    moved = await rig.store.seed_schedule(schedule(cron="0 9 * * *"), at + 900)
    assert (moved.live, moved.cron, moved.next_at) == (False, "0 9 * * *", at + 900)


async def test_code_that_says_what_was_changed_owns_it_again(rig: Rig) -> None:
    """[K4] Also one that was made at run time and is declared later."""
    at = await seed(rig)
    wanted = schedule(cron="0 8 * * *", options=Options(tags=("a",)))
    await rig.store.put_schedule(wanted, at + 500, new=False)
    adopted = await rig.store.seed_schedule(wanted, at + 900)
    assert (adopted.live, adopted.declared, adopted.next_at) == (False, wanted, at + 500)
    await rig.store.put_schedule(schedule("t"), at, new=True)
    assert (await rig.store.seed_schedule(schedule("t", task="u"), at)).live
    assert not (await rig.store.seed_schedule(schedule("t"), at)).live


async def test_a_change_of_anything_else_leaves_its_time(rig: Rig) -> None:
    """[K4]"""
    at = await seed(rig, due_in=100)
    changed = await rig.store.put_schedule(schedule(overlap="queue", jitter=2.0), at + 500, new=False)
    assert changed is not None
    assert (changed.next_at, changed.overlap, changed.jitter) == (at, "queue", 2.0)


# -- who is due ---------------------------------------------------------------------------------------------


async def test_the_one_due_longest_comes_first(rig: Rig) -> None:
    """[K4] By the store's clock, which is told with them."""
    for name, due_in in (("b", -20), ("a", -10), ("c", -30), ("later", 1000)):
        await seed(rig, name, due_in=due_in)
    due = await rig.store.due()
    assert [found.name for found in due.schedules] == ["c", "b", "a"]
    assert due.now == pytest.approx(await rig.store.now(), abs=30)
    assert [found.name for found in (await rig.store.due(limit=1)).schedules] == ["c"]
    assert due.next_at == (await look(rig, "later")).next_at
    await rig.clock.advance(1001)
    assert len((await rig.store.due()).schedules) == 4
    assert (await rig.store.due()).next_at is None


async def test_a_paused_one_is_not_due(rig: Rig) -> None:
    """[K4] Nor does it fire; resumed, it is due from the time that was given."""
    at = await seed(rig, due_in=-10)
    paused = await rig.store.set_schedule("s", paused=True)
    assert paused is not None
    assert (paused.paused, paused.next_at) == (True, at)
    assert ((await rig.store.due()).schedules, (await rig.store.due()).next_at) == ([], None)
    assert await fire(rig, at) is None
    resumed = await rig.store.set_schedule("s", paused=False, next_at=at + 100)
    assert resumed is not None
    assert (resumed.paused, resumed.next_at) == (False, at + 100)
    assert (await rig.store.due()).schedules == []
    assert await ready(rig) == 0
