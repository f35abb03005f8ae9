"""Text from anywhere made fit for a terminal or a log: what either might obey becomes an escape [M5]."""

from __future__ import annotations

import unicodedata
from typing import Final

_HARMFUL: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Controls, directions and joiners, surrogates, the unassigned: what a terminal might obey, or not show."""


def harmless(text: str, *, lines: bool = False) -> str:
    """Text that a terminal only shows. With `lines`, line breaks and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        each if (lines and each in "\n\t") or unicodedata.category(each) not in _HARMFUL else _escape(each)
        for each in text
    )


def _escape(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
