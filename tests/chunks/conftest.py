"""An app on each kind of store, and the kit's clock where a test has to wait."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apps import any_app, url
from windlass import Windlass

__all__ = ["any_app", "app", "memory", "url"]


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Windlass]:
    """An app on a SQLite file of its own."""
    with Windlass(f"sqlite:///{tmp_path}/jobs.db") as app:
        yield app


@pytest.fixture
def memory() -> Iterator[Windlass]:
    """An app that keeps its jobs in memory."""
    app = Windlass("sqlite:///:memory:")
    with app.testing():
        yield app
