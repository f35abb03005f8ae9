"""Errors as HTTP has them: a status, a code for programs, and a message for people.

A driver's text, a traceback or an address with a password never leaves the server: what Windlass did not
raise on purpose is an internal error, and its traceback goes to the log alone [M6].
"""

from __future__ import annotations

import logging
import math
from typing import Final

from starlette.requests import ClientDisconnect

from windlass import errors
from windlass.core import ids
from windlass.operations.principal import Forbidden
from windlass.operations.refusals import Refusal
from windlass.presentation.text import one_line
from windlass.running.outages import OutageLog

logger: Final = logging.getLogger("windlass.web")
_outages: Final = OutageLog(logger)
SOON: Final = 2.0
"""Seconds after which to retry where the store did not answer."""


class Problem(Exception):
    """Why a request failed. `retry_after` is when to try again, in seconds."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        field: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.field = field
        self.retry_after: Final = (
            None if retry_after is None else max(1, math.ceil(min(retry_after, 86400.0)))
        )
        """Whole seconds, as in the header."""


class NotFound(Problem):
    """Nothing has this name or id."""

    def __init__(self, message: str) -> None:
        super().__init__(404, "not_found", message)


class Invalid(Problem):
    """The request is invalid."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(400, "invalid", message, field=field)


class Conflict(Problem):
    """The request conflicts with the current state."""

    def __init__(self, message: str, code: str = "conflict") -> None:
        super().__init__(409, code, message)


def found_id(word: str) -> int:
    """The id of a job in an address or a form. Raises NotFound for what can be none."""
    id = ids.read(word)
    if id is None:
        raise NotFound("there is no such job: an id is a whole number")
    return id


_UNEXPECTED: Final = "an unexpected error; see the log of the server"
_NOT_TAKEN: Final = "the database cannot keep a value of this request; send plain text and numbers only"
_ONLY_READ: Final = (
    "this database is read-only: it is a standby, or its sessions may only read; use the Mission Control "
    "of the primary"
)
_NO_RIGHT: Final = (
    "Mission Control's database role may not do this; grant the right with windlass.allow, or use a role "
    "that has it"
)
_MOVED: Final = "the jobs of this store were copied to another one, and it takes no more; use the one there"
_UNREACHED: Final = "the database cannot be reached; try again"
_FULL: Final = "the database is full; free some space, or raise its limit"
_SCHEMA: Final = "the schema does not fit this version of Windlass; run `windlass migrate`, or upgrade"
_REFUSED: Final[dict[type[errors.Refused], str]] = {errors.QueueFull: "queue_full", errors.Shed: "shed"}
_OF_REQUESTS: Final[dict[type[errors.WindlassError], tuple[int, str]]] = {
    errors.JobNotFound: (404, "not_found"),
    errors.QueueNotFound: (404, "not_found"),
    errors.AlreadyEnqueued: (409, "already_enqueued"),
    errors.Finalizing: (409, "finalizing"),
    errors.SignalRefused: (409, "signal_refused"),
    errors.PayloadTooLarge: (413, "payload_too_large"),
    errors.InvalidName: (400, "invalid_name"),
    errors.InvalidArguments: (400, "invalid_arguments"),
    errors.InvalidPayload: (400, "invalid_payload"),
    errors.InvalidOption: (400, "invalid_option"),
    errors.EnqueueError: (400, "invalid"),
}
"""Status and code of errors whose own message is shown; the first that fits."""
_OF_STORES: Final[dict[type[errors.WindlassError], tuple[int, str, str, float | None]]] = {
    errors.StoreReadOnly: (409, "read_only", _ONLY_READ, None),
    errors.StoreForbidden: (409, "store_forbidden", _NO_RIGHT, None),
    errors.StoreMoved: (409, "store_moved", _MOVED, None),
    errors.StoreUnavailable: (503, "store_unavailable", _UNREACHED, SOON),
    errors.StoreFull: (503, "store_full", _FULL, 30.0),
    errors.SchemaMissing: (503, "schema", _SCHEMA, 30.0),
    errors.SchemaTooNew: (503, "schema", _SCHEMA, 30.0),
    errors.SchemaUnreleased: (503, "schema", _SCHEMA, 30.0),
}
"""Errors that hold a driver's text, which stays in the log: status, code, message, when to retry."""


def problem_of(error: Exception, safe: bool = False) -> Problem:
    """The problem that an error is answered with. `safe`: the request changes nothing. An unexpected error is
    logged with its traceback and answered without."""
    match error:
        case Problem():
            return error
        case Forbidden():
            return Problem(403, "forbidden", f"{error}; ask for credentials of that role")
        case errors.WindlassError():
            return _of_ours(error, safe)
        case TimeoutError():
            return timed_out(safe)
        case ClientDisconnect():
            return Problem(400, "gone", "the client closed the connection")
    logger.error("a request failed unexpectedly", exc_info=error)
    return Problem(500, "internal", _UNEXPECTED)


_LATE: Final = "the database took too long to answer; "
_LATE_READ: Final = f"{_LATE}try again, and run `windlass doctor` to see why"
_LATE_ACTION: Final = (
    f"{_LATE}the action may have been done: check before you try again. Enqueue with an idempotency_key to "
    "make retries safe"
)


def timed_out(safe: bool = False) -> Problem:
    """The problem of a store that did not answer in time. `safe`: the request changes nothing."""
    return Problem(503, "timeout", _LATE_READ if safe else _LATE_ACTION, retry_after=SOON)


def _of_ours(error: errors.WindlassError, safe: bool) -> Problem:
    if isinstance(error, Refusal):
        message = one_line(str(error))
        return Problem(error.status, error.code, message, field=error.field, retry_after=error.retry_after)
    message = one_line(_NOT_TAKEN if _is_drivers_text(error) else str(error))
    if isinstance(error, errors.Refused):
        code = _REFUSED.get(type(error), "refused")
        return Problem(error.status, code, message, retry_after=error.retry_after)
    for kind, (status, code) in _OF_REQUESTS.items():
        if isinstance(error, kind):
            return Problem(status, code, message)
    return _of_store(error, safe)


def _is_drivers_text(error: errors.WindlassError) -> bool:
    """Return whether the message is the database's own: its code is none that our functions raise."""
    code = getattr(error.__cause__, "sqlstate", None)
    return isinstance(code, str) and not code.startswith("WL")


def _of_store(error: errors.WindlassError, safe: bool) -> Problem:
    expected = isinstance(error, errors.StoreUnavailable)  # each request meets an outage
    message = "the store failed a request: %s"
    _outages.failed("requests", message, type(error).__name__, error=None if expected else error)
    if isinstance(error, errors.StoreBusy):
        return timed_out(safe)
    for kind, (status, code, text, retry_after) in _OF_STORES.items():
        if isinstance(error, kind):
            return Problem(status, code, text, retry_after=retry_after)
    code = "store" if isinstance(error, errors.StoreError) else "internal"
    return Problem(500, code, "this failed; see the log of the server")
