"""Where it is measured: a schema or a file that is new, so that nothing waits there from an earlier
scenario, and that goes with everything in it."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from windlass.bench.connections import dropped_afterwards, named
from windlass.bench.meters import Meter
from windlass.settings import Settings
from windlass.store.factory import make_store
from windlass.store.protocol import Store


@dataclass(frozen=True)
class Place:
    """A store with nothing in it, opened; `settings` lead an app there, whatever the environment says."""

    store: Store
    settings: Settings
    meter: Meter

    def environment(self) -> dict[str, str]:
        """What leads processes there."""
        return {
            "WINDLASS_DATABASE_URL": self.settings.database_url,
            "WINDLASS_SCHEMA": self.settings.schema,
        }


class Grounds(Protocol):
    """Gives new places on one kind of store."""

    def fresh(self) -> AbstractAsyncContextManager[Place]:
        """A place that is gone when the block ends."""


class SQLiteGrounds:
    """Files, each in a directory of its own below `folder`."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    @asynccontextmanager
    async def fresh(self) -> AsyncIterator[Place]:
        """A new file."""
        with tempfile.TemporaryDirectory(dir=self._folder) as own:
            settings = Settings(database_url=f"sqlite:///{own}/jobs.db")
            async with _opened(settings) as store:
                yield Place(store, settings, Meter())


class PostgresGrounds:
    """Schemas with random names in one database. `control` is a connection of the benchmark's own."""

    def __init__(self, url: str, control: Any) -> None:
        self._url = url
        self._control = control

    @asynccontextmanager
    async def fresh(self) -> AsyncIterator[Place]:
        """A new schema."""
        schema = f"windlass_bench_{secrets.token_hex(4)}"
        settings = Settings(database_url=named(self._url, schema), schema=schema)
        async with dropped_afterwards(self._control, schema), _opened(settings) as store:
            yield Place(store, settings, Meter(self._control, schema))


@asynccontextmanager
async def _opened(settings: Settings) -> AsyncIterator[Store]:
    store = make_store(settings.database_url, schema=settings.schema)
    await store.migrate()
    try:
        await store.open()
        yield store
    finally:
        await store.close()
