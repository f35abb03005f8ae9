"""Names and keys are in the order of their characters, whatever the database's collation: as on the other
stores. ICU is what the stock server has and those from wheels have not."""

import asyncio
from collections.abc import Iterator

import psycopg
import pytest

from tests.cli.kit import Desk
from tests.postgres import Server
from windlass.store.postgres import PostgresStore
from windlass.store.records import NewJob, Options

NAMES = ["b", "a_b", "ab", "a-c", "a.b", "a1"]


@pytest.fixture
def english(stock_server: Server) -> Iterator[str]:
    """A database in which "a_b" comes before "a-c"."""
    name = "windlass_english"
    locale = "ENCODING 'UTF8' LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C' TEMPLATE template0"
    with psycopg.connect(stock_server.dsn(), autocommit=True) as owner:
        owner.execute(f"CREATE DATABASE {name} {locale}".encode())
    url = stock_server.dsn(name)
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT 'a_b' < 'a-c'").fetchone() == (True,)
    Desk(url).ok("migrate")
    yield url
    stock_server.drop_database(name)


async def fill(url: str) -> list[str]:
    """A queue, a task and an ordering key of each name; the answer is the order of the keys."""
    store = PostgresStore(url)
    await store.open()
    try:
        for name in NAMES:
            await store.set_task(name, {"concurrency": 2})
            await store.enqueue([NewJob(task=name, payload="[]", queue=name)])
        ordered = [
            NewJob(task="t", payload="[]", queue="keys", options=Options(ordering_key=name)) for name in NAMES
        ]
        await store.enqueue(ordered)
        return [mark.key for mark in await store.watermarks("keys")]
    finally:
        await store.close()


def test_names_are_in_the_order_of_their_characters(english: str) -> None:
    keys = asyncio.run(fill(english))
    desk = Desk(english)
    assert keys == sorted(NAMES)
    assert [queue["name"] for queue in desk.json("queues")["queues"]] == sorted([*NAMES, "keys"])
    tasks = [task["name"] for task in desk.json("tasks")["tasks"]]
    assert tasks == sorted(tasks)
    assert set(NAMES) <= set(tasks)
