"""Answers that are put together from parts: one that fails, or takes too long, is told of in its place, and
the others are shown."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final, TypeVar

from windlass.web.problems import problem_of

T = TypeVar("T")
PATIENCE: Final = 4.0
"""Seconds that the parts have, together: less than a request may take."""


class Parts:
    """The parts of one answer."""

    def __init__(self, within: float = PATIENCE) -> None:
        self._until = asyncio.get_running_loop().time() + within
        self._there = 0
        self._wrong: list[Exception] = []
        self.missing: Final[dict[str, str]] = {}
        """What is wrong with those that are missing, by name."""

    async def get(self, name: str, part: Awaitable[T]) -> T | None:
        """A part, or None where it is missing."""
        try:
            async with asyncio.timeout_at(self._until):
                found = await part
        except Exception as error:  # noqa: BLE001 - `problem_of` logs what nobody foresaw
            self._wrong.append(error)
            self.missing[name] = problem_of(error, look=True).message
            return None
        self._there += 1
        return found

    def check(self) -> None:
        """Raise what was wrong with the first, where there is none at all."""
        if self._wrong and not self._there:
            raise self._wrong[0]
