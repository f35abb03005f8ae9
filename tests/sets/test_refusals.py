"""What a set refuses, and what it makes of values: names, runs, keys, rows, connections, hashes."""

import math
import sqlite3
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import apsw
import asyncpg
import psycopg
import pytest

from tests.sets.conftest import vectors
from tests.sets.tables import Table
from windlass.errors import ConfigurationError
from windlass.sets import RowSet, content_hash, run_number

HOSTILE = [
    'a"; DROP TABLE x; --',
    "",
    "a b",
    "1a",
    "a%s",
    "a$1",
    "x" * 64,
    "naïve",
    "a\n",
    "a.b.c",
    ".a",
    "a.",
    "a\x00",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError):
        RowSet(name, key="id", columns=("text",))
    for place in ("key", "scope", "hash", "run"):
        with pytest.raises(ConfigurationError):
            RowSet("t", **({"key": "id", "columns": ("text",)} | {place: name}))  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError):
        RowSet("t", key="id", columns=(name,))


def test_sets_that_cannot_work_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="named twice in id, ID, hash, run"):
        RowSet("t", key="id", columns=("ID",))
    with pytest.raises(ConfigurationError, match="at least one column"):
        RowSet("t", key=(), columns=("text",))
    with pytest.raises(ConfigurationError, match=r"write \('text',\)"):
        RowSet("t", key="id", columns="text")


@pytest.mark.parametrize("run", [0, -1, 2**63, True, 1.5, "1", None])
def test_a_run_is_a_whole_number_above_zero(run: Any) -> None:
    rows = RowSet("t", key="id", columns=())
    with pytest.raises(ValueError, match="run is"):
        rows.missing(None, run, {})
    with pytest.raises(ValueError, match="run is"):
        rows.upsert(None, run, [])
    with pytest.raises(ValueError, match="run is"):
        rows.replace(None, run)


def test_rows_and_keys_must_fit() -> None:
    rows = RowSet("t", key=("a", "b"), columns=("text",), scope="s")
    whole = {"a": 1, "b": 2, "text": "x", "hash": "h"}
    for row, fault in [
        ({"a": 1, "b": 2, "txt": "x", "hash": "h"}, "lacks text and holds txt, which"),
        (whole | {"run": 4}, "holds run"),
        (whole | {"b": None}, "does not fit the columns a, b"),
        (whole | {"hash": None}, "the hash of"),
        (whole | {"hash": ""}, "the hash of"),
    ]:
        with pytest.raises(ValueError, match=fault):
            rows.upsert(None, 1, [whole, row], scope="x")
    for key in ("a", ("a",), (1, None), ("a", "b", "c")):
        with pytest.raises(ValueError, match="does not fit"):
            rows.missing(None, 1, {key: "h"}, scope="x")
    with pytest.raises(ValueError, match="pass scope="):
        rows.upsert(None, 1, [whole])
    with pytest.raises(ValueError, match="has no scope column"):
        RowSet("t", key="a", columns=()).replace(None, 1, scope="x")


async def test_a_connection_must_suit_the_method(pg_shared_database: str, tmp_path: Path) -> None:
    rows = RowSet("t", key="id", columns=())
    with (
        psycopg.connect(pg_shared_database) as sync,
        pytest.raises(ConfigurationError, match="call the method without the a"),
    ):
        await rows.areplace(sync, 1)
    connection = await asyncpg.connect(pg_shared_database)
    with pytest.raises(ConfigurationError, match="await the method"):
        rows.replace(connection, 1)
    await connection.close()
    with pytest.raises(ConfigurationError, match=r"a builtins\.str"):
        rows.replace("sqlite:///rows.db", 1)
    for lone in (
        apsw.Connection(str(tmp_path / "rows.db")),
        sqlite3.connect(tmp_path / "rows.db", isolation_level=None),
    ):
        with pytest.raises(ConfigurationError, match="not in a transaction"):
            rows.replace(lone, 1)
        lone.close()


def test_a_hash_differs_with_content_model_and_dimension() -> None:
    one = content_hash("text", "small", 1024)
    assert one == "cd0f4a56a6a7fdc0f8d67413b24ef2bf"  # stored in tables: it may never change
    others = [("text", "small", 512), ("text", "large", 1024), ("txt", "small", 1024), ("text", "small1024")]
    assert len({one, *(content_hash(*parts) for parts in others)}) == 5
    assert content_hash({"a": 1, "b": [2]}) == content_hash({"b": [2], "a": 1})
    assert content_hash("a", "b") != content_hash(["a", "b"]) != content_hash('a","b')
    assert content_hash(date(2024, 1, 2), b"\x00", Decimal("1.0"), "\ud800")
    for value in (math.nan, math.inf, object(), {("a",): 1}):
        with pytest.raises(ValueError, match="cannot be written as JSON"):
            content_hash(value)


def test_run_numbers_grow_with_time() -> None:
    now = datetime(2026, 5, 4, 3, 2, 1, 123457, tzinfo=UTC)
    assert run_number(now) == run_number(now.timestamp()) == 1777863721123457
    assert run_number(now + timedelta(microseconds=1)) == run_number(now) + 1
    with pytest.raises(ValueError, match="has no time zone"):
        run_number(now.replace(tzinfo=None))


async def test_values_of_all_kinds(either: Table) -> None:
    kinds = {
        "number": ("integer", 2**31 - 1),
        "real": ("double precision", 0.1),
        "truth": ("boolean", True),
        "bytes": ("bytea", b"\x00\xff'"),
        "at": ("timestamptz", datetime(2024, 1, 2, 3, 4, 5, 6, tzinfo=UTC)),
        "day": ("date", date(2024, 2, 29)),
        "exact": ("numeric", Decimal("1.10")),
        "id": ("uuid", UUID(int=7)),
        "doc": ("jsonb", {"a": [1, None, "ü\\"]}),
        "list": ("text[]", ["a,b", '"', "{}"]),
        "absent": ("text", None),
    }
    columns = ", ".join(f"{name} {kind if not either.is_sqlite else ''}" for name, (kind, _) in kinds.items())
    rows = RowSet(either.name("kinds"), key="key", columns=tuple(kinds))
    either.execute(f"CREATE TABLE {{}}kinds (key uuid PRIMARY KEY, {columns}, {', '.join(rows.ddl())})")
    row = {name: value for name, (_, value) in kinds.items()} | {"key": UUID(int=1), "hash": "h"}
    assert await either.call(rows, "upsert", 1, [row]) == 1
    assert await either.call(rows, "missing", 2, {UUID(int=1): "h"}) == {}
    found = either.execute(f"SELECT {', '.join(kinds)} FROM {{}}kinds")[0]
    if either.is_sqlite:
        assert found == (
            *(2**31 - 1, 0.1, 1, b"\x00\xff'", "2024-01-02T03:04:05.000006Z", "2024-02-29", "1.10"),
            *(str(UUID(int=7)), '{"a":[1,null,"\\u00fc\\\\"]}', '["a,b","\\"","{}"]', None),
        )
    else:
        assert found == tuple(value for _, value in kinds.values())


async def test_numbers_that_no_database_keeps_are_refused(either: Table) -> None:
    rows = vectors(either)
    for value in (math.nan, [1.0, math.inf]):
        row = {"operation": "a", "text": "t", "embedding": value, "hash": "h"}
        with pytest.raises(ValueError, match="cannot be"):
            await either.call(rows, "upsert", 1, [row], scope="a")
    assert either.execute("SELECT * FROM {}vector") == []
