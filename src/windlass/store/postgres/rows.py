"""How options are written into rows, and how rows become records."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final, TypeAlias

import msgspec

from windlass.core.read_errors import READ_ERRORS
from windlass.store.records import DEFAULT_OPTIONS, KnownSteps, Options, Step
from windlass.store.rows import RowCodec

logger: Final = logging.getLogger("windlass.store")
_encode = msgspec.json.Encoder().encode
_options = msgspec.json.Decoder(Options).decode
_StepRow: TypeAlias = tuple[int, str, msgspec.Raw, str, int, float | None, float]
_steps = msgspec.json.Decoder(list[_StepRow]).decode

UNREADABLE: Final = Options()
"""The defaults, for a job whose options cannot be read: nobody knows what else belongs to it."""


def encode_options(options: Options) -> str | None:
    """Options as stored: nothing at all where all is default."""
    return None if options is DEFAULT_OPTIONS or options == DEFAULT_OPTIONS else _encode(options).decode()


def decode_options(text: str | None) -> Options:
    """Options as they were enqueued; the shared default where none were stored.

    SQL checks them at enqueue. Should a row slip through all the same, it must not stop the claims of its
    lane [fault 17]: it runs with `UNREADABLE`, and ends as a job with a key or a parent does."""
    if text is None:
        return DEFAULT_OPTIONS
    try:
        return _options(text)
    except READ_ERRORS as error:
        logger.warning("options of a job cannot be read, so it runs with the defaults: %s", error)
        return UNREADABLE


def _seconds(at: Any) -> float:
    return at if isinstance(at, float) else at.timestamp() if isinstance(at, datetime) else float(at)


record_of: Final = RowCodec({float: _seconds, tuple[str, ...]: tuple, Options: decode_options}).record_of


def known_steps(text: str, jobs: Iterable[int]) -> dict[int, KnownSteps]:
    """Return the steps of these jobs that a claim brings: see windlass.steps_of. Nothing where one of them is
    nested too deeply to be read: a claim must not fail for it, and the run that needs it asks for it
    [fault 17]."""
    found: dict[int, list[Step]] = {job: [] for job in jobs}
    try:
        rows = _steps(text)
    except READ_ERRORS as error:
        logger.warning("steps cannot be read with the claim of their jobs: %s", error)
        return {}
    for job, name, result, code, attempt, left, at in rows:
        found[job].append(
            Step(name=name, result=bytes(result).decode(), code=code, attempt=attempt, left=left, at=at)
        )
    now = time.monotonic()
    return {job: KnownSteps(tuple(steps), now) for job, steps in found.items()}
