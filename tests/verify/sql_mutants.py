"""Every fault that the step `sql-mutation` may plant in a function of the PostgreSQL store, one at a time.
Running tests against them is the business of `sql_mutation.py`.

| in a function | becomes |
|---|---|
| `FOR UPDATE`, `FOR SHARE …`, with or without `SKIP LOCKED` | nothing: the lock is dropped |
| `PERFORM …lock…(…);` `LOCK TABLE …;` | nothing |
| a fence: `PERFORM windlass.worker_fence(…);` `check_term`, `require_read_committed` | nothing |
| `AND condition`, in a WHERE, an IF or an EXISTS | nothing |
| `IF condition THEN`, `ELSIF condition THEN` | `IF false THEN`, `ELSIF false THEN` |
| a statement that writes: `INSERT`, `UPDATE`, `DELETE` | nothing |

Left alone: comments, texts in quotes, and what only raises an error in words for people.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROW_LOCK: Final = re.compile(
    r"\s+FOR (?:NO KEY )?(?:UPDATE|SHARE|KEY SHARE)(?: OF \w+)?(?: SKIP LOCKED| NOWAIT)?\b"
)
FENCES: Final = "worker_fence|check_term|check_epoch|require_read_committed"
CALL: Final = re.compile(rf"(?:PERFORM (?:windlass\.)?(?:\w*lock\w*|{FENCES})\(|LOCK TABLE )[^;]*;")
WRITE: Final = re.compile(r"(?<=[;\n])[ \t]*((?:INSERT INTO|UPDATE|DELETE FROM) windlass\.[^;]*;)")
BRANCH: Final = re.compile(r"\b(IF|ELSIF)\s+(.*?)\s+THEN\b", re.DOTALL)
WORD: Final = re.compile(
    r"\(|\)|;|\b(?:AND|OR|BETWEEN|ORDER|GROUP|LIMIT|FOR|RETURNING|HAVING|UNION|THEN|LOOP|WHEN|ELSE|END|ON|WHERE|SET|"
    r"INTO|USING|LEFT|JOIN|CROSS|OFFSET|AS|FROM|EXCEPT|IS DISTINCT FROM|IS NOT DISTINCT FROM)\b|,"
)
AND: Final = re.compile(r"\bAND\b")
MADE: Final = re.compile(r"^CREATE (?:OR REPLACE )?(?:FUNCTION|PROCEDURE) (?:windlass\.)?(\w+)", re.MULTILINE)
BODY: Final = re.compile(r"\$\$.*?\$\$", re.DOTALL)
INSIDE: Final = ("IS DISTINCT FROM", "IS NOT DISTINCT FROM")
"""Words that do not end a condition."""


@dataclass(frozen=True)
class SqlMutant:
    """One fault: the text from `begin` to `end` of a file becomes `to`."""

    path: Path
    begin: int
    end: int
    to: str
    line: int
    kind: str
    what: str
    function: str

    def planted(self) -> str:
        """The file with the fault in it."""
        text = self.path.read_text(encoding="utf-8")
        return text[: self.begin] + self.to + text[self.end :]


def sql_mutants(path: Path) -> list[SqlMutant]:
    """All of a file's, in the order of its text."""
    text = path.read_text(encoding="utf-8")
    bare = without_words(text)
    found = [
        SqlMutant(
            path,
            begin,
            end,
            to,
            line=text.count("\n", 0, begin) + 1,
            kind=kind,
            what=" ".join(text[begin:end].split()),
            function=MADE.findall(text, 0, begin)[-1],
        )
        for body in BODY.finditer(bare)
        for kind, begin, end, to in _faults(bare, *body.span())
    ]
    return sorted(found, key=lambda mutant: (mutant.begin, mutant.end))


def without_words(text: str) -> str:
    """The text with comments blanked out and quoted words made unreadable, at the same length."""

    def hide(match: re.Match[str]) -> str:
        filler = "'" if match.group().startswith("'") else " "
        return re.sub(r"[^\n]", filler, match.group())

    return re.sub(r"--[^\n]*|'(?:[^']|'')*'", hide, text)


def _faults(bare: str, begin: int, end: int) -> Iterator[tuple[str, int, int, str]]:
    for match in ROW_LOCK.finditer(bare, begin, end):
        yield "lock", match.start(), match.end(), ""
    for match in CALL.finditer(bare, begin, end):
        kind = "lock" if "lock" in match.group().lower() else "fence"
        yield kind, match.start(), match.end(), "NULL;"
    for match in WRITE.finditer(bare, begin, end):
        yield "write", match.start(1), match.end(1), "NULL;"
    for match in BRANCH.finditer(bare, begin, end):
        if "RAISE" not in bare[match.end() : match.end() + 40]:
            yield "branch", match.start(2), match.end(2), "false"
    for match in AND.finditer(bare, begin, end):
        last = _end_of_condition(bare, match.end())
        if last is not None and not _is_between(bare, match.start()):
            yield "condition", match.start(), last, ""


def _end_of_condition(bare: str, begin: int) -> int | None:
    """Where the condition behind an AND ends."""
    depth, between = 0, False
    for match in WORD.finditer(bare, begin):
        word = match.group()
        if word == "(":
            depth += 1
        elif word == ")":
            if depth == 0:
                return match.start()
            depth -= 1
        elif depth or word in INSIDE:
            continue
        elif word == "BETWEEN":
            between = True
        elif word == "AND" and between:
            between = False
        else:
            return len(bare[: match.start()].rstrip())
    return None


def _is_between(bare: str, place: int) -> bool:
    """Whether an AND is the second half of a BETWEEN."""
    before = bare[max(0, place - 200) : place]
    last = list(re.finditer(r"\b(?:BETWEEN|AND|OR|WHERE|IF|THEN)\b", before))
    return bool(last) and last[-1].group() == "BETWEEN"
