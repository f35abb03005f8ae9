"""The content of `sql/*.sql`, one file per module: functions, procedures and views, and at the end the
statements that the store sends, each below a line `-- :name`. An empty line separates them, and none has one
inside. What imports jobs stands in `store/moving`, beside its Python. In the files the schema is called
windlass; `schema.py` puts the real name. Constants that Python has, too, are named: see `constants.py`; so
are lists of columns: see `windlass.store.columns`."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from typing import NamedTuple

from windlass.store.columns import FRAGMENTS
from windlass.store.postgres.schema.constants import with_constants

_ROOT = resources.files("windlass.store.postgres")
_MOVING = resources.files("windlass.store.moving") / "postgres.sql"
_STATEMENT = re.compile(r"^-- :(\w+)\n", re.MULTILINE)
_CREATE = re.compile(r"^CREATE OR REPLACE (FUNCTION|PROCEDURE|VIEW) windlass\.(\w+)", re.MULTILINE)
_MAY_CALL = re.compile(r"\bMay call: ([a-z, ]+)\.")


class Definition(NamedTuple):
    """A function, a procedure or a view."""

    module: str
    kind: str
    name: str
    header: str
    """The comment above it, on one line."""
    text: str
    """All of it, with the comment."""

    @property
    def may_call(self) -> set[str]:
        """The kinds of roles that may call the function, as its header says."""
        said = _MAY_CALL.search(self.header)
        return set(said[1].split(", ")) if said else set()


@functools.cache
def migrations() -> list[tuple[int, str]]:
    """Every migration as (version, SQL), in order."""
    return [(int(name[:4]), text) for name, text in _files("migrations").items()]


@functools.cache
def definitions() -> list[Definition]:
    """Return the definitions of the schema besides its tables, by module; the views last, since they need the
    rest."""
    found = []
    for module, text in _files("sql").items():
        for paragraph in _STATEMENT.split(text)[0].split("\n\n"):
            if made := _CREATE.search(paragraph):
                kind, name = made.groups()
                header = (line.removeprefix("--").strip() for line in paragraph[: made.start()].splitlines())
                found.append(Definition(module, kind, name, " ".join(header), paragraph.strip()))
    return sorted(found, key=lambda each: each.kind == "VIEW")


@functools.cache
def statements() -> dict[str, str]:
    """The statements that the store sends, by name, without comments."""
    found: dict[str, str] = {}
    for text in _files("sql").values():
        _, *parts = _STATEMENT.split(text)
        for name, body in zip(parts[::2], parts[1::2], strict=True):
            if name in found:
                raise ValueError(f"two statements are called {name}")
            found[name] = "\n".join(line for line in body.splitlines() if not line.startswith("--")).strip()
    return found


def _files(folder: str) -> dict[str, str]:
    """The SQL files of a folder and of those in it by name, in the order of their names."""
    found = dict(sorted(_below(_ROOT / folder)))
    if folder == "sql":
        found |= {"moving": _MOVING.read_text("utf-8")}
        for mark, columns in FRAGMENTS.items():
            found = {name: text.replace(mark, columns) for name, text in found.items()}
        found = {name: with_constants(text) for name, text in found.items()}
    return found


def _below(folder: Traversable) -> Iterator[tuple[str, str]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _below(entry)
        elif entry.name.endswith(".sql"):
            yield entry.name.removesuffix(".sql"), entry.read_text("utf-8")
