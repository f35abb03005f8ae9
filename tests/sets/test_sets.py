"""What a set promises, on every driver: skip by hash [P11], upsert per batch, one final replacement [P6]."""

import json
import logging
from typing import Any

import pytest

from tests.sets.conftest import vectors
from tests.sets.tables import Table
from windlass.errors import EmptyRun
from windlass.sets import RowSet, content_hash

HARD = """100% of "it's" $1 %s %(p1)s ? ?1 :p1 \\ \\u0000 {curly} '); DROP TABLE vector; -- ü→𝄞 NULL"""


def row(operation: str, text: str, model: str = "small") -> dict[str, Any]:
    return {
        "operation": operation,
        "text": text,
        "embedding": [len(text), 0.5],
        "hash": content_hash(text, model, 2),
    }


def hashes(rows: list[dict[str, Any]]) -> dict[str, str]:
    return {row["operation"]: row["hash"] for row in rows}


def stored(table: Table, scope: str = "a") -> dict[str, str]:
    found = table.execute("SELECT catalog, operation, text FROM {}vector")
    return {operation: text for catalog, operation, text in found if catalog == scope}


async def test_p6_a_run_writes_what_is_missing_and_removes_what_it_has_not_seen(table: Table) -> None:
    rows = vectors(table)
    first = [row("get", "fetch one"), row("list", "fetch many"), row("drop", "remove")]
    async with table.transaction() as connection:
        assert await table.on(connection, rows, "missing", 1, hashes(first), scope="a") == hashes(first)
        assert await table.on(connection, rows, "upsert", 1, first, scope="a") == 3
        assert await table.on(connection, rows, "replace", 1, scope="a") == 0

    second = [row("get", "fetch one"), row("list", "fetch a page"), row("put", "store")]
    async with table.transaction() as connection:
        fresh = await table.on(connection, rows, "missing", 2, list(hashes(second).items()), scope="a")
        assert list(fresh) == ["list", "put"]
        assert await table.on(connection, rows, "upsert", 2, second[1:], scope="a") == 2
        assert await table.on(connection, rows, "replace", 2, scope="a") == 1
    assert stored(table) == {"get": "fetch one", "list": "fetch a page", "put": "store"}


async def test_p11_another_model_or_force_makes_all_anew(table: Table) -> None:
    rows = vectors(table)
    await table.call(rows, "upsert", 1, [row("get", "fetch"), row("put", "store")], scope="a")
    other = hashes([row("get", "fetch", model="large"), row("put", "store")])
    assert list(await table.call(rows, "missing", 2, other, scope="a")) == ["get"]
    same = hashes([row("get", "fetch"), row("put", "store")])
    assert await table.call(rows, "missing", 3, same, scope="a") == {}
    assert await table.call(rows, "missing", 3, same, scope="a", force=True) == same


async def test_p6_what_is_rolled_back_was_never_seen(table: Table) -> None:
    rows = vectors(table)
    await table.call(rows, "upsert", 1, [row("get", "fetch"), row("put", "store")], scope="a")
    await table.call(rows, "missing", 2, hashes([row("get", "fetch")]), scope="a", commit=False)
    await table.call(rows, "upsert", 2, [row("new", "new")], scope="a", commit=False)
    await table.call(rows, "upsert", 2, [row("put", "store it")], scope="a")
    assert await table.call(rows, "replace", 2, scope="a", commit=False) == 1
    assert stored(table) == {"get": "fetch", "put": "store it"}


async def test_p6_a_run_that_saw_nothing_may_not_replace(table: Table) -> None:
    rows = vectors(table)
    await table.call(rows, "upsert", 1, [row("get", "fetch")], scope="a")
    assert await table.call(rows, "missing", 2, {}, scope="a") == {}
    assert await table.call(rows, "upsert", 2, [], scope="a") == 0
    with pytest.raises(EmptyRun, match=r"run 2 has seen no row of .*vector.*set 'a'.*empty=True"):
        await table.call(rows, "replace", 2, scope="a")
    assert stored(table) == {"get": "fetch"}
    assert await table.call(rows, "replace", 2, scope="a", empty=True) == 1
    assert stored(table) == {}


async def test_p6_sets_that_share_a_table_do_not_touch_each_other(table: Table) -> None:
    rows = vectors(table)
    await table.call(rows, "upsert", 1, [row("get", "a's"), row("put", "a's")], scope="a")
    await table.call(rows, "upsert", 2, [row("get", "b's"), row("put", "b's")], scope="b")
    asked = hashes([row("get", "b's")])
    assert await table.call(rows, "missing", 3, asked, scope="a") == asked
    assert await table.call(rows, "missing", 3, asked, scope="b") == {}
    assert await table.call(rows, "replace", 3, scope="b") == 1
    assert stored(table, "a") == {"get": "a's", "put": "a's"}
    assert stored(table, "b") == {"get": "b's"}


async def test_p6_of_two_runs_at_once_the_later_wins(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    rows = vectors(table)
    await table.call(rows, "upsert", 1, [row("old", "old"), row("kept", "kept")], scope="a")
    await table.call(rows, "upsert", 3, [row("get", "by three")], scope="a")
    # The older run neither takes the row back nor is asked to make it.
    earlier = [row("get", "by two"), row("kept", "kept"), row("only", "by two")]
    assert list(await table.call(rows, "missing", 2, hashes(earlier), scope="a")) == ["only"]
    assert list(await table.call(rows, "missing", 2, hashes(earlier), scope="a", force=True)) == [
        "kept",
        "only",
    ]
    assert await table.call(rows, "upsert", 2, earlier, scope="a") == 2
    assert await table.call(rows, "replace", 2, scope="a") == 1
    assert stored(table) == {"get": "by three", "kept": "kept", "only": "by two"}
    # The newer one finds the rest in its own time.
    assert await table.call(rows, "missing", 3, hashes([row("kept", "kept")]), scope="a") == {}
    assert await table.call(rows, "replace", 3, scope="a") == 1
    assert stored(table) == {"get": "by three", "kept": "kept"}
    with caplog.at_level(logging.WARNING, "windlass.sets"):
        assert await table.call(rows, "replace", 2, scope="a") == 0
    assert "give it a higher number" in caplog.text
    assert stored(table) == {"get": "by three", "kept": "kept"}


async def test_p6_hostile_values_are_stored_as_they_are(table: Table) -> None:
    rows = vectors(table)
    hard = [row(HARD, HARD), row("'", ""), row("a\nb", "\t\r\n")]
    assert await table.call(rows, "missing", 1, hashes(hard), scope=HARD) == hashes(hard)
    assert await table.call(rows, "upsert", 1, hard, scope=HARD) == 3
    assert await table.call(rows, "missing", 2, hashes(hard), scope=HARD) == {}
    assert await table.call(rows, "replace", 2, scope=HARD) == 0
    assert stored(table, HARD) == {HARD: HARD, "'": "", "a\nb": "\t\r\n"}


async def test_p6_of_one_key_the_last_row_counts(table: Table) -> None:
    rows = vectors(table)
    twice = [row("get", "first"), row("get", "second")]
    assert await table.call(rows, "upsert", 1, twice, scope="a") == 1
    assert stored(table) == {"get": "second"}
    pairs = [("get", "another"), ("get", content_hash("second", "small", 2))]
    assert await table.call(rows, "missing", 1, pairs, scope="a") == {}


async def test_p6_a_batch_of_thousands_is_one_call(table: Table) -> None:
    rows = vectors(table)
    many = [row(f"op-{number}", f"text {number}") for number in range(3_000)]
    assert await table.call(rows, "upsert", 1, many, scope="a") == 3_000
    many[7] = row("op-7", "changed")
    assert list(await table.call(rows, "missing", 2, hashes(many), scope="a")) == ["op-7"]


async def test_p6_composite_keys_other_names_and_no_scope(table: Table) -> None:
    table.execute(
        'CREATE TABLE {}"Word" (lang text, "order" integer, "place" text, digest text DEFAULT \'\', '
        "seen bigint DEFAULT 0, note text DEFAULT 'mine', PRIMARY KEY (\"order\", lang))"
    )
    rows = RowSet(table.name("Word"), key=("lang", "order"), columns=("place",), hash="digest", run="seen")
    given = [{"lang": lang, "order": order, "place": "x", "digest": "h"} for lang in "ab" for order in (1, 2)]
    assert await table.call(rows, "upsert", 1, given) == 4
    asked = {("a", 1): "h", ("b", 2): "other", ("c", 1): "h"}
    assert await table.call(rows, "missing", 2, asked) == {("b", 2): "other", ("c", 1): "h"}
    assert await table.call(rows, "replace", 2) == 3
    assert table.execute('SELECT lang, "order", place, seen, note FROM {}"Word"') == [
        ("a", 1, "x", 2, "mine")
    ]
    await table.call(rows, "upsert", 2, [given[0] | {"place": "y"}])
    assert table.execute('SELECT place, note FROM {}"Word"') == [("y", "mine")]  # other columns stay


async def test_lists_fit_the_column(either: Table) -> None:
    rows = vectors(either)
    await either.call(rows, "upsert", 1, [row("get", "four")], scope="a")
    ((embedding,),) = either.execute("SELECT embedding FROM {}vector")
    assert (json.loads(embedding) if either.is_sqlite else embedding) == [4, 0.5]
