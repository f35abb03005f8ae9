"""A job joins a waiting list while somebody gives up a place there, and neither sees the other's transaction:
whoever commits last, the job is let through with the next look [F3] [F6] [S2]."""

import pytest

from tests.stock import BOTH
from tests.store.postgres.kit import Base
from windlass.core.states import Kind

pytestmark = BOTH

SWEPT = "SELECT admitted FROM windlass.sweep_gates(100)"
CANCEL = "SELECT windlass.cancel($1)"


async def taken(base: Base, key: str) -> tuple[int, int]:
    """A lane, and the job that has the only place of its key. All waiting lists have been looked at, which is
    done again in ten seconds."""
    lane = await base.lane()
    first = await base.look.enqueue("first", **{key: "k"})
    assert await base.look.value(SWEPT) == 1
    return lane, first


async def joined(base: Base, key: str) -> int:
    """A job that joins the list, and finds no room."""
    job = await base.look.enqueue("late", **{key: "k"})
    assert await base.look.value(SWEPT) == 0
    return job


@pytest.mark.parametrize("key", ["ordering_key", "concurrency_key"])
async def test_who_joins_while_a_flush_ends_is_not_overlooked(alone: Base, key: str) -> None:
    """The flush saw nobody wait, and the look at the list saw the pass; so nobody let the job through before
    the list had its turn among all lists, twenty of them every ten seconds."""
    lane, first = await taken(alone, key)
    worker = await alone.worker()
    got = await alone.claim(lane, worker)
    assert got.ids == [first]
    (flush,) = await alone.sessions(1)
    await flush.begin()
    await alone.finish(worker, got.jobs, by=flush)
    late = await joined(alone, key)
    await flush.commit()
    assert await alone.look.value(SWEPT) == 1
    assert (await alone.claim(lane, worker)).ids == [late]


async def test_a_list_that_needs_the_longer_look_is_not_overlooked(alone: Base) -> None:
    """[F3] Where some queue is not served, room is made behind a gate that is full: one by one."""
    lane, first = await taken(alone, "concurrency_key")
    await (await alone.store()).set_queue("another", {"paused": True})
    (canceller,) = await alone.sessions(1)
    await canceller.begin()
    assert await canceller.value(CANCEL, first) == "cancelled"
    late = await joined(alone, "concurrency_key")
    await canceller.commit()
    assert await alone.look.value(SWEPT) == 1
    assert (await alone.claim(lane, await alone.worker())).ids == [late]


async def test_who_removes_a_pass_with_an_old_snapshot_calls(alone: Base) -> None:
    """[E6] A producer in REPEATABLE READ replaces the first of a key. It cannot see who has joined since it
    began, and that one was looked at before the pass was removed."""
    lane, worker = await alone.lane(), await alone.worker()
    first = await alone.look.enqueue("first", ordering_key="k", unique_key="u")
    assert await alone.look.value(SWEPT) == 1
    got = await alone.claim(lane, worker)
    await alone.finish(worker, got.jobs, Kind.RETRY, delay=3600.0)
    (producer,) = await alone.sessions(1)
    await producer.begin("repeatable read")
    await producer.value("SELECT count(*) FROM windlass.held")
    late = await alone.look.enqueue("late", ordering_key="k")
    assert await alone.look.value(SWEPT) == 0
    edit = await producer.enqueue("edit", unique_key="u", on_conflict="replace")
    await producer.commit()
    assert await alone.look.value(SWEPT) == 1
    assert (await alone.claim(lane, worker)).ids == [edit, late]
    assert await alone.state(first) is None
