"""The tags by which code, SQL, pages and tests cite what must hold, and where they stand.

There is one form: each tag in brackets of its own, on one line, as in `[C5] [fault 27]`. The name of a test
may begin with the same tags: `test_c5_fault_27_…`. What they mean stands in `docs/reference/behaviours.md`.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from tests.docs.pages import ROOT

FOLDERS: Final = ("bench", "deploy", "docs", "examples", "spec", "src", "tests")
WORD: Final = r"(?:[A-Z]\d+|(?:fault|rule) \d+)"
TAG: Final = re.compile(rf"\[({WORD})\]")
ODD: Final = re.compile(rf"\[{WORD}[\s,;–-]|\[(?:fault|rule)\n|(?<!\[)\b(?:[Ff]ault|[Rr]ule)s? \d+")
"""Tags that share their brackets, are cut by the end of a line, or have no brackets."""
_NAME: Final = re.compile(r"def test_((?:(?:[a-z]|fault_|rule_)\d+_)+)")
_IN_NAME: Final = re.compile(r"(?:[a-z]|fault_|rule_)\d+")


def cited(text: str) -> Counter[str]:
    """How often a text cites each tag."""
    words = (word for found in _NAME.finditer(text) for word in _IN_NAME.findall(found[1]))
    named = (word.replace("_", " ") if "_" in word else word.upper() for word in words)
    return Counter(TAG.findall(text)) + Counter(named)


def files() -> Iterator[tuple[Path, str]]:
    """Every text file of the tree, with what is in it."""
    inside = (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*")))
    for path in (*sorted(ROOT.glob("*.md")), *inside):
        if path.is_file() and "__pycache__" not in path.parts:
            try:
                yield path, path.read_text(encoding="utf-8")
            except UnicodeDecodeError:  # an image
                continue


@cache
def citations() -> Mapping[str, Counter[Path]]:
    """For each tag, the files that cite it, and how often."""
    where: dict[str, Counter[Path]] = {}
    for path, text in files():
        for tag, times in cited(text).items():
            where.setdefault(tag, Counter())[path] = times
    return where


def proofs(tag: str) -> Counter[Path]:
    """The test files that name a tag, and how often."""
    found = citations().get(tag, Counter())
    return Counter({path: n for path, n in found.items() if path.name.startswith("test_")})
