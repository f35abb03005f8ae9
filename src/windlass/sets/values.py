"""Values on their way into a table, the hash of a record's content, and the number of a run. No I/O."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any, Final

import msgspec

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def content_hash(*parts: Any) -> str:
    """A short text that differs as soon as one of the parts does: 32 hex digits of BLAKE2b over their JSON,
    with the keys of objects in order. `content_hash(text, model, dimension)` [P11]."""
    return blake2b(as_json(parts, sort_keys=True).encode(), digest_size=16).hexdigest()


def run_number(since: datetime | float) -> int:
    """The number of the run that began at this time: microseconds since 1970. Pass what all attempts and
    parts of a run share: `ctx.enqueued_at` of a plain job, `created_at` of a part.

    A job's id will not do. Ids grow within one queue and priority only, and those of scheduled jobs are
    smaller than all others, so a later run could have the lower number."""
    if isinstance(since, datetime):
        if since.tzinfo is None:
            raise ValueError(f"{since!r} has no time zone; a run begins at the same instant for every reader")
        return (since - _EPOCH) // _MICROSECOND
    return round(since * 1_000_000)


def as_json(value: Any, *, sort_keys: bool = False) -> str:
    """JSON text. Written by the standard library, so that a hash outlives every version of ours."""
    try:
        return json.dumps(
            value, default=_builtin, sort_keys=sort_keys, allow_nan=False, separators=(",", ":")
        )
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"cannot be written as JSON: {error}") from error


def for_sqlite(value: Any) -> Any:
    """A value that both drivers of SQLite take. Lists and objects become JSON text."""
    if value is None or isinstance(value, str | int | bytes):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):  # SQLite would store NULL for NaN, without a word
            raise ValueError(f"cannot be stored: {value} is no number that every database keeps")
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    text = as_json(value)
    return json.loads(text) if text.startswith('"') else text


def _builtin(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return f"\\x{bytes(value).hex()}"  # what PostgreSQL reads as a bytea
    return msgspec.to_builtins(value)
