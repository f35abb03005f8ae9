"""The import: a chunked task whose batches write their rows together with their checkpoint."""

import asyncio
import inspect
import os

import msgspec

from examples.stage import transaction
from windlass import NDJSON, Context, Part, Windlass

app = Windlass()


class Product(msgspec.Struct):
    """A line of the dump. One that is no Product fails its part, with its place in the file."""

    id: int
    version: int
    name: str
    price: float


class Imported(msgspec.Struct):
    """What the finalizer reports."""

    products: int
    updated: int
    """How many of them are not in their first version."""


TABLE = """
    CREATE TABLE IF NOT EXISTS product (
        id bigint PRIMARY KEY, version integer NOT NULL, name text NOT NULL, price double precision NOT NULL
    )
"""

# Parts run side by side, so a later line may be written first: the version decides which one stays.
UPSERT = """
    INSERT INTO product (id, version, name, price) VALUES ($1, $2, $3, $4)
    ON CONFLICT (id) DO UPDATE SET version = excluded.version, name = excluded.name, price = excluded.price
    WHERE product.version < excluded.version
"""

SPLIT = NDJSON(os.environ.get("IMPORT_CHUNK", "8MiB"), type=Product)


@app.chunked(queue="imports", split=SPLIT, batch=2000, parallel=4)
async def load(part: Part, path: str) -> None:
    """Write the lines of one part. Killed at any moment, it goes on behind the last batch in the table."""
    async for batch in part.batches():
        rows = [msgspec.structs.astuple(product) for product in batch.records]
        async with batch.transaction() as connection:  # rows and checkpoint, or neither
            written = connection.executemany(UPSERT, rows)
            if inspect.isawaitable(written):  # asyncpg on PostgreSQL; apsw on SQLite is through already
                await written


@load.finalizer
async def report(ctx: Context, path: str) -> Imported:
    """Once, when every part has ended; what it returns is the result of the job."""
    return await asyncio.to_thread(count)


def count() -> Imported:
    """What is in the table."""
    with transaction(app) as connection:
        sql = "SELECT count(*), count(*) FILTER (WHERE version > 1) FROM product"
        ((products, updated),) = connection.execute(sql).fetchall()
    return Imported(products, updated)
