"""A source that vanished while its rows were made is SourceGone, where the set was told its foreign key."""

from typing import Any

import pytest

from tests.sets.tables import Table
from windlass import Context, SourceGone, Windlass
from windlass.errors import ConfigurationError
from windlass.sets import RowSet, content_hash

ROW: dict[str, Any] = {"operation": "get", "text": "fetch one", "model": 1, "hash": content_hash("fetch one")}


def linked(table: Table, *, foreign_keys: int = 1, source_key: Any = "vector_catalog_fkey") -> RowSet:
    """Vectors of catalogues, in a table with one foreign key or two, and a set of it."""
    rows = RowSet(
        table.name("vector"),
        key="operation",
        columns=("text", "model"),
        scope="catalog",
        source_key=source_key,
    )
    table.execute("CREATE TABLE {}catalog (name text PRIMARY KEY)")
    table.execute("CREATE TABLE {}model (id bigint PRIMARY KEY)")
    table.execute("INSERT INTO {}catalog VALUES ('kept')")
    second = ", CONSTRAINT vector_model_fkey FOREIGN KEY (model) REFERENCES {}model"
    place = "" if table.is_sqlite else "{}"
    table.execute(
        f"CREATE TABLE {{}}vector (catalog text, operation text, text text, model bigint, "
        f"{', '.join(rows.ddl())}, PRIMARY KEY (catalog, operation), "
        f"CONSTRAINT vector_catalog_fkey FOREIGN KEY (catalog) REFERENCES {place}catalog"
        f"{second if foreign_keys > 1 else ''})"
    )
    return rows


async def write(table: Table, rows: RowSet, catalog: str) -> Any:
    async with table.transaction() as connection:
        if table.is_sqlite:  # which checks them only where it is asked to, and not within a transaction
            connection.execute("ROLLBACK" if table.kind != "sqlite3" else "SELECT 1")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("BEGIN IMMEDIATE")
        return await table.on(connection, rows, "upsert", 1, [ROW], scope=catalog)


async def test_o1_a_row_whose_source_vanished_raises_source_gone(table: Table) -> None:
    rows = linked(table)
    with pytest.raises(SourceGone, match="vector_catalog_fkey"):
        await write(table, rows, "deleted")
    assert table.execute("SELECT * FROM {}vector") == []
    assert await write(table, rows, "kept") == 1


async def test_without_the_name_the_drivers_error_stays(table: Table) -> None:
    rows = linked(table, source_key=())
    with pytest.raises(Exception, match=r"(?i)foreign key") as caught:
        await write(table, rows, "deleted")
    assert not isinstance(caught.value, SourceGone)


async def test_another_foreign_key_is_an_error_as_ever(table: Table) -> None:
    """On SQLite no one can tell which of two it was, so it is never SourceGone there."""
    rows = linked(table, foreign_keys=2)
    with pytest.raises(Exception, match=r"(?i)foreign key") as caught:
        await write(table, rows, "kept")  # its model is not there
    assert not isinstance(caught.value, SourceGone)


async def test_o1_a_job_whose_source_vanished_ends_well(pg_dsn: str) -> None:
    table = Table("asyncpg", pg_dsn, "")
    rows = linked(table)
    app = Windlass(database_url=pg_dsn)

    @app.task(name="embed")
    async def embed(ctx: Context, catalog: str) -> None:
        async with ctx.transaction() as connection:
            await rows.aupsert(connection, 1, [ROW], scope=catalog)

    async with app:
        job = await app.aenqueue("embed", catalog="deleted")
        done = await app.arun_until_idle()
        assert (done.succeeded, done.dead) == (1, 0)
        assert str(await job.astatus()) == "succeeded"


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="source_key"):
        RowSet("vector", key="id", columns=(), source_key=("",))
