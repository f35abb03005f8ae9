"""The examples run on each database that Windlass knows."""

import pytest


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def database(request: pytest.FixtureRequest) -> dict[str, str]:
    """What to add to the environment of an example: nothing for SQLite in a temporary place."""
    if request.param == "sqlite":
        return {}
    return {"WINDLASS_DATABASE_URL": request.getfixturevalue("pg_dsn")}
