"""The pytest plugin, which pytest finds by itself: the fixture `jobs` keeps a test's jobs in memory.

    def test_signup_sends_a_welcome(jobs):
        sign_up("ada@example.org")
        assert_enqueued(app, send, "ada@example.org")
        jobs.drain()

It stands beside the package and not in it, since a module of the package would import all of Windlass into
every test run of the machine. Nothing is imported here before a test asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from windlass import Windlass
    from windlass.testing import TestMode

_ADDRESS = "windlass_app"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Say which app it is about."""
    parser.addini(_ADDRESS, "The Windlass app under test, as module:attribute.", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        "windlass(inline, clock, database): how the fixture `jobs` is made; as the options of app.testing()",
    )


@pytest.fixture
def windlass_app(pytestconfig: pytest.Config) -> Windlass:
    """The app under test: the one that the ini option `windlass_app` names. Override it where that will not
    do."""
    address = str(pytestconfig.getini(_ADDRESS))
    if not address:
        pytest.fail(
            'no app to test: write windlass_app = "shop:app" into pytest\'s settings, or a fixture '
            "`windlass_app` that returns the app into conftest.py",
            pytrace=False,
        )
    from windlass.errors import ConfigurationError
    from windlass.tasks.loading import load_app

    try:
        return load_app(address)
    except ConfigurationError as error:
        pytest.fail(f"windlass_app = {address!r}: {error}", pytrace=False)


@pytest.fixture
def jobs(request: pytest.FixtureRequest, windlass_app: Windlass) -> Iterator[TestMode]:
    """The app in test mode for as long as the test lasts: its jobs are kept in memory, and this is the kit
    that runs them; see `windlass.testing`. `@pytest.mark.windlass(inline=True)` runs each where it is
    enqueued; with `database=True` they are kept in a real database, that of `windlass_database`."""
    marker = request.node.get_closest_marker("windlass")
    options = dict(marker.kwargs) if marker else {}
    if options.get("database") is True:
        options["database"] = request.getfixturevalue("windlass_database")
    with windlass_app.testing(**options) as kit:
        yield kit


@pytest.fixture
def windlass_database(tmp_path: Path) -> str:
    """The database of `@pytest.mark.windlass(database=True)`: an SQLite file of the test's own. Override it
    with the URL of an empty PostgreSQL database where your SQL needs one."""
    return f"sqlite:///{(tmp_path / 'windlass.db').as_posix()}"
