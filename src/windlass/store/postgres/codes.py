"""What PostgreSQL's error codes mean here, for every driver. WL… are those that our SQL functions raise."""

from __future__ import annotations

import json
from typing import Any

from windlass.errors import (
    AlreadyEnqueued,
    ConfigurationError,
    Finalizing,
    InvalidOption,
    InvalidPayload,
    JobNotFound,
    PayloadTooLarge,
    QueueFull,
    Refused,
    SchemaMissing,
    Shed,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreForbidden,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
    TermLost,
    WindlassError,
    WorkerLost,
)

_BY_CODE: dict[str, type[WindlassError]] = {
    "WL002": WorkerLost,
    "WL003": StoreCorrupt,
    "WL004": StoreCorrupt,
    "WL005": InvalidOption,
    "WL006": ConfigurationError,
    "WL007": PayloadTooLarge,
    "WL008": StoreError,
    "WL009": TermLost,
    "WL010": JobNotFound,
    "WL013": StoreUnavailable,
    "25006": StoreReadOnly,
    "42501": StoreForbidden,
    "53100": StoreFull,
    "28000": ConfigurationError,
    "28P01": ConfigurationError,
    "3D000": ConfigurationError,
    "3F000": SchemaMissing,
    "42P01": SchemaMissing,
    "22P02": InvalidPayload,
    "22P05": InvalidPayload,
    "22021": InvalidPayload,
}
_ABOUT_A_JOB = {"WL001": AlreadyEnqueued, "WL019": Finalizing}
"""Which job it is about stands in the detail."""
_GONE = "The schema is not there (any more): restore it, or run `windlass migrate`"
_HINTS = {
    "3F000": _GONE,
    "42P01": _GONE,
    "22P05": "The database is not in UTF8 and has no such character: leave it out, or use a database in UTF8",
    "25006": "This is a standby, or a session that may only read: write to the primary",
    "42501": "The schema's owner gives rights with SELECT windlass.allow('ROLE', 'worker'), 'producer' or "
    "'reader'",
}
# Lost connections and shutdowns; exhausted resources, lock and statement timeouts, deadlocks and
# serialisation failures: all of them pass, and the same call may succeed.
_PASSING = ("08", "57P", "25P03")
_BUSY = ("53", "55P03", "57014", "25P04", "40")


def typed(code: str | None, message: str, detail: Any = None, hint: Any = None) -> WindlassError | None:
    """The error of ours that a SQLSTATE stands for, or None; adapters of other drivers use it, too."""
    hint = _HINTS.get(code or "", hint)
    text = f"{message}. {hint}" if hint else message
    if code in _ABOUT_A_JOB:
        return _ABOUT_A_JOB[code](text, int(detail) if detail else None)
    if code in ("WL011", "WL012") and detail:
        return _refused(code, text, json.loads(detail))
    if code in _BY_CODE:
        return _BY_CODE[code](text)
    if code is not None and code.startswith(_BUSY):
        return StoreBusy(text)
    if code is not None and code.startswith(_PASSING):
        return StoreUnavailable(text)
    return None


def _refused(code: str, text: str, told: dict[str, Any]) -> Refused:
    """A queue that takes no more for now: full [F4], or shedding [F5]."""
    if code == "WL011":
        return QueueFull(text, told["queue"], told["retry_after"])
    return Shed(text, told["queue"], told["retry_after"], told["level"])
