"""Texts that every store can keep."""

from __future__ import annotations


def storable(text: str) -> bool:
    """Tell whether a text has no NUL bytes and no lone surrogates, which PostgreSQL refuses."""
    return "\0" not in text and text.encode(errors="ignore").decode() == text
