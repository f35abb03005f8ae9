"""The schema's version and SQLite's: a newer schema and an older library are both told."""

import asyncio
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.store.sqlite.invariants import check
from tests.store.sqlite.kit import foreign, job, opened
from windlass.errors import SchemaTooNew, SchemaUnreleased
from windlass.store.records import Migration
from windlass.store.sqlite import SQLiteStore, schema
from windlass.store.sqlite.connections.connection import check_version, connect
from windlass.store.sqlite.schema import ORIGIN, VERSION


async def test_opening_migrates(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    store = SQLiteStore(path)
    assert await store.migrate() == Migration(0, VERSION)
    assert await store.migrate() == Migration(VERSION, VERSION)
    async with opened(path) as again:
        assert await again.migrate() == Migration(VERSION, VERSION)


async def test_a_new_file_has_exactly_the_schema_of_the_migrations(tmp_path: Path) -> None:
    """Nothing in Python adds to the tables, and the only rows are those that the scripts write."""
    path = tmp_path / "w.db"
    async with opened(path):
        pass
    scripts = apsw.Connection(":memory:")
    for _, script in schema.MIGRATIONS:
        scripts.execute(script)
    file = foreign(path)
    identity = file.execute("SELECT identity FROM windlass_schema").get  # each file has one of its own
    scripts.execute("INSERT INTO windlass_schema VALUES (1, ?, ?, ?)", (VERSION, ORIGIN, identity))
    assert _everything(file) == _everything(scripts)
    file.close()
    check(path)


def _everything(connection: apsw.Connection) -> dict[str, Any]:
    """Tables and indexes as they were written, and the rows of all tables."""
    entries = connection.execute(
        "SELECT type, name, sql FROM sqlite_schema WHERE name LIKE 'windlass%' ORDER BY name"
    ).fetchall()
    rows = {
        name: connection.execute(f"SELECT * FROM {name}").fetchall()
        for kind, name, _ in entries
        if kind == "table"
    }
    return {"entries": entries, "rows": rows}


async def test_two_migrations_at_once_are_one(tmp_path: Path) -> None:
    """The second has found no schema, waits for the lock of the first, and must look again when it has it."""
    path = tmp_path / "w.db"
    first, second = connect(str(path), 10), connect(str(path), 10)
    waits = threading.Event()

    def busy(_: int) -> bool:
        waits.set()
        time.sleep(0.001)
        return True

    second.set_busy_handler(busy)
    first.execute("BEGIN IMMEDIATE")
    late = asyncio.create_task(asyncio.to_thread(schema.migrate, second))
    assert await asyncio.to_thread(waits.wait, 10)
    for _, script in schema.MIGRATIONS:
        first.execute(script)
    first.execute("INSERT INTO windlass_schema (only, version, origin) VALUES (1, ?, ?)", (VERSION, ORIGIN))
    first.execute("COMMIT")
    assert await late == Migration(VERSION, VERSION)
    first.close()
    second.close()


async def test_a_newer_schema_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    async with opened(path) as store:
        await store.enqueue([job()])
    other = foreign(path)
    other.execute("UPDATE windlass_schema SET version = ?", (VERSION + 1,))
    for attempt in (SQLiteStore(path).migrate, SQLiteStore(path).open):
        with pytest.raises(SchemaTooNew, match="upgrade Windlass"):
            await attempt()
    assert other.execute("SELECT count(*) FROM windlass_job").get == 1
    other.close()


@pytest.mark.parametrize("version", [VERSION, VERSION + 16])
@pytest.mark.parametrize("change", ["SET origin = 'another'", "DROP COLUMN origin"])
async def test_a_schema_that_was_never_released_is_refused(tmp_path: Path, version: int, change: str) -> None:
    """Its number says nothing: those before the first release had higher ones, and told no origin."""
    path = tmp_path / "w.db"
    async with opened(path) as store:
        await store.enqueue([job()])
    other = foreign(path)
    other.execute("UPDATE windlass_schema SET version = ?", (version,))
    other.execute(f"{'UPDATE' if 'SET' in change else 'ALTER TABLE'} windlass_schema {change}")
    for attempt in (SQLiteStore(path).migrate, SQLiteStore(path).open):
        with pytest.raises(
            SchemaUnreleased, match=rf"version {version}, was .* never released.*another file"
        ):
            await attempt()
    assert other.execute("SELECT count(*) FROM windlass_job").get == 1
    other.close()


async def test_the_tables_live_beside_an_applications_own(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    other = foreign(path)
    other.execute("CREATE TABLE job (id INTEGER PRIMARY KEY); PRAGMA user_version = 77")
    async with opened(path) as store:
        await store.enqueue([job()])
    assert other.pragma("user_version") == 77
    tables = other.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    assert {str(name) for (name,) in tables if not str(name).startswith(("windlass_", "sqlite_"))} == {"job"}
    other.close()
    check(path)


async def test_every_commit_is_synced_and_logged_ahead(tmp_path: Path) -> None:
    async with opened(tmp_path / "w.db") as store:
        names = ("journal_mode", "synchronous")
        found = await store.database.write(lambda tx: [tx.connection.pragma(name) for name in names])
        assert found == ["wal", 2]


def test_an_old_sqlite_is_warned_about() -> None:
    for old in ("3.45.1", "3.51.2", "3.7"):
        with pytest.warns(RuntimeWarning, match=f"SQLite {old}.*pip install"):
            check_version(old)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_version("3.51.3")
        check_version("3.54.0")
        check_version(apsw.sqlite_lib_version())
