"""Messages of a supervisor and its fork server, one JSON object each, over a socket that keeps
messages apart."""

from __future__ import annotations

from typing import Final

import msgspec

FORK: Final = b"fork"
"""To the fork server, with two descriptors: the child's end of its channel, and its status memory."""


class Loaded(msgspec.Struct, frozen=True):
    """From the fork server, once: the app is imported. `refusal` says why it cannot be forked, if so."""

    refusal: str = ""


class Forked(msgspec.Struct, frozen=True):
    """From the fork server: the child that was asked for. With pid 0 there is none, and `error` says why."""

    pid: int
    error: str = ""
