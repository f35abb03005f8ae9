"""Caps of budgets: no more than so many tokens in an hour, a day or a month [F1]."""

from datetime import datetime
from typing import Any

import pytest

from tests.conformance.budget_kit import budget, claim, declare, grants, promote, taken
from tests.conformance.kit import Rig
from windlass.core.flow.caps import LONGEST, PERIODS, cap_of, period_end
from windlass.store.records import Need, Usage

HOUR: dict[str, Any] = {"cap": 10, "cap_per": "hour"}


async def until_the_hour(rig: Rig, more: float = 1.0) -> None:
    """The clock moves to the next full hour, and a little on."""
    now = await rig.store.now()
    await rig.clock.advance(3600 - now % 3600 + more)


async def test_no_more_than_the_cap_in_a_period(rig: Rig) -> None:
    """[F1] However fast it refills; and all of it again in the next."""
    await declare(rig, burst=5, rate=1000.0, **HOUR)
    await until_the_hour(rig)
    assert await taken(rig, 5)
    await rig.clock.advance(1)
    assert await taken(rig, 4)
    await rig.clock.advance(1)
    answer = await rig.store.take("b", 2)
    assert not answer.granted
    assert 3500 < answer.wait <= 3600
    assert await taken(rig, 1)
    assert (await budget(rig)).used == 10
    await until_the_hour(rig)
    assert (await budget(rig)).used == 0
    assert await taken(rig, 5)


async def test_a_job_that_would_go_over_waits_until_the_period_ends(rig: Rig) -> None:
    """[F1] And those behind it; what is left is for whoever needs less by hand."""
    await declare(rig, burst=10, rate=1000.0, **HOUR)
    await until_the_hour(rig)
    needs = {"t": [Need("b", costed=True)]}
    for n in (7, 6, 1):
        await rig.one("t", costs={"b": n})
    worker = await rig.worker()
    assert len(await claim(rig, worker, needs)) == 1
    await rig.clock.advance(5)
    await promote(rig)
    assert await claim(rig, worker, needs) == []
    assert (await budget(rig)).waiting == 2
    await until_the_hour(rig)
    await promote(rig)
    assert len(await claim(rig, worker, needs)) == 2


async def test_each_key_has_a_cap_of_its_own(rig: Rig) -> None:
    """[F1] And who used most is told first."""
    await declare(rig, burst=10, rate=1000.0, key="who", **HOUR)
    await until_the_hour(rig)
    for key, n in (("a", 3), ("b", 9), ("c", 1), ("", 2)):
        assert await taken(rig, n, key)
    found = await rig.store.usage("b")
    end = found[0].until
    assert found == [Usage("b", 9, end), Usage("a", 3, end), Usage("", 2, end), Usage("c", 1, end)]
    assert (await rig.store.usage("b", 2)) == found[:2]
    await rig.clock.advance(1)
    assert not await taken(rig, 2, "b")
    assert await taken(rig, 7, "a")
    await until_the_hour(rig)
    assert await rig.store.usage("b") == []


async def test_blocks_and_callers_together_stay_below_it(rig: Rig) -> None:
    """[F1] What is out counts as used, and what comes back does not."""
    await declare(rig, burst=8, rate=0.0, cap=10, cap_per="hour")
    await until_the_hour(rig)
    await rig.store.give_back("b", 0)
    lease = await rig.store.lease("b", [2, 2], extra=100)
    assert lease.served == [True, True]
    assert (await budget(rig)).used == 4 + lease.block
    assert lease.block <= 3
    await rig.store.give_back("b", lease.block + 2)
    assert (await budget(rig)).used == 2
    assert await grants(rig) == 6


async def test_what_was_settled_counts(rig: Rig) -> None:
    """[F1]"""
    await declare(rig, burst=10, rate=1000.0, **HOUR)
    await until_the_hour(rig)
    assert await taken(rig, 8)
    await rig.store.settle("b", -5)
    assert (await budget(rig)).used == 3
    await rig.store.settle("b", 6)
    await rig.clock.advance(1)
    assert await grants(rig) == 1


async def test_what_comes_back_of_an_earlier_period_makes_no_room_in_this_one(rig: Rig) -> None:
    """[F1] It was never counted in this one."""
    await declare(rig, burst=10, rate=1000.0, **HOUR)
    await until_the_hour(rig, -5)
    assert await taken(rig, 9)
    await rig.clock.advance(10)
    assert await taken(rig, 6)
    await rig.store.give_back("b", 4, age=10)
    await rig.store.settle("b", -5, age=10)
    assert (await budget(rig)).used == 6
    await rig.store.give_back("b", 1, age=1)
    await rig.store.settle("b", -2, age=1)
    assert (await budget(rig)).used == 3


async def test_a_cap_is_changed_live(rig: Rig) -> None:
    """[F1] What was used in this period counts for the new one; another period counts anew."""
    await declare(rig, burst=5, rate=1000.0, **HOUR)
    await until_the_hour(rig)
    assert await taken(rig, 5)
    await rig.store.set_budget("b", {"cap": 6})
    await rig.clock.advance(1)
    assert await grants(rig) == 1
    await rig.store.set_budget("b", {"cap_per": "day"})
    assert await taken(rig, 5)
    await rig.store.set_budget("b", {"cap": None})
    await rig.clock.advance(1)
    assert await taken(rig, 5)
    for wrong in ({"cap": 4}, {"burst": 50, "cap": 49}, {"cap_per": "week"}, {"cap_zone": "Mars/Olympus"}):
        with pytest.raises(ValueError, match="cap"):
            await rig.store.set_budget("b", wrong)
    assert (await budget(rig)).cap is None


@pytest.mark.parametrize(
    ("per", "zone", "now", "end"),
    [
        ("hour", "Asia/Kolkata", "2026-05-01T12:10:00+00:00", "2026-05-01T13:00:00+00:00"),
        ("day", "Europe/Paris", "2026-03-28T23:30:00+00:00", "2026-03-30T00:00:00+02:00"),
        ("day", "Europe/Paris", "2026-10-25T10:00:00+01:00", "2026-10-26T00:00:00+01:00"),
        ("day", "America/Havana", "2026-10-31T12:00:00-04:00", "2026-11-01T00:00:00-05:00"),
        ("month", "Asia/Tokyo", "2026-12-31T14:59:59+00:00", "2027-01-01T00:00:00+09:00"),
        ("month", "UTC", "2028-02-29T10:00:00+00:00", "2028-03-01T00:00:00+00:00"),
    ],
)
async def test_a_period_ends_where_its_zone_says(rig: Rig, per: str, zone: str, now: str, end: str) -> None:
    """[F1]"""
    at = datetime.fromisoformat(now).timestamp()
    assert period_end(per, zone, at) == datetime.fromisoformat(end).timestamp()
    await declare(rig, burst=1, cap=5, cap_per=per, cap_zone=zone)
    assert await taken(rig)
    today = await rig.store.now()
    assert (await budget(rig)).used_until == period_end(per, zone, today)


@pytest.mark.parametrize("per", PERIODS)
async def test_every_period_is_counted_and_survives_a_clock_set_back(rig: Rig, per: str) -> None:
    """[F1] One that seems to last longer than it can is of before that, and what was used stays."""
    await declare(rig, burst=1, cap=5, cap_per=per)
    assert await taken(rig)
    for step in (0.0, LONGEST[per] / 2, -2 * LONGEST[per]):
        await rig.clock.advance(step)
        ends = [period_end(per, "UTC", await rig.store.now())]
        stands = await budget(rig)
        ends.append(period_end(per, "UTC", await rig.store.now()))
        assert stands.used_until in ends
        assert stands.used <= 1


def test_a_cap_as_people_write_it() -> None:
    """[F1]"""
    assert cap_of("2M/day") == (2_000_000, "day")
    assert cap_of("1.5k / month") == (1500, "month")
    for wrong in ("2M", "2M/week", "many/day", ""):
        with pytest.raises(ValueError, match="write it like 2M/day"):
            cap_of(wrong)
