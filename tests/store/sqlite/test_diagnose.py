"""What a SQLite file tells an operator: its library, its size, its readers, its machine."""

from pathlib import Path

import apsw
import pytest

from tests.conformance.kit import HandClock
from tests.store.sqlite.kit import foreign, job, opened
from windlass.store.records import Finding, WorkerInfo
from windlass.store.sqlite import SQLiteStore, workers
from windlass.store.sqlite.workers import Machine


async def findings(store: SQLiteStore) -> dict[str, Finding]:
    return {finding.name: finding for finding in await store.diagnose()}


async def test_a_sound_file(tmp_path: Path) -> None:
    async with opened(tmp_path / "w.db") as store:
        await store.enqueue([job()])
        await store.register(WorkerInfo(id=1, queues=("default",)))
        found = await findings(store)
        assert {finding.level for finding in found.values()} == {"ok"}
        assert "MB" in found["file"].text


async def test_an_old_library_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(tmp_path / "w.db") as store:
        monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.45.1")
        library = (await findings(store))["sqlite"]
        assert library.level == "error"
        assert "3.45.1" in library.text
        assert "3.51.3" in library.advice
        assert "pip install" in library.advice


async def test_a_long_reader_keeps_the_wal_from_shrinking(tmp_path: Path) -> None:
    """Somebody forgot to end a transaction; the file says so until it has ended."""
    path = tmp_path / "w.db"
    payload = '"' + "x" * 1_000_000 + '"'
    async with opened(path) as store:
        await store.enqueue([job()])
        reader = foreign(path)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM windlass_job").fetchall()
        for _ in range(4):
            await store.enqueue([job(payload=payload) for _ in range(10)])
        held = (await findings(store))["file"]
        assert held.level == "warning"
        assert "keeps from shrinking" in held.text
        assert "transaction" in held.advice
        reader.close()
        await store.enqueue([job()])
        assert (await findings(store))["file"].level == "ok"


async def test_a_worker_that_fell_silent_serves_nobody(tmp_path: Path) -> None:
    """[C4] Nobody has rescued it yet: it counts as long as its own lease says."""
    clock = HandClock()
    async with opened(tmp_path / "w.db", clock=clock) as store:
        await store.enqueue([job()])
        await store.register(WorkerInfo(id=1, queues=("default",), lease=60.0))
        await clock.advance(50)
        assert (await findings(store))["queues"].level == "ok"
        await clock.advance(20)
        assert (await findings(store))["queues"].level == "warning"
        await store.heartbeat(1)
        assert (await findings(store))["queues"].level == "ok"


async def test_a_paused_queue_needs_no_worker(tmp_path: Path) -> None:
    async with opened(tmp_path / "w.db") as store:
        await store.enqueue([job(queue="q")])
        await store.set_queue("q", {"paused": True})
        assert (await findings(store))["queues"].level == "ok"


async def test_a_worker_of_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(tmp_path / "w.db") as store:
        await store.register(WorkerInfo(id=1, label="far", host="elsewhere"))
        monkeypatch.setattr(workers, "this_machine", lambda: Machine("another", "boot"))
        found = (await findings(store))["machine"]
        assert found.level == "error"
        assert "far" in found.text
        assert "PostgreSQL" in found.advice


async def test_w4_a_group_that_waits_for_a_job_which_comes_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made by a version that let it be made."""
    async with opened(tmp_path / "w.db") as store:
        (group,) = await store.enqueue([job(group_end=True, otherwise="run")])
        (between,) = await store.enqueue([job(after=(group.id,))])
        with monkeypatch.context() as patch:
            patch.setattr("windlass.store.sqlite.durable.groups.leads_to", lambda *_: False)
            closes = job(after=(between.id,))
            _, closes_it = await store.enqueue_in_group(group.id, [job(), closes])
        found = (await findings(store))["groups"]
        assert found.level == "error"
        assert found.text.startswith(f"group {group.id} waits for job {closes_it.id}, which comes after it")
        assert found.advice == f"windlass job cancel {closes_it.id}"
        await store.cancel([closes_it.id])
        assert (await findings(store))["groups"].level == "ok"
