"""The set on PostgreSQL: one statement for each call, however many rows it brings, and the drivers that run
it.

Rows travel as one JSON text and are read by the table's own row type, so every column keeps its type (arrays,
jsonb, pgvector's vector, …) and no driver has to know it. The text is built here and not kept in .sql files,
since the table is the user's. $1 is the JSON, $2 the run, $3 a switch.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

from windlass.sets.shape import Shape, quoted

Rows: TypeAlias = Sequence[Sequence[Any]]
Fetch: TypeAlias = Callable[[Any, str, tuple[Any, ...]], Rows]
AsyncFetch: TypeAlias = Callable[[Any, str, tuple[Any, ...]], Awaitable[Rows]]


class Statements:
    """The three statements of one set."""

    def __init__(self, shape: Shape) -> None:
        self.missing: Final = _missing(shape)
        self.upsert: Final = _upsert(shape)
        self.replace: Final = _replace(shape)


def _missing(shape: Shape) -> str:
    """Touches what is stored as given and answers with the places (from 1) of the rest.

    What was touched counts, not what the snapshot shows: a row that another run is just removing is seen, and
    still cannot be touched. [P11]"""
    names = (*shape.identity, shape.hash)
    given = ", ".join(f'g."{name}" AS c{place}' for place, name in enumerate(names))
    same = " AND ".join(f's."{name}" = g.c{place}' for place, name in enumerate(shape.identity))
    return f"""
        WITH given AS MATERIALIZED (
            SELECT e.place, {given}
            FROM json_array_elements($1::text::json) WITH ORDINALITY AS e (value, place),
                 LATERAL json_populate_record(NULL::{shape.table}, e.value) AS g),
        touched AS (
            UPDATE {shape.table} AS s SET "{shape.run}" = $2::bigint FROM given AS g
            WHERE {same} AND s."{shape.hash}" = g.c{len(shape.identity)} AND s."{shape.run}" <= $2::bigint
              AND NOT $3::boolean
            RETURNING g.place)
        SELECT g.place FROM given AS g
        WHERE g.place NOT IN (SELECT t.place FROM touched AS t)
          AND NOT EXISTS (SELECT FROM {shape.table} AS s WHERE {same} AND s."{shape.run}" > $2::bigint)
        ORDER BY g.place"""  # noqa: S608 - the names were checked and are quoted


def _upsert(shape: Shape) -> str:
    """Writes rows in the order of their keys, so that two writers of the same rows wait and do not deadlock;
    answers with how many were written. Needs neither $2 nor $3, the run stands in the rows."""
    content = ", ".join(f'"{name}" = excluded."{name}"' for name in shape.content)
    return f"""
        WITH written AS (
            INSERT INTO {shape.table} AS s ({quoted(shape.all)})
            SELECT {quoted(shape.all, "g.")}
            FROM json_populate_recordset(NULL::{shape.table}, $1::text::json) AS g
            ORDER BY {quoted(shape.identity, "g.")}
            ON CONFLICT ({quoted(shape.identity)}) DO UPDATE SET {content}
            WHERE s."{shape.run}" <= excluded."{shape.run}"
            RETURNING 1)
        SELECT count(*) FROM written"""  # noqa: S608 - the names were checked and are quoted


def _replace(shape: Shape) -> str:
    """Removes what is older than the run, if the run has seen anything or $3 says that this is right. Answers
    with: whether it has, whether a newer run has, and how many rows are gone."""
    mine = f's."{shape.scope}" = g."{shape.scope}"' if shape.scope is not None else "true"
    rows = f"{shape.table} AS s, given AS g WHERE {mine}"
    return f"""
        WITH given AS MATERIALIZED (SELECT * FROM json_populate_record(NULL::{shape.table}, $1::text::json)),
        seen AS MATERIALIZED (
            SELECT EXISTS (SELECT FROM {rows} AND s."{shape.run}" = $2::bigint) AS own,
                   EXISTS (SELECT FROM {rows} AND s."{shape.run}" > $2::bigint) AS newer),
        gone AS (
            DELETE FROM {shape.table} AS s USING given AS g, seen
            WHERE {mine} AND s."{shape.run}" < $2::bigint AND (seen.own OR $3::boolean)
            RETURNING 1)
        SELECT seen.own, seen.newer, (SELECT count(*) FROM gone) FROM seen"""  # noqa: S608 - as above


# -- drivers ---------------------------------------------------------------------------------------------


async def _asyncpg(connection: Any, sql: str, args: tuple[Any, ...]) -> Rows:
    return [tuple(row) for row in await connection.fetch(sql, *args)]


def _psycopg(connection: Any, sql: str, args: tuple[Any, ...]) -> Rows:
    from psycopg import Cursor
    from psycopg.rows import tuple_row

    # A cursor of our own: the connection's factories for cursors and rows are the caller's business.
    with Cursor(connection, row_factory=tuple_row) as cursor:
        return cursor.execute(*_pyformat(sql, args)).fetchall()


async def _psycopg_async(connection: Any, sql: str, args: tuple[Any, ...]) -> Rows:
    from psycopg import AsyncCursor
    from psycopg.rows import tuple_row

    async with AsyncCursor(connection, row_factory=tuple_row) as cursor:
        return await (await cursor.execute(*_pyformat(sql, args))).fetchall()


def _pyformat(sql: str, args: tuple[Any, ...]) -> tuple[Any, dict[str, Any]]:
    """The statement with %(p1)s for $1; neither sign can stand in a checked name."""
    for place in range(1, len(args) + 1):
        sql = sql.replace(f"${place}", f"%(p{place})s")
    return sql, {f"p{place}": value for place, value in enumerate(args, 1)}


SYNC: Final[dict[str, Fetch]] = {"psycopg.Connection": _psycopg}
ASYNC: Final[dict[str, AsyncFetch]] = {
    "asyncpg.Connection": _asyncpg,
    "asyncpg.PoolConnectionProxy": _asyncpg,
    "psycopg.AsyncConnection": _psycopg_async,
}
