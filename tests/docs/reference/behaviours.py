"""Which test files prove a behaviour: the last column of `behaviours.md`, and where its links lead.

What a tag means is written by hand, in the page itself.
"""

import re
from pathlib import Path
from typing import Final

from tests.docs.pages import ROOT
from tests.docs.tags import WORD, citations, proofs

SHOWN: Final = 6
"""Test files named for one tag: those that name it most often."""
_ROW: Final = re.compile(rf"^\| \[(?P<tag>{WORD})\] \| (?P<what>[^|]+) \|[^|]*\|$", re.MULTILINE)


def explained(text: str) -> list[tuple[str, str]]:
    """The tags that a page explains, with what it says about them."""
    return [(found["tag"], found["what"]) for found in _ROW.finditer(text)]


def proved(text: str) -> str:
    """The page with the tests that prove each of its tags."""
    return _ROW.sub(lambda found: f"| [{found['tag']}] | {found['what']} | {_cell(found['tag'])} |", text)


def links() -> str:
    """Where the names of test files lead."""
    paths = {path for tag in citations() for path in _shown(tag)}
    return "".join(f"[{_name(path)}]: ../../{path.relative_to(ROOT)}\n" for path in sorted(paths))


def _cell(tag: str) -> str:
    shown = _shown(tag)
    more = len(proofs(tag)) - len(shown)
    return ", ".join(f"[{_name(path)}]" for path in shown) + (f" and {more} more" if more else "")


def _shown(tag: str) -> list[Path]:
    ranked = sorted(proofs(tag).items(), key=lambda found: (-found[1], found[0]))
    return sorted(path for path, _ in ranked[:SHOWN])


def _name(path: Path) -> str:
    return path.relative_to(ROOT / "tests").with_suffix("").as_posix()
