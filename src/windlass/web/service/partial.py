"""An answer put together from several reads. One that fails or takes too long is named as missing, and the
others are shown."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final, TypeVar

from windlass.web.http.problems import problem_of

T = TypeVar("T")
TIMEOUT: Final = 4.0
"""Seconds that all parts have together: less than a request may take."""


class PartialAnswer:
    """The parts of one answer."""

    def __init__(self, timeout: float = TIMEOUT) -> None:
        self._until = asyncio.get_running_loop().time() + timeout
        self._succeeded = False
        self._errors: list[Exception] = []
        self.missing: Final[dict[str, str]] = {}
        """Why each missing part is missing, by its name."""

    async def get(self, name: str, part: Awaitable[T]) -> T | None:
        """A part, or None where it is missing."""
        try:
            async with asyncio.timeout_at(self._until):
                found = await part
        except Exception as error:  # noqa: BLE001 - `problem_of` logs what is unexpected
            self._errors.append(error)
            self.missing[name] = problem_of(error, safe=True).message
            return None
        self._succeeded = True
        return found

    def check(self) -> None:
        """Raise the first error where no part succeeded."""
        if self._errors and not self._succeeded:
            raise self._errors[0]
