"""Checks on ids and settings that requests send, before they reach the store."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from windlass.core import ids
from windlass.web.http.problems import Invalid, NotFound


def found_id(word: str) -> int:
    """An id in an address or a form. Raises NotFound for what can be none."""
    id = ids.read(word)
    if id is None:
        raise NotFound("there is no such job: an id is a whole number")
    return id


MAX_VALUE: Final = 1_000_000_000
"""The largest number in a setting. In seconds it is longer than any useful duration."""
MAX_TEXT: Final = 255


def check_bounds(changes: Mapping[str, Any]) -> None:
    """Refuse numbers and texts that no store can keep. The store checks the rest."""
    for name, value in changes.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if number and not (math.isfinite(value) and abs(value) <= MAX_VALUE):
            raise Invalid(f"{name}: must be at most {MAX_VALUE:,}", name)
        if isinstance(value, str) and len(value) > MAX_TEXT:
            raise Invalid(f"{name}: must have at most {MAX_TEXT} characters", name)
