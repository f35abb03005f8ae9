"""The examples' own tests, as their users have them: Django's runner, and pytest with the fixture `jobs`."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples.running import ROOT

NONE_OF_OURS = {"WINDLASS_DATABASE_URL", "SHOP_DATABASE_URL", "SHOP_JOBS_URL", "DJANGO_SETTINGS_MODULE"}


def run_tests(*command: str, **environ: str) -> str:
    """What a test runner says when all has passed. A warning is a failure, here as anywhere."""
    inherited = {name: value for name, value in os.environ.items() if name not in NONE_OF_OURS}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", *command],
        cwd=ROOT,
        env={**inherited, **environ},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_e1_django_shop(kind: str, pg_database: str, tmp_path: Path) -> None:
    """[E1] The job of an order runs in `manage.py test`, in memory and in the test database."""
    url = pg_database if kind == "postgres" else f"sqlite:///{tmp_path.as_posix()}/shop.db"
    said = run_tests("examples.django_shop.manage", "test", "examples.django_shop", SHOP_DATABASE_URL=url)
    assert "Ran 7 tests" in said


def test_e1_fastapi_shop(pg_dsn: str) -> None:
    """[E1] The job of an order runs in the service's tests, in memory and in its transaction."""
    flags = ("-p", "no:cacheprovider", "-q")
    said = run_tests("pytest", "examples/fastapi_shop", *flags, WINDLASS_DATABASE_URL=pg_dsn)
    assert re.search(r"\b4 passed\b", said)
