"""What is in the file: rows that somebody broke [fault 17], the size limit [K6], and room given back."""

from pathlib import Path

from tests.conformance.kit import HandClock
from tests.store.sqlite.invariants import check
from tests.store.sqlite.kit import drain, foreign, job, opened
from windlass.core.states import State
from windlass.store.records import WorkerInfo
from windlass.store.settings import StoreSettings


async def test_only_the_broken_row_suffers(tmp_path: Path) -> None:
    """Options that nobody can read: that job is dead with the reason, and its neighbours are claimed."""
    path = tmp_path / "w.db"
    async with opened(path) as store:
        ids = [receipt.id for receipt in await store.enqueue([job(str(n), tags=("x",)) for n in range(5)])]
        other = foreign(path)
        other.execute("UPDATE windlass_job SET options = ? WHERE pos = ?", ('{"max_attempts": "no', ids[2]))
        other.close()
        assert [claimed.task for claimed in await drain(store, 1)] == ["0", "1", "3", "4"]
        broken = await store.job(ids[2])
        assert broken is not None
        assert broken.state is State.DEAD
        assert broken.reason is not None
        assert broken.reason.startswith("unreadable options")
        assert await store.delete([ids[2]]) == {ids[2]: "deleted"}
    check(path)


async def test_a_payload_of_fifty_megabytes_is_a_job_like_any_other(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    async with opened(path) as store:
        await store.enqueue([job("small"), job("large", payload='"' + "x" * 50_000_000 + '"'), job("last")])
        done = await drain(store, 1)
        assert [claimed.task for claimed in done] == ["small", "large", "last"]
        assert len(done[1].payload) == 50_000_002


async def test_over_the_size_limit_the_oldest_go_first(tmp_path: Path) -> None:
    """[K6] The retention has not passed, but the file is too large: old successes go, young ones stay."""
    path, clock = tmp_path / "w.db", HandClock()
    settings = StoreSettings(retention=8000.0, size_limit=2_000_000)
    payload = '"' + "x" * 1000 + '"'
    async with opened(path, settings=settings, clock=clock) as store:
        for worker, age in enumerate((4000, 2900, 0), 1):
            await store.enqueue([job(f"aged {age}", payload=payload) for _ in range(1000)])
            await drain(store, worker, 500)
            await clock.advance(1100 if age == 4000 else age)
        waiting = await store.enqueue([job("waiting", payload=payload) for _ in range(10)])
        assert (await store.rotate()).removed == 2000
        other = foreign(path)
        left = other.execute("SELECT task, count(*) FROM windlass_job GROUP BY task ORDER BY task").fetchall()
        other.close()
        assert left == [("aged 0", 1000), ("waiting", 10)]
        assert (await store.depth())["default"].ready == len(waiting)
    check(path)


async def test_room_is_used_again(tmp_path: Path) -> None:
    """A file that is swept does not grow, nor do its satellites: claims, inserts and flushes go too."""
    path = tmp_path / "w.db"
    async with opened(path) as store:
        sizes = []
        for worker in range(1, 7):
            for _ in range(20):
                await store.enqueue([job(payload='"' + "x" * 500 + '"') for _ in range(50)])
            await drain(store, worker, 100)
            await store.retire(worker)
            await store.rotate(force=True)
            pages = await store.database.write(lambda tx: tx.connection.pragma("page_count"))
            sizes.append(pages)
        assert sizes[-1] <= 1.1 * sizes[1]
        other = foreign(path)
        for table, most in (("job", 0), ("claim", 0), ("insert", 1), ("flush", 0)):
            assert other.execute(f"SELECT count(*) FROM windlass_{table}").get <= most, table
        other.close()
        await store.register(WorkerInfo(id=99))
    check(path)
