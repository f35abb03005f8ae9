"""What jobs cost where each says so, and budgets settled to what was really used [F1] [C5]."""

import pytest

from tests.conformance.budget_kit import budget, claim, declare, grants, promote, taken
from tests.conformance.kit import Rig
from windlass.core.states import Kind, State
from windlass.errors import ClaimLost, WorkerLost
from windlass.store.records import ClaimedJob, Need

COSTED = {"t": [Need("b", 3, costed=True)]}


async def add(rig: Rig, *costs: int) -> list[int]:
    """Jobs that cost so much of the budget b."""
    return [(await rig.one("t", costs={"b": n})).id for n in costs]


async def say(rig: Rig, worker: int, job: ClaimedJob, tokens: int, before: int, key: str = "") -> None:
    await rig.store.spent(worker, job, "b", key, before=before, tokens=tokens)


# -- what a job costs ---------------------------------------------------------------------------------------


async def test_each_job_takes_what_it_costs(rig: Rig) -> None:
    """[F1] One that says nothing takes what its task says."""
    await declare(rig, burst=20)
    await add(rig, 4, 9)
    await rig.one("t")
    assert len(await claim(rig, await rig.worker(), COSTED)) == 3
    assert await grants(rig) == 20 - 4 - 9 - 3


async def test_one_that_costs_too_much_now_stands_aside(rig: Rig) -> None:
    """[F1] And those behind it, so that it is not passed by for ever; it gets all of its tokens or none."""
    await declare(rig, burst=10)
    first, dear, cheap = await add(rig, 4, 8, 1)
    worker = await rig.worker()
    assert [job.id for job in await claim(rig, worker, COSTED)] == [first]
    assert (await rig.look(dear)).reason == "waits for tokens of budget b"
    await rig.store.give_back("b", 2)
    await promote(rig)
    assert [job.id for job in await claim(rig, worker, COSTED)] == [dear]
    await rig.store.give_back("b", 5)
    await promote(rig)
    assert [job.id for job in await claim(rig, worker, COSTED)] == [cheap]
    assert await grants(rig) == 4


async def test_costs_are_taken_from_the_bucket_of_their_key(rig: Rig) -> None:
    """[F1]"""
    await declare(rig, burst=10)
    needs = {"t": [Need("b", argument="who", costed=True), Need("c", 2)]}
    await declare(rig, burst=10, name="c")
    for who, n in (("a", 3), ("a", 4), ("b", 5)):
        await rig.one("t", payload=f'{{"who":"{who}"}}', costs={"b": n})
    assert len(await claim(rig, await rig.worker(), needs)) == 3
    assert (await grants(rig, "a"), await grants(rig, "b")) == (3, 5)
    assert await taken(rig, 4, name="c")
    assert not await taken(rig, 1, name="c")


async def test_a_retry_costs_as_much_again(rig: Rig) -> None:
    """[F1]"""
    await declare(rig, burst=10)
    await add(rig, 4)
    worker = await rig.worker()
    (job,) = await claim(rig, worker, COSTED)
    await rig.finish(worker, job, Kind.RETRY, delay=0.0)
    await rig.clock.advance(1)
    await promote(rig)
    (again,) = await claim(rig, worker, COSTED)
    assert (again.id, again.options.costs) == (job.id, {"b": 4})
    assert await grants(rig) == 2


# -- what was really used -----------------------------------------------------------------------------------


async def test_less_than_was_taken_comes_back(rig: Rig) -> None:
    """[F1] And never beyond the burst."""
    await declare(rig, burst=10)
    await add(rig, 6, 2)
    worker = await rig.worker()
    one, two = await claim(rig, worker, COSTED)
    await say(rig, worker, one, 1, 6)
    assert (await budget(rig)).tokens == pytest.approx(7)
    await rig.store.give_back("b", 3)
    await say(rig, worker, two, 0, 2)
    assert await grants(rig) == 10


async def test_more_than_there_is_leaves_a_debt(rig: Rig) -> None:
    """[F1] It is paid off before anybody gets any."""
    await declare(rig, burst=10, rate=1.0)
    await add(rig, 5)
    worker = await rig.worker()
    (job,) = await claim(rig, worker, COSTED)
    assert await taken(rig, 5)
    await say(rig, worker, job, 25, 5)
    assert (await budget(rig)).tokens == 0
    wait = (await rig.store.take("b", 1)).wait
    assert 15 < wait <= 21
    await rig.clock.advance(18)
    assert not await taken(rig)
    await rig.clock.advance(8)
    assert 1 <= await grants(rig) <= 8


async def test_a_wrong_number_does_not_stop_a_budget_for_ever(rig: Rig) -> None:
    """[F1] It is a debt of a day at most, and another rate or burst forgives it, but for 0.1 s."""
    await declare(rig, burst=10, rate=1.0)
    await rig.store.settle("b", 10**9)
    await rig.store.settle("b", 10**9)
    assert 86_400 < (await rig.store.take("b", 1)).wait <= 86_401
    await rig.store.set_budget("b", {"breaker": 5})
    assert not await taken(rig)
    await rig.store.set_budget("b", {"rate": 1.0})
    assert (await rig.store.take("b", 1)).wait <= 1.1
    await rig.clock.advance(3.2)
    assert await taken(rig, 3)


async def test_the_last_word_counts_and_saying_it_again_changes_nothing(rig: Rig) -> None:
    """[F1] An answer that was lost is asked for again, with what the sender knew before."""
    await declare(rig, burst=100)
    await add(rig, 50)
    worker = await rig.worker()
    (job,) = await claim(rig, worker, COSTED)
    for tokens in (20, 20, 30, 30):
        await say(rig, worker, job, tokens, 50)
    assert (await budget(rig)).tokens == pytest.approx(70)


async def test_each_attempt_settles_its_own(rig: Rig) -> None:
    """[F1] [C5] A retry is another claim: it took the tokens anew."""
    await declare(rig, burst=100)
    await add(rig, 40)
    worker = await rig.worker()
    (job,) = await claim(rig, worker, COSTED)
    await say(rig, worker, job, 10, 40)
    await rig.finish(worker, job, Kind.RETRY, delay=0.0)
    await rig.clock.advance(1)
    await promote(rig)
    (again,) = await claim(rig, worker, COSTED)
    await say(rig, worker, again, 10, 40)
    with pytest.raises(ClaimLost):
        await say(rig, worker, job, 90, 40)
    assert (await budget(rig)).tokens == pytest.approx(80)


async def test_who_lost_the_job_settles_nothing(rig: Rig) -> None:
    """[F1] [C5] A run that dies leaves what it took."""
    await declare(rig, burst=100)
    await add(rig, 40, 40)
    worker = await rig.worker()
    one, two = await claim(rig, worker, COSTED)
    await rig.finish(worker, one, Kind.SUCCEEDED)
    with pytest.raises(ClaimLost):
        await say(rig, worker, one, 0, 40)
    await rig.die(worker)
    with pytest.raises(WorkerLost):
        await say(rig, worker, two, 0, 40)
    assert (await budget(rig)).tokens == pytest.approx(20)


async def test_nothing_from_before_a_drain_comes_back(rig: Rig) -> None:
    """[F1] The upstream has said that it is enough."""
    await declare(rig, burst=100)
    await add(rig, 40)
    worker = await rig.worker()
    (job,) = await claim(rig, worker, COSTED)
    await rig.clock.advance(10)
    await rig.store.drain("b", 5)
    await rig.store.spent(worker, job, "b", "", before=40, tokens=0, age=10)
    await rig.clock.advance(6)
    assert await grants(rig) == 0


async def test_tokens_taken_by_hand_are_settled(rig: Rig) -> None:
    """[F1]"""
    await declare(rig, burst=10)
    assert await taken(rig, 6)
    await rig.store.settle("b", -4)
    assert (await budget(rig)).tokens == pytest.approx(8)
    await rig.store.settle("b", 3)
    assert await grants(rig) == 5
    await rig.store.settle("nobody", 3)


async def test_those_who_wait_are_let_out_by_what_comes_back(rig: Rig) -> None:
    """[F1]"""
    await declare(rig, burst=10)
    await add(rig, 10, 5)
    worker = await rig.worker()
    (job,) = await claim(rig, worker, COSTED)
    await say(rig, worker, job, 3, 10)
    await promote(rig)
    (next_,) = await claim(rig, worker, COSTED)
    assert await rig.state(next_.id) is State.RUNNING
