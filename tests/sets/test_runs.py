"""Runs that are killed, that overlap, and that come in any order: in the end the table equals the source."""

import asyncio
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import Schema
from tests.sets.conftest import made, vectors
from tests.sets.tables import Table
from tests.sets.test_sets import hashes, row, stored
from windlass.sets import RowSet, content_hash

SOURCE = {f"op-{number}": f"text {number}" for number in range(10)}

KILLED = """
import apsw, os, signal, sys
from windlass.sets import RowSet, content_hash

rows = RowSet("vector", key="operation", columns=("text", "embedding"), scope="catalog")
connection = apsw.Connection(sys.argv[1])
for start in range(0, 10, 2):
    connection.execute("BEGIN IMMEDIATE")
    batch = [
        {"operation": f"op-{n}", "text": f"text {n}", "embedding": [], "hash": content_hash(f"text {n}")}
        for n in range(start, start + 2)
    ]
    rows.upsert(connection, 7, batch, scope="a")
    if start == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    connection.execute("COMMIT")
"""


async def test_p6_batches_before_a_kill_stay_and_are_not_made_again(tmp_path: Path) -> None:
    table = Table("apsw", str(tmp_path / "rows.db"), "")
    rows = vectors(table)
    killed = await asyncio.create_subprocess_exec(sys.executable, "-c", KILLED, table.target)
    assert await killed.wait() == -signal.SIGKILL
    assert sorted(stored(table)) == ["op-0", "op-1", "op-2", "op-3"]
    asked = {key: content_hash(text) for key, text in SOURCE.items()}
    fresh = await table.call(rows, "missing", 7, asked, scope="a")
    assert list(fresh) == [f"op-{number}" for number in range(4, 10)]
    await table.call(rows, "upsert", 7, [row(key, SOURCE[key]) for key in fresh], scope="a")
    assert await table.call(rows, "replace", 7, scope="a") == 0
    assert stored(table) == SOURCE


async def test_p6_batches_before_a_lost_connection_stay(request: pytest.FixtureRequest) -> None:
    table = made(request, "asyncpg")
    rows = vectors(table)
    connection = await asyncpg.connect(table.target)
    async with connection.transaction():
        await rows.aupsert(connection, 7, [row("op-0", "text 0")], scope="a")
    await connection.execute("BEGIN")
    await rows.aupsert(connection, 7, [row("op-1", "text 1")], scope="a")
    connection.terminate()
    asked = hashes([row("op-0", "text 0"), row("op-1", "text 1")])
    assert list(await table.call(rows, "missing", 7, asked, scope="a")) == ["op-1"]


@pytest.fixture
def postgres(request: pytest.FixtureRequest) -> Table:
    return made(request, "asyncpg")


async def until_someone_waits(table: Table, connection: Any) -> None:
    """Until a session waits for a lock that this connection holds."""
    pid = connection.get_server_pid()
    question = f"SELECT 1 FROM pg_stat_activity WHERE {pid} = ANY (pg_blocking_pids(pid))"
    while not table.execute(question):  # noqa: ASYNC110 - the server sends no event for it
        await asyncio.sleep(0.005)


async def test_p11_a_row_that_is_just_being_removed_is_missing(postgres: Table) -> None:
    """The newer run sees the row in its snapshot and cannot touch it: it must not count as stored."""
    rows = vectors(postgres)
    asked = hashes([row("get", "fetch")])
    await postgres.call(rows, "upsert", 1, [row("get", "fetch"), row("put", "store")], scope="a")
    async with postgres.transaction() as older, postgres.transaction() as newer:
        await rows.amissing(older, 2, hashes([row("put", "store")]), scope="a")
        assert await rows.areplace(older, 2, scope="a") == 1
        waiting = asyncio.create_task(rows.amissing(newer, 3, asked, scope="a"))
        await until_someone_waits(postgres, older)
        await older.execute("COMMIT")
        assert await waiting == asked


async def test_p6_a_row_that_a_newer_run_has_just_touched_is_not_removed(postgres: Table) -> None:
    rows = vectors(postgres)
    await postgres.call(rows, "upsert", 1, [row("get", "fetch"), row("put", "store")], scope="a")
    async with postgres.transaction() as older, postgres.transaction() as newer:
        await rows.amissing(older, 2, hashes([row("put", "store")]), scope="a")
        assert await rows.amissing(newer, 3, hashes([row("get", "fetch")]), scope="a") == {}
        waiting = asyncio.create_task(rows.areplace(older, 2, scope="a"))
        await until_someone_waits(postgres, newer)
        await newer.execute("COMMIT")
        assert await waiting == 0
    assert sorted(stored(postgres)) == ["get", "put"]


async def test_p6_parts_of_one_run_write_the_same_rows_without_a_deadlock(postgres: Table) -> None:
    rows = vectors(postgres)
    batch = [row(f"op-{number}", "text") for number in range(300)]

    async def part(own: Sequence[dict[str, Any]]) -> int:
        return int(await postgres.call(rows, "upsert", 1, own, scope="a"))

    assert await asyncio.gather(*(part(own) for own in (batch, batch[::-1], batch, batch[::-1]))) == [300] * 4
    assert len(stored(postgres)) == 300


# -- whatever has happened before, one whole run makes the table equal to the source ----------------------

sources = st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from(["x", "y", "z"]), min_size=1)
attempts = st.tuples(sources, st.integers(0, 4), st.booleans(), st.booleans())
WORDS = RowSet("word", key="key", columns=("text",), scope="set")


class Reader:
    """One run over one source, in batches of two; each step is a batch, and the last one the replacement."""

    def __init__(self, rows: RowSet, connection: Any, run: int, source: dict[str, str]) -> None:
        self._rows, self._connection, self._run = rows, connection, run
        self._source = source
        self.made = 0

    def batch(self, number: int, force: bool = False) -> None:
        part = dict(list(self._source.items())[number * 2 : number * 2 + 2])
        asked = {key: content_hash(text) for key, text in part.items()}
        fresh = self._rows.missing(self._connection, self._run, asked, scope="s", force=force)
        made = [{"key": key, "text": part[key], "hash": asked[key]} for key in fresh]
        self.made += len(made)
        self._rows.upsert(self._connection, self._run, made, scope="s")

    def whole(self) -> None:
        for number in range((len(self._source) + 1) // 2):
            self.batch(number)
        self._rows.replace(self._connection, self._run, scope="s")


def check_runs(rows: RowSet, connection: Any, past: list[Any], source: dict[str, str]) -> None:
    """Runs that stop after some batches, or end with their replacement; then a whole one; then it again."""
    for run, (earlier, batches, force, replaces) in enumerate(past, 1):
        reader = Reader(rows, connection, run, earlier)
        for number in range(batches):
            reader.batch(number, force)
        if replaces and batches:
            rows.replace(connection, run, scope="s")
    Reader(rows, connection, len(past) + 1, source).whole()
    assert contents(connection, rows) == source
    again = Reader(rows, connection, len(past) + 2, source)
    again.whole()
    assert (contents(connection, rows), again.made) == (source, 0)


def check_crossing(rows: RowSet, connection: Any, older: Any, newer: dict[str, str], order: Any) -> None:
    """Batches of two runs in any order, the newer one's replacement last."""
    readers = (Reader(rows, connection, 1, older), Reader(rows, connection, 2, newer))
    for who, number in order:
        readers[who].batch(number)
    for number in range(4):
        readers[1].batch(number)
    readers[0].whole()
    rows.replace(connection, 2, scope="s")
    assert contents(connection, rows) == newer


def contents(connection: Any, rows: RowSet) -> dict[str, str]:
    found = connection.execute(f"SELECT key, text FROM {rows._shape.table} WHERE \"set\" = 's'")
    return dict(list(found))


orders = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3)), max_size=8)
COLUMNS = f'"set" text, key text, text text, {", ".join(WORDS.ddl())}, PRIMARY KEY ("set", key)'


@settings(max_examples=60)
@given(st.lists(attempts, max_size=4), sources, sources, orders)
def test_p6_in_the_end_the_table_equals_the_source_on_sqlite(
    past: list[Any], source: dict[str, str], older: dict[str, str], order: Any
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        connection = apsw.Connection(str(Path(directory) / "rows.db"))
        connection.execute(f"PRAGMA synchronous = OFF; CREATE TABLE word ({COLUMNS}); BEGIN IMMEDIATE")
        check_runs(WORDS, connection, past, source)
        connection.execute("DELETE FROM word")
        check_crossing(WORDS, connection, older, source, order)
        connection.close(True)


def test_p6_in_the_end_the_table_equals_the_source_on_postgres(pg_schema: Schema) -> None:
    rows = RowSet(f"{pg_schema.name}.word", key="key", columns=("text",), scope="set")
    with psycopg.connect(pg_schema.dsn) as connection:
        connection.execute(f"CREATE SCHEMA {pg_schema.name}".encode())
        connection.execute(f"CREATE TABLE {pg_schema.name}.word ({COLUMNS})".encode())

        @settings(max_examples=25)
        @given(st.lists(attempts, max_size=3), sources, sources, orders)
        def check(past: list[Any], source: dict[str, str], older: dict[str, str], order: Any) -> None:
            connection.execute(f"DELETE FROM {pg_schema.name}.word".encode())
            check_runs(rows, connection, past, source)
            connection.execute(f"DELETE FROM {pg_schema.name}.word".encode())
            check_crossing(rows, connection, older, source, order)

        check()
