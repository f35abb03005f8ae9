"""What is sent to a server means the same there, whatever its encoding and its strings are like."""

import re
from pathlib import Path

import windlass.store.postgres as package

FILES = sorted(Path(package.__file__).parent.rglob("*.sql"))
WIDTH = 110
LITERAL = re.compile(r"(?P<before>.?)'(?P<text>(?:[^']|'')*)'", re.DOTALL)


def test_sql_is_ascii() -> None:
    """A comment with an arrow kept the schema out of databases in LATIN1."""
    assert FILES
    strange = [path.name for path in FILES if not path.read_bytes().isascii()]
    assert strange == []


def test_lines_are_not_wider_than_a_screen() -> None:
    wide = [
        f"{path.name}:{number}"
        for path in FILES
        for number, line in enumerate(path.read_text("ascii").splitlines(), 1)
        if len(line) > WIDTH
    ]
    assert wide == []


def test_no_plain_literal_has_a_backslash() -> None:
    """With standard_conforming_strings off, '\\u0000' is an error, and '\\' has no end: E'' means the same in
    both. No enqueue worked in such a database."""
    strange = []
    for path in FILES:
        text = re.sub(r"--[^\n]*", "", path.read_text("ascii"))
        strange += [
            (path.name, found[0])
            for found in LITERAL.finditer(text)
            if "\\" in found["text"] and found["before"] not in ("E", "e")
        ]
    assert strange == []


def test_a_pass_is_looked_up_by_its_job() -> None:
    """[rule 8] Where both were named plainly, the planner sometimes read all passes of the gate; under a
    snapshot that is open these are all that ever were."""
    by_both = re.compile(r"\.job = [\w.\[\]]+\s+AND \w+\.gate = |\.gate = [\w.\[\]]+\s+AND \w+\.job = ")
    plainly = [(path.name, found[0]) for path in FILES for found in by_both.finditer(path.read_text("ascii"))]
    assert plainly == []
