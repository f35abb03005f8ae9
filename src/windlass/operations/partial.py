"""An answer put together from several reads. One that fails or takes too long is named as missing, and the
others are shown."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

T = TypeVar("T")
TIMEOUT: Final = 4.0
"""Seconds that all parts have together: less than a request may take."""


class PartialAnswer:
    """The parts of one answer. `in_words` says why one is missing."""

    def __init__(self, in_words: Callable[[Exception], str], timeout: float = TIMEOUT) -> None:
        self._in_words = in_words
        self._until = asyncio.get_running_loop().time() + timeout
        self._succeeded = False
        self._errors: list[Exception] = []
        self.missing: Final[dict[str, str]] = {}
        """Why each missing part is missing, by its name."""

    async def get(self, name: str, part: Awaitable[T]) -> T | None:
        """Return a part, or None where it is missing."""
        try:
            async with asyncio.timeout_at(self._until):
                found = await part
        except Exception as error:  # noqa: BLE001 - `in_words` logs what is unexpected
            self._errors.append(error)
            self.missing[name] = self._in_words(error)
            return None
        self._succeeded = True
        return found

    def check(self) -> None:
        """Raise the first error where no part succeeded."""
        if self._errors and not self._succeeded:
            raise self._errors[0]
