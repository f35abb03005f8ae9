"""Calls that many callers share: what waits for a call in flight goes with the next one [W1] [W2]."""

import asyncio
from collections.abc import Sequence

import pytest

from windlass.errors import JobNotFound, StoreUnavailable
from windlass.store.postgres.durable.intake import Intake


class Server:
    """Answers calls when it is told to."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        self.answers = asyncio.Event()
        self.called = asyncio.Event()
        self.error: Exception | None = None

    async def send(self, kind: str, items: Sequence[int]) -> list[int | Exception]:
        """Double each item, and refuse a call with 13 in it."""
        self.calls.append(list(items))
        self.called.set()
        await self.answers.wait()
        if self.error is not None:
            raise self.error
        if 13 in items:
            raise JobNotFound("there is no job 13")
        return [2 * item for item in items]


async def test_w2_what_comes_while_a_call_is_in_flight_shares_the_next_one() -> None:
    server = Server()
    intake: Intake[str, int, int] = Intake(server.send, calls=1)
    first = asyncio.create_task(intake.add("a", 1, 1))
    await server.called.wait()
    others = [asyncio.create_task(intake.add("a", n, 1)) for n in (2, 3)]
    await asyncio.sleep(0)
    server.answers.set()
    assert await asyncio.gather(first, *others) == [2, 4, 6]
    assert server.calls == [[1], [2, 3]]


async def test_w2_who_waits_for_a_slow_call_gets_another_beside_it() -> None:
    server = Server()
    intake: Intake[str, int, int] = Intake(server.send, calls=2, patience=0.001)
    tasks = [asyncio.create_task(intake.add("a", 1, 1))]
    for n in (2, 3):
        await server.called.wait()
        server.called.clear()
        tasks.append(asyncio.create_task(intake.add("a", n, 1)))
    assert server.calls == [[1], [2]]  # and no third one
    server.answers.set()
    assert await asyncio.gather(*tasks) == [2, 4, 6]


async def test_w2_of_a_call_that_is_refused_each_item_is_sent_on_its_own() -> None:
    server = Server()
    server.answers.set()
    intake: Intake[str, int, int] = Intake(server.send)
    found = await asyncio.gather(*(intake.add("a", n, 1) for n in (1, 13, 2)), return_exceptions=True)
    assert found[0] == 2
    assert isinstance(found[1], JobNotFound)
    assert found[2] == 4
    assert server.calls == [[1, 13, 2], [1], [13], [2]]


async def test_w2_where_nobody_knows_what_was_written_all_are_told_and_nothing_is_sent_again() -> None:
    server = Server()
    server.answers.set()
    server.error = StoreUnavailable("no answer")
    intake: Intake[str, int, int] = Intake(server.send)
    found = await asyncio.gather(*(intake.add("a", n, 1) for n in (1, 2)), return_exceptions=True)
    assert all(isinstance(each, StoreUnavailable) for each in found)
    assert found[0] is not found[1]
    assert server.calls == [[1, 2]]


async def test_w2_batches_are_of_one_kind_and_bounded() -> None:
    server = Server()
    server.answers.set()
    intake: Intake[str, int, int] = Intake(server.send)
    large = 3 * 2**20
    await asyncio.gather(intake.add("a", 1, large), intake.add("b", 2, 1), intake.add("a", 3, large))
    assert sorted(server.calls) == [[1], [2], [3]]
    with pytest.raises(JobNotFound):
        await intake.add("a", 13, 1)
