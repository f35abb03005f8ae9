"""What is special about listing in a file: inserts of which all jobs have moved."""

from pathlib import Path

import pytest

from tests.conformance.kit import HandClock
from tests.store.sqlite.kit import job, opened
from windlass.core.states import State
from windlass.store.records import JobFilter
from windlass.store.sqlite import SQLiteStore, listing


async def walk(store: SQLiteStore, where: JobFilter, limit: int) -> tuple[list[int], int]:
    """Every job that is found, in order, and the number of pages."""
    found: list[int] = []
    cursor, pages = None, 0
    while True:
        page = await store.jobs(where, limit, cursor)
        assert page.cursor is None or page.back_to is not None
        found += [job.id for job in page.jobs]
        cursor, pages = page.cursor, pages + 1
        if cursor is None:
            return found, pages


@pytest.mark.parametrize("state", [None, State.READY])
async def test_m3_a_page_looks_at_so_many_inserts_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: State | None
) -> None:
    """Each of many jobs was enqueued alone and has moved: its insert leads nowhere. The walk finds all of
    them once, newest first, all the same."""
    monkeypatch.setattr(listing, "MAX_INSERTS", 7)
    monkeypatch.setattr(listing, "MAX_ROWS", 20)
    clock = HandClock()
    async with opened(tmp_path / "w.db", clock=clock) as store:
        first = [receipt.id for receipt in await store.enqueue([job() for _ in range(5)])]
        moved = [(await store.enqueue([job(delay=5)]))[0].id for _ in range(30)]
        await clock.advance(10)
        await store.promote()
        last = [receipt.id for receipt in await store.enqueue([job() for _ in range(5)])]
        for limit in (3, 100):
            found, pages = await walk(store, JobFilter(state=state), limit)
            assert found == [*reversed(last), *reversed(moved), *reversed(first)]
            assert pages >= 5
        assert (await walk(store, JobFilter(task="nobody"), 10))[0] == []
