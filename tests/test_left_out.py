"""Tests that a machine cannot run are left out with a word that nobody misses."""

from collections.abc import Iterator

import pytest

from tests import __main__ as command
from tests import left_out, postgres_install
from tests.browser import chromium

pytest_plugins = ["pytester"]

LACKING = """
import pytest
from tests import left_out

@pytest.fixture(scope="session", params=left_out.ALL, ids=str)
def lacking(request):
    pytest.skip(request.param.reason)

@pytest.mark.parametrize("turn", [1, 2])
def test_it(lacking, turn): ...

@pytest.mark.skip(reason="something else")
def test_another(): ...
"""


@pytest.fixture(autouse=True)
def nothing_remembered() -> Iterator[None]:
    yield
    chromium.find.cache_clear()
    postgres_install.find_stock.cache_clear()


def test_the_verdict_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An empty variable says that there is none, and that none is to be brought."""
    for finder, variable in (
        (chromium.find, chromium.VARIABLE),
        (postgres_install.find_stock, postgres_install.VARIABLE),
    ):
        finder.cache_clear()
        monkeypatch.setenv(variable, "")
    monkeypatch.setenv("LIBFAKETIME", "")
    monkeypatch.setattr(left_out, "pgbouncer", lambda: None)
    monkeypatch.setattr(left_out, "freezer", lambda version: None)
    verdict = command.missing()
    said = capsys.readouterr().out
    for each in left_out.ALL:
        assert str(each) in verdict
        assert str(each) in said
    assert "STOCK POSTGRESQL TESTS LEFT OUT" in said


def test_a_run_ends_with_how_many_of_each_kind_were_left_out(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(LACKING)
    pytester.makepyprojecttoml('[tool.pytest]\nini_options.asyncio_default_fixture_loop_scope = "function"')
    result = pytester.runpytest_inprocess("-p", "tests.left_out")
    result.assert_outcomes(skipped=2 * len(left_out.ALL) + 1)
    for each in left_out.ALL:
        result.stdout.fnmatch_lines([f"2 {each.tests} did NOT run: *"])
