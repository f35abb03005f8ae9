"""The cost of a run in tokens of a budget, where that depends on the job: from one of its arguments, or
computed from all of them when it is enqueued [F1].

    @app.task(budgets=[Cost("openai", tokens=lambda prompt, **_: len(prompt) // 4)])
    async def ask(ctx: Context, prompt: str, model: str = "small") -> str:
        answer = await call(prompt, model)
        await ctx.aspent("openai", answer.usage)        # what it really was

    @app.task(budgets=[Cost("openai", tokens="max_tokens")])        # the argument of this name

The producer computes it, and the job carries it: a claim takes so many tokens at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from windlass.core.names import check_name
from windlass.errors import ConfigurationError, InvalidOption
from windlass.store.budgets import MOST_TOKENS
from windlass.store.records import NewJob
from windlass.tasks.payload import Signature

if TYPE_CHECKING:
    from windlass.handles.budget import Budget


class Cost:
    """Tokens of a budget that each job needs: `tokens` is the name of an argument, or a function that is
    called with the job's arguments. 0 counts as 1. A job that was enqueued without its task's code takes
    `default`."""

    __slots__ = ("budget", "default", "tokens")

    def __init__(
        self, budget: str | Budget, /, tokens: str | Callable[..., int], *, default: int = 1
    ) -> None:
        name = budget if isinstance(budget, str) else getattr(budget, "name", None)
        self.budget: Final = check_name("budget", name)
        """The name of the budget."""
        given: object = tokens
        if not callable(given) and not isinstance(given, str):
            fixed = given if isinstance(given, int) else 2
            raise ConfigurationError(
                f"Cost({self.budget!r}, tokens={tokens!r}): give the name of an argument, or a function of "
                f"the arguments; a fixed number is written budgets={{{self.budget!r}: {fixed}}}, without Cost"
            )
        if type(default) is not int or not 1 <= default <= MOST_TOKENS:
            raise ConfigurationError(
                f"Cost({self.budget!r}): default={default!r} is not a whole number from 1 to {MOST_TOKENS:,}"
            )
        self.tokens: Final = tokens
        """The name of an argument, or a function of all of them."""
        self.default: Final = default
        """The cost of a job that does not say it."""

    def __repr__(self) -> str:
        return f"<Cost of {self.budget}>"

    def check(self, task: str, signature: Signature) -> None:
        """Raise ConfigurationError where it goes by an argument that the task does not have."""
        names = signature.names
        if isinstance(self.tokens, str) and self.tokens not in names and not signature.takes_any:
            raise ConfigurationError(
                f"task {task}: the cost of budget {self.budget} goes by the argument {self.tokens!r}, which "
                f"it does not have; it has {', '.join(names) or 'none'}"
            )


def costed(task: str, job: NewJob, costs: Mapping[str, Cost], signature: Signature) -> NewJob:
    """The job with what it costs of these budgets. Raises InvalidOption where that cannot be told."""
    found = {}
    for budget, cost in costs.items():
        try:
            args, kwargs = signature.decode(job.payload)
            if callable(cost.tokens):
                tokens = cost.tokens(*args, **kwargs)
            else:
                given = {**signature.defaults, **dict(zip(signature.names, args, strict=False)), **kwargs}
                tokens = given[cost.tokens]
        except Exception as error:
            raise InvalidOption(
                f"task {task}: what a job costs of budget {budget} cannot be told: "
                f"{type(error).__name__}: {error}; nothing was enqueued"
            ) from error
        if type(tokens) is not int or not 0 <= tokens <= MOST_TOKENS:
            raise InvalidOption(
                f"task {task}: a job costs {tokens!r} of budget {budget}, which is not a whole number up to "
                f"{MOST_TOKENS:,}; nothing was enqueued"
            )
        found[budget] = max(tokens, 1)
    options = msgspec.structs.replace(job.options, costs={**job.options.costs, **found})
    return msgspec.structs.replace(job, options=options)


def as_costs(given: list[Any]) -> dict[str, Cost]:
    """Return the costs of a task that depend on the job."""
    return {each.budget: each for each in given if isinstance(each, Cost)}
