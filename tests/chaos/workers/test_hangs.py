"""[fault 4] Handlers that hang, in every place where one can run. Its time ends each, its slot comes back,
and the log says where it stood.
"""

import pytest

from tests.chaos.figures import Figure
from tests.chaos.kit import until
from tests.chaos.workers.kit import Scene
from tests.postgres_guard import alive
from tests.stopwatch import Stopwatch
from windlass.store.records import JobRecord, Options

LIMIT = 1.0
GRACE = 1.0
ONCE = Options(max_attempts=1, timeout=LIMIT)


def timed_out(record: JobRecord) -> float:
    """Its one attempt failed because of the clock; the answer is the time from its enqueue to that."""
    assert record.state == "dead"
    assert (record.attempt, record.deaths) == (1, 0)
    assert [error.type for error in record.errors] == ["TimeoutError"]
    assert record.finished_at is not None
    return record.finished_at - record.enqueued_at


async def test_a_hung_handler_is_ended_by_its_timeout(scene: Scene, figure: Figure) -> None:
    """On the loop, in a thread, in a process: three slots, three that hang, and then the slots are free."""
    host = await scene.host(queues=["work=3"], WINDLASS_GRACE=f"{GRACE:g}s")
    (brief,) = await scene.enqueue("brief.process")
    await scene.state(brief, "succeeded")  # a process takes a while to start, which is not what is timed here
    hung = [
        (await scene.enqueue(task, options=ONCE))[0] for task in ("hang.loop", "hang.thread", "hang.process")
    ]
    watch = Stopwatch()
    (inside,) = await scene.seen(0, "inside")
    good = await scene.enqueue("steady", 6, seconds=0.05)
    await scene.all_ended(LIMIT + 10.0)
    lost = watch.lost()
    for record in await scene.records(hung):
        took = timed_out(record)
        figure(f"{record.task}: ended after, s", took)
        assert LIMIT <= took < LIMIT + 2.0 + lost
    for place in ("in hang_on_loop", "in hang_in_thread"):
        assert place in host.log, "the log does not say where it stood"

    async def gone() -> bool:
        return not alive(inside.pid)

    await until(gone, 5.0)
    # The thread cannot be stopped, so its process is replaced.
    await host.says("left: a plain function did not end with its job")
    (thread,) = scene.entries(hung[1], "start")
    scene.killed[thread.pid] = thread.at
    await scene.check(good)


@pytest.mark.slow
async def test_a_handler_that_blocks_the_loop_takes_its_process_along(scene: Scene, figure: Figure) -> None:
    """No timer runs where the loop is blocked, so the supervisor kills the process at the deadline and a
    grace. The job has failed an attempt; those beside it go back uncharged [C8]."""
    host = await scene.host(queues=["work=4"], WINDLASS_GRACE=f"{GRACE:g}s")
    neighbours = await scene.enqueue("steady", 2, seconds=2.0)
    await scene.seen(n=2)
    watch = Stopwatch()
    (blocking,) = await scene.enqueue("hang.blocking", options=ONCE)
    (first,) = await scene.seen(blocking)
    record = await scene.state(blocking, "dead", within=LIMIT + GRACE + 10.0)
    took = timed_out(record)
    figure("blocked loop: ended after, s", took)
    assert LIMIT + GRACE <= took < LIMIT + GRACE + 3.0 + watch.lost()
    scene.killed[first.pid] = first.at
    await scene.all_ended(20.0)
    await scene.check(neighbours)
    assert all(record.deaths == 0 for record in await scene.records(neighbours))
    assert "in hang_the_loop" in host.log, "the log does not say where it stood"
    assert not alive(first.pid)


async def test_a_blocked_child_does_not_outlive_its_supervisor(pg_scene: Scene, figure: Figure) -> None:
    """The one that would kill it is gone, so it has to end itself: its job will run elsewhere. The store has
    no part in it."""
    scene = pg_scene
    host = await scene.host(WINDLASS_GRACE=f"{GRACE:g}s")
    (blocking,) = await scene.enqueue("hang.blocking")
    (first,) = await scene.seen(blocking)
    scene.kill(host.pid)

    async def gone() -> bool:
        return not alive(first.pid)

    figure("killed supervisor → its blocked child is gone, s", await until(gone, GRACE + 5.0))
    assert "in hang_the_loop" in host.log


@pytest.mark.slow
async def test_a_stubborn_handler_does_not_outlive_its_supervisor(
    sqlite_scene: Scene, figure: Figure
) -> None:
    """The loop is free and hears of it, but the handler does not heed its cancellation: the process ends
    itself."""
    scene = sqlite_scene
    host = await scene.host(WINDLASS_GRACE=f"{GRACE:g}s")
    (stubborn,) = await scene.enqueue("hang.stubborn")
    (first,) = await scene.seen(stubborn)
    scene.kill(host.pid)

    async def gone() -> bool:
        return not alive(first.pid)

    figure("killed supervisor → its stubborn child is gone, s", await until(gone, GRACE + 5.0 + 5.0))
    assert "a handler does not end" in host.log
