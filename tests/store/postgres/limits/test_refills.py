"""Lanes that fair jobs wait behind are filled while the jobs of a claim run [C3]."""

import asyncio
from typing import Any, cast

import pytest

from windlass.store.postgres.connections.database import Database
from windlass.store.postgres.flow.refills import CROWD, Refills


class Ring:
    """A database whose ring lets nobody out before it is `opened`."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.filled = 0
        self.fails = False

    async def value(self, function: str, *args: Any) -> None:
        assert function == "admit_ring"
        await self.opened.wait()
        if self.fails:
            raise OSError("lost")
        self.filled += 1


@pytest.fixture
def ring() -> Ring:
    return Ring()


@pytest.fixture
def refills(ring: Ring) -> Refills:
    return Refills(cast("Database", ring))


async def begin(refills: Refills, taken: int) -> None:
    await refills.begin(1, "q", 2, "", wanted=500, taken=taken)


async def test_c3_a_crowd_is_given_out_before_its_lane_is_full_again(ring: Ring, refills: Refills) -> None:
    """[C3] The next claim from it waits; those from other lanes do not."""
    await begin(refills, CROWD)
    assert ring.filled == 0
    await refills.ended(2)
    asyncio.get_running_loop().call_soon(ring.opened.set)
    await refills.ended(1)
    assert ring.filled == 1
    await refills.ended(1)


async def test_c3_a_few_wait_until_it_is(ring: Ring, refills: Refills) -> None:
    """[C3] They will be back for more at once."""
    asyncio.get_running_loop().call_soon(ring.opened.set)
    await begin(refills, CROWD - 1)
    assert ring.filled == 1


async def test_one_of_two_workers_waits(ring: Ring, refills: Refills) -> None:
    """There is one at a time that nobody waits for, so that none is forgotten."""
    await begin(refills, CROWD)
    asyncio.get_running_loop().call_soon(ring.opened.set)
    await begin(refills, CROWD)
    assert ring.filled == 2
    await refills.ended(1)
    assert ring.filled == 2


async def test_what_went_wrong_is_told_to_the_next_claim(ring: Ring, refills: Refills) -> None:
    """The jobs that were claimed before have been given out, and are not lost with it."""
    ring.fails = True
    ring.opened.set()
    await begin(refills, CROWD)
    with pytest.raises(OSError, match="lost"):
        await refills.ended(1)
    await refills.ended(1)


async def test_nothing_is_left_under_way_after_the_end(ring: Ring, refills: Refills) -> None:
    await begin(refills, CROWD)
    await refills.close()
    await refills.ended(1)
    assert ring.filled == 0
