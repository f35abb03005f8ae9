"""The tokens that runs say they really used: checked, and put beside what was taken [F1]."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypedDict

from windlass.errors import InvalidOption
from windlass.store.budgets import MOST_TOKENS, bucket_key, tokens_of
from windlass.store.records import ClaimedJob, Fence, Needs

KEPT: Final = 10_000
"""Attempts of which it is known what they said last; the store knows it for an hour as well."""


class Said(TypedDict):
    """The arguments of a call to the store besides the budget."""

    key: str
    before: int
    tokens: int
    age: float


class Spending:
    """The spending of one worker. `claimed_at` says when a claim was made, by the monotonic clock."""

    def __init__(self, needs: Needs, claimed_at: Callable[[int], float]) -> None:
        self._needs = needs
        self._claimed_at = claimed_at
        self._last: dict[tuple[Fence, str], int] = {}

    def said(self, job: ClaimedJob, budget: str, tokens: int) -> Said:
        """Return what a run says, and what it took or said before. Raises InvalidOption."""
        if type(tokens) is not int or not 0 <= tokens <= MOST_TOKENS:
            raise InvalidOption(
                f"spent: {tokens!r} is not a whole number of tokens from 0 to {MOST_TOKENS:,}"
            )
        need = next((each for each in self._needs.get(job.task, ()) if each.budget == budget), None)
        if need is None:
            raise InvalidOption(
                f"task {job.task} takes nothing of budget {budget}: add it to budgets=[…], or settle what "
                f"was acquired by hand with app.budget({budget!r}).settle(…)"
            )
        return {
            "key": bucket_key(job.payload, need),
            "before": self._last.get((job.fence, budget), tokens_of(need, job.options)),
            "tokens": tokens,
            "age": time.monotonic() - self._claimed_at(job.claim),
        }

    def note(self, job: ClaimedJob, budget: str, tokens: int) -> None:
        """Note what the store has taken."""
        while len(self._last) >= KEPT:
            del self._last[next(iter(self._last))]
        self._last[job.fence, budget] = tokens
