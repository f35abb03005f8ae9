"""What of `docs/reference/` is written by a program: `python -m tests.docs.reference` writes it anew.

A page holds prose by hand and blocks between two marks. Each block is made from what it is about (commands,
public names, endpoints, metrics, settings), so it cannot tell anything else; a test fails where one is stale.
In the tables of `behaviours.md` the last column is written, too.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tests.docs.reference import api, behaviours, commands, metrics, python, settings
from tests.docs.reference.wrapping import wrapped

ROOT: Final = Path(__file__).resolve().parents[3]
FOLDER: Final = ROOT / "docs" / "reference"
WRITERS: Final[Mapping[str, Callable[[], str]]] = {
    "api": api.written,
    "behaviours": behaviours.links,
    "budgets": settings.of_budgets,
    "commands": commands.written,
    "jobs": settings.of_jobs,
    "metrics": metrics.written,
    "python": python.written,
    "queues": settings.of_queues,
    "tasks": settings.of_tasks,
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
    """The page with its blocks, and the tests of its behaviours, as they should be."""
    return behaviours.proved(_BLOCK.sub(_written, text))


def _written(found: re.Match[str]) -> str:
    return f"{found['begin']}\n{wrapped(WRITERS[found['name']]())}\n{found['end']}"
