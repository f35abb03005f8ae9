"""Budgets in SQL are those of windlass.core, to the last bit; and who waits for whom [F1] [F7]."""

import asyncio
import random
import secrets
from typing import Any

import msgspec
import pytest

from tests.store.postgres.kit import Base
from windlass.core.flow.breaker import Breaker
from windlass.core.flow.bucket import Bucket
from windlass.core.flow.caps import period_end
from windlass.errors import StoreForbidden
from windlass.store.fields import NewBudget

TAKE = "SELECT windlass.bucket_take($1, '', $2, $3, $4, $5)"
WAIT = "SELECT windlass.bucket_wait($1, '', $2, $3)"
LEASE = "SELECT * FROM windlass.lease_tokens($1, '', $2, $3, $4, $5)"
GIVEN_TIME = """
CREATE OR REPLACE FUNCTION windlass.unix_time(p_now float8 DEFAULT NULL) RETURNS float8
LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(p_now, nullif(current_setting('test.now', true), '')::float8,
                    date_part('epoch', windlass.now()))
$$
"""
"""The session may say what time it is, where a function takes none."""
MADE = "SELECT at FROM windlass.bucket WHERE budget = $1"
HOLDS = """
SELECT b.rate, b.burst, k.tokens, k.at, k.paused_until, k.leased_until, k.whole_until, k.used, k.used_until,
       b.cap, b.cap_per AS per, b.cap_zone AS zone
  FROM windlass.budget b CROSS JOIN LATERAL windlass.bucket_at(b, windlass.bucket_of(b, ''), $2) AS k
 WHERE b.name = $1
"""
BREAKS = (
    "SELECT breaker, breaker_pause, failures, openings, until, probing FROM windlass.budget WHERE name = $1"
)


class Model:
    """A bucket and a breaker as values of the core, moved as a store moves them."""

    def __init__(self, bucket: Bucket, breaker: Breaker) -> None:
        self.bucket = bucket
        self.breaker = breaker

    def take(self, n: int, whole: bool, each: int, now: float) -> int:
        """How many tokens are granted."""
        self.bucket = self.bucket.resumed(now)
        allowed = self.breaker.allows(now)
        if not whole:
            n = min(n, int(self.bucket.available(now))) // each * each
            n = n if allowed is None else min(n, each)
        left = self.bucket.take(n, now)
        if n < 1 or allowed == 0 or left is None:
            return 0
        self.bucket, self.breaker = left, self.breaker.granted(now)
        return n

    def lease(
        self, needs: list[int], extra: int, rest: int, age: float, now: float
    ) -> tuple[list[bool], int]:
        """Who was served, and the block."""
        self.bucket = self.bucket.resumed(now)
        if rest:
            self.bucket = self.bucket.give_back(rest, now, age)
        allowed = self.breaker.allows(now)
        served, block, left = self.bucket.lease(needs, extra, now, allowed)
        if any(served) or block:
            self.bucket, self.breaker = left, self.breaker.granted(now)
        elif left.whole_until > self.bucket.whole_until:
            self.bucket = left
        return served, block

    def tokens(self, each: int, now: float) -> int:
        """How many whole tokens it would grant."""
        allowed = self.breaker.allows(now)
        if allowed == 0:
            return 0
        return int(min(self.bucket.available(now), 1e9 if allowed is None else each))

    def wait(self, n: int, now: float) -> float:
        """Seconds until it may grant."""
        shut = 0.0 if self.breaker.state(now) == "closed" else self.breaker.until - now
        return max(self.bucket.wait(n, now), shut)


async def a_budget(base: Base, **settings: Any) -> str:
    """A budget of the test's own."""
    name = f"b-{secrets.token_hex(4)}"
    store = await base.store()
    await store.declare_budget(NewBudget(name=name, **settings))
    return name


async def step(base: Base, name: str, model: Model, dice: random.Random, now: float) -> None:
    """One operation on both, and what each answers."""
    n, each = dice.randint(1, 4), dice.randint(1, 2)
    match dice.randrange(17):
        case 0:
            pause = dice.choice([0.0, 0.5, 3.0])
            key = dice.choice([None, ""])
            await base.look.run("SELECT windlass.drain_budget($1, $2, $3, $4)", name, pause, key, now)
            model.bucket = model.bucket.drained(pause, now)
        case 1:
            await base.look.run("SELECT windlass.bucket_give($1, '', $2, $3)", name, n, now)
            model.bucket = model.bucket.give_back(n, now)
        case 2:
            rate, burst = dice.choice([0.0, 0.3, 2.5, 50.0]), float(dice.choice([1, 2, 3, 4, 5, 6, 40]))
            await base.look.run(
                "SELECT windlass.budget_change($1, $2, $3)",
                name,
                msgspec.json.encode({"rate": rate, "burst": burst}).decode(),
                now,
            )
            model.bucket = model.bucket.changed(rate, burst, now)
        case 3 | 4 | 5:
            succeeded, failed = dice.randint(0, 1), dice.randint(0, 2)
            message = "SELECT windlass.report_calls($1, $2, $3, $4)"
            state = await base.look.value(message, name, succeeded, failed, now)
            model.breaker = model.breaker.after_calls(succeeded, failed, now)
            assert state == model.breaker.state(now)
        case 6 | 7 | 8:
            needs = [dice.randint(1, 4) for _ in range(dice.randint(0, 3))]
            extra, rest, age = dice.choice([0, 1, 1000]), dice.choice([0, 2]), dice.choice([0.0, 0.03])
            await base.look.run("SELECT set_config('test.now', $1, false)", repr(now))
            row = await base.look.row(LEASE, name, needs, extra, rest, now - age)
            await base.look.run("SELECT set_config('test.now', '', false)")
            assert (row["served"], row["block"]) == model.lease(needs, extra, rest, now - (now - age), now)
        case 9 | 10:
            more, age = dice.choice([*range(-4, 6), 500_000]), dice.choice([0.0, 0.5, 5.0])
            await base.look.run("SELECT windlass.bucket_settle($1, '', $2, $3, $4)", name, more, age, now)
            model.bucket = model.bucket.settled(more, now, age)
        case _:
            whole = dice.random() < 0.5
            assert await base.look.value(TAKE, name, n, whole, each, now) == model.take(n, whole, each, now)
    tokens = await base.look.value("SELECT windlass.bucket_tokens($1, '', $2, $3)", name, each, now)
    assert tokens == model.tokens(each, now)
    assert await base.look.value(WAIT, name, n, now) == model.wait(n, now)


@pytest.mark.parametrize("seed", range(6))
async def test_sql_does_what_the_core_does(alone: Base, seed: int) -> None:
    """[F1] [F7] [fault 14] Random operations at random times, some of them in the past; some budgets have a
    cap, and see its period end."""
    base, dice = alone, random.Random(seed)
    await base.look.run(GIVEN_TIME)
    cap: dict[str, Any] = {"cap": 40, "cap_per": "hour"} if seed % 2 else {"cap_zone": "Europe/Paris"}
    name = await a_budget(base, rate=2.0, burst=5, breaker=2, breaker_pause=1.5, **cap)
    row = await base.look.row(HOLDS, name, await base.look.value(MADE, name))
    model = Model(Bucket(**dict(row)), Breaker(2, 1.5))
    now = row["at"]
    for _ in range(120):
        now += dice.choice([0.0, 0.01, 0.04, 0.2, 0.9, 4.0, -0.5, dice.choice([4.0, 900.0])])
        await step(base, name, model, dice, now)
        assert tuple(await base.look.row(BREAKS, name)) == msgspec.structs.astuple(model.breaker)
        held = Bucket(**dict(await base.look.row(HOLDS, name, now)))
        assert held == model.bucket.refilled(now)


@pytest.mark.parametrize(
    "zone", ["UTC", "Europe/Paris", "Asia/Kolkata", "Australia/Lord_Howe", "America/Havana"]
)
async def test_periods_end_where_the_core_says(base: Base, zone: str) -> None:
    """[F1] All over a year, changes of clocks and all."""
    name = await a_budget(base, rate=0.0, burst=1, cap_zone=zone)
    times = [1_767_225_600.0 + hour * 3600 + 1800 for hour in range(0, 366 * 24, 7)]  # 2026
    ends = (
        "SELECT windlass.period_end(b, u.at) AS until FROM windlass.budget b, "
        "unnest($2::float8[]) WITH ORDINALITY AS u (at, i) WHERE b.name = $1 ORDER BY u.i"
    )
    store = await base.store()
    for per in ("hour", "day", "month"):
        await store.set_budget(name, {"cap_per": per})
        found = [row["until"] for row in await base.look.rows(ends, name, times)]
        assert found == [period_end(per, zone, at) for at in times]


async def test_half_open_lets_one_probe_out_of_all_buckets(base: Base) -> None:
    """[F7] Two ask at once, for different keys: one is the probe, the other goes without. It does not wait
    for the first, which may ask for its bucket next."""
    name = await a_budget(base, rate=1.0, burst=5, breaker=1, breaker_pause=1.0)
    now = await base.look.value("SELECT windlass.unix_time()")
    await base.look.run("SELECT windlass.report_calls($1, 0, 1, $2)", name, now)
    first, second = await base.sessions(2)
    take = "SELECT windlass.bucket_take($1, $2, 3, true, 1, $3)"
    await first.begin()
    await second.begin()
    assert await first.value(take, name, "a", now + 2) == 3
    assert await second.value(take, name, "b", now + 2) == 0
    other = asyncio.create_task(first.value(take, name, "b", now + 2))
    await base.blocked(first)
    await second.commit()
    assert await other == 0
    await first.commit()


async def test_a_bucket_may_hold_more_than_an_int(base: Base) -> None:
    """[F1] Its tokens are counted up to what anybody can ask for."""
    name = await a_budget(base, rate=1.0, burst=10**10)
    assert await base.look.value("SELECT windlass.bucket_tokens($1, '')", name) == 10**9
    assert await base.look.value("SELECT windlass.bucket_take($1, '', 2147483647, false)", name) == 2**31 - 1


async def test_a_taker_sees_the_old_rate_or_the_new(base: Base) -> None:
    """[F1] [fault 21] Whoever takes while the rate changes waits, and finds what has grown by the old one."""
    name = await a_budget(base, rate=0.0, burst=5)
    now = await base.look.value("SELECT windlass.unix_time()")
    assert await base.look.value(TAKE, name, 5, True, 1, now) == 5
    changer, taker = await base.sessions(2)
    await changer.begin()
    await changer.run("SELECT windlass.set_budget($1, '{\"rate\": 1000000}')", name)
    other = asyncio.create_task(taker.value(TAKE, name, 5, True, 1, now))
    await base.blocked(taker)
    await changer.rollback()
    assert await other == 0


async def test_what_grows_until_a_rate_is_changed_grows_by_the_old_one(alone: Base) -> None:
    """[F1] Also while the change waits for somebody who holds the bucket."""
    store, clock = await alone.store(), await alone.clock()
    await store.declare_budget(NewBudget(name="b", rate=1.0, burst=10_000))
    assert (await store.take("b", 10_000)).granted
    holder, changer = await alone.sessions(2)
    await holder.begin()
    await holder.run("SELECT windlass.take_tokens('b', 10000)")
    changing = asyncio.create_task(changer.run("SELECT windlass.set_budget('b', '{\"rate\": 2}')"))
    await alone.blocked(changer)
    await clock.advance(1000)
    await holder.rollback()
    await changing
    assert 1000 <= await alone.look.value("SELECT windlass.bucket_tokens('b', '')") < 1500


async def test_a_budget_that_is_set_while_it_is_being_dropped_is_made_anew(base: Base) -> None:
    """[F1] Who drops and who changes it take turns; a change of what is gone would be lost."""
    name = await a_budget(base, rate=1.0, burst=5)
    dropper, changer = await base.sessions(2)
    await dropper.begin()
    assert await dropper.value("SELECT windlass.drop_budget($1)", name)
    changing = asyncio.create_task(changer.run("SELECT windlass.set_budget($1, '{\"rate\": 2}')", name))
    await base.blocked(changer)
    await dropper.commit()
    await changing
    assert await base.look.value("SELECT rate FROM windlass.budget WHERE name = $1", name) == 2


async def test_idle_buckets_of_keys_leave_no_rows(alone: Base) -> None:
    """[F1] One that is full again, and whose period is over, is like one that never was; another stays."""
    store, clock = await alone.store(), await alone.clock()
    await store.declare_budget(NewBudget(name="b", rate=0.01, burst=100, cap_per="hour"))
    assert (await store.take("b", 90, "slow")).granted
    assert (await store.take("b", 1, "quick")).granted
    await clock.advance(3665)
    await store.expire()
    keys = await alone.look.rows("SELECT key FROM windlass.bucket WHERE budget = 'b' ORDER BY key")
    assert [row["key"] for row in keys] == ["", "slow"]
    await store.drain("b", 60.0)
    await clock.advance(100)
    await store.expire()
    assert await alone.look.value("SELECT count(*) FROM windlass.bucket WHERE budget = 'b'") == 2


async def test_updates_of_a_bucket_stay_in_their_page(alone: Base) -> None:
    """[rule 1] A thousand grants: the row is rewritten in its page, and no index learns of it."""
    store = await alone.store()
    await store.declare_budget(NewBudget(name="b", rate=1.0, burst=1_000_000))
    await alone.look.run(
        "DO $$ BEGIN FOR i IN 1..1000 LOOP PERFORM windlass.bucket_take('b', '', 1, true); COMMIT; "
        "END LOOP; END $$"
    )
    hot = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relid = 'windlass.bucket'::regclass"
    await alone.until(f"SELECT n_tup_upd >= 1000 FROM ({hot}) AS h")
    updates, in_page = await alone.look.row(hot)
    assert in_page >= 0.9 * updates


async def test_a_producer_takes_by_hand_and_nothing_else(alone: Base, role: Any) -> None:
    """[F1] [rule 11] From outside any worker; the time is the store's, and changing a budget is not its."""
    owner = await alone.store()
    await owner.declare_budget(NewBudget(name="b", rate=0.0, burst=2))
    producer = await alone.store(role("producer"))
    assert (await producer.take("b", 2)).granted
    assert not (await producer.take("b", 1)).granted
    await producer.give_back("b", 1)
    assert (await producer.take("b", 1)).granted
    with pytest.raises(StoreForbidden):
        await producer.set_budget("b", {"rate": 1000.0})
    reader = await alone.store(role("reader"))
    assert [budget.name for budget in await reader.budgets()] == ["b"]
    assert await reader.schedules() == []
