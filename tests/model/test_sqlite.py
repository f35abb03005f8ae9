"""The SQLite store beside the model."""

import itertools
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis.stateful import run_state_machine_as_test

from tests.conformance.kit import HandClock
from tests.model.machine import StoreMachine
from tests.model.pair import SETTINGS
from tests.model.profiles import ci, soak
from tests.model.side import Side
from windlass.store.sqlite import SQLiteStore


class SQLiteMachine(StoreMachine):
    """A file of its own for each run."""

    directory: ClassVar[Path]
    files: ClassVar["itertools.count[int]"] = itertools.count(1)

    async def open_subject(self) -> Side:
        clock = HandClock()
        self.path = self.directory / f"{next(self.files)}.db"
        store = SQLiteStore(self.path, settings=SETTINGS, clock=clock)
        await store.open()
        return Side(store, clock, self.run)

    async def close_subject(self) -> None:
        await self.other.store.close()
        for file in self.directory.glob(f"{self.path.name}*"):
            file.unlink()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_sqlite_does_what_the_model_does(tmp_path: Path) -> None:
    """[C1] [C2] [C3] [C5] [C8] [E6] [E7] [O4] [O5] [O6] [K6] [M1] [F1] [F3] [F6] [P4] [P9] [P12]"""
    SQLiteMachine.directory = tmp_path
    run_state_machine_as_test(SQLiteMachine, settings=ci(70))


@pytest.mark.soak
def test_sqlite_does_so_for_hours(tmp_path: Path) -> None:
    """The same, with a search that is longer in every direction."""
    SQLiteMachine.directory = tmp_path
    run_state_machine_as_test(SQLiteMachine, settings=soak())
