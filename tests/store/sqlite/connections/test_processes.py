"""Several processes on one file: each job goes to one of them, and a kill loses nothing acknowledged."""

import asyncio
import signal
import subprocess
from pathlib import Path

import pytest

from tests.stopwatch import within
from tests.store.sqlite.invariants import check
from tests.store.sqlite.kit import drain, foreign, job, opened, start
from windlass.core.retry import DeathPolicy
from windlass.errors import StoreCorrupt
from windlass.store.records import Depth


def lines(process: "subprocess.Popen[str]") -> list[int]:
    """What a script printed until it ended by itself."""
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return [int(line) for line in out.split()]


def numbers(output: str) -> set[int]:
    """The ids a killed process printed. Its last line may be cut off: that one was told to nobody."""
    return {int(line) for line in output[: output.rfind("\n")].split()}


async def test_two_processes_claim_from_one_file_each_job_once(tmp_path: Path) -> None:
    """[C1] Two producers and two consumers in processes of their own."""
    path = tmp_path / "w.db"
    producers = [start("producer", path, 150) for _ in range(2)]
    consumers = [start("consumer", path, 7) for _ in range(2)]
    enqueued = [id for process in producers for id in await asyncio.to_thread(lines, process)]
    finished = [id for process in consumers for id in await asyncio.to_thread(lines, process)]
    assert len(enqueued) == 300
    assert sorted(finished) == sorted(enqueued)
    async with opened(path) as store:
        depth = (await store.depth())["default"]
    assert (depth.ready, depth.running) == (0, 0)
    check(path)


async def test_kill_in_the_middle_of_writes_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """[fault 5] [fault 22] SIGKILL three times; every id that was printed is there, and the file is sound."""
    path = tmp_path / "w.db"
    acknowledged: set[int] = set()
    for _ in range(3):
        process = start("producer", path, 1_000_000)
        assert process.stdout is not None
        seen = [await asyncio.to_thread(process.stdout.readline) for _ in range(60)]
        process.send_signal(signal.SIGKILL)
        rest, _ = await asyncio.to_thread(process.communicate)
        acknowledged |= numbers("".join(seen) + rest)
    check(path)
    async with opened(path) as store:
        assert {job.id for job in await drain(store, 1)} >= acknowledged
    assert len(acknowledged) >= 180


async def test_what_a_killed_consumer_held_is_rescued(tmp_path: Path) -> None:
    """[C8] Every job succeeds in the end, and none that its process said was finished is given out again."""
    path = tmp_path / "w.db"
    async with opened(path) as store:
        await store.enqueue([job() for _ in range(5000)])
        process = start("consumer", path, 10)
        assert process.stdout is not None
        first = await asyncio.to_thread(process.stdout.readline)
        process.send_signal(signal.SIGKILL)
        rest, _ = await asyncio.to_thread(process.communicate)
        finished = numbers(first + rest)
        (dead,) = await store.workers()
        assert await store.rescue(dead.id, dead.heartbeat, DeathPolicy()) is not None
        again = {job.id for job in await drain(store, 1, 500)}
        assert finished
        assert not again & finished
        (depth,) = (await store.depth()).values()
        assert depth == Depth(offered=depth.offered)
    check(path)
    assert foreign(path).execute("SELECT count(*) FROM windlass_job WHERE state = 4").get == 5000


async def test_a_kill_in_the_middle_of_splits_loses_no_part(tmp_path: Path) -> None:
    """[P4] [fault 5] A job has all of its parts, or none and is still to be split."""
    path = tmp_path / "w.db"
    process = start("splitter", path, 500)
    assert process.stdout is not None
    seen = [await asyncio.to_thread(process.stdout.readline) for _ in range(5)]
    process.send_signal(signal.SIGKILL)
    rest, _ = await asyncio.to_thread(process.communicate)
    check(path)
    async with opened(path) as store:
        parents = await store.parents(active=True, limit=1000)
        assert {parent.id for parent in parents} >= numbers("".join(seen) + rest)
        assert {(parent.total, parent.out, parent.size) for parent in parents} == {(500, 1, 500)}
        for parent in parents:
            assert len(await store.parts(parent.id)) == 500


async def test_other_processes_wake_a_waiting_worker(tmp_path: Path) -> None:
    """A commit of another connection is found by polling, well within the time-out."""
    path = tmp_path / "w.db"
    async with opened(path) as store, opened(path) as other:
        waiting = asyncio.create_task(store.wait(["default"], 30.0))
        await asyncio.sleep(0.05)
        await other.enqueue([job()])
        async with within(5):
            assert await waiting


async def test_many_processes_open_a_new_file_at_once(tmp_path: Path) -> None:
    """One creates the schema, the others wait for it."""
    path = tmp_path / "w.db"
    processes = [start("producer", path, 1) for _ in range(12)]
    ids = [id for process in processes for id in await asyncio.to_thread(lines, process)]
    assert len(set(ids)) == 12
    check(path)


async def test_a_long_reader_stops_nobody(tmp_path: Path) -> None:
    """[fault 22] A snapshot held open: writes and lookups go on, and the reader keeps its old picture."""
    path = tmp_path / "w.db"
    async with opened(path) as store:
        await store.enqueue([job()])
        reader = foreign(path)
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM windlass_job").get == 1
        for _ in range(30):
            await store.enqueue([job(payload='"' + "x" * 1000 + '"') for _ in range(100)])
        assert (await store.depth())["default"].ready == 3001
        assert reader.execute("SELECT count(*) FROM windlass_job").get == 1
        reader.execute("COMMIT")
        reader.close()
        assert len(await drain(store, 1, 500)) == 3001
    check(path)


async def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    """A clear error that names the file, and the file stays as it was."""
    path = tmp_path / "w.db"
    path.write_bytes(
        b"this is not a database, but it is longer than a header of one hundred bytes would be" * 3
    )
    before = path.read_bytes()
    with pytest.raises(StoreCorrupt, match=r"w\.db"):
        async with opened(path):
            pass
    assert path.read_bytes() == before
