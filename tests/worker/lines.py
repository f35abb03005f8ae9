"""Fixtures: an app whose line to its store is in the test's hands, on the stores that live in one process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.worker.line import Line, set_quick
from windlass import Windlass
from windlass.store.factory import make_store


@pytest.fixture(params=["memory", "sqlite"])
def line(request: pytest.FixtureRequest, tmp_path: Path) -> Line:
    """A line to an empty store of each kind."""
    memory = request.param == "memory"
    return Line(make_store("sqlite:///:memory:" if memory else f"sqlite:///{tmp_path.as_posix()}/jobs.db"))


@pytest.fixture
def wired(line: Line) -> Iterator[Windlass]:
    """An app at the other end of the line, with a short lease."""
    with Windlass(store=line.as_store) as app:
        yield set_quick(app)
