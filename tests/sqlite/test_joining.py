"""Enqueue in the caller's own transaction: an apsw connection to the same file [E1]."""

import sqlite3
from pathlib import Path

import pytest

from tests.sqlite.invariants import check
from tests.sqlite.kit import drain, foreign, job, opened
from windlass.errors import AlreadyEnqueued, ConfigurationError


async def test_jobs_share_the_fate_of_the_transaction(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    async with opened(path) as store:
        mine = foreign(path)
        mine.execute("CREATE TABLE orders (id INTEGER)")
        mine.execute("BEGIN IMMEDIATE; INSERT INTO orders VALUES (1)")
        (receipt,) = await store.enqueue([job("kept", unique_key="k")], connection=mine)
        assert await store.job(receipt.id) is None
        mine.execute("COMMIT")
        assert await store.job(receipt.id) is not None
        mine.execute("BEGIN IMMEDIATE; INSERT INTO orders VALUES (2)")
        await store.enqueue([job("gone"), job("gone too", unique_key="other")], connection=mine)
        mine.execute("ROLLBACK")
        assert [claimed.task for claimed in await drain(store, 1)] == ["kept"]
        await store.enqueue([job(unique_key="other", on_conflict="reject")])
        mine.close()
    check(path)


async def test_a_refusal_leaves_the_callers_transaction_alive(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    async with opened(path) as store:
        await store.enqueue([job(unique_key="k")])
        mine = foreign(path)
        mine.execute("BEGIN IMMEDIATE")
        with pytest.raises(AlreadyEnqueued):
            await store.enqueue([job("a"), job("b", unique_key="k", on_conflict="reject")], connection=mine)
        await store.enqueue([job("c")], connection=mine)
        mine.execute("COMMIT")
        mine.close()
        assert (await store.depth())["default"].ready == 2
    check(path)


async def test_other_connections_are_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    async with opened(path) as store:
        with pytest.raises(ConfigurationError, match=r"sqlite3\.Connection"):
            await store.enqueue([job()], connection=sqlite3.connect(tmp_path / "other.db"))
        elsewhere = foreign(tmp_path / "other.db")
        with pytest.raises(ConfigurationError, match=r"other\.db"):
            await store.enqueue([job()], connection=elsewhere)
        mine = foreign(path)
        with pytest.raises(ConfigurationError, match="BEGIN"):
            await store.enqueue([job()], connection=mine)
        mine.close()
        elsewhere.close()
        assert await store.depth() == {}
