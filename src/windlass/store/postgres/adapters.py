"""Enqueues, signals and saves on the caller's own PostgreSQL connection, inside his transaction [E1] [P6].
Rolled back = never existed.

The statements come from `windlass.store.postgres.enqueue` as data; here they meet a driver:

    sync    psycopg Connection · SQLAlchemy Connection, Session · Django connection
    async   asyncpg Connection · psycopg AsyncConnection · SQLAlchemy AsyncConnection, AsyncSession

A connection is recognised by the names of its classes, so no driver is imported that the caller does not use.
Nothing here begins, commits or rolls back the caller's transaction. Where he has none (autocommit), the one
statement is its own, so many jobs are all or none.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from windlass.errors import ConfigurationError, StoreReadOnly
from windlass.store.postgres.connections.errors import typed
from windlass.store.postgres.durable.calls import signal_call
from windlass.store.postgres.enqueue import Call, enqueue_call, published_call, receipts_of

if TYPE_CHECKING:
    from windlass.store.records import NewJob, Once, Receipt

Row: TypeAlias = Sequence[Any]
SyncRun: TypeAlias = Callable[[Any, Call], Row]
AsyncRun: TypeAlias = Callable[[Any, Call], Awaitable[Row]]
_PLACEHOLDER: Final = re.compile(r"\$(\d+)")


def send(connection: Any, schema: str, jobs: Sequence[NewJob]) -> list[Receipt]:
    """Enqueue on a synchronous connection, in this thread."""
    return receipts_of(jobs, _run(connection, enqueue_call(schema, jobs)))


async def asend(connection: Any, schema: str, jobs: Sequence[NewJob]) -> list[Receipt]:
    """Enqueue on an asynchronous connection, on this loop."""
    return receipts_of(jobs, await _arun(connection, enqueue_call(schema, jobs)))


def published_queue(connection: Any, schema: str, task: str) -> str | None:
    """The queue that live workers say a task goes to [E5], asked on a synchronous connection."""
    found: str | None = _run(connection, published_call(schema, task))[0]
    return found


async def apublished_queue(connection: Any, schema: str, task: str) -> str | None:
    """Return the published queue of a task, on an asynchronous connection and this loop."""
    found: str | None = (await _arun(connection, published_call(schema, task)))[0]
    return found


def signal(connection: Any, schema: str, job: int, name: str, value: str, once: Once | None) -> str:
    """Send a signal on a synchronous connection, in this thread [W2]."""
    return str(_run(connection, signal_call(schema, job, name, value, once, own=False))[0])


async def asignal(connection: Any, schema: str, job: int, name: str, value: str, once: Once | None) -> str:
    """Send a signal on an asynchronous connection, on this loop."""
    return str((await _arun(connection, signal_call(schema, job, name, value, once, own=False)))[0])


def _run(connection: Any, call: Call) -> Row:
    name = _recognise(connection)
    if name not in _SYNC:
        raise ConfigurationError(
            f"{_shown(connection)} is asynchronous: await aenqueue, aenqueue_many or asignal"
        )
    with _translated():
        return _SYNC[name](connection, call)


async def _arun(connection: Any, call: Call) -> Row:
    name = _recognise(connection)
    if name not in _ASYNC:
        raise ConfigurationError(
            f"{_shown(connection)} is synchronous and would block the event loop: "
            "call enqueue, enqueue_many or signal where you use it"
        )
    with _translated():
        return await _ASYNC[name](connection, call)


async def run_one(connection: Any, call: Call) -> Row:
    """Run one statement on a connection of either kind: a synchronous one in this thread, without awaiting
    anything, so a caller without an event loop may do so."""
    name = _recognise(connection)
    with _translated():
        if name in _ASYNC:
            return await _ASYNC[name](connection, call)
        if _on_a_loop():
            raise ConfigurationError(
                f"{_shown(connection)} is synchronous and would block the event loop: use it in a handler "
                "that is a plain function, or pass an asynchronous connection"
            )
        return _SYNC[name](connection, call)


def _on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


# -- recognising ----------------------------------------------------------------------------------------


def _recognise(connection: Any) -> str:
    """The name of a connection's adapter, by the package and name of its class or one of its bases."""
    for kind in type(connection).__mro__:
        name = f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
        if name in _SYNC or name in _ASYNC:
            return name
    raise ConfigurationError(
        f"cannot work on {_shown(connection)}; pass a connection (not a pool or engine) of asyncpg, "
        "psycopg, SQLAlchemy (Connection, Session, AsyncConnection, AsyncSession) or Django"
    )


def _shown(connection: Any) -> str:
    kind = type(connection)
    return f"a {kind.__module__}.{kind.__qualname__}"


def _check_dialect(name: str) -> None:
    if name != "postgresql":
        raise ConfigurationError(
            f"this is a connection to {name}, but the jobs are in PostgreSQL; leave out connection="
        )


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    """Refusals by our own SQL become our own errors, whatever driver brought them, and so does that of a
    standby, or of a session that may only read; the rest stays as it is."""
    try:
        yield
    except Exception as error:  # drivers share no base class; what is not ours is raised again
        cause = _driver_error(error)
        code = _sqlstate(cause)
        ours = typed(code, *_words(cause), _function(error))
        if ours is None or not (str(code).startswith("WL") or isinstance(ours, StoreReadOnly)):
            raise
        raise ours from error


def _driver_error(error: BaseException) -> BaseException:
    """The driver's exception beneath those that SQLAlchemy or Django put around it."""
    while _sqlstate(error) is None and error.__cause__ is not None:
        error = error.__cause__
    return error


def _sqlstate(error: BaseException) -> str | None:
    return getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)


def _words(error: BaseException) -> tuple[str, Any, Any]:
    """Message, detail and hint; psycopg keeps them in `diag`, asyncpg on the exception itself."""
    said = getattr(error, "diag", None)
    if said is not None:
        return said.message_primary or str(error), said.message_detail, said.message_hint
    return str(error), getattr(error, "detail", None), getattr(error, "hint", None)


def _function(error: BaseException | None) -> str | None:
    """The function of the server that raised it; what SQLAlchemy puts around asyncpg's error lacks it."""
    while error is not None:
        said = getattr(error, "diag", None)  # psycopg's
        if found := getattr(said, "source_function", None) or getattr(error, "server_source_function", None):
            return str(found)
        error = error.__cause__
    return None


# -- asyncpg --------------------------------------------------------------------------------------------


async def _asyncpg(connection: Any, call: Call) -> Row:
    return tuple(await connection.fetchrow(call.sql, *call.args))


# -- psycopg --------------------------------------------------------------------------------------------


def _pyformat(call: Call) -> tuple[str, dict[str, Any]]:
    """The call with %(p1)s for $1, as psycopg and the DB-API's pyformat want it."""
    sql = _PLACEHOLDER.sub(r"%(p\1)s", call.sql.replace("%", "%%"))
    return sql, {f"p{place}": value for place, value in enumerate(call.args, 1)}


def _psycopg(connection: Any, call: Call) -> Row:
    from psycopg import Cursor
    from psycopg.rows import tuple_row

    # A cursor of our own: the connection's factories for cursors and rows are the caller's business.
    with Cursor(connection, row_factory=tuple_row) as cursor:
        return _one(cursor.execute(*_pyformat(call)).fetchone())


async def _psycopg_async(connection: Any, call: Call) -> Row:
    from psycopg import AsyncCursor
    from psycopg.rows import tuple_row

    async with AsyncCursor(connection, row_factory=tuple_row) as cursor:
        return _one(await (await cursor.execute(*_pyformat(call))).fetchone())


# -- SQLAlchemy -----------------------------------------------------------------------------------------


def _statement(connection: Any, call: Call) -> tuple[str, Any]:
    """The call in the driver's own style. `text()` would add casts of its own that bigints do not fit."""
    _check_dialect(connection.dialect.name)
    style = connection.dialect.paramstyle
    if style == "numeric_dollar":
        return call.sql, call.args
    if style == "pyformat":
        return _pyformat(call)
    raise ConfigurationError(
        f"SQLAlchemy's {connection.dialect.driver} driver is not supported here; use psycopg or asyncpg"
    )


def _sqlalchemy(connection: Any, call: Call) -> Row:
    return tuple(connection.exec_driver_sql(*_statement(connection, call)).one())


async def _sqlalchemy_async(connection: Any, call: Call) -> Row:
    return tuple((await connection.exec_driver_sql(*_statement(connection, call))).one())


def _session(session: Any, call: Call) -> Row:
    return _sqlalchemy(session.connection(), call)


async def _session_async(session: Any, call: Call) -> Row:
    return await _sqlalchemy_async(await session.connection(), call)


# -- Django ---------------------------------------------------------------------------------------------


def _django(connection: Any, call: Call) -> Row:
    _check_dialect(connection.vendor)
    with connection.cursor() as cursor:
        cursor.execute(*_pyformat(call))
        return _one(cursor.fetchone())


def _one(row: Row | None) -> Row:
    if row is None:
        raise ConfigurationError("the database answered an enqueue without a row; run `windlass migrate`")
    return row


_SYNC: Final[dict[str, SyncRun]] = {
    "psycopg.Connection": _psycopg,
    "sqlalchemy.Connection": _sqlalchemy,
    "sqlalchemy.Session": _session,
    "sqlalchemy.scoped_session": _session,
    "django.BaseDatabaseWrapper": _django,
    "django.ConnectionProxy": _django,
}
_ASYNC: Final[dict[str, AsyncRun]] = {
    "asyncpg.Connection": _asyncpg,
    "asyncpg.PoolConnectionProxy": _asyncpg,
    "psycopg.AsyncConnection": _psycopg_async,
    "sqlalchemy.AsyncConnection": _sqlalchemy_async,
    "sqlalchemy.AsyncSession": _session_async,
    "sqlalchemy.async_scoped_session": _session_async,
}
