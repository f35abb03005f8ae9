"""The three stores as fixtures: a test that asks for `rig` or `store` runs on each of them.

PostgreSQL stores live in databases copied from one migrated template per server: a copy costs a fraction of
a migration, and nothing of one test is left for the next.

The older server, the stock one and SQLite in memory are left to `.ci/run`, or to who asks: `pytest -m
postgres16`, `-m stock` and `-m sqlite_memory`.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.conformance.kit import HandClock, Rig, ServerClock, make_template
from tests.model.oracle import OracleStore
from tests.postgres import Server
from windlass.core.flow.bucket import Bucket
from windlass.store import rows
from windlass.store.postgres import PostgresStore
from windlass.store.protocol import Store
from windlass.store.records import Health, Step
from windlass.store.settings import StoreSettings
from windlass.store.sqlite import SQLiteStore

SETTINGS = StoreSettings(retention=8 * 3600.0)
SERVERS = {"postgres": "pg_server", "postgres16": "pg16_server", "stock": "stock_server"}
REPEATED = ("postgres16", "stock", "sqlite_memory")


NOT_READ: dict[type[msgspec.Struct], set[str]] = {
    Health: {"lock_waits", "wal_file"},  # which SQLite alone has, and makes by hand
    Step: {"sleep"},  # `left` comes out of it
    Bucket: {"whole_until", "used", "used_until", "cap", "per", "zone"},  # a block that was leased needs none
}
"""Fields that a store does not tell."""


@pytest.fixture(autouse=True)
def whole_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse a record of which a store has read some fields only: a new one has its column in each."""

    def converted(values: dict[str, Any], kind: type[msgspec.Struct]) -> Any:
        missing = set(kind.__struct_fields__) - values.keys() - NOT_READ.get(kind, set())
        assert not missing, f"{kind.__name__} was read without {missing}"
        return msgspec.convert(values, kind)

    monkeypatch.setattr(rows, "convert", converted)


@pytest.fixture(scope="session")
def templates() -> dict[str, str]:
    """The name of each server's migrated database."""
    return {}


@pytest.fixture(
    params=[
        "memory",
        "sqlite",
        "postgres",
        *(pytest.param(name, marks=getattr(pytest.mark, name)) for name in REPEATED),
    ]
)
async def rig(
    request: pytest.FixtureRequest, tmp_path: Path, templates: dict[str, str]
) -> AsyncIterator[Rig]:
    """A migrated and opened store without jobs, and a clock the test moves."""
    name: str = request.param
    async with AsyncExitStack() as stack:
        if name in SERVERS:
            server: Server = request.getfixturevalue(SERVERS[name])
            if name not in templates:
                templates[name] = await make_template(server, SETTINGS)
            database = server.create_database(template=templates[name])
            stack.callback(server.drop_database, database)
            moved = ServerClock(server.dsn(database))
            stack.push_async_callback(moved.close)
            rig = Rig(
                PostgresStore(server.dsn(database), settings=SETTINGS, head_cache=0.0, dump_grace=0.0),
                moved,
                "postgres",
            )
        else:
            clock = HandClock()
            store: Store
            if name == "memory":
                store = OracleStore(SETTINGS, clock)
            else:
                path = ":memory:" if name == "sqlite_memory" else tmp_path / "windlass.db"
                store = SQLiteStore(path, settings=SETTINGS, clock=clock)
            await store.migrate()
            rig = Rig(store, clock, name.partition("_")[0], lends=name == "sqlite")
        await rig.store.open()
        stack.push_async_callback(rig.store.close)
        yield rig


@pytest.fixture
def store(rig: Rig) -> Store:
    """The store of the rig, for tests that speak its operations directly."""
    return rig.store
