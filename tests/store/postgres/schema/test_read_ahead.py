"""Files that a fork server reads for its children: a store that opens after that reads no file of the schema
again."""

import sys
from collections.abc import Iterator

import pytest

from windlass.store.factory import make_store, read_ahead
from windlass.store.postgres.schema import sources

_lists: list[list[str]] = []


def _note(event: str, args: tuple[object, ...]) -> None:
    if event == "open":
        for each in _lists:
            each.append(str(args[0]))


sys.addaudithook(_note)  # for good; it costs nothing while nobody listens


@pytest.fixture
def opened() -> Iterator[list[str]]:
    """The SQL files opened since, in a process that has read none of them."""
    for cached in (sources.migrations, sources.statements):
        cached.cache_clear()
    _lists.append([])
    yield _lists[-1]
    _lists.pop()


async def _use(dsn: str) -> None:
    store = make_store(dsn)
    await store.open()
    try:
        await store.queues()
    finally:
        await store.close()


def _sql(opened: list[str]) -> list[str]:
    return [path for path in opened if path.endswith(".sql")]


async def test_a_store_reads_what_nobody_has_read(pg_dsn: str, opened: list[str]) -> None:
    await _use(pg_dsn)
    assert _sql(opened)


async def test_nothing_is_read_twice(pg_dsn: str, opened: list[str]) -> None:
    read_ahead(pg_dsn)
    before = len(_sql(opened))
    assert before
    await _use(pg_dsn)
    assert len(_sql(opened)) == before
