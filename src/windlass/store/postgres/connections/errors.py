"""From PostgreSQL's errors to ours: what an error code means, for every driver, and asyncpg's own errors.
Codes that begin with WL are those that our SQL functions raise.

asyncpg is imported when one of its errors may be at hand: producers with another driver do without it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from windlass import errors

READ_ONLY: Final = "25006"
LATE: Final = "PostgreSQL did not answer in time: it is busy, or somebody holds a lock; see `windlass doctor`"

BY_CODE: Final[dict[str, type[errors.WindlassError]]] = {
    "WL002": errors.WorkerLost,
    "WL003": errors.StoreCorrupt,
    "WL004": errors.StoreCorrupt,
    "WL005": errors.InvalidOption,
    "WL006": errors.ConfigurationError,
    "WL007": errors.PayloadTooLarge,
    "WL008": errors.StoreError,
    "WL009": errors.TermLost,
    "WL010": errors.JobNotFound,
    "WL013": errors.StoreUnavailable,
    "WL024": errors.GroupClosed,
    "WL025": errors.CircularWait,
    READ_ONLY: errors.StoreReadOnly,
    "42501": errors.StoreForbidden,
    "53100": errors.StoreFull,
    "28000": errors.ConfigurationError,
    "28P01": errors.ConfigurationError,
    "3D000": errors.ConfigurationError,
    "3F000": errors.SchemaMissing,
    "42P01": errors.SchemaMissing,
    "22P02": errors.InvalidPayload,
    "22P05": errors.InvalidPayload,
    "22021": errors.InvalidPayload,
}
_ABOUT = {"WL001": errors.AlreadyEnqueued, "WL019": errors.Finalizing}
"""The detail names the job that it is about."""
_GONE = "The schema does not exist, or no longer: restore it, or run `windlass migrate`"
_HINTS = {
    "3F000": _GONE,
    "42P01": _GONE,
    "22P05": "The database is not in UTF8 and has no such character: leave it out, or use a database in UTF8",
    READ_ONLY: "This is a standby, or a session that may only read: write to the primary",
    "42501": "The schema's owner gives rights with SELECT windlass.allow('ROLE', 'worker'), 'producer' or "
    "'reader'",
}
# Lost connections and shutdowns; exhausted resources, lock and statement timeouts, deadlocks and
# serialisation failures: all of them pass, and the same call may succeed.
_PASSING = ("08", "57P", "25P03")
_BUSY = ("53", "55P03", "57014", "25P04", "40")
_UNLOGGED: Final = ("0A000", "get_relation_info")
"""The answer of a standby about an unlogged table: the code, which stands for much else too, and the function
of the server that raises it. The message may be in any language."""


@contextmanager
def translated(late: str = LATE, at: str = "") -> Iterator[None]:
    """Turn asyncpg's errors into ours. An unknown one stays as it is: it is a bug worth its traceback.
    `late` is the message where no answer came in time, `at` the servers that were asked."""
    try:
        yield
    except Exception as error:
        known = _from_asyncpg(error, late, at)
        if known is None:
            raise
        raise known from error


def _from_asyncpg(error: Exception, late: str, at: str) -> errors.WindlassError | None:
    import asyncpg

    if isinstance(error, asyncpg.PostgresError):
        return typed(
            error.sqlstate,
            # Its own text would repeat the hint, which typed() adds for every driver.
            str(error.args[0]) if error.args else str(error),
            getattr(error, "detail", None),
            getattr(error, "hint", None),
            getattr(error, "server_source_function", None),
        )
    # InternalClientError: a server that says goodbye between two statements leaves the driver in the middle
    # of an answer that nobody awaits, and the next statement finds it "in progress".
    if not isinstance(error, OSError | asyncpg.InterfaceError | asyncpg.InternalClientError):
        return None
    if isinstance(error, TimeoutError) and error.errno is None:  # our own deadline, not the network's
        return errors.StoreBusy(late)
    where = f"PostgreSQL at {at}" if at else "PostgreSQL"
    return errors.StoreUnavailable(f"{where} cannot be reached: {error or type(error).__name__}")


def typed(
    code: str | None, message: str, detail: Any = None, hint: Any = None, function: str | None = None
) -> errors.WindlassError | None:
    """The error of ours that a SQLSTATE stands for, or None. `function` is the one of the server that raised
    it."""
    if (code, function) == _UNLOGGED:
        code = READ_ONLY
    hint = _HINTS.get(code or "", hint)
    text = f"{message}. {hint}" if hint else message
    if code in _ABOUT:
        return _ABOUT[code](text, int(detail) if detail else None)
    if code in _REFUSED and detail:
        return _REFUSED[code](text, detail)
    if code in BY_CODE:
        return BY_CODE[code](text)
    if code is not None and code.startswith(_BUSY):
        return errors.StoreBusy(text)
    if code is not None and code.startswith(_PASSING):
        return errors.StoreUnavailable(text)
    return None


def _queue_full(text: str, detail: str) -> errors.WindlassError:
    """A queue that takes no more for now, since it is full [F4]."""
    details = json.loads(detail)
    return errors.QueueFull(text, details["queue"], details["retry_after"])


def _shed(text: str, detail: str) -> errors.WindlassError:
    """A queue that takes no more for now, since it is shedding [F5]."""
    details = json.loads(detail)
    return errors.Shed(text, details["queue"], details["retry_after"], details["level"])


_REFUSED: Final[dict[str | None, Callable[[str, str], errors.WindlassError]]] = {
    "WL011": _queue_full, "WL012": _shed, "WL021": errors.SignalRefused
}  # fmt: skip


def refused_jobs(error: errors.Refused) -> int:
    """How many jobs of a call the database refused with this error; see windlass.check_load."""
    detail = getattr(error.__cause__, "detail", None)
    return int(json.loads(detail)["n"]) if detail else 1
