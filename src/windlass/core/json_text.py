"""A search in JSON text as people see it: pages lay a payload out in lines, a store keeps it as it was
written. So blanks beside the marks of JSON do not count, in strings neither: a text may begin within one.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_MARK: Final = re.compile(r"\s*([{}\[\],:])\s*")


@lru_cache(100)
def search_of(text: str) -> tuple[str, str | None]:
    """Return a piece that JSON text has where this text is found in it, and the regular expression that it
    must match besides, one of Python and of PostgreSQL; None where the piece is all of it."""
    pieces = _MARK.split(text)  # each second one is a mark
    if len(pieces) == 1:
        return text, None
    written = "".join(rf"\s*\{piece}\s*" if at % 2 else re.escape(piece) for at, piece in enumerate(pieces))
    # Once, and not in front: to find where blanks begin costs the square of their number.
    pattern = written.replace(r"\s*\s*", r"\s*").removeprefix(r"\s*")
    return max(pieces[::2], key=len), pattern


def contains(json_text: str, text: str) -> bool:
    """Say whether a text is found in JSON text."""
    piece, pattern = search_of(text)
    return piece in json_text and (pattern is None or re.search(pattern, json_text) is not None)
