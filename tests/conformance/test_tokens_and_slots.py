"""Tokens and slots together: who waits for the one does not keep the other from anybody [F1] [F3] [F6]."""

from tests.conformance.budget_kit import claim, declare, promote, taken
from tests.conformance.kit import Rig, job
from windlass.store.records import Need

BY_USER = {"t": [Need("b", argument="user")]}
PLAIN = {"t": [Need("b")]}


def of_user(user: str) -> str:
    """The payload of a job for a user."""
    return f'{{"user":"{user}"}}'


async def users(rig: Rig, worker: int) -> list[str]:
    """Whose jobs can be claimed."""
    await promote(rig)
    return [claimed.payload for claimed in await claim(rig, worker, BY_USER)]


async def test_those_who_wait_for_tokens_leave_their_slots_to_others(rig: Rig) -> None:
    """[F1] [F3] A user without tokens has as many jobs in front as the task has slots, and more behind."""
    await declare(rig, key="user")
    assert await taken(rig, key="a")
    await rig.store.enqueue([job(payload=of_user("a"), task_limit=2) for _ in range(5)])
    await rig.store.enqueue([job(payload=of_user(user), task_limit=2) for user in "bcd"])
    worker = await rig.worker()
    seen: list[str] = []
    for _ in range(5):
        seen += await users(rig, worker)
    assert seen == [of_user("b"), of_user("c")]


async def test_so_they_do_with_the_slots_of_their_key(rig: Rig) -> None:
    """[F1] [F3] Jobs of one key that need different things do not wait for each other."""
    await declare(rig, key="user")
    assert await taken(rig, key="a")
    await rig.store.enqueue([job(payload=of_user(user), concurrency_key="k") for user in "ab"])
    worker = await rig.worker()
    assert [*await users(rig, worker), *await users(rig, worker)] == [of_user("b")]


async def test_who_has_his_tokens_waits_for_a_slot_again(rig: Rig) -> None:
    """[F1] [F3] [M4] And meanwhile his tokens are for anybody."""
    await declare(rig)
    assert await taken(rig)
    first = (await rig.one(task_limit=1)).id
    worker = await rig.worker()
    assert await claim(rig, worker, PLAIN) == []
    (other,) = await rig.store.enqueue([job(payload="[1]", task_limit=1)])
    (running,) = await claim(rig, worker, {})
    assert running.id == other.id
    await rig.store.give_back("b", 1)
    await promote(rig)
    assert (await rig.look(first)).reason == "waits for a slot of task t"
    assert await taken(rig)
    await rig.store.give_back("b", 1)
    await rig.finish(worker, running)
    await promote(rig)
    assert [claimed.id for claimed in await claim(rig, worker, PLAIN)] == [first]
    assert not await taken(rig)


async def test_who_finds_his_tokens_gone_leaves_the_slot_once_more(rig: Rig) -> None:
    """[F1] [F3] He has his place in the line for them, and others run."""
    await declare(rig)
    assert await taken(rig)
    ids = [(await rig.one(payload=f"[{n}]", task_limit=1)).id for n in range(2)]
    worker = await rig.worker()
    for _ in range(2):
        assert await claim(rig, worker, PLAIN) == []
        await promote(rig)
    await rig.store.give_back("b", 1)
    await promote(rig)
    assert await taken(rig)
    assert await claim(rig, worker, PLAIN) == []
    for id in ids:
        await rig.store.give_back("b", 1)
        await promote(rig)
        (claimed,) = await claim(rig, worker, PLAIN)
        assert claimed.id == id
        await rig.finish(worker, claimed)
        await promote(rig)


async def test_who_waits_for_tokens_keeps_his_place_in_the_order(rig: Rig) -> None:
    """[F1] [F6] The next of his ordering key does not overtake him."""
    await declare(rig, key="user")
    assert await taken(rig, key="a")
    await rig.store.enqueue([job(payload=of_user(user), ordering_key="k", task_limit=1) for user in "ab"])
    worker = await rig.worker()
    for _ in range(3):
        assert await users(rig, worker) == []
    await rig.store.give_back("b", 1, "a")
    assert await users(rig, worker) == [of_user("a")]


async def test_who_has_waited_for_tokens_has_had_his_turn(rig: Rig) -> None:
    """[F1] [C3] He does not go to the back of his fair key for the slot that he left."""
    await declare(rig)
    assert await taken(rig)
    await rig.store.set_queue("default", {"window": 1})
    first = (await rig.one(fair_key="a", task_limit=1)).id
    worker = await rig.worker()
    await promote(rig)
    assert await claim(rig, worker, PLAIN) == []
    await rig.one(task_limit=1)
    (running,) = await claim(rig, worker, {})
    await rig.store.enqueue([job("other", fair_key="a") for _ in range(3)])
    await rig.store.give_back("b", 1)
    await promote(rig)
    await rig.finish(worker, running)
    await promote(rig)
    claimed = await claim(rig, worker, PLAIN, limit=2)
    assert [one.task for one in claimed] == ["other", "t"]
    assert claimed[1].id == first
