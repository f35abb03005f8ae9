"""From asyncpg's errors to ours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import asyncpg

from windlass.errors import Refused, StoreBusy, StoreUnavailable
from windlass.store.postgres.codes import typed

LATE: Final = "PostgreSQL did not answer in time: it is busy, or somebody holds a lock; see `windlass doctor`"


@contextmanager
def translated(late: str = LATE) -> Iterator[None]:
    """Turn driver errors into typed ones. What is unknown stays as it is: it is a bug worth its traceback.
    `late` is what to say of an answer that did not come."""
    try:
        yield
    except asyncpg.PostgresError as error:
        # Its text would repeat the hint, which typed() adds for every driver.
        message = str(error.args[0]) if error.args else str(error)
        known = typed(error.sqlstate, message, getattr(error, "detail", None), getattr(error, "hint", None))
        if known is None:
            raise
        raise known from error
    except (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
        # The last one: a server that says goodbye between two statements leaves the driver in the middle of
        # an answer that nobody awaits, and the next statement finds it "in progress".
        if isinstance(error, TimeoutError) and error.errno is None:  # our own deadline, not the network's
            raise StoreBusy(late) from error
        raise StoreUnavailable(f"PostgreSQL cannot be reached: {error or type(error).__name__}") from error


def refused_jobs(error: Refused) -> int:
    """How many jobs of a call the database refused with this error; see judge_load.sql."""
    detail = getattr(error.__cause__, "detail", None)
    return int(json.loads(detail)["n"]) if detail else 1
