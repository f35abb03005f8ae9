"""Errors as HTTP has them: a status, a code for programs, and a message for people.

A driver's text, a traceback or an address with a password never leaves the server: what Windlass did not
raise on purpose is an internal error, and its traceback goes to the log alone [M6].
"""

from __future__ import annotations

import logging
import math
from typing import Final

from starlette.requests import ClientDisconnect

from windlass.errors import (
    AlreadyEnqueued,
    EnqueueError,
    Finalizing,
    InvalidArguments,
    InvalidName,
    InvalidOption,
    InvalidPayload,
    JobNotFound,
    PayloadTooLarge,
    QueueFull,
    Refused,
    SchemaMissing,
    SchemaTooNew,
    Shed,
    StoreBusy,
    StoreError,
    StoreForbidden,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
    WindlassError,
)
from windlass.presentation.text import one_line
from windlass.running.outages import OutageLog
from windlass.web.http.principal import Forbidden

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
_REFUSED: Final[dict[type[Refused], str]] = {QueueFull: "queue_full", Shed: "shed"}
_INVALID: Final[dict[type[EnqueueError], str]] = {
    InvalidName: "invalid_name",
    InvalidArguments: "invalid_arguments",
    InvalidPayload: "invalid_payload",
    InvalidOption: "invalid_option",
}


def problem_of(error: Exception, safe: bool = False) -> Problem:
    """The problem that an error is answered with. `safe`: the request changes nothing. An unexpected error is
    logged with its traceback and answered without."""
    match error:
        case Problem():
            return error
        case Forbidden():
            return Problem(403, "forbidden", f"{error}; ask for credentials of that role")
        case WindlassError():
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


def _of_ours(error: WindlassError, safe: bool) -> Problem:  # noqa: PLR0911 - one for each kind
    message = one_line(_NOT_TAKEN if _is_drivers_text(error) else str(error))
    match error:
        case JobNotFound():
            return NotFound(message)
        case Refused():
            code = _REFUSED.get(type(error), "refused")
            return Problem(error.status, code, message, retry_after=error.retry_after)
        case AlreadyEnqueued():
            return Conflict(message, "already_enqueued")
        case Finalizing():
            return Conflict(message, "finalizing")
        case PayloadTooLarge():
            return Problem(413, "payload_too_large", message)
        case EnqueueError():
            return Problem(400, _INVALID.get(type(error), "invalid"), message)
    return _of_store(error, safe)


def _is_drivers_text(error: WindlassError) -> bool:
    """Whether the message is the database's own: its code is none that our functions raise."""
    code = getattr(error.__cause__, "sqlstate", None)
    return isinstance(code, str) and not code.startswith("WL")


def _of_store(error: WindlassError, safe: bool) -> Problem:  # noqa: PLR0911 - one for each kind
    """These hold a driver's text, which stays in the log."""
    expected = isinstance(error, StoreUnavailable)  # each request meets an outage
    message = "the store failed a request: %s"
    _outages.failed("requests", message, type(error).__name__, error=None if expected else error)
    match error:
        case StoreBusy():
            return timed_out(safe)
        case StoreReadOnly():
            return Conflict(_ONLY_READ, "read_only")
        case StoreForbidden():
            return Conflict(_NO_RIGHT, "store_forbidden")
        case StoreUnavailable():
            message = "the database cannot be reached; try again"
            return Problem(503, "store_unavailable", message, retry_after=SOON)
        case StoreFull():
            message = "the database is full; free some space, or raise its limit"
            return Problem(503, "store_full", message, retry_after=30.0)
        case SchemaMissing() | SchemaTooNew():
            message = "the schema does not fit this version of Windlass; run `windlass migrate`, or upgrade"
            return Problem(503, "schema", message, retry_after=30.0)
    code = "store" if isinstance(error, StoreError) else "internal"
    return Problem(500, code, "this failed; see the log of the server")
