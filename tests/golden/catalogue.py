"""The catalogue of the PostgreSQL schema: functions with their settings and who may call them, tables, views,
types and sequences. Bodies are not in it."""

import asyncio
import re
from pathlib import Path
from typing import Final

import psycopg

from tests.postgres import Server
from windlass.store.postgres import PostgresStore

ROLES: Final = {f"golden_{kind}": kind for kind in ("producer", "worker", "reader")}
_STATEMENT: Final = re.compile(r"^-- :(\w+)\n", re.MULTILINE)


def of_server() -> dict[str, str]:
    """The files, from a server that is started for them."""
    with Server(18, fsync=False) as server:
        dsn = server.dsn(server.create_database())
        asyncio.run(PostgresStore(dsn).migrate())
        return recorded(dsn)


def recorded(dsn: str) -> dict[str, str]:
    """A file for each kind of thing, from a migrated database. Nothing is left in it."""
    _, *parts = _STATEMENT.split(Path(__file__).with_suffix(".sql").read_text("utf-8"))
    with psycopg.connect(dsn) as connection:
        for role, kind in ROLES.items():
            connection.execute(f"CREATE ROLE {role}".encode())
            connection.execute("SELECT windlass.allow(%s, %s)", (role, kind))
        found = {
            name: connection.execute(statement.encode()).fetchall()
            for name, statement in zip(parts[::2], parts[1::2], strict=True)
        }
        connection.rollback()
    return {f"sql/{name}.txt": "\n".join(map(_written, sorted(rows))) for name, rows in found.items()}


def _written(row: tuple[str, list[str]]) -> str:
    text = "\n    ".join([row[0], *row[1]])
    return text.replace("golden_", "") + "\n"
