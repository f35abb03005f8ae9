"""The examples' own tests, as their users have them: Django's runner, and pytest with the fixture `jobs`."""

import re
from pathlib import Path

import pytest

from tests.examples.running import run_module


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_e1_django_shop(kind: str, pg_database: str, tmp_path: Path) -> None:
    """[E1] The job of an order runs in `manage.py test`, in memory and in the test database."""
    url = pg_database if kind == "postgres" else f"sqlite:///{tmp_path.as_posix()}/shop.db"
    done = run_module("examples.django_shop.manage", "test", "examples.django_shop", SHOP_DATABASE_URL=url)
    assert "Ran 7 tests" in done.stderr


def test_e1_fastapi_shop(pg_dsn: str) -> None:
    """[E1] The job of an order runs in the service's tests, in memory and in its transaction."""
    flags = ("-p", "no:cacheprovider", "-q")
    done = run_module("pytest", "examples/fastapi_shop", *flags, WINDLASS_DATABASE_URL=pg_dsn)
    assert re.search(r"\b4 passed\b", done.stdout)
