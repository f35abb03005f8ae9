"""The tokens that a run of a job pays for, and the budget that is told [F1]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

from pydantic_ai.messages import ModelResponse

from windlass.contrib.pydantic_ai.operations import running_job
from windlass.running.context import Context
from windlass.running.steps import Steps


@dataclass
class _Spending:
    """Tokens of one budget that one run of a job has used, and what the budget was told."""

    tokens: int = 0
    said: int | None = None


_spent: Final[WeakKeyDictionary[Steps, dict[str, _Spending]]] = WeakKeyDictionary()
"""By the steps of a run, which live as long as its context."""


def count(budget: str | None, response: ModelResponse) -> None:
    """Count a response that this run of the job has paid for."""
    if budget is not None and (job := running_job()) is not None:
        _spending(job, budget).tokens += response.usage.total_tokens


async def settle(budget: str | None) -> None:
    """Tell the budget what the run has used so far, unless it knows."""
    if budget is None or (job := running_job()) is None:
        return
    spending = _spending(job, budget)
    if spending.said != (tokens := spending.tokens):
        await job.aspent(budget, tokens)
        spending.said = tokens


def _spending(job: Context, budget: str) -> _Spending:
    return _spent.setdefault(job._durable, {}).setdefault(budget, _Spending())
