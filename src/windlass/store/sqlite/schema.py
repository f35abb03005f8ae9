"""SQL files: the migrations that make the schema, and the statements of the modules.

A file of statements belongs to one module; each statement begins with a line `-- :name`, which may go on with
words about it, and ends where the next one begins. What several statements have in common is a fragment: it
begins with `-- =name`, in the same file or in rows.sql, and stands in statements as `{name}`. Others are made
from records: see `windlass.store.columns`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable

import apsw

from windlass.errors import SchemaTooNew
from windlass.store.columns import FRAGMENTS
from windlass.store.origin import check_origin, origin_of
from windlass.store.records import Migration

_NAMED = re.compile(r"^-- ([:=])(\w+).*\n", re.MULTILINE)
_FRAGMENT = re.compile(r"\{\w+(?: [?=])?\}")
_ROOT = files("windlass.store.sqlite")


class Statements:
    """The statements of one SQL file by name; asking for one that is not there is a KeyError at import."""

    def __init__(self, module: str) -> None:
        found = [*_parsed("rows"), *_parsed(module)]
        fragments = {**FRAGMENTS, **{f"{{{name}}}": body for mark, name, body in found if mark == "="}}
        self._by_name = {
            name: _FRAGMENT.sub(lambda match: fragments[match[0]], body)
            for mark, name, body in found
            if mark == ":"
        }

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


def _parsed(module: str) -> list[tuple[str, str, str]]:
    """Return the content of a file: mark, name and body of each statement and fragment."""
    _, *parts = _NAMED.split(_files()[module].read_text("utf-8"))
    return [
        (mark, name, _bare(body))
        for mark, name, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    ]


@functools.cache
def _files() -> dict[str, Traversable]:
    """The files of statements by module, those of folders included."""
    return dict(_below(_ROOT / "sql"))


def _below(folder: Traversable) -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _below(entry)
        else:
            yield entry.name.removesuffix(".sql"), entry


def _bare(statement: str) -> str:
    """The statement without comment lines: SQLite would parse them anew whenever the cache has lost it."""
    lines = (line for line in statement.splitlines() if not line.lstrip().startswith("--"))
    return "\n".join(lines).strip().removesuffix(";")


# -- the schema ----------------------------------------------------------------------------------------------

_SQL = Statements("schema")
MIGRATIONS = migrations()
VERSION = MIGRATIONS[-1][0]
ORIGIN = origin_of(MIGRATIONS[0][1])


def migrate(connection: apsw.Connection) -> Migration:
    """Bring the schema to this code's version.

    The version is kept in a table, not in `user_version`: the file may be an application's own. It is read
    again under the write lock, so of many processes that start at once one migrates, and the others see it.
    """
    before = _version(connection)
    if before == VERSION:
        return Migration(before, before)
    connection.execute("BEGIN IMMEDIATE")
    try:
        before = _version(connection)
        for number, script in MIGRATIONS:
            if number > before:
                connection.execute(script, can_cache=False)
        connection.execute(_SQL["write"], (VERSION, ORIGIN))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return Migration(before, VERSION)


def _version(connection: apsw.Connection) -> int:
    """The version of the schema, 0 where there is none. Raises SchemaUnreleased and SchemaTooNew."""
    # Not `table_exists`: it asks this connection's memory of the schema, which may be older than the lock.
    if not connection.execute(_SQL["exists"]).get:
        return 0
    cursor = connection.execute(_SQL["read"])
    columns = [name for name, *_ in cursor.get_description()]
    found = dict(zip(columns, next(cursor), strict=True))
    version = int(found["version"])
    what = f"{connection.filename}, at schema version {version},"
    check_origin(what, found.get("origin"), ORIGIN, "use another file")
    if version > VERSION:
        raise SchemaTooNew(
            f"{connection.filename} has schema version {version}, and this Windlass knows only {VERSION}: "
            "upgrade Windlass here, or use another file"
        )
    return version
