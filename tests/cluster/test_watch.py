"""Dead workers and living ones, told apart by heartbeats and one's own clock alone [C8]."""

from windlass.cluster.watch import HeartbeatWatch
from windlass.store.records import WorkerRecord
from windlass.testing import Clock


def worker(
    id: int, heartbeat: int, *, lease: float = 30.0, alive: bool = True, at: float = 0.0
) -> WorkerRecord:
    return WorkerRecord(
        id=id,
        label="",
        host="",
        pid=0,
        queues=(),
        alive=alive,
        heartbeat=heartbeat,
        started_at=at,
        heartbeat_at=at,
        lease=lease,
    )


def ids(dead: list[WorkerRecord]) -> list[int]:
    return [record.id for record in dead]


def test_c8_a_counter_that_stands_for_a_lease_is_a_dead_worker() -> None:
    """[C8] Not sooner, and one that moves is alive."""
    clock = Clock(1000.0)
    watch = HeartbeatWatch(clock)
    assert watch.look([worker(1, 5), worker(2, 5)]) == []
    clock.advance(29.9)
    assert watch.look([worker(1, 5), worker(2, 6)]) == []
    clock.advance(0.1)
    assert ids(watch.look([worker(1, 5), worker(2, 6)])) == [1]
    clock.advance(29.9)
    assert ids(watch.look([worker(1, 5), worker(2, 7)])) == [1]


def test_c8_each_worker_has_its_own_lease() -> None:
    """[C4]"""
    clock = Clock(1000.0)
    watch = HeartbeatWatch(clock)
    watch.look([worker(1, 1, lease=3), worker(2, 1, lease=60)])
    clock.advance(10)
    assert ids(watch.look([worker(1, 1, lease=3), worker(2, 1, lease=60)])) == [1]


def test_c8_the_wall_clock_declares_nobody_dead() -> None:
    """[C8] What the rows say about time is not looked at: a step of the database's clock changes nothing."""
    clock = Clock(1000.0)
    watch = HeartbeatWatch(clock)
    watch.look([worker(1, 5, at=1e9)])
    clock.advance(1)
    assert watch.look([worker(1, 5, at=0.0)]) == []


def test_c8_one_known_to_be_dead_is_declared_dead_at_once() -> None:
    """[C8] Its jobs were not all taken back, by somebody who was interrupted."""
    assert ids(HeartbeatWatch(Clock(1000.0)).look([worker(1, 5, alive=False), worker(2, 1)])) == [1]


def test_c8_an_outage_declares_nobody_dead() -> None:
    """[C8] Who was cut off counts anew; so does who got its answer only after a long time, since the workers'
    heartbeats may have waited just as long."""
    clock = Clock(1000.0)
    watch = HeartbeatWatch(clock)
    watch.look([worker(1, 5)])
    clock.advance(60)
    watch.forget()
    assert watch.look([worker(1, 5)]) == []
    clock.advance(60)
    assert watch.look([worker(1, 5)], took=45.0) == []
    clock.advance(29)
    assert watch.look([worker(1, 5)], took=0.1) == []
    clock.advance(1)
    assert ids(watch.look([worker(1, 5)], took=0.1)) == [1]


def test_a_worker_that_is_gone_is_forgotten() -> None:
    """The memory of a watch does not grow with every worker there ever was."""
    watch = HeartbeatWatch(Clock(1000.0))
    watch.look([worker(id, 1) for id in range(100)])
    watch.look([worker(1, 1)])
    assert list(watch._seen) == [1]


def test_c8_the_next_look_is_when_a_lease_may_be_over() -> None:
    """[C8]"""
    clock = Clock(1000.0)
    watch = HeartbeatWatch(clock)
    assert watch.pause() == float("inf")
    watch.look([worker(1, 5), worker(2, 5, lease=60.0)])
    assert watch.pause() == 30.0
    clock.advance(29)
    watch.look([worker(1, 5), worker(2, 6, lease=60.0)])
    assert watch.pause() == 1.0
    clock.advance(1)
    assert ids(watch.look([worker(1, 5), worker(2, 6, lease=60.0)])) == [1]
    assert watch.pause() == 59.0  # it could not be rescued yet: that is no reason to look all the time
