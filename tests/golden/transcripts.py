"""Transcripts: lines that are run, each with its answer below it. Here they are read and written again."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

FRESH, SAME, COMMENT = MARKS = ("$ ", "& ", "## ")
_NAME: Final = re.compile(r"\{(\w+)\}")


class Desk(Protocol):
    """A copy of the fixed store, and what runs a line on it."""

    names: dict[str, object]
    """The words that stand for others in braces."""

    def answer(self, line: str) -> str:
        """Run a line."""

    def is_fresh(self) -> bool:
        """Tell whether no line has changed the store."""

    def close(self) -> None:
        """Leave."""


def run_lines(text: str) -> Iterator[str]:
    """The lines of a transcript that are run, without their marks."""
    return (line[2:] for line in text.splitlines() if line.startswith((FRESH, SAME)))


def replayed(text: str, fresh: Callable[[], Desk]) -> str:
    """The transcript with the answers of now."""
    desk: Desk | None = None
    told: list[str] = []
    for line in text.splitlines():
        if not line.startswith(MARKS):
            continue
        if told and line.startswith((FRESH, COMMENT)):
            told.append("")
        told.append(line)
        if line.startswith(COMMENT):
            continue
        if desk is not None and line.startswith(FRESH) and not desk.is_fresh():
            desk.close()
            desk = None
        desk = desk or fresh()
        answer = desk.answer(filled(line[2:], desk.names))
        assert not any(each.startswith(MARKS) for each in answer.splitlines()), line
        told.append(answer.rstrip("\n"))
    if desk is not None:
        desk.close()
    return "\n".join(told) + "\n"


def filled(line: str, names: Mapping[str, object]) -> str:
    """A line with the words that stand in braces."""
    return _NAME.sub(lambda found: str(names.get(found[1], found[0])), line)
