"""Wrong arguments fail in mypy [E3]: each line marked in `calls.py` causes its error, and no other does."""

import re
from pathlib import Path

from mypy import api

CALLS = Path(__file__).with_name("calls.py")
ROOT = CALLS.parents[2]
MARK = re.compile(r"  # type: ignore\[([a-z, -]+)\]$", re.MULTILINE)
REPORT = re.compile(r"calls_unmarked\.py:(\d+): error: .*\[([a-z-]+)\]$", re.MULTILINE)


def test_e3_wrong_arguments_fail_in_mypy(tmp_path: Path) -> None:
    text = CALLS.read_text(encoding="utf-8")
    marked = {
        (text.count("\n", 0, mark.start()) + 1, code)
        for mark in MARK.finditer(text)
        for code in mark[1].split(", ")
    }
    unmarked = tmp_path / "calls_unmarked.py"
    unmarked.write_text(MARK.sub("", text), encoding="utf-8")
    report, errors, _ = api.run(
        ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(tmp_path / "cache"), str(unmarked)]
    )
    assert errors == ""
    found = {(int(line), code) for line, code in REPORT.findall(report)}
    assert len(marked) >= 15
    assert found == marked, report
