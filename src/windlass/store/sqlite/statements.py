"""How SQL files become statements. A file holds the statements of one operation; each begins with a line
`-- :name`, which may go on with words about it, and ends where the next one begins."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files

_NAMED = re.compile(r"^-- :(\w+).*\n", re.MULTILINE)
_ROOT = files("windlass.store.sqlite")


class Statements:
    """The statements of one SQL file by name; asking for one that is not there is a KeyError at import."""

    def __init__(self, operation: str) -> None:
        text = (_ROOT / "sql" / f"{operation}.sql").read_text("utf-8")
        _, *parts = _NAMED.split(text)
        self._by_name = {name: _bare(body) for name, body in zip(parts[::2], parts[1::2], strict=True)}

    def __getitem__(self, name: str) -> str:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)


def migrations() -> list[tuple[int, str]]:
    """The migrations by number, in order."""
    found = sorted((entry for entry in (_ROOT / "migrations").iterdir()), key=lambda entry: entry.name)
    return [
        (int(entry.name.partition("_")[0]), entry.read_text("utf-8"))
        for entry in found
        if entry.name.endswith(".sql")
    ]


def _bare(statement: str) -> str:
    """The statement without comment lines: SQLite would parse them anew whenever the cache has lost it."""
    lines = (line for line in statement.splitlines() if not line.lstrip().startswith("--"))
    return "\n".join(lines).strip().removesuffix(";")
