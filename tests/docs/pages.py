"""Pages of the documentation as a test sees them: their fenced blocks, in order, and what is said about those
in comments, which a reader does not see.

    <!-- store: sqlite -->              where the page's jobs live: memory (default), sqlite, postgres
    <!-- not run: why -->               right before a block that cannot be run; there should be few
    <!-- run: python                    a block that is run and not shown: what examples need around them
    orders = [7, 8]
    -->
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])

_FENCE = re.compile(r"(?P<indent> *)```(?P<language>[\w-]*)\s*$")
_HIDDEN = re.compile(r"<!-- run: (?P<language>\w+)\s*$")
_NOT_RUN = re.compile(r"<!-- not run: (?P<why>.+?) -->\s*$")
_STORE = re.compile(r"^<!-- store: (\w+) -->$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block, or a hidden one. `line` is where its text begins, for tracebacks."""

    language: str
    text: str
    line: int
    not_run: str | None = None


def name_of(page: Path) -> str:
    """A page as people would name it."""
    return page.relative_to(ROOT).as_posix()


def store_of(page: Path) -> str:
    """Where the jobs of a page live."""
    found = _STORE.findall(page.read_text(encoding="utf-8"))
    assert len(found) < 2, f"{name_of(page)} names two stores"
    return found[0] if found else "memory"


def blocks(page: Path, *languages: str) -> list[Block]:
    """The blocks of a page, those of these languages or all."""
    return [block for block in _read(page) if not languages or block.language in languages]


def _read(page: Path) -> Iterator[Block]:
    lines = enumerate(page.read_text(encoding="utf-8").splitlines(), start=1)
    not_run: str | None = None
    for number, line in lines:
        if said := _NOT_RUN.match(line.strip()):
            not_run = said["why"]
        elif opened := _FENCE.match(line):
            indent = len(opened["indent"])
            text = _until(lines, "```", indent)
            yield Block(opened["language"], text, number + 1, not_run)
            not_run = None
        elif hidden := _HIDDEN.match(line):
            yield Block(hidden["language"], _until(lines, "-->", 0), number + 1)
        elif line.strip():
            assert not_run is None, f"{name_of(page)}, line {number}: what is not run should follow here"


def _until(lines: Iterator[tuple[int, str]], end: str, indent: int) -> str:
    """The lines up to the one that ends the block."""
    found: list[str] = []
    for _, line in lines:
        if line.strip() == end:
            return "".join(f"{each[indent:]}\n" for each in found)
        found.append(line)
    raise AssertionError("a block that does not end")


def answers(block: Block) -> Iterator[tuple[str, list[str]]]:
    """Each command of a console block, and the lines that it is shown to print."""
    command, lines = "", list[str]()
    for line in block.text.splitlines():
        if line.startswith("$ "):
            if command:
                yield command, lines
            command, lines = line.removeprefix("$ "), []
        else:
            lines.append(line)
    if command:
        yield command, lines


def outline(line: str) -> str:
    """Return a line of output without what differs from run to run: numbers, durations and widths."""
    line = re.sub(r"\d[\d.,:-]*( ?(ms|s|min|h|d)\b)?", "0", line)
    return re.sub(r"\s+", " ", re.sub("─+", "─", line)).strip()


def prose(page: Path) -> str:
    """A page without its blocks and comments."""
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
