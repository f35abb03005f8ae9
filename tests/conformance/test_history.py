"""History: what gauges of workers, hosts and the store showed, by the minute and by the hour [M3]."""

import itertools

from tests.conformance.kit import Rig
from windlass.core.rollup import GAUGES_KEPT, HOUR, MINUTE, Gauges, Reading
from windlass.store.protocol import Store
from windlass.store.records import Report

_numbers = itertools.count(1)


async def told(store: Store, *gauges: Gauges) -> None:
    """Report gauges as a process does, and fold them."""
    await store.report(5, next(_numbers), Report(gauges=gauges))
    await store.rollup()


async def hour(store: Store) -> int:
    """The present hour, by the store's clock."""
    now = int(await store.now())
    return now - now % HOUR


def worker(at: int, label: str = "a", cpu: int = 500, most: int = 900, host: str = "h1") -> Gauges:
    """A minute of a worker."""
    return Gauges(at=at, of="worker", name=label, host=host, values={"cpu": Reading(cpu, 1, most)})


def read(rows: list[Gauges], name: str = "cpu") -> list[tuple[int, int, int, int]]:
    """Rows as numbers: time, sum, how many, highest."""
    shown = [(row.at, row.values[name]) for row in rows]
    return [(at, reading.total, reading.n, reading.most) for at, reading in shown]


async def test_a_minute_of_a_worker_counts_for_it_for_all_and_for_its_host(rig: Rig) -> None:
    """[M3]"""
    at = await hour(rig.store)
    await told(rig.store, worker(at), worker(at, "b", 300, 400), worker(at, "c", 100, 100, host="h2"))
    for span in (MINUTE, HOUR):
        assert read(await rig.store.history(span, at, at + span, "worker", "a")) == [(at, 500, 1, 900)]
        assert read(await rig.store.history(span, at, at + span, "worker")) == [(at, 900, 3, 900)]
        assert read(await rig.store.history(span, at, at + span, "host", "h1")) == [(at, 800, 2, 900)]
        assert read(await rig.store.history(span, at, at + span, "host", "h2")) == [(at, 100, 1, 100)]
        assert await rig.store.history(span, at, at + span, "store") == []


async def test_gauges_add_up_over_minutes_and_reports(rig: Rig) -> None:
    """[M3] Sum, number and highest, in whatever steps they come."""
    at = await hour(rig.store)
    await told(rig.store, worker(at + 60, most=950))
    await told(rig.store, worker(at, cpu=100, most=200), worker(at + 60, cpu=300, most=700))
    rows = await rig.store.history(MINUTE, at, at + HOUR, "worker", "a")
    assert read(rows) == [(at, 100, 1, 200), (at + 60, 800, 2, 950)]
    assert read(await rig.store.history(HOUR, at, at + HOUR, "worker", "a")) == [(at, 900, 3, 950)]
    assert read(await rig.store.history(MINUTE, at + 1, at + 60, "worker", "a")) == []


async def test_the_calls_of_everybody_are_the_latency_of_the_store(rig: Rig) -> None:
    """[M3] Each process times its own reports; the coordinator reads the gauges."""
    at = await hour(rig.store)
    one = Gauges(at=at, of="worker", name="a", host="h1", calls={8: 2})
    two = Gauges(at=at, of="host", name="h1", calls={8: 1, 30: 1}, values={"machine_cpu": Reading(7, 1, 9)})
    await told(rig.store, one, two, Gauges(at=at, of="store", values={"bytes": Reading(4096, 1, 4096)}))
    (store,) = await rig.store.history(MINUTE, at, at + 60, "store")
    assert store.calls == {8: 3, 30: 1}
    assert read([store], "bytes") == [(at, 4096, 1, 4096)]
    (host,) = await rig.store.history(MINUTE, at, at + 60, "host", "h1")
    assert host.calls == {8: 3, 30: 1}
    assert read([host], "machine_cpu") == [(at, 7, 1, 9)]
    (mine,) = await rig.store.history(MINUTE, at, at + 60, "worker", "a")
    assert (mine.calls, mine.values) == ({8: 2}, {})


async def test_a_report_that_is_sent_again_changes_nothing(rig: Rig) -> None:
    """[M3] Neither before it was folded, nor after."""
    at = await hour(rig.store)
    report = Report(gauges=[worker(at)])
    for _ in range(2):
        await rig.store.report(6, 9, report)
        assert (await rig.store.health()).reports <= 1
        await rig.store.rollup()
    assert read(await rig.store.history(MINUTE, at, at + 60, "worker")) == [(at, 500, 1, 900)]


async def test_what_cannot_be_added_up_is_left_out(rig: Rig) -> None:
    """[M3] [fault 17] Whoever may report may write anything; the rest of the report counts."""
    at = await hour(rig.store)
    good = Reading(1, 1, 1)
    bad = [
        Gauges(at=-60, of="worker", name="x", values={"cpu": good}),
        Gauges(at=at, of="worker", values={"cpu": good}),
        Gauges(at=at, of="store", name="x", values={"bytes": good}),
        Gauges(at=at, of="worker", name="x" * 256, values={"cpu": good}),
        Gauges(at=at, of="worker", name="x", values={"colour": good}),
        Gauges(at=at, of="worker", name="x", values={"cpu": Reading(-1, 1, 1)}),
        Gauges(at=at, of="worker", name="x", values={"cpu": Reading(1, 0, 1)}),
        Gauges(at=at, of="worker", name="x", values={"cpu": Reading(1 << 60, 1, 1)}),
        Gauges(at=at, of="worker", name="x", calls={100_000: 1}),
    ]
    await told(rig.store, *bad, worker(at))
    assert read(await rig.store.history(MINUTE, 0, at + 60, "worker")) == [(at, 500, 1, 900)]
    assert await rig.store.history(MINUTE, 0, at + 60, "worker", "x") == []
    assert await rig.store.history(MINUTE, 0, at + 60, "store") == []


async def test_any_label_is_kept_as_it_is(rig: Rig) -> None:
    """[M3] [M5] Labels come from the environment."""
    at = await hour(rig.store)
    for label in ("<script>alert(1)</script>", "a'; DROP TABLE x; --", "größe/1 %00"):
        await told(rig.store, worker(at, label))
        (row,) = await rig.store.history(MINUTE, at, at + 60, "worker", label)
        assert row.name == label


async def test_minutes_go_after_a_day_and_hours_after_a_month(rig: Rig) -> None:
    """[M3] Workers come and go; so do their rows."""
    at = await hour(rig.store)
    await told(rig.store, worker(at))
    await rig.clock.advance(GAUGES_KEPT[MINUTE] - HOUR - 60)
    await rig.store.rollup()
    assert len(await rig.store.history(MINUTE, 0, 2**40, "worker", "a")) == 1
    await rig.clock.advance(HOUR + 180)
    assert (await rig.store.rollup()).removed == 3
    assert await rig.store.history(MINUTE, 0, 2**40, "worker", "a") == []
    assert len(await rig.store.history(HOUR, 0, 2**40, "worker", "a")) == 1
    await rig.clock.advance(GAUGES_KEPT[HOUR])
    assert (await rig.store.rollup()).removed == 3
    assert await rig.store.history(HOUR, 0, 2**40, "worker", "a") == []


async def test_old_rows_go_in_bounded_steps(rig: Rig) -> None:
    """[M3] [S2]"""
    at = await hour(rig.store)
    await told(rig.store, *(worker(at, f"w{n}", host="") for n in range(6)))
    await rig.clock.advance(GAUGES_KEPT[HOUR] + HOUR)
    removed = []
    while (step := await rig.store.rollup(4)).more:
        assert step.removed <= 8
        removed.append(step.removed)
    assert sum(removed) + step.removed == 14
