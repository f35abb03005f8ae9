"""Ids of jobs as they are written in addresses, forms and bodies."""

from __future__ import annotations

from typing import Final

from windlass.errors import InvalidOption
from windlass.web.problems import NotFound

MOST_ID: Final = 2**63 - 1


def number(word: str) -> int | None:
    """An id as a number; None for what can be none."""
    if word.isascii() and word.isdecimal() and len(word) < 20 and 0 < int(word) <= MOST_ID:
        return int(word)
    return None


def found_id(word: str) -> int:
    """An id in an address or a form. Raises NotFound for what can be none."""
    id = number(word)
    if id is None:
        raise NotFound("there is no such job: an id is a whole number")
    return id


def given_id(word: str) -> int:
    """An id in a body or a query. Raises InvalidOption for what can be none."""
    id = number(word)
    if id is None:
        raise InvalidOption(f"{word[:40]!r} is not a job id; listings show them")
    return id
