"""Connections do not ask the server about PostgreSQL's own types, and do not wait for ever."""

import errno
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from tests.postgres import free_port
from tests.stock import BOTH
from tests.store.postgres.kit import Base
from windlass.errors import StoreBusy, StoreUnavailable
from windlass.store.postgres import PostgresStore
from windlass.store.postgres.connections import database
from windlass.store.postgres.connections.connect import ARRAYS
from windlass.store.postgres.connections.errors import translated
from windlass.store.records import Outcome, WorkerInfo

NAMES = ("boolean[]", "bytea[]", "smallint[]", "int[]", "bigint[]", "float8[]", "timestamptz[]")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[set[int]]:
    """What connections asked for."""
    ask = asyncpg.Connection._introspect_types
    asked: list[set[int]] = []

    async def note(self: Any, typeoids: Any, timeout: Any) -> Any:
        asked.append(set(typeoids))
        return await ask(self, typeoids, timeout)

    monkeypatch.setattr(asyncpg.Connection, "_introspect_types", note)
    return asked


@BOTH
async def test_the_numbers_are_those_of_the_server(alone: Base) -> None:
    names = ",".join(NAMES)
    types = await alone.look.rows(
        f"SELECT oid::int, typname, typelem::int FROM pg_type WHERE oid = ANY ('{{{names}}}'::regtype[])"
    )
    assert {oid: (name, element) for oid, name, element in types} == ARRAYS


async def test_arrays_of_each_type_come_and_go(alone: Base, asked: list[set[int]]) -> None:
    """Each value is sent as an array of its type and is the same when it comes back."""
    store = await alone.store()
    connection = await store._db.connect()
    now = datetime.now(UTC)
    for name, value in zip(NAMES, (True, b"a", 1, 2, 3, 0.5, now), strict=True):
        assert await connection.fetchval(f"SELECT $1::{name}", [value, None]) == [value, None]
    await connection.close()
    assert asked == []


async def test_stores_ask_for_nothing(alone: Base, asked: list[set[int]]) -> None:
    """Two stores enqueue, claim and finish."""
    await alone.lane()
    for worker in (1, 2):
        await alone.look.enqueue()
        store = await alone.store()
        await store.register(WorkerInfo(id=worker, label="w", queues=(alone.queue,)))
        (claim,) = await store.claim(worker, [alone.queue], 10)
        await store.finish(worker, 1, [Outcome(job=job, run_ms=1.0) for job in claim.jobs])
    assert asked == []


async def test_types_of_the_users_own_are_asked_for_each_time(alone: Base, asked: list[set[int]]) -> None:
    store = await alone.store()
    await alone.look.run("CREATE TYPE pair AS (a int, b int)")
    for _ in range(2):
        connection = await store._db.connect()
        assert tuple(await connection.fetchval("SELECT (1, 2)::pair")) == (1, 2)
        await connection.close()
    assert len(asked) == 2


async def test_a_server_that_is_late_is_busy_and_not_away(alone: Base) -> None:
    """[M3] Who waited for somebody's lock was told that PostgreSQL did not answer, as if it were away,
    and not what to do; the network's own timeouts are no such thing."""
    store = await alone.store()
    with pytest.raises(StoreBusy, match="somebody holds a lock; see `windlass doctor`"):
        async with store._db.connection(within=0.2) as connection:
            await connection.execute("SELECT pg_sleep(5)")
    with pytest.raises(StoreUnavailable, match="cannot be reached") as away, translated():
        raise TimeoutError(errno.ETIMEDOUT, "the connection timed out")
    assert type(away.value) is StoreUnavailable


async def test_who_cannot_be_reached_is_named_without_the_password(alone: Base) -> None:
    """[M6] By host and port, when a store is opened and later, too."""
    away = PostgresStore(f"postgresql://ada:s3cret@127.0.0.1:{free_port()}/shop")
    host = str(away._db.address.hosts[0])
    with pytest.raises(StoreUnavailable, match=f"^PostgreSQL at {host} cannot be reached: ") as refused:
        await away.open()
    assert "s3cret" not in str(refused.value)
    store = await alone.store()
    with pytest.raises(
        StoreUnavailable, match=f"^PostgreSQL at {store._db.address.place} cannot be reached: "
    ):
        async with store._db.connection():
            raise ConnectionResetError


def test_calling_off_leaves_closing_its_time() -> None:
    assert database.CALL_OFF < database.CLOSE
