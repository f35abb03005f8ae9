"""Gauges of a process, by the minute [M3]: what is kept of many readings, and when it is reported."""

import time
from pathlib import Path

import pytest

from tests.worker.line import Line, until
from windlass import Windlass
from windlass.cluster import duties
from windlass.cluster.store_gauges import StoreGauges
from windlass.core.rollup import HOUR, MINUTE, Reading, Subject
from windlass.store.factory import make_store
from windlass.store.records import Health
from windlass.store.sqlite import SQLiteStore
from windlass.worker.reports import gauges as module
from windlass.worker.reports.gauges import GaugeBuffer, Whose
from windlass.worker.reports.machine import Machine, MachineGauges
from windlass.worker.reports.recorder import Recorder
from windlass.worker.reports.reporter import Reporter
from windlass.worker.reports.store_clock import StoreClock

MINE = Whose("worker", "w1", "h1")


class HandClock(StoreClock):
    """The store's clock, moved by hand."""

    def __init__(self, now: float) -> None:
        super().__init__()
        self.now = now
        self.known = True

    def at(self, moment: float) -> float:
        return self.now


def test_m3_a_minute_is_one_reading_and_is_reported_when_it_is_over() -> None:
    clock = HandClock(600.0)
    gauges = GaugeBuffer(clock)
    gauges.read(MINE, cpu=0.2, memory=1000, lag=None)
    gauges.read(MINE, cpu=0.6, memory=3000)
    gauges.called(1.0)
    clock.now = 659.9
    assert not gauges.any()
    assert gauges.take() == []
    clock.now = 660.0
    gauges.read(MINE, cpu=1.0)
    assert gauges.any()
    (minute,) = gauges.take()
    assert (minute.at, minute.of, minute.name, minute.host) == (600, "worker", "w1", "h1")
    assert minute.values == {"cpu": Reading(400, 1, 600), "memory": Reading(2000, 1, 3000)}
    assert sum(minute.calls.values()) == 1
    assert not gauges.any()
    assert [each.at for each in gauges.take(last=True)] == [660]


def test_m3_nothing_is_kept_before_the_time_is_known_nor_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 3)
    clock = HandClock(600.0)
    clock.known = False
    gauges = GaugeBuffer(clock)
    gauges.read(MINE, cpu=1.0)
    gauges.called(1.0)
    assert not gauges.any(last=True)
    clock.known = True
    for minute in range(5):
        clock.now = 600.0 + minute * MINUTE
        gauges.read(MINE, cpu=1.0)
    assert [each.at for each in gauges.take(last=True)] == [600, 660, 720]


def test_m3_a_label_that_cannot_be_written_is_made_one_that_can() -> None:
    gauges = GaugeBuffer(HandClock(600.0))
    gauges.read(Whose("worker", "\udcff\0" + "x" * 300, "h"), cpu=1.0)
    (minute,) = gauges.take(last=True)
    assert minute.name.startswith("?\ufffdxxx")
    assert len(minute.name) == 255


async def test_m3_the_last_report_of_a_process_has_the_minute_that_is_not_over() -> None:
    line = Line(SQLiteStore(":memory:"))
    await line.real.open()
    record = Recorder("w1")
    reporter = Reporter(line.as_store, record, lambda: record.gauges.read(MINE, cpu=0.5))
    await reporter.report()  # nothing to say, so not even the time is asked for
    record.note("leads", "once")
    await reporter.report()
    reporter.start()
    await reporter.close()
    await line.real.rollup()
    (row,) = await line.real.history(MINUTE, 0, 2**40, "worker", "w1")
    assert row.values == {"cpu": Reading(500, 1, 500)}
    (store,) = await line.real.history(MINUTE, 0, 2**40, "store")
    assert store.calls == row.calls


def test_m3_what_the_store_counts_becomes_a_rate() -> None:
    now = [0.0]
    buffer = GaugeBuffer(HandClock(600.0))
    gauges = StoreGauges(buffer, lambda: now[0])
    gauges.read(Health(store="x", bytes=10, wal=1000, cache_hits=50, cache_misses=50, lock_waits=1))
    (first,) = buffer.take(last=True)
    assert first.values == {"bytes": Reading(10, 1, 10)}
    now[0] = 20.0
    gauges.read(Health(store="x", bytes=10, wal=3000, cache_hits=140, cache_misses=60, lock_waits=3))
    (then,) = buffer.take(last=True)
    assert {name: reading.total for name, reading in then.values.items()} == {
        "bytes": 10, "wal_rate": 100, "cache_hits": 90_000, "lock_waits": 600,
    }  # fmt: skip
    gauges.forget()
    now[0] = 40.0
    gauges.read(Health(store="x", bytes=10, wal=0, wal_file=7, connections=3))
    (anew,) = buffer.take(last=True)
    assert anew.values.keys() == {"bytes", "wal_file", "connections"}


def test_m3_a_machine_tells_how_busy_it_is(tmp_path: Path) -> None:
    """As Linux writes it; nothing is known elsewhere."""
    assert Machine(tmp_path / "no", tmp_path / "no").look() == MachineGauges()
    (tmp_path / "meminfo").write_text("MemTotal: 8000 kB\nMemFree: 1 kB\nMemAvailable: 6000 kB\n")
    (tmp_path / "stat").write_text("cpu  100 0 100 700 100 0 0 0 50 0\ncpu0 1\n")
    machine = Machine(tmp_path / "no", tmp_path)
    assert machine.look() == MachineGauges(None, 2000 * 1024, 8000 * 1024)
    (tmp_path / "stat").write_text("cpu  150 0 125 725 100 0 0 0 50 0\ncpu0 1\n")
    assert machine.look() == MachineGauges(0.75, 2000 * 1024, 8000 * 1024)


def test_m3_a_container_tells_what_it_may_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", iter((100.0, 110.0)).__next__)
    (tmp_path / "meminfo").write_text("MemTotal: 8000 kB\nMemAvailable: 6000 kB\n")
    (tmp_path / "memory.current").write_text("3024\n")
    (tmp_path / "memory.stat").write_text("anon 1000\ninactive_file 2000\n")
    (tmp_path / "memory.max").write_text("4096\n")
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    (tmp_path / "cpu.stat").write_text("usage_usec 1000000\nuser_usec 5\n")
    machine = Machine(tmp_path, tmp_path)
    assert machine.look() == MachineGauges(None, 1024, 4096)
    (tmp_path / "cpu.stat").write_text("usage_usec 3000000\nuser_usec 5\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert machine.look() == MachineGauges(0.4, 1024, 8000 * 1024)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_m3_a_worker_leaves_the_history_of_itself_its_host_and_the_store(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From its vitals, its machine and the coordinator to the rows of charts."""
    monkeypatch.setattr("windlass.cluster.coordinator.SAMPLE_EVERY", 0.05)
    looked: list[Health] = []
    read = StoreGauges.read

    def reads(self: StoreGauges, health: Health) -> None:
        looked.append(health)
        read(self, health)

    monkeypatch.setattr(StoreGauges, "read", reads)
    url = f"sqlite:///{tmp_path}/w.db" if kind == "sqlite" else request.getfixturevalue("pg_dsn")
    app = Windlass(url, report_every=0.1)
    async with app, app.worker(["default"]):
        await (await app.aenqueue("windlass.echo", 1)).aresult("10s")
        store = make_store(url)
        await store.open()
        await until(lambda: len(looked) >= 3)
        (worker,) = await store.workers()
    await duties.rollup(store)
    whose: list[tuple[Subject, str]] = [("worker", worker.label), ("host", worker.host), ("store", "")]
    mine, host, last = [(await store.history(HOUR, 0, 2**40, of, name))[-1] for of, name in whose]
    await store.close()
    assert mine.values.keys() == {"cpu", "memory", "lag", "running", "slots"}
    assert mine.values["memory"].most > 1 << 20
    assert host.values.keys() >= mine.values.keys() | {"machine_memory", "machine_total"}
    assert sum(last.calls.values()) >= sum(mine.calls.values()) > 0
    assert last.values["bytes"].most > 0
    theirs = {"sqlite": {"wal_file", "lock_waits"}, "postgres": {"wal_rate", "connections"}}
    assert last.values.keys() >= theirs[kind]
