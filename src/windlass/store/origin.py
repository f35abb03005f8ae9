"""The origin of a schema: which first migration made it.

A released migration is never edited, so all stores of released versions have one origin, however new they
are. One that an unreleased version made has another one, or none, and no migration leads from it to here,
whatever its number says.
"""

from __future__ import annotations

import hashlib
import re

from windlass.errors import SchemaUnreleased

_COMMENT = re.compile(r"--[^\n]*")


def origin_of(migration: str) -> str:
    """Return the origin of the stores that this first migration makes; comments and blanks do not count."""
    return hashlib.sha256("".join(_COMMENT.sub("", migration).split()).encode()).hexdigest()[:16]


def check_origin(what: str, origin: str | None, ours: str, instead: str) -> None:
    """Refuse a store that is there and has another origin than ours."""
    if origin != ours:
        raise SchemaUnreleased(
            f"{what} was made by a Windlass that was never released, and cannot be migrated; {instead}. Jobs "
            "that are left there run with the version that made it"
        )
