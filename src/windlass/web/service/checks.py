"""Checks on ids that requests send, before they reach the store."""

from __future__ import annotations

from windlass.core import ids
from windlass.web.http.problems import NotFound


def found_id(word: str) -> int:
    """An id in an address or a form. Raises NotFound for what can be none."""
    id = ids.read(word)
    if id is None:
        raise NotFound("there is no such job: an id is a whole number")
    return id
