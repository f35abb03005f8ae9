"""Counts in words, here and wherever the code writes one."""

import re
from pathlib import Path

import pytest

from windlass.core.counts import plural

SOURCES = Path(__file__).resolve().parents[2] / "src" / "windlass"
BARE = re.compile(
    r"%d (?:running )?(?:events|failures|handlers|jobs|outcomes|parts|rows|slots|times|tokens|workers)\b"
)
"""A number of anything before a noun in a line of the log: of one there would be "1 jobs"."""


@pytest.mark.parametrize(
    ("count", "words", "text"),
    [
        (0, ("job",), "0 jobs"),
        (1, ("job",), "1 job"),
        (2_000, ("job",), "2,000 jobs"),
        (1, ("job waits", "jobs wait"), "1 job waits"),
        (2, ("job waits", "jobs wait"), "2 jobs wait"),
    ],
)
def test_a_count_agrees_with_its_noun(count: int, words: tuple[str, ...], text: str) -> None:
    assert plural(count, *words) == text


def test_a_count_that_was_broken_off_says_so() -> None:
    assert [plural(n, "job", most=10) for n in (1, 9, 10, 11)] == ["1 job", "9 jobs", "10+ jobs", "10+ jobs"]


def test_no_line_of_the_log_says_one_jobs() -> None:
    found = [
        f"{path.relative_to(SOURCES)}: {hit[0]}"
        for path in SOURCES.rglob("*.py")
        for hit in BARE.finditer(path.read_text(encoding="utf-8"))
    ]
    assert found == []
