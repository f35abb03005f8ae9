"""The SQLite store beside the model."""

import shutil
import tempfile
from pathlib import Path

from tests.conformance.kit import HandClock
from tests.model.machine import SETTINGS, StoreMachine
from tests.model.profiles import profile
from tests.model.side import Side
from windlass.store.sqlite import SQLiteStore


class SQLiteMachine(StoreMachine):
    """A file of its own for each run."""

    async def open_subject(self) -> Side:
        self.directory = Path(tempfile.mkdtemp(prefix="windlass-model-"))
        clock = HandClock()
        store = SQLiteStore(self.directory / "windlass.db", settings=SETTINGS, clock=clock)
        await store.open()
        return Side(store, clock, self.run)

    async def close_subject(self) -> None:
        await self.other.store.close()
        shutil.rmtree(self.directory)


TestSQLite = SQLiteMachine.TestCase
TestSQLite.settings = profile(ci=60)
