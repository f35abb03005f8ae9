"""Tokens taken by claims, and the lines of those who wait for them [F1]."""

import time

import pytest

from tests.chaos.workers.flow_books import Allowance
from tests.conformance.budget_kit import budget, claim, claimed_tasks, declare, grants, promote, taken
from tests.conformance.kit import Rig, job
from windlass.core.states import Kind, Priority, State
from windlass.store.records import Need


async def test_a_claim_takes_the_tokens_of_its_jobs(rig: Rig) -> None:
    """[F1] From the same bucket that handlers take from."""
    await declare(rig, burst=10)
    await rig.add("t", "free", "t")
    assert await claimed_tasks(rig, await rig.worker()) == ["t", "free", "t"]
    assert await grants(rig) == 8


async def test_a_job_without_tokens_goes_aside_and_the_others_run_on(rig: Rig) -> None:
    """[F1] [M4] It says what it waits for, and the rest of its lane does not wait behind it."""
    await declare(rig, burst=1)
    _, waiting = await rig.add("t", "t")
    await rig.add("other", "t", "other")
    worker = await rig.worker()
    assert await claimed_tasks(rig, worker) == ["t", "other", "other"]
    record = await rig.look(waiting)
    assert (record.state, record.reason) == (State.READY, "waits for tokens of budget b")
    assert (await rig.depth()).ready == 2
    assert (await budget(rig)).waiting == 2
    (gate,) = await rig.store.gates()
    assert (gate.name, gate.waiting) == ("budget:b/", 2)
    assert await claim(rig, worker) == []


async def test_the_line_gets_what_there_is(rig: Rig) -> None:
    """[F1] As many are let out as there are tokens, in order, and their claims take these."""
    await declare(rig, burst=3)
    assert await taken(rig, 3)
    ids = await rig.add("t", "t", "t", "t")
    worker = await rig.worker()
    assert await claim(rig, worker) == []
    await promote(rig)
    assert await claim(rig, worker) == []
    await rig.store.give_back("b", 2)
    await promote(rig)
    assert [job.id for job in await claim(rig, worker)] == ids[:2]
    await promote(rig)
    assert (await claim(rig, worker), await grants(rig)) == ([], 0)
    await rig.store.give_back("b", 3)
    await promote(rig)
    assert [job.id for job in await claim(rig, worker)] == ids[2:]
    assert await grants(rig) == 1


async def test_the_line_comes_before_newcomers(rig: Rig) -> None:
    """[F1] A token that has grown is for the first in line, not for whoever is claimed next."""
    await declare(rig, burst=1)
    assert await taken(rig)
    first = (await rig.one("t")).id
    worker = await rig.worker()
    assert await claim(rig, worker) == []
    await rig.store.give_back("b", 1)
    newcomer = (await rig.one("t")).id
    assert await claim(rig, worker) == []
    await promote(rig)
    assert [job.id for job in await claim(rig, worker)] == [first]
    await rig.store.give_back("b", 1)
    await promote(rig)
    assert [job.id for job in await claim(rig, worker)] == [newcomer]


async def test_one_let_out_behind_younger_jobs_is_still_the_oldest(rig: Rig) -> None:
    """[M1] However small the window of its lane is."""
    await declare(rig, burst=1)
    await rig.store.set_queue("default", {"window": 1})
    assert await taken(rig)
    await rig.one("t")
    assert await claim(rig, await rig.worker()) == []
    await rig.clock.advance(100)
    await rig.add("young", "young")
    await rig.store.give_back("b", 1)
    await promote(rig)
    assert (await rig.store.depth())["default"].oldest == pytest.approx(100, abs=30)


async def test_one_let_out_and_a_newcomer_are_claimed_together(rig: Rig) -> None:
    """[F1] Where there is enough for both; what was put by for the first is his, and no more than that."""
    await declare(rig, burst=2)
    assert await taken(rig, 2)
    first = (await rig.one("t")).id
    worker = await rig.worker()
    assert await claim(rig, worker) == []
    await rig.store.give_back("b", 2)
    await promote(rig)
    newcomer = (await rig.one("t")).id
    assert [job.id for job in await claim(rig, worker)] == [first, newcomer]


async def test_tokens_taken_by_hand_meanwhile_are_not_granted_twice(rig: Rig) -> None:
    """[F1] One who was let out and finds nothing goes back to the line."""
    await declare(rig, burst=1)
    assert await taken(rig)
    id = (await rig.one("t")).id
    worker = await rig.worker()
    assert await claim(rig, worker) == []
    await rig.store.give_back("b", 1)
    await promote(rig)
    assert await taken(rig)
    assert await claim(rig, worker) == []
    assert "tokens" in ((await rig.look(id)).reason or "")
    await rig.store.give_back("b", 1)
    await promote(rig)
    assert [job.id for job in await claim(rig, worker)] == [id]


async def test_one_who_goes_back_to_the_line_has_his_place_there(rig: Rig) -> None:
    """[F1] Before those who came after him, however often that happens."""
    await declare(rig, burst=2)
    assert await taken(rig, 2)
    ids = await rig.add("t", "t", "t")
    worker = await rig.worker()
    assert await claim(rig, worker) == []
    for _ in range(2):
        await rig.store.give_back("b", 2)
        await promote(rig)
        assert await taken(rig, 2)
        assert await claim(rig, worker) == []
    for id in ids:
        await rig.store.give_back("b", 1)
        await promote(rig)
        assert [job.id for job in await claim(rig, worker)] == [id]


async def test_tokens_put_by_are_taken_by_no_newcomer(rig: Rig) -> None:
    """[F1] Though he comes through a lane before that of the one let out, and nobody stands in line."""
    await declare(rig, burst=2)
    assert await taken(rig, 2)
    first = (await rig.one("t")).id
    worker = await rig.worker()
    assert await claim(rig, worker) == []
    await rig.store.give_back("b", 1)
    await promote(rig)
    hurried = (await rig.one("t", priority=Priority.URGENT)).id
    assert [job.id for job in await claim(rig, worker)] == [first]
    assert (await rig.look(hurried)).reason == "waits for tokens of budget b"


async def test_a_job_may_need_several_tokens(rig: Rig) -> None:
    """[F1] The line is let out by what each of them needs."""
    await declare(rig, burst=5)
    await rig.add("t", "t", "t")
    worker, needs = await rig.worker(), {"t": [Need("b", 2)]}
    assert len(await claim(rig, worker, needs)) == 2
    await promote(rig)
    assert (await claim(rig, worker, needs), await grants(rig)) == ([], 1)
    await rig.store.give_back("b", 2)
    await promote(rig)
    assert len(await claim(rig, worker, needs)) == 1


async def test_a_claim_of_several_tasks_takes_what_each_of_them_needs(rig: Rig) -> None:
    """[F1] By hand or by many at once, tokens are counted one by one."""
    await declare(rig, burst=10)
    await declare(rig, burst=10, name="c", key="user")
    needs = {"t": [Need("b")], "u": [Need("b", 2), Need("c", 3, "user")], "v": [Need("c", 1, "user")]}
    tasks = ["t", "u", "free", "t", "u", "v", "t"]
    await rig.add(*tasks, payload='{"user":"anna"}')
    assert await claimed_tasks(rig, await rig.worker(), needs) == tasks
    assert (await budget(rig)).tokens == 3
    assert await taken(rig, 3, key="anna", name="c")
    assert not await taken(rig, key="anna", name="c")
    assert (await budget(rig, "c")).tokens == 10


async def test_a_claim_takes_for_the_first_what_is_not_enough_for_all(rig: Rig) -> None:
    """[F1] Of one task or of several, in the order of the lane."""
    await declare(rig, burst=5)
    needs = {"t": [Need("b")], "dear": [Need("b", 4)]}
    await rig.add("t", "dear", "t", "other")
    assert await claimed_tasks(rig, await rig.worker(), needs) == ["t", "dear", "other"]
    assert (await budget(rig)).tokens == 0


async def test_a_job_that_needs_two_budgets_takes_both_or_none(rig: Rig) -> None:
    """[F1]"""
    await declare(rig, burst=1)
    await declare(rig, burst=1, name="c")
    needs = {"t": [Need("b"), Need("c")]}
    assert await taken(rig, name="c")
    id = (await rig.one("t")).id
    worker = await rig.worker()
    assert await claim(rig, worker, needs) == []
    assert (await rig.look(id)).reason == "waits for tokens of budget c"
    assert (await budget(rig)).tokens == 1
    await rig.store.give_back("c", 1)
    await promote(rig)
    assert [job.id for job in await claim(rig, worker, needs)] == [id]
    assert ((await budget(rig)).tokens, (await budget(rig, "c")).tokens) == (0, 0)


async def test_one_who_waits_for_two_budgets_holds_up_nobody_at_the_first(rig: Rig) -> None:
    """[F1] The other may never come."""
    await declare(rig, burst=1)
    needs = {"both": [Need("b"), Need("never")], "t": [Need("b")]}
    assert await taken(rig)
    await rig.add("both", "t")
    worker = await rig.worker()
    assert await claim(rig, worker, needs) == []
    await rig.store.give_back("b", 1)
    for _ in range(3):
        await promote(rig)
        claimed = await claimed_tasks(rig, worker, needs)
        if claimed:
            assert claimed == ["t"]
            return
    raise AssertionError("nobody gets the token that is there")


async def test_jobs_wait_for_a_budget_that_nobody_has_declared(rig: Rig) -> None:
    """[F1] And run when somebody does."""
    id = (await rig.one("t")).id
    worker = await rig.worker()
    assert await claim(rig, worker) == []
    await promote(rig)
    assert await claim(rig, worker) == []
    assert (await rig.look(id)).reason == "waits for tokens of budget b"
    await declare(rig)
    await promote(rig)
    assert [job.id for job in await claim(rig, worker)] == [id]


async def test_a_worker_that_needs_nothing_takes_nothing(rig: Rig) -> None:
    """[F1] What a task needs is for its claimer to say."""
    await declare(rig)
    await rig.add("t", "t")
    assert len(await claim(rig, await rig.worker(), {})) == 2
    assert await grants(rig) == 1


async def test_each_attempt_takes_its_tokens(rig: Rig) -> None:
    """[F1] A retry needs new ones."""
    await declare(rig, burst=2)
    await rig.one("t")
    worker = await rig.worker()
    for _ in range(2):
        await rig.finish(worker, await claim(rig, worker), Kind.RETRY)
    assert await claim(rig, worker) == []
    assert (await budget(rig)).tokens == 0


async def test_a_job_handed_back_unstarted_gives_its_tokens_back(rig: Rig) -> None:
    """[F1] Which is for its worker to do."""
    await declare(rig)
    id = (await rig.one("t")).id
    worker = await rig.worker()
    await rig.finish(worker, await claim(rig, worker), Kind.RELEASED)
    await rig.store.give_back("b", 1)
    assert [job.id for job in await claim(rig, worker)] == [id]


@pytest.mark.parametrize("stop", ["cancel", "delete"])
async def test_one_that_waits_for_tokens_is_taken_back(rig: Rig, stop: str) -> None:
    """[F1] [O5] From the line as from its lane; what it was promised goes to the next."""
    await declare(rig)
    assert await taken(rig)
    ids = await rig.add("t", "t", "t")
    worker = await rig.worker()
    assert await claim(rig, worker) == []
    await getattr(rig.store, stop)([ids[0]])
    await rig.store.give_back("b", 1)
    await promote(rig)
    await getattr(rig.store, stop)([ids[1]])
    await promote(rig)
    assert [job.id for job in await claim(rig, worker)] == [ids[2]]
    assert (await budget(rig)).waiting == 0


PAYLOADS = [
    ('{"user":"anna","n":1}', "anna"),
    ('["x","anna"]', "anna"),
    ('{"*":["x","anna"],"n":1}', "anna"),
    ('{"*":["x"],"user":"anna"}', "anna"),
    ('{"user":7}', "7"),
    ('["x",7]', "7"),
    ('{"user":null}', ""),
    ('{"n":1}', ""),
    ('["x"]', ""),
    ('{"user":"\\u00e4/\\"b\\""}', 'ä/"b"'),
]


async def test_the_bucket_is_that_of_the_argument(rig: Rig) -> None:
    """[F1] However it was given: by name, by place, or beside others."""
    worker = await rig.worker()
    for n, (payload, key) in enumerate(PAYLOADS):
        await declare(rig, name=f"b{n}", key="user")
        await rig.one("t", payload=payload)
        needs = {"t": [Need(f"b{n}", argument="user", place=1)]}
        assert len(await claim(rig, worker, needs)) == 1
        assert not await taken(rig, key=key, name=f"b{n}"), payload
        assert await taken(rig, key="somebody else", name=f"b{n}"), payload


async def test_a_key_without_tokens_stops_no_other(rig: Rig) -> None:
    """[F1] Each stands in a line of its own and says so."""
    await declare(rig, key="user")
    ids = [(await rig.one("t", payload=f'{{"user":"{user}"}}')).id for user in "aab"]
    needs = {"t": [Need("b", argument="user")]}
    worker = await rig.worker()
    assert [job.id for job in await claim(rig, worker, needs)] == [ids[0], ids[2]]
    assert (await rig.look(ids[1])).reason == "waits for tokens of budget b, key 'a'"
    await rig.store.give_back("b", 1, "b")
    await promote(rig)
    assert await claim(rig, worker, needs) == []
    await rig.store.give_back("b", 1, "a")
    await promote(rig)
    assert [job.id for job in await claim(rig, worker, needs)] == [ids[1]]


async def test_promotion_tells_when_the_next_token_comes(rig: Rig) -> None:
    """[F1]"""
    await declare(rig, burst=1, rate=0.01)
    await rig.add("t", "t")
    worker = await rig.worker()
    assert (await rig.store.promote()).next_in is None
    assert len(await claim(rig, worker)) == 1
    again = (await rig.store.promote()).next_in
    assert again is not None
    assert again == pytest.approx(100, abs=10)
    await rig.clock.advance(again)
    await promote(rig)
    assert len(await claim(rig, worker)) == 1
    assert (await rig.store.promote()).next_in is None


async def test_nobody_is_told_of_tokens_that_never_come(rig: Rig) -> None:
    """[F1] A rate of 0 has no time."""
    await declare(rig)
    await rig.add("t", "t")
    await claim(rig, await rig.worker())
    assert (await rig.store.promote()).next_in is None


async def test_claims_keep_to_the_rate(rig: Rig) -> None:
    """[F1] A ledger of claims by two workers: never more than 10·t + 5, by when their tokens are there."""
    await declare(rig, burst=5, rate=10.0)
    start = await rig.store.now()
    await rig.add(*(["t"] * 40))
    workers = [await rig.worker(), await rig.worker()]
    grants: list[float] = []
    for _ in range(6):
        for worker in workers:
            await rig.store.promote()
            grants += await granted(rig, worker)
            for count, at in enumerate(sorted(grants), 1):
                assert count <= 10 * (at - start) + 5
        await rig.clock.advance(0.3)
    assert len(grants) >= 15


async def granted(rig: Rig, worker: int) -> list[float]:
    """When the tokens of the jobs are there that it claims now, at the latest."""
    real = time.monotonic()
    jobs = await claim(rig, worker)
    now = await rig.store.now()
    return [now + max(0.0, job.starts_at - real) for job in jobs]


async def test_a_small_burst_is_used_up(rig: Rig) -> None:
    """[F1] Though it takes a while until a job is let out and claimed: those are claimed before their tokens
    come. By when they have come, no window has more than 100·t + 1."""
    await declare(rig, burst=1, rate=100.0)
    await rig.add(*(["t"] * 400))
    worker, grants, expected, late = await rig.worker(), [], 0.0, 0.0
    before = await rig.store.now()
    for _ in range(40):
        await rig.store.promote()
        await rig.clock.advance(0.01)
        asked, began = await rig.store.now(), time.monotonic()
        grants += await granted(rig, worker)
        late = max(late, await rig.store.now() - asked + time.monotonic() - began)
        await rig.clock.advance(0.01)
        now = await rig.store.now()
        expected, before = expected + 100 * min(now - before, 0.05), now
    assert Allowance(100.0, 1).excess(grants, late) <= 0.01
    assert len(grants) >= 0.8 * expected


async def test_who_takes_by_hand_gets_some_beside_a_backlog(rig: Rig) -> None:
    """[F1] Claims that book what is to come would always be first."""
    await declare(rig, burst=1, rate=10.0)
    await rig.add(*(["t"] * 50))
    worker = await rig.worker()
    for _ in range(5):
        await rig.store.promote()
        await claim(rig, worker)
        answer = await rig.store.take("b", 1)
        if answer.granted:
            break
        await rig.clock.advance(answer.wait)
        await rig.store.promote()
        if (await rig.store.take("b", 1)).granted:
            break
    else:
        pytest.fail("it never got a token")


async def test_waiting_for_tokens_survives_rotation(rig: Rig) -> None:
    """[F1] [K6]"""
    await declare(rig)
    ids = await rig.add("t", "t")
    worker = await rig.worker()
    assert len(await claim(rig, worker)) == 1
    await rig.turn()
    await rig.store.give_back("b", 1)
    await promote(rig)
    assert [job.id for job in await claim(rig, worker)] == ids[1:]


async def test_tokens_and_slots_both(rig: Rig) -> None:
    """[F1] [F3] Who was let out of the line for tokens has its slot."""
    await declare(rig)
    await rig.store.enqueue([job("t", concurrency_key=key) for key in "aab"])
    worker = await rig.worker()
    await promote(rig)
    (first,) = await claim(rig, worker)
    await rig.store.give_back("b", 1)
    await promote(rig)
    (second,) = await claim(rig, worker)
    assert (first.options.concurrency_key, second.options.concurrency_key) == ("a", "b")
    await rig.finish(worker, first)
    await promote(rig)
    assert await claim(rig, worker) == []
    await rig.store.give_back("b", 1)
    await promote(rig)
    assert len(await claim(rig, worker)) == 1


BIG = {"big": [Need("b", 3)], "t": [Need("b")]}


async def test_a_burst_below_what_somebody_needs_holds_up_nobody_behind_him(rig: Rig) -> None:
    """[F1] [fault 35] Nobody said so, and all of the line stood still behind what could never be granted."""
    worker = await rig.worker()
    await declare(rig, burst=5)
    assert await taken(rig, 5)
    (big,) = await rig.add("big")
    small = await rig.add("t", "t")
    assert await claim(rig, worker, BIG) == []
    await rig.store.set_budget("b", {"burst": 2})
    await rig.store.give_back("b", 2)
    await promote(rig)
    assert [job.id for job in await claim(rig, worker, BIG)] == small
    record = await rig.look(big)
    assert (record.state, record.reason) == (
        State.READY, "needs more tokens than budget b can hold: raise its burst",
    )  # fmt: skip
    assert (await budget(rig)).waiting == 1
    assert [(gate.name, gate.waiting) for gate in await rig.store.gates()] == [("over:b/", 1)]
    # Whoever comes now goes by.
    await rig.store.give_back("b", 1)
    (late,) = await rig.add("t")
    assert [job.id for job in await claim(rig, worker, BIG)] == [late]
    # And when it can hold as much, he has his place back.
    await rig.store.set_budget("b", {"burst": 4})
    await rig.add("t", "t", "t", "t", "t")
    await rig.store.give_back("b", 3)
    await promote(rig)
    assert big in [job.id for job in await claim(rig, worker, BIG)]


async def test_the_doctor_names_what_is_never_granted(rig: Rig) -> None:
    """[F1] With the command that puts it right."""
    if rig.name == "memory":
        return  # it lives in one process with its workers, and has nothing to look at
    worker = await rig.worker("default")
    await declare(rig, burst=2)
    await rig.add("big")
    assert await claim(rig, worker, BIG) == []
    await promote(rig)
    (found,) = [finding for finding in await rig.store.diagnose() if finding.name == "budgets"]
    assert (found.level, found.advice) == ("warning", "windlass budget set b --burst 3")
    assert "budget 'b'" in found.text
    await rig.store.set_budget("b", {"burst": 3})
    await promote(rig)
    assert [job.task for job in await claim(rig, worker, BIG)] in ([], ["big"])
    (found,) = [finding for finding in await rig.store.diagnose() if finding.name == "budgets"]
    assert found.level == "ok"


async def test_one_that_needs_too_much_can_be_cancelled(rig: Rig) -> None:
    """[F1] [O5]"""
    worker = await rig.worker()
    await declare(rig, burst=2)
    (big,) = await rig.add("big")
    assert await claim(rig, worker, BIG) == []
    await promote(rig)
    assert await rig.store.cancel([big]) == {big: "cancelled"}
    assert await rig.store.gates() == []
