"""What goes wrong, as it is told over HTTP: a status, a code that programs can rely on, and words for people.

The text of a driver, a stack or an address with a password never gets here: what Windlass did not raise on
purpose is told as an internal error, and its traceback goes to the log alone [M6].
"""

from __future__ import annotations

import logging
import math
from typing import Final

from starlette.requests import ClientDisconnect

from windlass.complaints import Complaints
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
from windlass.web.who import Forbidden
from windlass.words.text import one_line

logger = logging.getLogger("windlass.web")
_complaints: Final = Complaints(logger)
SOON: Final = 2.0
"""Seconds after which to ask a store again that could not be reached."""


class Problem(Exception):
    """Why a request was not granted. `retry_after` is when to try again, in seconds."""

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
        self.retry_after = None if retry_after is None else max(1, math.ceil(min(retry_after, 86400.0)))
        """Whole seconds, as the header has it."""


class NotFound(Problem):
    """There is nothing of this name or id."""

    def __init__(self, message: str) -> None:
        super().__init__(404, "not_found", message)


class Invalid(Problem):
    """The request makes no sense as written."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(400, "invalid", message, field=field)


class Conflict(Problem):
    """It cannot be done as things stand."""

    def __init__(self, message: str, code: str = "conflict") -> None:
        super().__init__(409, code, message)


_UNFORESEEN: Final = "this failed in a way that nobody foresaw; the log of the server says more"
_NOT_TAKEN: Final = "the database cannot keep a value of this; leave out what is no plain text or number"
_ONLY_READ: Final = (
    "this database can only be read here: it is a standby, or its sessions may only read; do this where the "
    "primary is served"
)
_NO_RIGHT: Final = (
    "the role that Mission Control connects to the database as may not do this; windlass.allow gives it the "
    "right, or serve it with a role that has it"
)
_REFUSED: Final[dict[type[Refused], str]] = {QueueFull: "queue_full", Shed: "shed"}
_INVALID: Final[dict[type[EnqueueError], str]] = {
    InvalidName: "invalid_name",
    InvalidArguments: "invalid_arguments",
    InvalidPayload: "invalid_payload",
    InvalidOption: "invalid_option",
}


def problem_of(error: Exception, look: bool = False) -> Problem:
    """How an error is told; `look`: of a request that changes nothing. One that nobody foresaw is logged with
    its traceback and told without."""
    match error:
        case Problem():
            return error
        case Forbidden():
            return Problem(403, "forbidden", f"{error}; ask for credentials of that role")
        case WindlassError():
            return _of_ours(error, look)
        case TimeoutError():
            return timed_out(look)
        case ClientDisconnect():
            return Problem(400, "gone", "the client has left")
    logger.error("a request failed in a way that nobody foresaw", exc_info=error)
    return Problem(500, "internal", _UNFORESEEN)


_LATE: Final = "the database took too long to answer, and this was given up; "
_LATE_LOOK: Final = f"{_LATE}try again, and see `windlass doctor` for what it is busy with"
_LATE_DEED: Final = (
    f"{_LATE}it may have been done all the same: look before you try again, and enqueue with an "
    "idempotency_key: sent again, it is done once"
)


def timed_out(look: bool = False) -> Problem:
    """What to say where the store did not answer in time. `look`: nothing was to be changed."""
    return Problem(503, "timeout", _LATE_LOOK if look else _LATE_DEED, retry_after=SOON)


def _of_ours(error: WindlassError, look: bool) -> Problem:  # noqa: PLR0911 - one for each kind
    told = one_line(_NOT_TAKEN if _in_a_drivers_words(error) else str(error))
    match error:
        case JobNotFound():
            return NotFound(told)
        case Refused():
            code = _REFUSED.get(type(error), "refused")
            return Problem(error.status, code, told, retry_after=error.retry_after)
        case AlreadyEnqueued():
            return Conflict(told, "already_enqueued")
        case Finalizing():
            return Conflict(told, "finalizing")
        case PayloadTooLarge():
            return Problem(413, "payload_too_large", told)
        case EnqueueError():
            return Problem(400, _INVALID.get(type(error), "invalid"), told)
    return _of_store(error, look)


def _in_a_drivers_words(error: WindlassError) -> bool:
    """Whether the words are the database's own: its code is none of those that our functions raise."""
    code = getattr(error.__cause__, "sqlstate", None)
    return isinstance(code, str) and not code.startswith("WL")


def _of_store(error: WindlassError, look: bool) -> Problem:  # noqa: PLR0911 - one for each kind
    """Drivers speak in these, so their words stay in the log."""
    foreseen = isinstance(error, StoreUnavailable)  # each request meets an outage
    told = "a request met a store in trouble: %s"
    _complaints.told("requests", told, type(error).__name__, error=None if foreseen else error)
    match error:
        case StoreBusy():
            return timed_out(look)
        case StoreReadOnly():
            return Conflict(_ONLY_READ, "read_only")
        case StoreForbidden():
            return Conflict(_NO_RIGHT, "store_forbidden")
        case StoreUnavailable():
            told = "the database cannot be reached at the moment; try again"
            return Problem(503, "store_unavailable", told, retry_after=SOON)
        case StoreFull():
            told = "the database has no room left; free some, or raise its limit"
            return Problem(503, "store_full", told, retry_after=30.0)
        case SchemaMissing() | SchemaTooNew():
            told = "the database and this version of Windlass do not fit; run `windlass migrate`, or upgrade"
            return Problem(503, "schema", told, retry_after=30.0)
    code = "store" if isinstance(error, StoreError) else "internal"
    return Problem(500, code, "this failed; the log of the server says more")
