"""Rows into a table with one index, nothing else: no queue on PostgreSQL can take jobs faster than this."""

from __future__ import annotations

import json
import os
from typing import Any

import asyncpg
import bench_kit

TABLE = "CREATE TABLE rows (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, task text, payload json)"
ONE = "INSERT INTO rows (task, payload) VALUES ($1, $2)"
MANY = "INSERT INTO rows (task, payload) SELECT $1, unnest($2::json[])"


def payload(number: int) -> str:
    return json.dumps({"number": number, "text": bench_kit.TEXT})


class RawInsert(bench_kit.Peer):
    """The limit of every enqueue."""

    packages = ("asyncpg",)
    settings = {"table": "one primary key, no other index"}  # noqa: RUF012
    bulk = "INSERT … SELECT unnest"
    batch = 5000
    _pool: Any

    async def prepare(self) -> None:
        connection = await asyncpg.connect(os.environ["BENCH_DSN"])
        await connection.execute(TABLE)
        await connection.close()

    async def open(self) -> None:
        self._pool = await asyncpg.create_pool(os.environ["BENCH_DSN"], min_size=1, max_size=16)

    async def close(self) -> None:
        await self._pool.close()

    async def send(self, number: int, kind: str) -> None:
        await self._pool.execute(ONE, kind, payload(number))

    async def send_many(self, numbers: range, kind: str) -> None:
        await self._pool.execute(MANY, kind, [payload(number) for number in numbers])


if __name__ == "__main__":
    bench_kit.main(RawInsert)
