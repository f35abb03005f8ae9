"""Tables in Markdown, and the words of code as users should read them."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from tests.docs.tags import TAG

_TAG: Final = re.compile(rf"\s*{TAG.pattern}")
"""What the code says about the behaviour that it keeps is nothing to its users."""
_SENTENCE: Final = re.compile(r"(?<=[^.]\.)\s+(?=[A-Z`])")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; what would end a cell early is escaped."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["|" + "|".join(f" {_cell(text)} " if text else " " for text in row) + "|" for row in rows]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def code(text: str) -> str:
    """A word of code."""
    return f"`{text}`"


def plain(text: str) -> str:
    """A text without the tags of behaviours."""
    return _TAG.sub("", text)


def paragraph(text: str) -> str:
    """The first paragraph of a docstring, on one line."""
    line = " ".join(plain(text).strip().split("\n\n")[0].split())
    return f"{line[:-1]}." if line.endswith(":") else line


def sentence(text: str) -> str:
    """The first sentence of a docstring, on one line."""
    return _SENTENCE.split(paragraph(text))[0]
