"""A store that is slow is not one that is away, and what can be shown of the overview is shown."""

from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import httpx
import pytest

from tests.web.kit import rigged, visiting
from tests.web.pages.kit import harmless
from windlass import Windlass
from windlass.errors import StoreBusy, StoreError, StoreUnavailable
from windlass.operations.partial import PartialAnswer
from windlass.store.records import JobFilter
from windlass.store.sqlite import SQLiteStore

METHODS = {
    "totals": ("workers",),
    "rates": ("measured",),
    "findings": ("diagnose",),
    "events": ("events",),
}
"""What of the store each part needs."""
CODES = [
    (StoreUnavailable, "store_unavailable", "The store cannot be reached", "cannot be reached"),
    (StoreBusy, "timeout", "The store is too slow", "took too long"),
]


def broken(store: SQLiteStore, methods: tuple[str, ...], error: type[StoreError] = StoreBusy) -> None:
    """From now on these raise."""

    def failing(name: str) -> Callable[..., Awaitable[Any]]:
        async def fail(*args: Any, **options: Any) -> Any:
            raise error(f"{name} failed in words of a driver")

        return fail

    for name in methods:
        setattr(store, name, failing(name))


@pytest.mark.parametrize("part", METHODS)
async def test_a_part_that_fails_is_told_of_in_its_place(part: str) -> None:
    """[M3] One slow question, and the whole overview was a page that said the store cannot be reached."""
    store = SQLiteStore(":memory:")
    with Windlass(store=store) as app:
        async with rigged(app) as rig, visiting(app) as visitor:
            await rig.add("a", queue="mail")
            broken(store, METHODS[part])
            seen = (await visitor.get("/api/overview")).json()
            page = await visitor.get("/")
    assert page.status_code == 200
    assert "parts of this page cannot be shown" in page.text
    assert "This part could not be loaded" in page.text or part == "findings"
    assert "took too long" in page.text
    assert "cannot be reached" not in page.text
    assert "words of a driver" not in page.text
    harmless(page.text)
    assert part in seen["missing"]
    assert seen["healthy"] == "error"
    assert (seen["totals"] is None) is (part == "totals")
    assert (seen["succeeded_per_second"] is None) is (part == "rates")
    if part != "totals":
        assert [queue["name"] for queue in seen["queues"]] == ["mail"]
        assert "mail" in page.text


@pytest.mark.parametrize(("error", "code", "title", "words"), CODES)
async def test_where_no_part_is_there_the_page_says_why(
    error: type[StoreError], code: str, title: str, words: str
) -> None:
    """[M3] The title of every 503 was that the store cannot be reached."""
    store = SQLiteStore(":memory:")
    with Windlass(store=store) as app:
        async with visiting(app) as visitor:
            names = {name for methods in METHODS.values() for name in methods} | {"now", "queues", "depth"}
            broken(store, tuple(names), error)
            for path in ("/", "/queues"):
                page = await visitor.get(path)
                assert (page.status_code, page.headers["retry-after"]) == (503, "2")
                assert title in page.text
                assert words in page.text
            answer = await visitor.get("/api/overview")
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, code)
            assert words in answer.json()["error"]["message"]


async def slow(visitor: httpx.AsyncClient, path: str) -> str:
    """A page that could not be had in time, and what it says."""
    page = await visitor.get(path)
    assert page.status_code == 503
    assert page.headers["retry-after"]
    assert "The store is too slow" in page.text
    assert "cannot be reached" not in page.text
    assert "idempotency_key" not in page.text  # nothing was to be done
    return page.text


async def test_a_slow_database_is_told_as_slow(pg_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """[M3] On PostgreSQL, where somebody holds a lock: by our own deadline, and by that of the server."""
    monkeypatch.setattr(PartialAnswer.__init__, "__defaults__", (0.5,))
    with Windlass(f"{pg_dsn}?options=-c%20statement_timeout%3D300") as hasty, Windlass(pg_dsn) as app:
        async with hasty, app, visiting(app, timeout=1.0) as visitor, visiting(hasty) as other:
            await visitor.put("/api/queues/mail", json={})
            holder = await asyncpg.connect(pg_dsn)
            try:
                async with holder.transaction():
                    await holder.execute("LOCK TABLE windlass.event IN ACCESS EXCLUSIVE MODE")
                    for each in (visitor, other):
                        page = await each.get("/")
                        assert (page.status_code, "This part could not be loaded" in page.text) == (200, True)
                        assert "mail" in page.text
                        await slow(each, "/events")
                async with holder.transaction():
                    await holder.execute("LOCK TABLE windlass.deferred IN ACCESS EXCLUSIVE MODE")
                    with pytest.raises(StoreBusy):
                        await hasty._store_handle().acall(lambda store: store.jobs(JobFilter()))
            finally:
                await holder.close()
