"""What is special about measures in a file: rows that nobody can read, bounded steps, and what it knows of
itself."""

import logging
from pathlib import Path

import pytest

from tests.store.sqlite.kit import foreign, job, opened
from windlass.core.rollup import Sample
from windlass.store.records import Event, Miscount, Outcome, Report, Vitals, WorkerInfo
from windlass.store.sqlite import measures

ONE = Report(samples=[Sample(at=60, queue="q", counts={"succeeded": 1})])


async def test_reports_that_cannot_be_read_are_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """[M1] [fault 17] With a warning: they must not stop those behind them."""
    path = tmp_path / "w.db"
    async with opened(path) as store:
        for number in (1, 2, 3):
            await store.report(1, number, ONE)
        other = foreign(path)
        other.execute("UPDATE windlass_report SET samples = '[{' WHERE id = 2")
        other.close()
        with caplog.at_level(logging.WARNING, "windlass.store"):
            assert (await store.rollup()).folded == 3
        assert "a report cannot be read" in caplog.text
        assert [row.counts for row in await store.totals()] == [{"succeeded": 2}] * 2
        assert (await store.health()).reports == 0


async def test_a_row_that_cannot_be_read_begins_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """[M1] [fault 17] With a warning: the rollup goes on."""
    path = tmp_path / "w.db"
    async with opened(path) as store:
        await store.report(1, 1, ONE)
        await store.rollup()
        other = foreign(path)
        other.execute("UPDATE windlass_rollup SET sample = x'3f' WHERE span = 0 AND queue = 'q'")
        other.close()
        await store.report(1, 2, ONE)
        with caplog.at_level(logging.WARNING, "windlass.store"):
            await store.rollup()
        assert "start again from zero" in caplog.text
        assert [row.counts for row in await store.totals()] == [{"succeeded": 2}, {"succeeded": 1}]


async def test_a_long_backlog_is_folded_in_short_transactions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[M1] Whatever a caller allows: claims wait for the same lock."""
    monkeypatch.setattr(measures, "STEP", 2)
    async with opened(tmp_path / "w.db") as store:
        for number in range(1, 6):
            await store.report(1, number, ONE)
        steps = [await store.rollup() for _ in range(3)]
        assert [(step.folded, step.more) for step in steps] == [(2, True), (2, True), (1, False)]
        assert [row.counts for row in await store.totals()] == [{"succeeded": 5}] * 2


async def test_a_row_of_a_chart_is_small(tmp_path: Path) -> None:
    """[M1] A minute of a busy task, with sixty buckets each, its indexes included."""
    path = tmp_path / "w.db"
    wide = {key: 1 + abs(key) for key in range(60)}
    async with opened(path) as store:
        now = int(await store.now()) // 60 * 60
        many = [
            Sample(
                at=now - 60 * n,
                queue="default",
                task=f"app.tasks.t{t}",
                counts={"succeeded": 600},
                waits=wide,
                runs=wide,
            )
            for n in range(20)
            for t in range(20)
        ]
        await store.report(1, 1, Report(samples=many))
        await store.rollup()
        other = foreign(path)
        (rows,) = next(iter(other.execute("SELECT count(*) FROM windlass_rollup")))
        other.close()
        size = sum(table.bytes for table in (await store.health()).tables if table.name == "rollup")
        assert 0 < size < 600 * rows


async def test_vitals_of_a_newer_version_are_not_shown(tmp_path: Path) -> None:
    """[M3] The worker is, all the same."""
    path = tmp_path / "w.db"
    async with opened(path) as store:
        await store.register(WorkerInfo(id=1))
        await store.report(1, 1, Report(vitals=Vitals(slots=3)))
        other = foreign(path)
        other.execute("""UPDATE windlass_reporter SET vitals = '{"slots": "three"}'""")
        other.close()
        assert [(worker.id, worker.vitals) for worker in await store.workers()] == [(1, None)]


async def test_events_beyond_the_limit_go_in_bounded_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[M2] The oldest first."""
    monkeypatch.setattr(measures, "MAX_EVENTS", 10)
    async with opened(tmp_path / "w.db") as store:
        now = await store.now()
        events = [Event(at=now, kind="retry", text=str(n)) for n in range(25)]
        await store.report(1, 1, Report(events=events))
        first = await store.rollup(limit=10)
        assert (first.removed, first.more) == (10, True)
        last = await store.rollup(limit=10)
        assert (last.removed, last.more) == (5, False)
        assert [event.text for event in await store.events()] == [str(n) for n in reversed(range(15, 25))]


async def test_the_tables_of_a_small_file_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[M3] Of a large one they are not: to find out would be to read all of it."""
    async with opened(tmp_path / "w.db") as store:
        await store.enqueue([job(payload='"' + "x" * 1000 + '"') for _ in range(500)])
        found = await store.health()
        sizes = {table.name: table.bytes for table in found.tables}
        assert sizes["job"] > 500_000
        assert sum(sizes.values()) <= found.bytes
        assert (found.wal_file or 0) > 500_000
        monkeypatch.setattr(measures, "SMALL", 0)
        assert (await store.health()).tables == ()


async def test_a_count_that_is_too_low_is_corrected(tmp_path: Path) -> None:
    """[M7] By the jobs that are there. Those that retention has removed stay counted."""
    path = tmp_path / "w.db"
    async with opened(path) as store:
        await store.register(WorkerInfo(id=1, queues=("default",)))
        await store.enqueue([job("a"), job("a"), job("b")])
        (claim,) = await store.claim(1, ["default"], 10)
        await store.finish(1, 1, [Outcome(job=each) for each in claim.jobs])
        connection = foreign(path)
        connection.execute("UPDATE windlass_ended SET n = 1 WHERE task = 'a'")
        connection.execute("UPDATE windlass_ended SET n = 7 WHERE task = 'b'")
        connection.close()
        assert await store.recount() == [Miscount("default", "a", "succeeded", 1, 2)]
        assert {each.task: each.counts["succeeded"] for each in await store.ended()} == {"a": 2, "b": 7}
        assert await store.recount() == []
