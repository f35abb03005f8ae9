"""The schema's version: reading it, bringing it up to date, and refusing one that is too new."""

from __future__ import annotations

import apsw

from windlass.errors import SchemaTooNew
from windlass.store.records import Migration
from windlass.store.sqlite.statements import Statements, migrations

_SQL = Statements("schema")
MIGRATIONS = migrations()
VERSION = MIGRATIONS[-1][0]


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
        connection.execute(_SQL["create"])
        connection.execute(_SQL["write"], (VERSION,))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return Migration(before, VERSION)


def _version(connection: apsw.Connection) -> int:
    """The version of the schema, 0 where there is none. Raises SchemaTooNew."""
    # Not `table_exists`: it asks this connection's memory of the schema, which may be older than the lock.
    if not connection.execute(_SQL["exists"]).get:
        return 0
    version = int(connection.execute(_SQL["read"]).get or 0)
    if version > VERSION:
        raise SchemaTooNew(
            f"{connection.filename} has schema version {version}, and this Windlass knows only {VERSION}: "
            "upgrade Windlass here, or use another file"
        )
    return version
