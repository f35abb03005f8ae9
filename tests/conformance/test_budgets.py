"""Budgets: tokens that the whole cluster shares, declared, changed and taken by hand [F1]."""

import math
from typing import Any

import pytest

from tests.conformance.budget_kit import budget, declare, grants, taken
from tests.conformance.kit import Rig
from windlass.errors import WindlassError
from windlass.store.fields import NewBudget

# -- declaring and changing ---------------------------------------------------------------------------------


async def test_a_declared_budget_is_full(rig: Rig) -> None:
    """[F1]"""
    new = NewBudget(name="b", rate=2.5, burst=7, key="user", breaker=3, breaker_pause=9.0)
    record = await rig.store.declare_budget(new)
    assert (record.rate, record.burst, record.key, record.breaker) == (2.5, 7, "user", 3)
    assert (record.tokens, record.paused_for, record.state, record.waiting) == (7, 0, "closed", 0)
    assert [found.name for found in await rig.store.budgets()] == ["b"]


async def test_a_default_in_code_never_overwrites(rig: Rig) -> None:
    """[F1] Neither a budget that was declared before, nor what an operator has changed, nor its tokens."""
    await declare(rig, burst=5)
    assert await taken(rig, 3)
    await rig.store.set_budget("b", {"burst": 4, "breaker": 2})
    again = await rig.store.declare_budget(NewBudget(name="b", rate=100.0, burst=100))
    assert (again.rate, again.burst, again.breaker, again.tokens) == (0, 4, 2, 2)


async def test_an_operator_makes_a_budget_by_its_rate(rig: Rig) -> None:
    """[F1] Its burst is a second's worth."""
    assert (await rig.store.set_budget("b", {"rate": 2.5})).burst == 3
    assert (await rig.store.set_budget("slow", {"rate": 0.1})).burst == 1
    with pytest.raises(ValueError, match="rate"):
        await rig.store.set_budget("new", {"burst": 3})
    assert [found.name for found in await rig.store.budgets()] == ["b", "slow"]


NONSENSE: list[dict[str, Any]] = [
    {"rate": -1},
    {"rate": math.nan},
    {"burst": 0},
    {"breaker": -1},
    {"breaker_pause": 0},
    {"speed": 1},
]


async def test_what_makes_no_sense_is_refused(rig: Rig) -> None:
    """[F1] And nothing is changed."""
    await declare(rig, burst=3)
    before = await budget(rig)
    for changes in NONSENSE:
        with pytest.raises(ValueError):
            await rig.store.set_budget("b", {"key": "user", **changes})
    assert await budget(rig) == before


async def test_a_bad_budget_is_not_declared(rig: Rig) -> None:
    """[F1]"""
    with pytest.raises((ValueError, WindlassError)):
        await rig.store.declare_budget(NewBudget(name="Not A Name", rate=1.0, burst=1))
    with pytest.raises(ValueError):
        await rig.store.declare_budget(NewBudget(name="b", rate=-1.0, burst=1))
    assert await rig.store.budgets() == []


async def test_a_changed_rate_counts_from_now_on(rig: Rig) -> None:
    """[F1] What has grown so far counts by the old one."""
    await declare(rig, burst=100, rate=1.0)
    assert await taken(rig, 100)
    await rig.clock.advance(20)
    await rig.store.set_budget("b", {"rate": 0.0})
    await rig.clock.advance(1000)
    assert (await budget(rig)).tokens == pytest.approx(20, abs=5)


async def test_a_smaller_burst_holds_less(rig: Rig) -> None:
    """[F1] In every bucket, and a larger one does not fill it."""
    await declare(rig, burst=5)
    assert await taken(rig, key="a")
    await rig.store.set_budget("b", {"burst": 2})
    await rig.store.set_budget("b", {"burst": 9})
    assert (await grants(rig), await grants(rig, key="a")) == (2, 2)


async def test_a_dropped_budget_grants_nothing(rig: Rig) -> None:
    """[F1] And comes back full."""
    await declare(rig, burst=2)
    assert await taken(rig)
    assert await rig.store.drop_budget("b") is True
    assert await rig.store.drop_budget("b") is False
    assert not await taken(rig)
    await declare(rig, burst=2)
    assert await grants(rig) == 2


# -- taking by hand -----------------------------------------------------------------------------------------


async def test_all_or_none(rig: Rig) -> None:
    """[F1]"""
    await declare(rig, burst=3)
    assert await taken(rig, 2)
    assert not await taken(rig, 2)
    assert await taken(rig, 1)
    assert not await taken(rig, 1)


async def test_what_could_never_be_granted_is_refused(rig: Rig) -> None:
    """[F1] Rather than waited for."""
    await declare(rig, burst=3)
    for n in (0, -1, 4):
        with pytest.raises(ValueError):
            await rig.store.take("b", n)
    assert (await budget(rig)).tokens == 3


async def test_an_unknown_budget_throttles(rig: Rig) -> None:
    """[F1]"""
    assert not await taken(rig, name="nobody")
    await rig.store.give_back("nobody", 5)
    assert await rig.store.report_calls("nobody", 0, 5) == "closed"
    with pytest.raises(ValueError, match="nobody"):
        await rig.store.drain("nobody", 1.0)
    assert await rig.store.budgets() == []


async def test_the_wait_is_until_the_tokens_have_grown(rig: Rig) -> None:
    """[F1]"""
    await declare(rig, burst=4, rate=0.1)
    assert await taken(rig, 4)
    answer = await rig.store.take("b", 3)
    assert not answer.granted
    assert answer.wait == pytest.approx(30, abs=3)
    await rig.clock.advance(answer.wait)
    assert await taken(rig, 3)


async def test_no_more_than_the_rate_and_a_burst(rig: Rig) -> None:
    """[F1] A ledger: 10/s with burst 10 never grants more than 10·t + 10, and not much less."""
    await declare(rig, burst=10, rate=10.0)
    start, count = await rig.store.now(), 0
    for _ in range(6):
        before = await rig.store.now() - start
        count += await grants(rig)
        elapsed = await rig.store.now() - start
        assert 10 * before - 3 <= count <= 10 * elapsed + 10
        await rig.clock.advance(0.4)
    await rig.clock.advance(3600)
    assert await taken(rig, 10)
    assert not await taken(rig, 10)


async def test_a_clock_going_backwards_grants_nothing(rig: Rig) -> None:
    """[F1] However often; what it grants from there on, `test_clock_steps` shows."""
    await declare(rig, burst=10, rate=0.02)
    assert await taken(rig, 10)
    for _ in range(3):
        await rig.clock.advance(-1000)
        assert not await taken(rig)


async def test_each_key_has_a_bucket_of_its_own(rig: Rig) -> None:
    """[F1] And so have those without one."""
    await declare(rig, burst=2)
    assert [await grants(rig, key=key) for key in ("a", "b", "", "a")] == [2, 2, 2, 0]
    assert (await budget(rig)).tokens == 0


async def test_what_was_not_used_comes_back(rig: Rig) -> None:
    """[F1] To its own bucket, and never more than it holds."""
    await declare(rig, burst=3)
    assert await taken(rig, 3, key="a")
    await rig.store.give_back("b", 2, "a")
    assert await grants(rig, key="a") == 2
    await rig.store.give_back("b", 100, "a")
    await rig.store.give_back("b", 100)
    assert (await grants(rig, key="a"), await grants(rig)) == (3, 3)


async def test_what_was_taken_before_the_rate_was_lowered_stays_taken(rig: Rig) -> None:
    """[F1] What has grown since by the old rate was granted to others."""
    await declare(rig, burst=10, rate=10.0)
    assert await taken(rig, 10)
    await rig.clock.advance(30)
    assert await taken(rig, 10)
    await rig.store.set_budget("b", {"rate": 0.001})
    await rig.store.give_back("b", 10, "", 30.0)
    assert not await taken(rig, 2)


async def test_a_drained_budget_is_empty_for_a_while(rig: Rig) -> None:
    """[F1] An upstream said that it is enough; after the pause it starts from nothing."""
    await declare(rig, burst=10, rate=1.0)
    await rig.store.drain("b", 60)
    assert (await budget(rig)).paused_for == pytest.approx(60, abs=5)
    answer = await rig.store.take("b", 1)
    assert not answer.granted
    assert answer.wait == pytest.approx(61, abs=5)
    await rig.clock.advance(50)
    assert not await taken(rig)
    await rig.clock.advance(15)
    assert (await budget(rig)).tokens == pytest.approx(5, abs=3)
    assert (await budget(rig)).paused_for == 0


async def test_one_key_is_drained_alone(rig: Rig) -> None:
    """[F1]"""
    await declare(rig, burst=2)
    await rig.store.drain("b", 60, "a")
    assert [await grants(rig, key=key) for key in ("a", "b", "")] == [0, 2, 2]


async def test_draining_all_empties_every_bucket(rig: Rig) -> None:
    """[F1] Also those that nobody has used yet: it is the upstream that said so."""
    await declare(rig, burst=2)
    assert await taken(rig, key="a")
    await rig.store.drain("b", 60)
    assert [await grants(rig, key=key) for key in ("a", "", "new")] == [0, 0, 0]


async def test_a_longer_drain_is_not_cut_short(rig: Rig) -> None:
    """[F1]"""
    await declare(rig, burst=2, rate=1.0)
    await rig.store.drain("b", 60)
    await rig.store.drain("b", 1)
    assert (await budget(rig)).paused_for == pytest.approx(60, abs=5)
