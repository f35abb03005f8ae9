"""The invariants of the file, after everything the model's state machine can think of."""

import itertools
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis.stateful import run_state_machine_as_test

from tests.model.profiles import ci
from tests.model.test_sqlite import SQLiteMachine
from tests.store.sqlite.invariants import check


class CheckedMachine(SQLiteMachine):
    """The same machine, with a scan of the whole file at the end of each run."""

    directory: ClassVar[Path]
    files: ClassVar["itertools.count[int]"] = itertools.count(1)

    async def close_subject(self) -> None:
        check(self.path)
        await super().close_subject()


@pytest.mark.slow
def test_counters_places_and_keys_are_true_after_any_run(tmp_path: Path) -> None:
    """[I1] [I2] [I3] [I4] [I5] Counts equal a scan, and no key, claim or insert is left behind."""
    CheckedMachine.directory = tmp_path
    run_state_machine_as_test(CheckedMachine, settings=ci(25))
