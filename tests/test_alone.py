"""A failed test runs once more, alone, and counts as passed only where it passed then (ADR 39)."""

from pathlib import Path

import pytest

from tests import __main__ as command
from tests import alone

TESTS = """
from pathlib import Path
import pytest

def turns(name):
    book = Path(__file__).with_name(name)
    book.touch()
    book.write_text(book.read_text() + "x")
    return len(book.read_text())

def test_good(): ...

def test_unlucky():
    assert turns("unlucky") > 1

def test_broken():
    assert False

def test_gone():
    if turns("gone") > 1:
        pytest.skip("its server is gone")
    assert False

@pytest.mark.parametrize("n", range(4))
def test_one_of_many(n):
    assert turns(f"many-{n}") > 1
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of its own, and the command as it runs there."""
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:windlass\n")
    monkeypatch.setattr(command, "ROOT", tmp_path)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.setenv(alone.RECORD, str(tmp_path / "record"))
    return tmp_path


@pytest.mark.slow
def test_one_that_passes_alone_has_passed_and_is_named(root: Path) -> None:
    assert command.tests(["-k", "good or unlucky"]) == (
        True,
        " · PASSED ONLY ALONE: test_it.py::test_unlucky (1 × in this checkout)",
    )
    assert alone.last_failed(root) == ["test_it.py::test_unlucky"]
    (root / "unlucky").unlink()
    _, told = command.tests(["-k", "good or unlucky"])
    assert told.endswith("test_unlucky (2 × in this checkout)")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("chosen", "told"),
    [
        ("unlucky or broken", ""),
        ("unlucky or gone", " · 1 of 2 DID NOT RUN ALONE"),  # a test that is skipped has shown nothing
        ("one_of_many", ""),  # too many for bad luck: none of them is tried again
    ],
)
def test_others_have_failed(root: Path, chosen: str, told: str) -> None:
    assert command.tests(["-k", chosen]) == (False, told)
    assert not (root / "record").exists()
    assert (root / "many-0").exists() == ("many" in chosen)
    if "many" in chosen:
        assert (root / "many-0").read_text() == "x"


def test_a_run_that_was_broken_off_has_failed(root: Path) -> None:
    """The tests behind the one that failed have not run, however it fares alone."""
    command.run(["pytest", "-k", "good or unlucky"])
    assert alone.last_failed(root) == ["test_it.py::test_unlucky"]
    assert alone.judge(2, root, root) == alone.Again(passed=False)
    assert alone.judge(alone.TESTS_FAILED, root, root).passed


def test_where_none_fails_none_runs_again(root: Path) -> None:
    assert command.tests(["-k", "good"]) == (True, "")
    assert alone.last_failed(root) == []


def test_an_old_failure_is_forgotten_before_the_run(root: Path) -> None:
    command.tests(["-k", "broken"])
    assert alone.last_failed(root)
    alone.forget(root)
    assert alone.last_failed(root) == []
