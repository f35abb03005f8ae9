"""A place for tables on each driver, and the table that most tests use."""

from pathlib import Path

import pytest

from tests.conftest import Schema
from tests.sets.tables import KINDS, Table
from windlass.sets import RowSet

SQLITE = ("apsw", "apsw-awaited", "sqlite3")


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest) -> Table:
    """An empty place, for each driver."""
    return made(request, request.param)


@pytest.fixture(params=["apsw", "asyncpg"])
def either(request: pytest.FixtureRequest) -> Table:
    """An empty place, for each database."""
    return made(request, request.param)


def made(request: pytest.FixtureRequest, kind: str) -> Table:
    if kind in SQLITE:
        tmp_path: Path = request.getfixturevalue("tmp_path")
        table = Table(kind, str(tmp_path / "rows.db"), "")
    else:
        schema: Schema = request.getfixturevalue("pg_schema")
        table = Table(kind, schema.dsn, f"{schema.name}.")
        table.execute(f"CREATE SCHEMA {schema.name}")
    return table


def vectors(table: Table) -> RowSet:
    """The set of the design's example, with its table."""
    rows = RowSet(table.name("vector"), key="operation", columns=("text", "embedding"), scope="catalog")
    table.execute(
        "CREATE TABLE {}vector (catalog text NOT NULL, operation text NOT NULL, text text, "
        f"embedding {'text' if table.is_sqlite else 'real[]'}, {', '.join(rows.ddl())}, "
        "PRIMARY KEY (catalog, operation))"
    )
    return rows
