"""How the stores written in Python remember that no worker knew a job's task [O4]."""

from __future__ import annotations

from typing import Final

import msgspec

from windlass.store.records import Options

NOBODY_KNOWS: Final = "no worker knows this task"
"""The reason of a job that was put off for that."""


def since(options: Options, now: float | None) -> Options:
    """The options of a job that is offered again: unknown since the first time a worker said so, or, without
    a time, known once more."""
    if now is None and options.unknown_since is None:
        return options
    if now is not None and options.unknown_since is not None:
        return options
    return msgspec.structs.replace(options, unknown_since=now)


def reason(options: Options) -> str | None:
    """Why a job that was put off waits, if it is for this."""
    return NOBODY_KNOWS if options.unknown_since is not None else None
