"""The form of every page: lines of prose that fit a screen, and tables that can be scanned."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, name_of
from tests.docs.reference.wrapping import WIDTH, is_short

WORDS = 30
OTHERS = [
    *(ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "bench/README.md", "deploy/README.md")),
    *sorted((ROOT / "examples").glob("*/README.md")),
    *sorted((ROOT / "src").rglob("README.md")),
]
EVERY = [pytest.param(page, id=name_of(page)) for page in [*PAGES, *OTHERS]]


def lines(page: Path) -> list[tuple[int, str]]:
    """The lines of a page with their numbers, without its blocks and comments."""
    found = []
    fenced = hidden = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        fence = line.lstrip().startswith("```")
        fenced ^= fence
        hidden |= "<!--" in line
        if not (fenced or fence or hidden):
            found.append((number, line))
        hidden &= "-->" not in line
    return found


@pytest.mark.parametrize("page", EVERY)
def test_no_line_of_prose_is_too_long(page: Path) -> None:
    long = [number for number, line in lines(page) if not is_short(line)]
    assert not long, f"{name_of(page)}, lines {long}: wrap them at {WIDTH} columns"


@pytest.mark.parametrize("page", EVERY)
def test_no_cell_of_a_table_is_a_paragraph(page: Path) -> None:
    for number, line in lines(page):
        if line.lstrip().startswith("|"):
            for cell in re.split(r"(?<!\\)\|", line):
                words = len(cell.split())
                assert words <= WORDS, f"{name_of(page)}, line {number}: {words} words in {cell.strip()!r}"


@pytest.mark.parametrize("page", EVERY)
def test_no_conflict_was_left_in_a_page(page: Path) -> None:
    marked = [
        number
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1)
        if line.startswith(("<<<<<<< ", ">>>>>>> ")) or line == "======="
    ]
    assert not marked, f"{name_of(page)}, lines {marked}: choose one side"
