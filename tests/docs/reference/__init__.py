"""What of `docs/reference/` is written by a program: `python -m tests.docs.reference` writes it anew.

A page holds prose by hand and blocks between two marks. Each block is made from what it is about (commands,
public names, endpoints, metrics), so it cannot tell anything else; a test fails where one is stale.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tests.docs.reference import api, commands, metrics, python

ROOT: Final = Path(__file__).resolve().parents[3]
FOLDER: Final = ROOT / "docs" / "reference"
WRITERS: Final[Mapping[str, Callable[[], str]]] = {
    "api": api.written,
    "commands": commands.written,
    "metrics": metrics.written,
    "python": python.written,
}
_BLOCK: Final = re.compile(
    r"(?P<begin><!-- python -m tests\.docs\.reference writes (?P<name>[a-z]+) from here -->\n)"
    r".*?(?P<end><!-- to here -->)",
    re.DOTALL,
)


def pages() -> list[Path]:
    """Every page of the reference."""
    return sorted(FOLDER.glob("*.md"))


def blocks(text: str) -> list[str]:
    """The names of the blocks of a page."""
    return [found["name"] for found in _BLOCK.finditer(text)]


def fresh(text: str) -> str:
    """The page with its blocks as they should be."""
    return _BLOCK.sub(lambda found: f"{found['begin']}\n{WRITERS[found['name']]()}\n{found['end']}", text)
