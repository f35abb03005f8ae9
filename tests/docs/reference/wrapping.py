"""Long lines of prose, broken where a line of the documentation ends. Tables, headings, links and code are
left as they are, and a name in backquotes stays in one piece."""

import re
from typing import Final

WIDTH: Final = 110
_WORD: Final = re.compile(r"(?:`[^`]*`|[^\s`])+")
_ITEM: Final = re.compile(r"\s*(?:[-*+]|\d+\.)\s+|\s*")
_AS_IT_IS: Final = re.compile(r"\s*(?:\||#|<!--|!?\[[^]]*\](?::|\([^)]*\)$))")


def wrapped(text: str) -> str:
    """The text with no line of prose over the width, unless one word is."""
    lines: list[str] = []
    fenced = False
    for line in text.split("\n"):
        fenced ^= line.lstrip().startswith("```")
        lines += [line] if fenced or is_short(line) else _broken(line)
    return "\n".join(lines)


def is_short(line: str) -> bool:
    """Whether a line may stay as it is."""
    return len(line) <= WIDTH or _AS_IT_IS.match(line) is not None


def _broken(line: str) -> list[str]:
    start = _ITEM.match(line)
    begin = start[0] if start else ""
    lines, now = [], begin
    for word in _WORD.findall(line[len(begin) :]):
        if now.strip() and now != begin and len(now) + 1 + len(word) > WIDTH:
            lines.append(now)
            now = " " * len(begin) + word
        else:
            now += word if now == begin or not now.strip() else f" {word}"
    return [*lines, now]
