"""`python -m tests.matrix` finds the interpreters that are there, and says what ran on which."""

import re
import sys
import tomllib
from pathlib import Path

import pytest

from tests import matrix

ROOT = Path(__file__).resolve().parent.parent
REPORT = """
<testsuites><testsuite>
<testcase classname="tests.core.flow.test_bucket" name="test_it"/>
<testcase classname="tests.conformance.test_after" name="test_it[sqlite]"/>
<testcase classname="tests.conformance.test_after" name="test_it[postgres-dead]"/>
<testcase classname="tests.conformance.test_after" name="test_it[memory]"><skipped/></testcase>
<testcase classname="tests.tasks.test_flow" name="test_it[postgresql]"><failure/></testcase>
</testsuite></testsuites>
"""


def test_this_interpreter_is_found_and_one_that_does_not_answer_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shim of pyenv stands on PATH for every version, whether it can be run or not."""
    shim = tmp_path / "python3.99"
    shim.write_text("#!/bin/sh\necho 'pyenv: python3.99: command not found' >&2; exit 127\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert shim in list(matrix.candidates())
    assert list(matrix.find()) == [sys.version_info[:2]]


def test_the_table_says_what_ran_where(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    ran = matrix.Ran("3.13.0", seconds=7.0, error="pytest ended with 1")
    matrix.count(report, ran)
    heads, row = matrix.table([ran])
    assert re.split(r"\s{2,}", heads.strip()) == ["Python", *matrix.COLUMNS, "failed", "skipped", "seconds"]
    assert re.split(r"\s{2,}", row.strip()) == ["3.13.0", *"100001111", "7", ran.error]


def test_the_table_names_what_passed_only_alone() -> None:
    *_, row = matrix.table([matrix.Ran("3.12.1", told=" · PASSED ONLY ALONE: a (1 × in this checkout)")])
    assert row.endswith("  passed · PASSED ONLY ALONE: a (1 × in this checkout)")


def test_an_interpreter_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(matrix, "find", lambda: {(3, 11): ("3.11.7", Path(sys.executable))})
    assert matrix.main(["3.99"]) == 2
    assert "not found: 3.99; there are 3.11.7" in capsys.readouterr().out


def test_readme_and_classifiers_name_the_same_pythons() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    kind = "Programming Language :: Python :: 3."
    minors = [int(each.removeprefix(kind)) for each in project["classifiers"] if each.startswith(kind)]
    assert minors == list(range(matrix.OLDEST[1], minors[-1] + 1))
    assert project["requires-python"] == f">=3.{minors[0]}"
    readme = (ROOT / "README.md").read_text("utf-8")
    assert f"Python 3.{minors[0]} to 3.{minors[-1]}" in readme
